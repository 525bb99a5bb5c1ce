"""What a start says while it takes long, and the warning that rows fail an expectation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from headwater.events import Event, Notice, QueryIdle, QueryProgress, StartPhase
from headwater.runtime import scope as module
from headwater.runtime.scope import UnmetExpectations, phase_of
from tests.unit.runtime.queries import SECONDS
from tests.unit.specs import spec_of


def threads() -> set[int | None]:
    return {thread.ident for thread in threading.enumerate()}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_quick_phase_says_nothing() -> None:
    events: list[Event] = []
    with phase_of(events.append, "check", "Checking", total=3) as phase:
        phase.count(1)
    assert events == []


def test_a_long_phase_says_how_far_it_is_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEXT_SECONDS", 0.01)
    events: list[StartPhase] = []
    before = threads()
    with phase_of(events.append, "open_files", "Opening new files", first=0.01) as phase:  # type: ignore[arg-type]
        until(lambda: bool(events))
        phase.count(200, 450)
        until(lambda: events[-1].done == 200)
        phase.count(400)
        until(lambda: events[-1].done == 400)
    first, last = events[0], events[-1]
    assert (first.phase, first.message, first.done, first.total) == (
        "open_files",
        "Opening new files",
        None,
        None,
    )
    assert (last.done, last.total) == (400, 450)
    assert threads() <= before


def test_a_phase_that_is_told_at_once_comes_before_its_work() -> None:
    events: list[Event] = []
    with phase_of(events.append, "previous_jvm", "Waiting", first=0):
        assert [event.kind for event in events] == ["start_phase"]


SPEC = spec_of("""
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      priced:
        sql: SELECT * FROM orders
        expect: {paid: value > 0, small: {condition: value < 9, on_violation: drop}}
    sinks: {out: {reads: priced, connector: console}}
""")


def progress(query: str, batch: int, paid: int, small: int) -> QueryProgress:
    counts = {"all rows": 7, "paid": paid, "small": small}
    told = {"batchId": batch, "numInputRows": 7, "observedMetrics": {"headwater.expect.priced": counts}}
    return QueryProgress(query=query, rows_out=7, progress=told)


def test_each_expectation_is_said_once_in_a_run() -> None:
    seen: list[Event] = []
    emit = UnmetExpectations(SPEC, seen.append)
    given = [
        progress("out", 0, 0, 0),
        QueryIdle(query="out"),
        progress("out", 1, 2, 0),
        progress("other", 1, 2, 0),
        progress("out", 2, 2, 3),
        progress("out", 3, 5, 5),
    ]
    for event in given:
        emit(event)
    assert [event for event in seen if not isinstance(event, Notice)] == given
    said = [(place, event.message) for place, event in enumerate(seen) if isinstance(event, Notice)]
    assert said == [
        (3, "Query `out`, batch 1: 2 of 7 rows of table `priced` failed expectation `paid` (passed on)."),
        (6, "Query `out`, batch 2: 3 of 7 rows of table `priced` failed expectation `small` (dropped)."),
    ]
