"""Packages with connectors, made from the blocks of a page and installed where a process will look."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests import short_lives
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "contribute" / "connector-sdk.md"


def page_files() -> dict[str, str]:
    """The files that the page shows, by their names."""
    return {block.title: block.text for block in blocks(PAGE) if block.title}


def wheel(files: Mapping[str, str], folder: Path) -> Path:
    """A wheel of a project: its modules, and the entry points of its pyproject.toml."""
    project = tomllib.loads(files["pyproject.toml"])["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    about = f"{name}-{version}.dist-info"
    points = project["entry-points"]["headwater.connectors"]
    lines = ["[headwater.connectors]", *(f"{key} = {value}" for key, value in points.items())]
    contents = {file: text for file, text in files.items() if file.startswith(f"{name}/")}
    contents |= {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "\n".join(lines) + "\n",
    }
    contents[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in (*contents, f"{about}/RECORD"))
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(file, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return file


def install(wheel: Path, site: Path) -> Path:
    """Install a pure wheel the way installers do: unpacked into a folder of packages."""
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def python(code: str, site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process that has the packages of `site`."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={
            **os.environ,
            **short_lives.environment(),
            "PYTHONPATH": str(site),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def headwater(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in such a process."""
    return python("from headwater.cli.main import main; main()", site, folder, *arguments)


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON that a process printed last."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
