"""A connector package, word for word that of its docs page, whose workers have neither it nor Headwater."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cluster import Cluster
from tests.connectors.installing import install, page_files, wheel
from tests.pipelines import write
from tests.processes import headwater

ABSENT = """
import sys


class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("headwater", "headwater_jsonl"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent)
"""


def bare_python(folder: Path) -> Path:
    """This interpreter, as it is on a machine without Headwater and without the connector."""
    write(folder / "bare", ABSENT, "sitecustomize.py")
    script = f'#!/bin/sh\nPYTHONPATH="{folder / "bare"}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    file = write(folder, script, "python")
    file.chmod(0o755)
    return file


def test_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    files = page_files()
    site = install(wheel(files, tmp_path), tmp_path / "site")
    file = write(tmp_path / "project", files["spread.yml"], "spread.yml")
    conf = [word for key, value in cluster.settings.items() for word in ("--conf", f"{key}={value}")]
    command = ["run", file.name, "--master", cluster.master, "--until-idle", *conf]
    python = str(bare_python(tmp_path))
    assert (
        subprocess.run([python, "-c", "import headwater"], stderr=subprocess.DEVNULL, check=False).returncode
        == 1
    )
    with headwater(file.parent, *command, PYTHONPATH=str(site), PYSPARK_PYTHON=python) as run:
        assert run.wait() == 0, run.told
    parts = (file.parent / "numbers").iterdir()
    rows = [json.loads(line) for part in parts for line in part.read_text(encoding="utf-8").splitlines()]
    assert sorted(row["number"] for row in rows) == [0, 1, 2, 3, 4, 5]
    for place in (row[key] for row in rows for key in ("made", "written")):
        assert Path(place).relative_to(os.path.realpath(cluster.folder)).parts[0] in ("worker-1", "worker-2")
