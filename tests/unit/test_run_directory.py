"""Where a run keeps what, and whether a checkpoint has started."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.checkpoint import CheckpointState
from headwater.run_directory import RunDirectory

FOUND: dict[str, Callable[[RunDirectory], Path]] = {
    "pipeline.json": lambda run: run.pipeline,
    "checkpoints/out": lambda run: run.checkpoint("out"),
    "backups/out/20260102T030405000006": lambda run: run.backup("out", datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    "queries/out.json": lambda run: run.facts("out"),
    "findings.json": lambda run: run.findings,
    "control.json": lambda run: run.control,
    "control.sock": lambda run: run.control_socket,
    "history.sqlite": lambda run: run.history,
    "spark_metrics": lambda run: run.spark_metrics,
    "logs/spark.log": lambda run: run.spark_log,
    "logs/failures.log": lambda run: run.failures_log,
    "quarantine/in/rows": lambda run: run.quarantine("in").rows,
    "quarantine/in/replayed": lambda run: run.quarantine("in").replay,
    "schemas/in.json": lambda run: run.source("in").schema,
    "registry/in": lambda run: run.source("in").registry,
    "static/in": lambda run: run.source("in").snapshots,
    "validated_files/in/1": lambda run: run.source("in").admitted(1),
    "kafka/out.json": lambda run: run.source("in").note("kafka", "out.json"),
    "kafka/starts/in.json": lambda run: run.source("in").note("kafka", "starts", "in.json"),
}


def test_old_run_directories_are_found_again(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert [path(run) for path in FOUND.values()] == [tmp_path / name for name in FOUND]
    run.write(run.facts("out"), "ä")
    assert (run.store.read("queries/out.json"), run.store.names("queries")) == ("ä".encode(), ("out.json",))


@pytest.mark.parametrize(
    ("place", "in_process", "expected"),
    [
        ("out", False, CheckpointState.STARTED),
        ("out.next", False, CheckpointState.STARTED),
        ("out", True, CheckpointState.RESET_AT_START),
        ("other", False, CheckpointState.NEW),
    ],
)
def test_whether_a_checkpoint_has_started(
    tmp_path: Path, place: str, in_process: bool, expected: CheckpointState
) -> None:
    run = RunDirectory(tmp_path)
    # One that was to take the place of another when a crash came counts for it.
    run.write(run.checkpoint(place) / "metadata", '{"id":"a"}')
    assert run.state("out", in_process=in_process) is expected
