"""The handle of `hw.connect` next to that of `p.start()`, for the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from tests.load import on_this_machine
from tests.pipelines import feed, wait_for

CONF = {"spark.sql.streaming.pollingDelay": "100ms"}
SECONDS = 60.0
STATUS_SECONDS = 2.0
"""How old a status may be, if the run does not wait for cores."""
SAME = (
    "name",
    "id",
    "run_id",
    "rows_in",
    "rows_out",
    "sources",
    "expectations",
    "late_rows",
    "epoch",
    "idle_inputs",
    "restarts",
    "problem",
    "exception",
)
QUARANTINE = "quarantine.words"


@pytest.mark.feature("F4", part="the handle of another process has the values of the run's own")
def test_both_handles_of_a_run_agree(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", [{"word": "ant"}, {"wrod": "x"}], at=1000)
    p = hw.Pipeline("words", run_dir=tmp_path / "run")
    p.source(
        "words",
        hw.files(path=str(tmp_path / "in"), format="json", schema="word string not null"),
        bad_rows="quarantine",
    )
    p.sink("words", hw.memory(), reads="words")
    with p.start(conf=CONF) as run:
        remote = hw.connect(tmp_path / "run")
        assert (remote.id, remote.name) == (run.id, run.name) == (run.id, "words")
        assert run.wait_idle(SECONDS)
        assert remote.wait_idle(SECONDS)
        assert list(remote.queries) == list(run.queries) == ["words", QUARANTINE]

        def all_are_stored() -> bool:
            counts = {name: len(query.recent_progress) for name, query in run.queries.items()}
            return counts == {name: len(query.recent_progress) for name, query in remote.queries.items()}

        wait_for(all_are_stored, run)
        for name, query in run.queries.items():
            seen = remote.query(query.id)
            assert {each: getattr(seen, each) for each in SAME} == {
                each: getattr(query, each) for each in SAME
            }
            batches = [each["batchId"] for each in query.recent_progress]
            assert [each["batchId"] for each in seen.recent_progress] == batches, name
            assert seen.plan() == query.plan()
            assert "== Physical Plan ==" in seen.plan()
        # The query of a quarantine is controlled like any other.
        remote.query(QUARANTINE).restart()
        assert (run.queries[QUARANTINE].restarts, remote.query(QUARANTINE).restarts) == (1, 1)
        remote.query(QUARANTINE).stop()
        assert (run.queries[QUARANTINE].status, remote.query(QUARANTINE).status) == ("stopped", "stopped")
        assert run.queries["words"].status == "idle"
        remote.query(QUARANTINE).restart()
        feed(tmp_path / "in", "2", [{"wrod": "y"}], at=1001)
        wait_for(lambda: run.queries[QUARANTINE].rows_in == 3, run)

        def shows_it(view: dict[str, Any]) -> bool:
            return [each["rows_in"] for each in view["queries"] if each["query"] == QUARANTINE] == [3]

        assert remote.wait_until(shows_it, on_this_machine(STATUS_SECONDS))
    assert (remote.has_ended, remote.status, remote.exit_code) == (True, "stopped", 0)
    run.raise_for_failure()
