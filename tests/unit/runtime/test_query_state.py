"""The life of one query, as states."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headwater.engine.query import RunningQuery
from headwater.errors.catalogue.running import FORCED_STOP
from headwater.events import EpochCommitted, QueryIdle, QueryProgress, QueryRunning, QueryStatus
from headwater.runtime.query_state import QueryState, missed
from tests.unit.runtime.queries import FailedQuery, FakeQuery


def state_of(query: type[FakeQuery] = FakeQuery, **known: Any) -> QueryState:
    return QueryState(cast(RunningQuery, query("out")), **known)


def batch(number: int, rows: int = 0, watermark: str | None = None) -> QueryProgress:
    source = {"startOffset": number, "endOffset": number + (rows > 0), "numInputRows": rows}
    event_time = {"eventTime": {"watermark": watermark}} if watermark else {}
    progress = {"batchId": number, "numInputRows": rows, "sources": [source], **event_time}
    return QueryProgress(query="out", rows_out=rows, progress=progress)


def test_a_query_runs_and_is_idle_by_turns() -> None:
    state, seen = state_of(), []
    for event in (batch(0, 3), QueryIdle(query="out"), batch(1, 1), EpochCommitted(query="out", epoch=4)):
        state.apply(event)
        seen.append(state.status)
    running, idle = QueryStatus.RUNNING, QueryStatus.IDLE
    assert seen == [running, idle, running, running]
    assert (state.newest, state.rows_in, state.idle_polls, state.epoch) == (1, 4, 1, 4)


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (QueryStatus.STARTING, [QueryRunning]),
        (QueryStatus.IDLE, [QueryRunning]),
        # Spark is not asked.
        (QueryStatus.RUNNING, []),
        (QueryStatus.RESTARTING, []),
        (QueryStatus.STOPPED, []),
    ],
)
def test_a_batch_that_has_begun_is_found_when_spark_is_asked(
    status: QueryStatus, found: list[type[QueryRunning]]
) -> None:
    """A batch can take minutes, and Spark's listener reports it only when it is committed."""
    state = state_of(status=status)
    queries = {"out": state}
    assert list(missed(queries)) == []
    cast(Any, state.query).is_processing = True
    events = list(missed(queries))
    assert [type(event) for event in events] == found
    for event in events:
        state.apply(event)
        assert state.status is QueryStatus.RUNNING
        assert list(missed(queries)) == []


def test_batches_without_rows_are_idle_when_the_watermark_stays() -> None:
    state = state_of()
    marks = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z"]
    seen = []
    for number, mark in enumerate(marks):
        state.apply(batch(number, watermark=mark))
        seen.append(state.status is QueryStatus.IDLE)
    assert seen == [False, True, False, True]


def test_what_comes_after_the_end_changes_nothing() -> None:
    state = state_of(status=QueryStatus.STOPPED)
    for event in (batch(0, 3), QueryIdle(query="out"), EpochCommitted(query="out", epoch=4)):
        state.apply(event)
    assert (state.status, state.rows_in, state.idle_polls, state.epoch) == (QueryStatus.STOPPED, 0, 0, None)


@pytest.mark.parametrize(
    ("known", "failed", "status"),
    [
        ({}, False, QueryStatus.FINISHED),
        ({}, True, QueryStatus.FAILED),
        ({"stopping": True}, False, QueryStatus.STOPPED),
        # A batch that was interrupted fails of that, and is repeated at the next start.
        ({"stopping": True, "problem": FORCED_STOP.at(None)}, True, QueryStatus.STOPPED),
        ({"stopping": True, "problem": FORCED_STOP.at(None), "must_end": True}, False, QueryStatus.FAILED),
    ],
)
def test_how_it_ended(known: dict[str, Any], failed: bool, status: QueryStatus) -> None:
    assert state_of(**known).outcome(failed=failed) is status


def test_it_restarts_a_few_times_between_two_batches_and_never_when_it_is_to_stop() -> None:
    state, restarts = state_of(FailedQuery, delivered={"a": 1}), 0
    while state.may_restart_for_static:
        state.restarted(cast(RunningQuery, FailedQuery("out")), for_static=True)
        restarts += 1
    assert (restarts, state.status, state.delivered) == (3, QueryStatus.STARTING, {})
    assert not state_of(stopping=True).may_restart_for_static
    assert not state_of(problem=FORCED_STOP.at(None)).may_restart_for_static


def test_the_last_progress_reports_are_kept_as_text() -> None:
    """As objects, those of many queries would take much memory."""
    state = state_of()
    assert (state.recent.last, state.recent.all, state.summary().batch) == (None, (), None)
    for number in range(150):
        state.apply(batch(number, 1))
    assert [each["batchId"] for each in state.recent.all] == list(range(50, 150))
    assert state.recent.last == batch(149, 1).progress
    assert {type(each) for each in state.recent._texts} == {str}
    assert state.summary().batch == 149
