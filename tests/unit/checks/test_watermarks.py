"""Rules about watermarks that clear nothing, and about streams that a UNION puts together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Finding, Query, Rule, Severity, watermarks
from headwater.checks.watermarks import union_watermark_missing
from headwater.plan import QueryFacts
from headwater.plan.facts import Refusal
from headwater.plan.operators import ArbitraryState, EventTime, Key, Kind, Operator
from tests.unit.checks.facts import HOUR, aggregation, facts, join, key, side, watermark, window_key

TIMES = (EventTime("at", HOUR),)
NORTH = watermark("north")
WINDOWS = aggregation(window_key(watermarked=True), streams=("north", "south"), event_times=TIMES)


def union(*inputs: int, streams: tuple[str, ...] = ("north", "south")) -> Operator:
    return Operator(Kind.UNION, "UNION", inputs, streams)


def above(operator: Operator, place: int) -> Operator:
    return replace(operator, inputs=(place,))


def found(query: QueryFacts) -> list[Finding]:
    return list(union_watermark_missing.about(Query(query)))


def named(query: QueryFacts) -> list[tuple[Any, Any]]:
    return [(each.problem.params["streams"], each.problem.params["others"]) for each in found(query)]


def test_a_branch_without_a_watermark_is_warned_of() -> None:
    (finding,) = found(facts(NORTH, union(0), above(WINDOWS, 1), mode="update"))
    assert (finding.code, finding.severity) == ("HW-UNION-WATERMARK-MISSING", Severity.WARNING)
    assert finding.sink == "out"
    assert finding.problem.params["streams"] == "`south`"
    assert finding.problem.params["others"] == "`north`"


def test_a_branch_with_steps_but_no_watermark_is_one_too() -> None:
    once = Operator(Kind.DEDUP, "dropDuplicates", streams=("south",), keys=(key("id"),))
    assert named(facts(NORTH, once, union(0, 1), above(WINDOWS, 2))) == [("`south`", "`north`")]


def test_a_union_of_unions_is_told_of_once() -> None:
    streams = ("north", "south", "west")
    query = facts(NORTH, union(0), union(1, streams=streams), above(WINDOWS, 2))
    assert named(query) == [("`west` and `south`", "`north`")]


@pytest.mark.parametrize(
    "query",
    [
        facts(NORTH, watermark("south"), union(0, 1), above(WINDOWS, 2)),
        # One watermark over all.
        facts(union(), above(watermark(), 0), above(WINDOWS, 1)),
        facts(union(), above(WINDOWS, 0)),
        # It keeps everything, and so drops nothing.
        facts(NORTH, union(0), above(WINDOWS, 1), mode="complete"),
        facts(NORTH, union(0)),
        # Its first branch has none, which is an error of its own.
        facts(NORTH, union(0), aggregation(window_key(), inputs=(1,)), mode="update"),
        facts(NORTH, union(0), above(WINDOWS, 1), refusal=Refusal("X", "no")),
        # Two watermarks on the way are an error of their own.
        facts(NORTH, union(0), above(watermark(), 1), above(WINDOWS, 2)),
    ],
)
def test_nothing_is_said_where_no_row_is_dropped_for_it(query: QueryFacts) -> None:
    assert found(query) == []


@pytest.mark.parametrize(
    ("step", "warned"),
    [
        (Operator(Kind.DEDUP_WITHIN_WATERMARK, "dropDuplicatesWithinWatermark", event_times=TIMES), True),
        (
            Operator(Kind.DEDUP, "dropDuplicates", event_times=TIMES, keys=(key("at", watermarked=True),)),
            True,
        ),
        (Operator(Kind.DEDUP, "dropDuplicates", event_times=TIMES, keys=(key("id"),)), False),
        (
            Operator(
                Kind.STATE,
                "s",
                event_times=TIMES,
                state=ArbitraryState("transformWithState", "update", "event time"),
            ),
            True,
        ),
        (
            Operator(
                Kind.STATE,
                "s",
                event_times=TIMES,
                state=ArbitraryState("transformWithState", "update", "none"),
            ),
            False,
        ),
        (Operator(Kind.LIMIT, "LIMIT", event_times=TIMES), False),
    ],
)
def test_what_goes_by_the_watermark(step: Operator, warned: bool) -> None:
    step = replace(step, inputs=(1,), streams=("north", "south"))
    assert bool(found(facts(NORTH, union(0), step))) is warned


@pytest.mark.parametrize("bounded", [True, False])
def test_a_join_goes_by_the_time_of_the_side(bounded: bool) -> None:
    left = side("north", "at", HOUR, bounded=bounded)
    both = replace(left, streams=("north", "south"))
    met = join(both, side("east", "on", HOUR, bounded=True), inputs=(1, 2))
    # Windows behind the join may be made of the other side's time.
    query = facts(NORTH, union(0), watermark("east", "on"), met, above(WINDOWS, 3))
    assert bool(found(query)) is bounded


def by(*keys: Key, **overrides: Any) -> Operator:
    """An aggregation that reads the first operator."""
    return aggregation(*keys, inputs=(0,), **overrides)


RULES = [each for each in vars(watermarks).values() if isinstance(each, Rule)]
PART: dict[str, Any] = {"made_from": ("at",), "cyclic": True}
# The steps of a query, and of what is found the code and a parameter.
UNCLEARED = {
    "part of a window": (
        (watermark(), by(window_key(taken_apart=True, made_from=("at",)))),
        ("HW-GROUP-BY-WINDOW-FIELD", "key", "window(at)"),
    ),
    "part of a session": (
        (aggregation(window_key(session=True, taken_apart=True)),),
        ("HW-GROUP-BY-SESSION-FIELD", "key", "window(at)"),
    ),
    "computed time": (
        (watermark(), by(key("hour", "timestamp", made_from=("at",), grows=True))),
        ("HW-WATERMARK-LOST", "column", "at"),
    ),
    "calendar": (
        (watermark(), by(key("y", sql="year(at)", **PART), key("m", sql="month(at)", **PART))),
        ("HW-WATERMARK-LOST", "key", "year(at)"),
    ),
    "other column": (
        (watermark(column="paid"), by(window_key())),
        ("HW-WATERMARK-WRONG-COLUMN", "others", "`paid`"),
    ),
    "one branch": ((watermark(), by(window_key())), ("HW-WATERMARK-BRANCH-MISSING", "column", "at")),
    "second watermark": (
        (watermark(), above(watermark(column="ts"), 0)),
        ("HW-WATERMARK-CONFLICT", "second", "ts"),
    ),
    "too late": (
        (aggregation(key("id")), above(watermark(), 0)),
        ("HW-WATERMARK-AFTER-STATE", "operator", "GROUP BY"),
    ),
    "no delay": (
        (watermark(delay_ms=0), by(window_key(watermarked=True))),
        ("HW-WATERMARK-DELAY-ZERO", "streams", "`rows`"),
    ),
}


@pytest.mark.parametrize("name", UNCLEARED)
def test_a_watermark_that_does_not_do_what_it_was_declared_for(name: str) -> None:
    steps, (code, parameter, value) = UNCLEARED[name]
    query = facts(*steps, mode="update")
    (finding,) = [each for rule in RULES for each in rule.about(Query(query))]
    assert (finding.code, finding.problem.params[parameter]) == (code, value)


def test_a_window_that_carries_the_watermark_is_sound() -> None:
    query = facts(watermark(), by(key("id"), window_key(watermarked=True)), mode="update")
    assert [each for rule in RULES for each in rule.about(Query(query))] == []
