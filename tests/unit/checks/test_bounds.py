"""How much a query keeps, told from its facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks.bounds import Bound, Extent, bounds_of
from headwater.plan import QueryFacts
from headwater.plan.operators import ArbitraryState, EventTime, Kind, Operator, Variable
from tests.unit.checks.facts import HOUR, MINUTE, aggregation, facts, join, key, side, watermark, window_key

FASTEST = {"spark.sql.streaming.multipleWatermarkPolicy": "max"}
MARKED: dict[str, Any] = {"watermarked": True, "delay_ms": 10 * MINUTE}


def only(query: QueryFacts) -> Bound:
    (bound,) = bounds_of(query)
    return bound


def kept(bound: Bound) -> dict[str, tuple[int | None, int | None]]:
    return {each.what: (each.for_ms, each.in_step_ms) for each in bound.retention}


def test_an_aggregate_of_all_rows_is_one_row() -> None:
    bound = only(facts(aggregation(), mode="update"))
    assert (bound.extent, bound.retention, bound.missing) == (Extent.BOUNDED, (), "")


def test_plain_keys_bound_by_their_number() -> None:
    assert only(facts(aggregation(key("word")), mode="update")).extent is Extent.PER_KEY
    assert only(facts(aggregation(key("word")), mode="complete")).extent is Extent.PER_KEY


def test_a_window_is_kept_for_its_size_and_the_delay() -> None:
    query = facts(watermark(), aggregation(window_key(**MARKED), key("city"), inputs=(0,)))
    assert only(query).operator == 1
    assert (only(query).extent, kept(only(query))) == (
        Extent.BOUNDED,
        {"a window": (HOUR + 10 * MINUTE, None)},
    )
    assert only(query).retention[0].words == "1 hour 10 minutes"
    assert kept(only(replace(query, mode="update"))) == {"a window": (HOUR + 10 * MINUTE, None)}


def test_windows_that_overlap_count_a_row_in_each() -> None:
    query = facts(watermark(), aggregation(window_key(HOUR, 25 * MINUTE, **MARKED), inputs=(0,)))
    assert only(query).retention[0].copies == 3


def test_complete_mode_keeps_every_window() -> None:
    query = facts(watermark(), aggregation(window_key(**MARKED), inputs=(0,)), mode="complete")
    assert (only(query).extent, only(query).missing) == (Extent.UNBOUNDED, "append or update mode")
    bare = facts(aggregation(window_key()), mode="complete")
    assert only(bare).missing == "append or update mode, and a watermark on `at`"


def test_sessions_stay_after_their_last_row() -> None:
    query = facts(watermark(), aggregation(window_key(5 * MINUTE, session=True, **MARKED), inputs=(0,)))
    assert kept(only(query)) == {"a session": (15 * MINUTE, None)}
    assert only(query).retention[0].words == "15 minutes after its last row"
    dynamic = facts(watermark(), aggregation(window_key(0, session=True, **MARKED), inputs=(0,)))
    assert only(dynamic).extent is Extent.BOUNDED
    assert kept(only(dynamic)) == {"a session": (None, None)}


def test_a_column_with_the_watermark_is_kept_for_the_delay() -> None:
    query = facts(watermark(), aggregation(key("at", "timestamp", **MARKED), inputs=(0,)))
    assert kept(only(query)) == {"a key": (10 * MINUTE, None)}


@pytest.mark.parametrize(
    ("times", "told", "missing"),
    [
        ((), window_key(), "a watermark on `at`"),
        (
            (),
            key("day", "date"),
            "a watermark on the event time, and a window of one day instead of `day`",
        ),
        ((), key("seen", "timestamp"), "a watermark on `seen`"),
        (
            (EventTime("at", 1),),
            window_key(taken_apart=True, sql="window(at).start"),
            "the whole window among the keys: GROUP BY window(at, '1 hour')",
        ),
        (
            (EventTime("at", 1),),
            key("day", "date", made_from=("at",)),
            "a key with the watermark: GROUP BY window(at, …) in addition to or instead of day",
        ),
        (
            (EventTime("seen", 1),),
            window_key(),
            "a watermark on `at`, the column of the window; it is on `seen`",
        ),
    ],
)
def test_time_without_a_watermark_has_no_end(
    times: tuple[EventTime, ...], told: object, missing: str
) -> None:
    query = facts(aggregation(told, event_times=times), mode="update")  # type: ignore[arg-type]
    assert (only(query).extent, only(query).missing) == (Extent.UNBOUNDED, missing)


def test_values_that_grow_are_told() -> None:
    bound = only(
        facts(aggregation(key("user"), functions=("Count", "CollectList", "CollectSet")), mode="update")
    )
    assert bound.notes == (
        "the value of each key grows: CollectList(x) stores every value of its rows",
        "the value of each key grows: CollectSet(x) stores every distinct value of its rows",
    )


def dedup(kind: Kind = Kind.DEDUP, *keys: object, **overrides: object) -> Operator:
    plain = Operator(kind, "dropDuplicates", streams=("rows",), keys=keys)  # type: ignore[arg-type]
    return replace(plain, **overrides)  # type: ignore[arg-type]


def test_repeats_are_remembered_for_ever_or_until_the_watermark() -> None:
    assert only(facts(dedup(Kind.DEDUP, key("id")))).extent is Extent.PER_KEY
    assert only(facts(dedup(Kind.DEDUP, key("id"), key("at", "timestamp")))).extent is Extent.UNBOUNDED
    timed = facts(watermark(), dedup(Kind.DEDUP, key("id"), key("at", "timestamp", **MARKED), inputs=(0,)))
    assert kept(only(timed)) == {"a key": (10 * MINUTE, None)}
    within = dedup(
        Kind.DEDUP_WITHIN_WATERMARK, key("id"), inputs=(0,), event_times=(EventTime("at", 10 * MINUTE),)
    )
    # The key expires ten minutes after its row by a watermark that is ten minutes behind itself.
    assert kept(only(facts(watermark(), within))) == {"a key": (20 * MINUTE, None)}


def test_distinct_rows_are_groups_of_all_columns() -> None:
    rows = dedup(Kind.DISTINCT, key("user"))
    assert only(facts(rows, mode="update")).extent is Extent.PER_KEY
    assert only(facts(rows, mode="complete")).extent is Extent.PER_KEY
    timed = dedup(Kind.DISTINCT, key("user"), key("at", "timestamp"))
    assert only(facts(timed, mode="update")).missing == "a watermark on `at`"
    marked = dedup(Kind.DISTINCT, key("at", "timestamp", **MARKED), inputs=(0,))
    assert kept(only(facts(watermark(), marked))) == {"a key": (10 * MINUTE, None)}


def ads(type_: str = "inner", **overrides: object) -> QueryFacts:
    """Impressions come two hours late, clicks three; a click comes within an hour after its impression."""
    left = side("impressions", "shown", 2 * HOUR, bounded=True, reach_ms=HOUR)
    right = side("clicks", "clicked", 3 * HOUR, bounded=True)
    marks = (watermark("impressions", "shown", 2 * HOUR), watermark("clicks", "clicked", 3 * HOUR))
    return facts(*marks, join(left, right, type_, inputs=(0, 1)), **overrides)


@pytest.mark.feature("C9", part="pure")
def test_each_side_of_a_join_is_kept_for_the_delay_of_the_other_and_the_range() -> None:
    bound = only(ads())
    assert bound.extent is Extent.BOUNDED
    # Both go by the slower watermark: while the streams are equally far, clicks stay three hours, too.
    assert kept(bound) == {"impressions": (4 * HOUR, None), "clicks": (2 * HOUR, 3 * HOUR)}
    assert [each.words for each in bound.retention] == ["4 hours", "2 hours"]
    assert bound.notes == ("uses the slowest watermark: a lagging or idle input delays state cleanup",)
    fastest = only(ads(settings=FASTEST))
    assert kept(fastest) == {"impressions": (3 * HOUR, None), "clicks": (2 * HOUR, None)}


def test_what_a_join_holds_back_is_kept_above_it() -> None:
    query = ads()
    over = aggregation(
        window_key(watermarked=True, delay_ms=2 * HOUR), inputs=(2,), streams=("impressions", "clicks")
    )
    bounds = bounds_of(replace(query, operators=(*query.operators, over)))
    assert kept(bounds[1]) == {"a window": (HOUR + 3 * HOUR + HOUR, None)}


def test_a_join_on_windows_keeps_a_row_until_its_window_is_over() -> None:
    operator = join(
        side("a", "x", HOUR, bounded=True), side("b", "y", HOUR, bounded=True), keys=(window_key(),)
    )
    assert operator.join is not None
    operator = replace(operator, join=replace(operator.join, watermark_in_keys=True), inputs=(0, 1))
    query = facts(watermark("a", "x", HOUR), watermark("b", "y", HOUR), operator)
    assert kept(only(query)) == {"a": (2 * HOUR, None), "b": (2 * HOUR, None)}


@pytest.mark.parametrize(
    ("left", "right", "condition", "missing"),
    [
        (
            side("a"),
            side("b"),
            "a.k = b.k",
            "a watermark on `a` and `b`, and a time range in the join condition",
        ),
        (side("a", "x", 1), side("b"), "a.k = b.k AND x < y", "a watermark on `b`"),
        (
            side("a", "x", 1),
            side("b", "y", 1),
            "a.k = b.k",
            "a time range in the join condition, such as "
            "`y BETWEEN x - INTERVAL 1 HOUR AND x + INTERVAL 1 HOUR`",
        ),
        (
            side("a", "at", 1),
            side("b", "at", 1, bounded=True),
            "a.k = b.k",
            "a time range in the join condition, such as `b.at <= a.at + INTERVAL 1 HOUR`",
        ),
    ],
)
def test_what_a_join_without_an_end_lacks(left: object, right: object, condition: str, missing: str) -> None:
    bound = only(facts(join(left, right, condition=condition)))  # type: ignore[arg-type]
    assert (bound.extent, bound.missing) == (Extent.UNBOUNDED, missing)


def test_a_stream_joined_with_itself_has_two_sides() -> None:
    both = side("a", "at", HOUR, bounded=True)
    assert list(kept(only(facts(watermark("a", "at", HOUR), join(both, both, inputs=(0, 0)))))) == [
        "a (left)",
        "a (right)",
    ]


def state(time: str = "none", *variables: Variable) -> Operator:
    held = ArbitraryState("transformWithState", "append", time, variables)
    return Operator(Kind.STATE, "transformWithState", streams=("rows",), keys=(key("user"),), state=held)


def test_state_of_the_users_own() -> None:
    bare = only(facts(state()))
    assert bare.extent is Extent.PER_KEY
    assert bare.missing == "a timer, a timeout or a TTL, unless there are few keys"
    assert only(facts(state("event time"))).missing == ""
    expiring = only(facts(state("processing time", Variable("n", "value", ttl_ms=HOUR))))
    assert (expiring.extent, kept(expiring)) == (Extent.BOUNDED, {"a value": (HOUR, None)})
    mixed = only(facts(state("none", Variable("n", "value", ttl_ms=HOUR), Variable("m", "value"))))
    assert mixed.extent is Extent.PER_KEY


def test_a_limit_keeps_a_number() -> None:
    assert only(facts(Operator(Kind.LIMIT, "LIMIT", streams=("rows",)))).extent is Extent.BOUNDED


def test_static_rows_keep_nothing() -> None:
    assert bounds_of(facts(aggregation(key("word"), streams=()))) == ()
