"""What a start says while it takes long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from headwater.events import Event, StartPhase
from headwater.runtime import scope as module
from headwater.runtime.scope import phase_of
from tests.unit.runtime.queries import SECONDS


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
        until(lambda: len(events) == 1)
        phase.count(200, 450)
        until(lambda: events[-1].done == 200)
        phase.count(400)
        until(lambda: events[-1].done == 400)
    first, last = events[0], events[-1]
    assert (first.phase, first.text, first.done, first.total) == (
        "open_files",
        "Opening new files",
        None,
        None,
    )
    assert (last.done, last.total) == (400, 450)
    assert threads() == before


def test_a_phase_that_is_told_at_once_comes_before_its_work() -> None:
    events: list[Event] = []
    with phase_of(events.append, "previous_jvm", "Waiting", first=0):
        assert [event.kind for event in events] == ["start_phase"]
