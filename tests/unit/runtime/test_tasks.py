"""What a run tells of its queries: behind, idle, epochs, upkeep."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from headwater.connectors.contract import Tick
from headwater.engine.query import RunningQuery
from headwater.errors import Problem
from headwater.events import BacklogChanged, Event, InputsIdle, WatermarkHeldBack
from headwater.events.idle import InputMark
from headwater.runtime.query_state import QueryState
from headwater.runtime.tasks import (
    FIRST_BATCH_SECONDS,
    MANY_INPUTS,
    Backlog,
    BacklogWatch,
    IdleWatch,
    SqlPreparation,
)
from headwater.spark.query import UnreadFiles
from tests.unit.runtime.queries import FakeQuery


def told(counts: list[int], at_most: int | None) -> list[int]:
    """The numbers at which it is told."""
    backlog = Backlog()
    return [count for count in counts if backlog.falls_behind(UnreadFiles("/in", count, at_most))]


def test_it_is_told_once_until_it_has_caught_up() -> None:
    assert told([0, 9, 19, 20, 25, 4, 30], at_most=2) == [20]
    assert told([25, 3, 19, 21], at_most=2) == [25, 21]


def test_without_a_number_in_the_limit_the_last_batch_counts() -> None:
    assert told([100, 95, 90], at_most=None) == [95]
    assert told([100, 60, 20, 500], at_most=None) == []


class Waits(FakeQuery):
    """A query with many files before it."""

    def waiting(self) -> tuple[UnreadFiles, ...]:
        return (UnreadFiles("/in", 29, 1),)


def test_the_advice_names_the_limit() -> None:
    events: list[Event] = []
    watch = BacklogWatch({"a": QueryState(cast(RunningQuery, Waits("a")))}, events.append)
    said = [*watch.tick(Tick(frozenset({"a"}))), *watch.tick(Tick(frozenset({"a"})))]
    (problem,) = said
    assert problem.code == "HW-BACKLOG-GROWING"
    assert problem.params == {
        "sink": "a",
        "waiting": 29,
        "path": "/in",
        "taken": 1,
        "limit": "max_files_per_batch",
    }
    # The number is the same after the second batch.
    (backlog,) = events
    assert isinstance(backlog, BacklogChanged)
    assert (backlog.query, backlog.files) == ("a", {"/in": 29})


def test_sql_is_prepared_once_after_the_first_batch_of_each_query_or_when_there_is_none() -> None:
    def batch(*queries: str) -> Tick:
        return Tick(frozenset(queries), progress={query: ({"batchId": 0},) for query in queries})

    nothing, now, prepared = Tick(frozenset({"a", "b"})), [0.0], list[float]()
    busy, idle, ended = (
        SqlPreparation(lambda: prepared.append(now[0]), ["a", "b"], clock=lambda: now[0]) for _ in range(3)
    )
    for tick in (nothing, batch("a"), batch("a")):
        busy.tick(tick)
    assert prepared == []
    for tick in (batch("b"), batch("b"), nothing):
        busy.tick(tick)
    assert prepared == [0.0]
    for now[0] in (0.0, FIRST_BATCH_SECONDS - 0.1, FIRST_BATCH_SECONDS, FIRST_BATCH_SECONDS + 1):
        idle.tick(nothing)
    assert prepared == [0.0, FIRST_BATCH_SECONDS]
    # The run has ended.
    ended.tick(Tick(frozenset(), True))
    assert len(prepared) == 2


NINE, TEN = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (9, 10))
TICK = Tick(frozenset({"out"}))


class JoinQuery(FakeQuery):
    """A query of two inputs, of which one is ahead."""

    def __init__(self) -> None:
        super().__init__("out")
        self.known: tuple[tuple[InputMark, ...], datetime | None] | None = (
            (InputMark(("a",), TEN), InputMark(("b",), NINE)),
            NINE,
        )

    def marks(self) -> tuple[tuple[InputMark, ...], datetime | None] | None:
        return self.known


def watched() -> tuple[QueryState, JoinQuery, IdleWatch, list[Event]]:
    query, events = JoinQuery(), list[Event]()
    state = QueryState(cast(RunningQuery, query), delivered={"a": 1, "b": 0})
    return state, query, IdleWatch({"out": state}, events.append), events


def test_a_change_is_told_once_and_stands_in_the_summary() -> None:
    state, query, watch, events = watched()
    assert [*watch.tick(TICK), *watch.tick(TICK)] == []
    sources = [found["sources"] for found in state.summary().idle_inputs]
    assert sources == [["b"]]
    assert [event.kind for event in events] == ["watermark_held_back", "inputs_idle"]
    query.known = ((InputMark(("a",), TEN), InputMark(("b",), TEN)), TEN)
    assert [*watch.tick(TICK)] == []
    assert [event.idle_inputs for event in events if isinstance(event, InputsIdle)][1:] == [()]
    assert state.summary().idle_inputs == ()
    assert [event.sources for event in events if isinstance(event, WatermarkHeldBack)] == [("b",), ()]


def test_a_slow_source_holds_back_the_watermark_without_being_idle() -> None:
    state, _, watch, events = watched()
    state.delivered = {"a": 1, "b": 1}
    assert [*watch.tick(TICK)] == []
    assert [event.to_json() for event in events] == [
        {"event": "watermark_held_back", "version": 1, "at": events[0].at, "query": "out", "sources": ["b"]}
    ]


def test_after_a_restart_they_are_reported_again() -> None:
    state, _, watch, events = watched()
    assert [*watch.tick(TICK)] == []
    kinds = [event.kind for event in events]
    assert [*watch.tick(TICK)] == []
    state.restarted(cast(RunningQuery, JoinQuery()))
    state.delivered = {"a": 1, "b": 0}
    assert [*watch.tick(TICK), *watch.tick(TICK)] == []
    assert [event.kind for event in events] == [*kinds, *kinds] == ["watermark_held_back", "inputs_idle"] * 2


def test_it_is_said_once_when_it_has_lasted() -> None:
    state, _, watch, _ = watched()
    said = list[Problem]()
    for batch in range(1, 3 * MANY_INPUTS):
        state.delivered["a"] = batch
        said += watch.tick(TICK)
        assert len(said) == (1 if batch > MANY_INPUTS else 0)
    assert said[0].code == "HW-INPUT-IDLE"
    assert (said[0].params["inputs"], said[0].params["since"]) == ("input `b` blocks", "batch 0")


def test_inputs_that_take_turns_are_never_said() -> None:
    state, _, watch, _ = watched()
    said = list[Problem]()
    for batch in range(3 * MANY_INPUTS):
        state.delivered["ab"[batch % 2]] = batch
        said += watch.tick(TICK)
    assert said == []


def test_what_was_known_stays_when_spark_can_not_be_asked() -> None:
    state, query, watch, events = watched()
    assert [*watch.tick(TICK)] == []
    query.known = None
    assert [*watch.tick(Tick(frozenset({"out"}), last=True))] == []
    assert ([idle.sources for idle in state.idle_inputs], state.held_back_by) == ([("b",)], ("b",))
    assert [event.kind for event in events] == ["watermark_held_back", "inputs_idle"]
