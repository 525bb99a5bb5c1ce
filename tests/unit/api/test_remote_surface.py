"""The handles of `p.start()` and of `hw.connect` have the same names, except for listed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.remote import NotRemoteError, RemoteQuery, RemoteRun, connect
from headwater.errors import QueryNotFoundError, UsageError
from headwater.events.counts import SourceCounts, TableCounts
from headwater.events.kinds import EpochCommitted, QueryIdle
from headwater.runtime.handles import Query, Run
from tests.run_views import run_view
from tests.unit.control.runs import AT, finished, record, serving, started

ONLY_IN_ITS_PROCESS = {
    "kill": "Call `stop(timeout=0)`, which interrupts the current batches.",
    "is_stuck": "Call `stop` of the query, which fails with HW-QUERY-STUCK.",
    "notify": "Report the notice in the process of the run.",
    "reason_to_end": "Call `wait_idle()`.",
    "stop_when_idle": "Call `wait_idle()`, then `stop()`.",
}
ONLY_FROM_OUTSIDE = {
    "directory": "the program has declared it: `run_dir`",
    "to_json": "in the process, each value is read without a request: `summary`",
    "status": "in the process: `is_active` and `exit_code`",
    "wait_until": "a program can look at the handle itself",
    "events": "a program receives them: `on_event`",
    "logs": "a program knows its files",
}
QUERY_ONLY_FROM_OUTSIDE = {"to_json": "in the process, each value is read without a request"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_handles_have_the_same_names() -> None:
    assert public(Run) - public(RemoteRun) == ONLY_IN_ITS_PROCESS.keys()
    assert public(RemoteRun) - public(Run) == ONLY_FROM_OUTSIDE.keys()
    assert public(Query) - public(RemoteQuery) == set()
    assert public(RemoteQuery) - public(Query) == QUERY_ONLY_FROM_OUTSIDE.keys()


@pytest.mark.parametrize(("name", "instead"), ONLY_IN_ITS_PROCESS.items())
def test_what_works_only_in_the_process_of_a_run(tmp_path: Path, name: str, instead: str) -> None:
    record(tmp_path, started(tmp_path) + finished())
    run = connect(tmp_path)
    with pytest.raises(NotRemoteError) as raised:
        getattr(run, name)
    (problem,) = raised.value.problems
    assert (problem.code, problem.params["name"], problem.hint) == ("HW-RUN-OWN-PROCESS-ONLY", name, instead)
    assert isinstance(raised.value, UsageError)
    # As for any attribute that an object does not have.
    assert not hasattr(run, name)
    assert not hasattr(run, "nothing")


def test_everything_about_an_active_run(tmp_path: Path) -> None:
    with serving(tmp_path, "1") as (host, _):
        host.view.queries = run_view().queries
        run = connect(tmp_path)
        clicks = run.queries["clicks"]
        assert (run.name, run.has_ended, run.is_idle, run.wait_idle(0)) == ("orders", False, False, False)
        assert clicks.sources == {"clicks": SourceCounts(200, 20)}
        assert clicks.expectations == {"priced": TableCounts(180, {"paid": 10})}
        assert clicks.idle_inputs == ("clicks",)
        assert (clicks.epoch, clicks.plan()) == (None, "== Physical Plan ==")
        assert host.asked == [("plan", "clicks")]
        host.view.apply(EpochCommitted(query="lost", epoch=7))
        assert run.queries["lost"].epoch == 7
        for query in run.queries:
            host.view.apply(QueryIdle(at=AT, query=query))
        # The third query has failed.
        assert (run.is_idle, run.wait_idle(0)) == (True, True)
        with pytest.raises(QueryNotFoundError) as raised:
            run.queries["cliks"]
        assert (
            raised.value.problems[0].hint
            == "Did you mean `clicks`? Queries of this run: clicks, files, lost."
        )


def test_everything_about_a_run_that_has_ended(tmp_path: Path) -> None:
    record(tmp_path, started(tmp_path, "r0") + finished("r0"))
    record(tmp_path, started(tmp_path) + finished())
    run = connect(tmp_path)
    query = run.query("by_day")
    assert (run.name, run.has_ended, run.is_idle, run.wait_idle()) == ("orders", True, True, True)
    assert (query.sources, query.expectations, query.epoch, query.idle_inputs) == ({}, {}, None, ())
    # Only the batches of this run, as Spark reported them.
    assert [each["durationMs"]["addBatch"] for each in query.recent_progress] == [300]
    with pytest.raises(UsageError) as raised:
        query.plan()
    assert [each.code for each in raised.value.problems] == ["HW-RUN-NOT-ACTIVE"]
