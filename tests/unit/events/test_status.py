"""The status of a run, as its events add up to it."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.errors.catalogue.running import CONNECTION_FAILED, QUERY_FAILED
from headwater.events import (
    Alert,
    BacklogChanged,
    EpochCommitted,
    Event,
    EventsDropped,
    InputsIdle,
    QueryDetails,
    QueryIdle,
    QueryProgress,
    QueryRestarted,
    QueryRestarting,
    QueryRunning,
    QueryStarted,
    QueryStatus,
    QueryTerminated,
    RunFinished,
    RunStarted,
)
from headwater.events.counts import SourceCounts
from headwater.events.status import ENDED_KEPT, RunView, lag_of
from headwater.history.metrics_server import unready

AT = "2026-01-01T00:00:0{}.000Z"
KAFKA = {
    "description": "KafkaV2[Subscribe[orders]]",
    "startOffset": {"orders": {"0": 1, "1": 2}},
    "endOffset": {"orders": {"0": 5, "1": 7}},
    "latestOffset": {"orders": {"0": 9, "1": 7, "2": 3}},
    "numInputRows": 9,
    "inputRowsPerSecond": 4.5,
}


def progress(batch: int, **more: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "timestamp": AT.format(3),
        "batchDuration": 120,
        "numInputRows": 9,
        "inputRowsPerSecond": 4.5,
        "processedRowsPerSecond": 75.0,
        "durationMs": {"addBatch": 100, "triggerExecution": 120},
        "eventTime": {"max": "2026-01-01T00:00:00.000Z", "watermark": "2025-12-31T23:50:00.000Z"},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 7, "memoryUsedBytes": 900}],
        "sources": [KAFKA],
        "observedMetrics": {"headwater.rows.orders": {"read": 9, "bad": 1}},
        **more,
    }


def started() -> RunView:
    view = RunView()
    details = {"out": QueryDetails(connector="files", guarantee="exactly-once", sources=("orders",))}
    view.apply(
        RunStarted(
            at=AT.format(1),
            run_id="r",
            pipeline="p",
            queries=("out", "more"),
            run_dir="/run",
            spark_version="4.1.4",
            details=details,
        )
    )
    view.apply(QueryStarted(at=AT.format(2), query="out", id="id", run_id="first"))
    return view


@pytest.mark.feature("F1", part="the status as a fold over events")
def test_a_batch_is_told_with_its_sources_state_and_watermark() -> None:
    view = started()
    view.apply(QueryProgress(at=AT.format(3), query="out", rows_out=8, progress=progress(4)))
    view.apply(QueryProgress(at=AT.format(4), query="out", rows_out=None, progress=progress(5)))
    query = view.queries["out"]
    assert (query.batch, query.batches, query.rows_in, query.rows_out) == (5, 2, 18, 8)
    assert query.row_counts == {"orders": SourceCounts(18, 2)}
    assert (query.status, query.since) == (QueryStatus.RUNNING, AT.format(3))
    found = view.to_json()["queries"][0]
    assert found["last_batch"] == {
        "batch_id": 5,
        "at": AT.format(3),
        "rows_in": 9,
        "rows_out": None,
        "duration_ms": 120,
        "phases_ms": {"addBatch": 100, "triggerExecution": 120},
        "rows_in_per_second": 4.5,
        "rows_processed_per_second": 75.0,
    }
    (source,) = found["sources"]
    # A partition without an end offset is new: none of its rows was read.
    assert (source["name"], source["lag"], source["total_lag"]) == (
        "orders",
        {"orders-0": 4, "orders-1": 0, "orders-2": 3},
        7,
    )
    assert found["watermark"] == "2025-12-31T23:50:00.000Z"
    assert found["event_time"] == {"max": "2026-01-01T00:00:00.000Z"}
    assert found["state"] == [{"operator": "stateStoreSave", "rows": 7, "bytes": 900}]
    assert (found["guarantee"], found["connector"], found["id"]) == ("exactly-once", "files", "id")


@pytest.mark.parametrize("source", [{}, {"latestOffset": "12", "endOffset": "9"}, {"latestOffset": None}])
def test_a_source_without_offsets_by_partition_has_no_lag(source: dict[str, Any]) -> None:
    assert lag_of(source) == {}


def test_since_stays_while_the_status_does() -> None:
    view = started()
    for second in (3, 4, 5):
        view.apply(QueryIdle(at=AT.format(second), query="out"))
    assert (view.queries["out"].status, view.queries["out"].since) == (QueryStatus.IDLE, AT.format(3))


def test_a_query_runs_while_its_batch_is_not_committed() -> None:
    view, seen = started(), []
    query = view.queries["out"]
    for event in (QueryRunning(query="out"), QueryIdle(query="out"), QueryRunning(query="out")):
        view.apply(event)
        seen.append((query.status.value, view.status))
    assert seen == [("running", "running"), ("idle", "running"), ("running", "running")]
    assert unready([view]) == [{"pipeline": "p", "query": "more", "reason": "starting"}]


@pytest.mark.parametrize("late", [QueryRunning(query="out"), QueryIdle(query="out")])
def test_a_late_event_does_not_end_the_wait_for_a_restart(late: Event) -> None:
    view, problem = started(), CONNECTION_FAILED.at(None, sink="out", says="refused")
    view.apply(QueryRestarting(query="out", attempt=1, attempts=5, delay_ms=10, problem=problem))
    view.apply(late)
    seen = [view.queries["out"].status]
    view.apply(QueryRestarted(query="out", restarts=1))
    assert [*seen, view.queries["out"].status] == [QueryStatus.RESTARTING, QueryStatus.STARTING]


def test_a_failure_a_restart_and_the_recovery() -> None:
    view, problem = started(), CONNECTION_FAILED.at(None, sink="out", says="refused")
    view.apply(
        QueryRestarting(at=AT.format(4), query="out", attempt=2, attempts=5, delay_ms=10, problem=problem)
    )
    query = view.queries["out"]
    assert (query.status, query.restart_attempt, query.problem) == (QueryStatus.RESTARTING, 2, problem)
    view.apply(QueryStarted(at=AT.format(5), query="out", id="id", run_id="second"))
    view.apply(QueryRestarted(at=AT.format(5), query="out", restarts=1))
    assert (query.status, query.restarts, query.restart_attempt) == (QueryStatus.STARTING, 1, None)
    assert (query.run_id, query.id) == ("second", "id")
    # The last failure stays visible after the recovery.
    assert (query.problem, query.failed_at, view.health) == (problem, AT.format(4), "ok")


def test_a_late_event_does_not_bring_a_terminated_query_back() -> None:
    view = started()
    query = view.queries["out"]
    view.apply(QueryTerminated(at=AT.format(4), query="out", status=QueryStatus.FAILED))
    view.apply(QueryIdle(at=AT.format(5), query="out"))
    view.apply(EpochCommitted(at=AT.format(5), query="out", epoch=7))
    assert (query.status, query.since, query.batch) == (QueryStatus.FAILED, AT.format(4), 7)
    # The user restarts it.
    view.apply(QueryRestarted(at=AT.format(6), query="out", restarts=1))
    assert (query.status, query.since) == (QueryStatus.STARTING, AT.format(6))
    view.apply(QueryIdle(at=AT.format(7), query="out"))
    assert query.status is QueryStatus.IDLE


def alert(severity: str, *, active: bool = True) -> Alert:
    return Alert(
        query="out", alert="late_rows", severity=severity, active=active, code="HW-LATE", message="Late."
    )


@pytest.mark.feature("G4", part="health in the status")
def test_health_is_the_worst_of_all_alerts_and_failures() -> None:
    view = started()
    assert view.health == "ok"
    view.apply(alert("warning"))
    assert view.health == "warning"
    view.apply(alert("critical"))
    assert (view.health, len(view.queries["out"].alerts)) == ("critical", 1)
    view.apply(alert("critical", active=False))
    assert view.health == "ok"
    problem = QUERY_FAILED.at(None, sink="more", says="a bug", log="log")
    view.apply(QueryTerminated(query="more", status=QueryStatus.FAILED, problem=problem))
    assert (view.health, view.queries["more"].health) == ("critical", "critical")


def test_other_events_and_the_end() -> None:
    view = started()
    assert view.status == "starting"
    view.apply(BacklogChanged(query="out", files={"/in": 3}))
    view.apply(InputsIdle(query="out", idle_inputs=({"sources": ["clicks"]},)))
    view.apply(EventsDropped(consumer="webhook", dropped=2))
    view.apply(EventsDropped(consumer="webhook", dropped=3))
    view.apply(QueryIdle(query="out"))
    found = view.to_json()
    assert found["queries"][0]["waiting_files"] == {"/in": 3}
    assert found["queries"][0]["idle_inputs"] == [{"sources": ["clicks"]}]
    assert found["events_dropped"] == {"webhook": 5}
    assert found["status"] == "running"
    view.apply(QueryTerminated(query="out", status=QueryStatus.STOPPED))
    view.apply(QueryTerminated(query="more", status=QueryStatus.FINISHED))
    view.apply(RunFinished(at=AT.format(9), run_id="r", exit_code=0, queries={}))
    assert (view.status, view.ended_at, view.exit_code) == ("stopped", AT.format(9), 0)


def test_a_run_whose_queries_finished_has_finished_and_one_with_a_failure_has_failed() -> None:
    for code, status in ((0, "finished"), (1, "failed")):
        view = started()
        for name in ("out", "more"):
            view.apply(QueryTerminated(query=name, status=QueryStatus.FINISHED))
        view.apply(RunFinished(run_id="r", exit_code=code, queries={}))
        assert view.status == status


def test_of_the_queries_that_a_program_started_the_last_ended_are_kept() -> None:
    view = started()
    for name in ("out", "more"):
        view.apply(QueryTerminated(query=name, status=QueryStatus.FINISHED))
    names = [f"q{number}" for number in range(ENDED_KEPT + 20)]
    for name in ("active", *names):
        view.apply(QueryStarted(query=name, id=name, run_id=name))
    for name in names[:20]:
        view.apply(QueryTerminated(query=name, status=QueryStatus.FINISHED))
    # It runs again.
    view.apply(QueryStarted(query="q7", id="q7", run_id="again"))
    for name in names[20:]:
        view.apply(QueryTerminated(query=name, status=QueryStatus.FINISHED))
    assert list(view.queries) == ["out", "more", "active", "q7", *names[20:]]
    view.apply(QueryTerminated(query="active", status=QueryStatus.FINISHED))
    # In the order in which they ended.
    assert list(view.queries) == ["out", "more", "active", "q7", *names[21:]]
    # Its last alert arrives late.
    ended = Alert(query="q0", alert="late", severity="warning", active=False, code="HW-X", message="m")
    view.apply(ended)
    assert "q0" not in view.queries
