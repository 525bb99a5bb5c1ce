"""The benchmark of SQL from a second process: one case for each kind of table, each with the target."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest

from bench import sql
from bench.harness import HEADWATER, Target
from bench.sql import Sql, command


def test_every_case_has_the_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[tuple[Path, int]] = []
    benchmark = Sql()
    benchmark.folder = tmp_path

    def start(folder: Path, files: int) -> AbstractContextManager[None]:
        begun.append((folder, files))
        return nullcontext()

    monkeypatch.setattr(sql, "pipeline", start)
    with ExitStack() as benchmark.steps:
        cases = list(benchmark.cases(quick=True))
    # The one of the first case starts in each round.
    assert begun == [(tmp_path, 5)]
    assert [case.name for case in cases] == [
        "the first query of a run: count 50,000 rows of Parquet files",
        "count 50,000 rows of a table in memory",
        "count 50,000 rows of Parquet files",
    ]
    assert [list(case.targets) for case in cases] == [[Target(HEADWATER, None, 1.0, "at most")]] * 3
    assert [case.baseline for case in cases] == ["Python alone"] * 3


def test_a_command_names_the_run(tmp_path: Path) -> None:
    assert command(tmp_path, "sql", "SELECT 1")[-3:] == ["sql", str(tmp_path / ".headwater"), "SELECT 1"]
