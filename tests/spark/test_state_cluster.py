"""Arbitrary state on a real cluster: the example of alerts, on two workers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from scripts.contract import ROOT
from tests.cluster import Cluster
from tests.docs.test_examples import multiset, rows_below
from tests.pipelines import write
from tests.processes import headwater


@pytest.mark.feature("C13.6", part="on two workers")
def test_alerts_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    project = tmp_path / "user_alerts"
    shutil.copytree(ROOT / "examples" / "user_alerts", project)
    minutes = {"anna": (0, 4, 7), "ben": (0, 5, 11), "cora": (2, 3, 4), "dora": (30,)}
    logins = [
        f'{{"user": "{user}", "ok": false, "at": "2026-01-01T12:{minute:02}:00Z"}}\n'
        for user, failed in minutes.items()
        for minute in reversed(failed)
    ]
    write(project / "data", "".join(logins), "1.json")
    conf = [word for key, value in cluster.settings.items() for word in ("--conf", f"{key}={value}")]
    command = ["run", "pipeline.yml", "--master", cluster.master, "--until-idle", *conf]
    with headwater(project, *command, PYSPARK_PYTHON=sys.executable) as run:
        assert run.wait() == 0, run.told
    assert rows_below(project / "out" / "alerts") == multiset(
        [
            {"user": "anna", "at": "2026-01-01T12:07:00.000Z", "since": "2026-01-01T12:00:00.000Z"},
            {"user": "cora", "at": "2026-01-01T12:04:00.000Z", "since": "2026-01-01T12:02:00.000Z"},
        ]
    )
