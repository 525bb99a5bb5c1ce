"""When a run tells that a watermark waits for an input."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from headwater.connectors.contract import Moment
from headwater.engine.query import RunningQuery
from headwater.errors import Problem
from headwater.events import Event, QueryWaits
from headwater.events.kinds import InputMark
from headwater.runtime.query_state import Track, summary_of
from headwater.runtime.tasks import MANY_INPUTS, IdleWatch
from tests.unit.runtime.queries import FakeQuery

NINE, TEN = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (9, 10))
MOMENT = Moment(frozenset({"out"}))


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


def watched() -> tuple[Track, JoinQuery, IdleWatch, list[Event], list[Problem]]:
    query, events, said = JoinQuery(), list[Event](), list[Problem]()
    track = Track(cast(RunningQuery, query), brought={"a": 1, "b": 0})
    return track, query, IdleWatch(lambda name: track, events.append, said.append), events, said


def test_a_change_is_told_once_and_stands_in_the_summary() -> None:
    track, query, watch, events, _ = watched()
    watch(MOMENT)
    watch(MOMENT)
    sources = [found["sources"] for found in summary_of(track)["waits_for"]]
    assert (sources, len(events)) == ([["b"]], 1)
    query.known = ((InputMark(("a",), TEN), InputMark(("b",), TEN)), TEN)
    watch(MOMENT)
    assert [event.waits_for for event in events if isinstance(event, QueryWaits)][1:] == [()]
    assert summary_of(track)["waits_for"] == []


def test_it_is_said_once_when_it_has_lasted() -> None:
    track, _, watch, _, said = watched()
    for batch in range(1, 3 * MANY_INPUTS):
        track.brought["a"] = batch
        watch(MOMENT)
        assert len(said) == (1 if batch > MANY_INPUTS else 0)
    assert said[0].code == "HW-INPUT-IDLE"
    assert (said[0].params["sources"], said[0].params["since"]) == ("b", "batch 0")


def test_inputs_that_take_turns_are_never_said() -> None:
    track, _, watch, _, said = watched()
    for batch in range(3 * MANY_INPUTS):
        track.brought["ab"[batch % 2]] = batch
        watch(MOMENT)
    assert said == []


def test_what_was_known_stays_when_spark_can_not_be_asked() -> None:
    track, query, watch, events, _ = watched()
    watch(MOMENT)
    query.known = None
    watch(Moment(frozenset({"out"}), last=True))
    assert ([idle.sources for idle in track.waits_for], len(events)) == ([("b",)], 1)
