"""Rules about state without an end, and about joins that need one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Finding, Query, Rule, Severity
from headwater.checks.joins import anti_join, static_outer_join, unbounded_outer_join
from headwater.checks.state import (
    unbounded_collect,
    unbounded_complete,
    unbounded_dedup,
    unbounded_join,
    unbounded_windows,
)
from headwater.plan import QueryFacts
from headwater.plan.facts import Refusal
from headwater.plan.operators import Aggregate, EventTime, Kind, Operator, Side
from tests.unit.checks.facts import HOUR, aggregation, facts, join, key, side, watermark, window_key

GROWTH = (unbounded_complete, unbounded_join, unbounded_dedup, unbounded_collect, unbounded_windows)
MARKED: dict[str, Any] = {"watermarked": True, "delay_ms": HOUR}


def found(query: QueryFacts, *rules: Rule) -> list[Finding]:
    return [finding for rule in rules or GROWTH for finding in rule.about(Query(query))]


def codes(query: QueryFacts, *rules: Rule) -> list[tuple[str, str]]:
    return [(finding.problem.code, finding.severity.value) for finding in found(query, *rules)]


def test_windows_without_a_watermark_are_warned_of() -> None:
    query = facts(aggregation(window_key()), mode="update")
    assert codes(query) == [("HW-UNBOUNDED-WINDOWS", "warning")]
    (finding,) = found(query)
    assert finding.problem.params["missing"] == "a watermark on `at`"
    assert finding.sink == "out"


@pytest.mark.parametrize(
    "query",
    [
        facts(aggregation(key("word")), mode="update"),
        facts(aggregation(key("word")), mode="complete"),
        facts(aggregation(), mode="complete"),
        facts(watermark(), aggregation(window_key(**MARKED), inputs=(0,)), mode="update"),
        # Told by the rules about watermarks that can't clear state.
        facts(watermark(), aggregation(window_key(taken_apart=True), inputs=(0,)), mode="update"),
        # Told as what Spark refuses.
        facts(aggregation(window_key()), mode="append", refusal=Refusal("X", "no")),
    ],
)
def test_nothing_is_said_of_what_ends_or_of_a_set_of_keys(query: QueryFacts) -> None:
    assert codes(query) == []


def test_complete_mode_with_windows_is_warned_of_even_with_a_watermark() -> None:
    query = facts(watermark(), aggregation(window_key(**MARKED), inputs=(0,)), mode="complete")
    assert codes(query) == [("HW-UNBOUNDED-COMPLETE", "warning")]
    assert found(query)[0].problem.hint == "Use append or update mode."


def repeats(*times: EventTime) -> Operator:
    return Operator(
        Kind.DEDUP, "dropDuplicates", streams=("rows",), keys=(key("id"),), event_times=times, table="once"
    )


def test_repeats_for_ever_are_warned_of() -> None:
    (finding,) = found(facts(repeats()))
    assert (finding.problem.code, finding.severity, finding.table) == (
        "HW-UNBOUNDED-DEDUP",
        Severity.WARNING,
        "once",
    )
    assert "declare a watermark" in finding.problem.hint
    (timed,) = found(facts(repeats(EventTime("at", 1))))
    assert "add `at` to the columns" in timed.problem.hint


def test_lists_of_keys_that_never_end_are_warned_of() -> None:
    assert codes(facts(aggregation(key("user"), functions=("CollectList",)), mode="update")) == [
        ("HW-UNBOUNDED-COLLECT", "warning")
    ]
    assert codes(facts(aggregation(functions=("CollectList",)), mode="complete")) == [
        ("HW-UNBOUNDED-COLLECT", "warning")
    ]
    assert codes(facts(aggregation(key("user"), functions=("CollectSet",)), mode="update")) == []
    ending = aggregation(window_key(**MARKED), functions=("CollectList",), inputs=(0,))
    assert codes(facts(watermark(), ending)) == []


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        ("Median", "percentile_approx"),
        ("Percentile", "percentile_approx"),
        ("PercentileCont", "percentile_approx"),
        ("PercentileDisc", "percentile_approx"),
        ("Mode", "group by the value"),
    ],
)
def test_distinct_values_of_keys_that_never_end_are_warned_of(function: str, instead: str) -> None:
    (finding,) = found(facts(aggregation(key("user"), functions=(function,)), mode="update"))
    assert (finding.problem.code, finding.severity) == ("HW-UNBOUNDED-COLLECT", Severity.WARNING)
    assert finding.problem.params["values"] == "distinct value"
    assert instead in finding.problem.hint
    ending = aggregation(window_key(**MARKED), functions=(function,), inputs=(0,))
    assert codes(facts(watermark(), ending)) == []


def test_an_aggregate_is_shown_without_the_name_of_its_value() -> None:
    named = (Aggregate("median(value) AS `median(value)`", "Median"), Aggregate("mode(x) AS y", "Mode"))
    (finding,) = found(facts(aggregation(key("user"), aggregates=named), mode="update"))
    assert finding.problem.params["aggregates"] == "`median(value)` and `mode(x)`"


def test_a_summary_of_a_fixed_size_does_not_grow() -> None:
    query = facts(aggregation(key("user"), functions=("ApproximatePercentile",)), mode="update")
    assert codes(query) == []


def test_the_sides_of_a_stream_joined_with_itself_are_told_apart() -> None:
    (bare,) = found(facts(join(side("a"), side("a"), "left outer")), unbounded_outer_join)
    assert bare.problem.params["says"] == "never emits unmatched rows of `a` (left)"
    assert bare.problem.params["missing"] == (
        "a watermark on `a` (left) and `a` (right), and a time range in the join condition"
    )
    (one,) = found(facts(join(side("a", "at", 1), side("a"), "left outer")), unbounded_outer_join)
    assert one.problem.params["missing"] == (
        "a watermark on `a` (right), and a time range in the join condition"
    )
    (both,) = found(facts(join(side("a", "at", 1), side("a", "at", 1))))
    assert (both.problem.params["left"], both.problem.params["right"]) == ("`a` (left)", "`a` (right)")
    assert "right.at BETWEEN left.at" in both.problem.hint


def test_an_inner_join_without_an_end_is_warned_of() -> None:
    (finding,) = found(facts(join(side("a"), side("b"))))
    assert (finding.problem.code, finding.severity) == ("HW-UNBOUNDED-JOIN", Severity.WARNING)
    assert finding.problem.params["left"] == "`a`"
    bounded = join(side("a", "x", 1, bounded=True), side("b", "y", 1, bounded=True))
    assert codes(facts(bounded)) == []
    # An outer join without an end is an error of its own.
    assert codes(facts(join(side("a"), side("b"), "left outer"))) == []
    one = join(side("a", "x", 1, bounded=True), side("b", "y", 1), "left outer")
    assert codes(facts(one)) == [("HW-UNBOUNDED-JOIN", "warning")]


ENDS, BARE = side("a", "x", 1, bounded=True), side("a")
OTHER_ENDS, OTHER_BARE = side("b", "y", 1, bounded=True), side("b")


@pytest.mark.feature("C8.3", part="pure")
@pytest.mark.parametrize(
    ("type_", "left", "right", "named"),
    [
        ("left outer", BARE, OTHER_BARE, "`a`"),
        ("right outer", BARE, OTHER_BARE, "`b`"),
        ("full outer", BARE, OTHER_BARE, "`a` and `b`"),
        ("full outer", ENDS, side("b", "y", 1), "`b`"),
        ("left outer", side("a"), side("b", "y", 1, bounded=True), "`a`"),
        ("left outer", ENDS, OTHER_BARE, None),
        ("right outer", BARE, OTHER_ENDS, None),
        ("full outer", ENDS, OTHER_ENDS, None),
        ("inner", BARE, OTHER_BARE, None),
        ("left semi", BARE, OTHER_ENDS, None),
    ],
)
def test_an_outer_join_needs_to_know_the_end_of_what_it_preserves(
    type_: str, left: Side, right: Side, named: str | None
) -> None:
    problems = [each.problem for each in found(facts(join(left, right, type_)), unbounded_outer_join)]
    says = [each.params["says"] for each in problems]
    assert says == ([f"never emits unmatched rows of {named}"] if named else [])


def test_a_semi_join_is_refused_where_spark_refuses_it() -> None:
    refusal = Refusal("X", "Stream-stream LeftSemi join between two streaming DataFrame/Datasets …")
    (finding,) = found(facts(join(BARE, OTHER_BARE, "left semi"), refusal=refusal), unbounded_outer_join)
    assert finding.is_error
    assert not finding.suppressible
    assert finding.problem.params["says"] == "needs bounded state"
    assert finding.problem.params["missing"] == (
        "a watermark on `a` and `b`, and a time range in the join condition"
    )


@pytest.mark.parametrize(
    ("type_", "sparks", "named"), [("left outer", "LeftOuter", "`a`"), ("right outer", "RightOuter", "`b`")]
)
def test_a_time_range_in_where_makes_no_outer_join(type_: str, sparks: str, named: str) -> None:
    refusal = Refusal("X", f"Stream-stream {sparks} join between two streaming DataFrame/Datasets …")
    (finding,) = found(facts(join(ENDS, OTHER_ENDS, type_), refusal=refusal), unbounded_outer_join)
    assert finding.problem.params["says"] == f"never emits unmatched rows of {named}"
    assert "the ON condition" in str(finding.problem.params["missing"])
    assert "inner JOIN" in str(finding.problem.params["missing"])


def test_a_range_after_on_is_not_to_blame_for_what_spark_refuses() -> None:
    refusal = Refusal("X", "Stream-stream LeftOuter join between two streaming DataFrame/Datasets …")
    ranged = join(ENDS, OTHER_ENDS, "left outer", condition="l.k = r.k AND r.y >= l.x")
    assert found(facts(ranged, refusal=refusal), unbounded_outer_join) == []
    inner = join(ENDS, OTHER_ENDS)
    assert found(facts(inner, refusal=refusal), unbounded_outer_join) == []


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_results_that_can_not_be_told_apart_at_all_are_not_warned_of(mode: str) -> None:
    dedup = Operator(Kind.DEDUP, "dropDuplicates", (0,), ("rows",), keys=(key("user"),))
    assert codes(facts(aggregation(key("user")), dedup, mode=mode), unbounded_dedup) == []
    alone = replace(dedup, inputs=())
    assert codes(facts(alone, mode="update"), unbounded_dedup) == [("HW-UNBOUNDED-DEDUP", "warning")]


def test_an_anti_join_of_streams_is_refused() -> None:
    assert codes(facts(join(ENDS, OTHER_ENDS, "left anti")), anti_join) == [
        ("HW-ANTI-JOIN-UNSUPPORTED", "error")
    ]
    assert codes(facts(join(ENDS, OTHER_ENDS)), anti_join) == []


STREAM, STATIC = side("orders"), side("customers", streaming=False)


@pytest.mark.feature("C7.2", part="pure")
@pytest.mark.parametrize(
    ("type_", "left", "right", "refused"),
    [
        ("inner", STREAM, STATIC, False),
        ("inner", STATIC, STREAM, False),
        ("cross", STREAM, STATIC, False),
        ("left outer", STREAM, STATIC, False),
        ("left outer", STATIC, STREAM, True),
        ("right outer", STATIC, STREAM, False),
        ("right outer", STREAM, STATIC, True),
        ("full outer", STREAM, STATIC, True),
        ("full outer", STATIC, STREAM, True),
        ("left semi", STREAM, STATIC, False),
        ("left semi", STATIC, STREAM, True),
        ("left anti", STREAM, STATIC, False),
        ("left anti", STATIC, STREAM, True),
    ],
)
def test_static_rows_without_a_partner_are_refused(
    type_: str, left: Side, right: Side, refused: bool
) -> None:
    found_ = found(facts(join(left, right, type_)), static_outer_join)
    assert [each.problem.params["stream"] for each in found_] == (["`orders`"] if refused else [])
