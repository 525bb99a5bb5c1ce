"""What a query does, read from recorded plans: no JVM."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from headwater.plan.operators import EventTime, Kind, Operator, PlanRecord, PythonFunction, Variable, Window
from headwater.plan.reader import Steps, steps_of

RECORDED = Path(__file__).parent / "recorded"
HOUR = 3_600_000
MINUTE = 60_000


def steps(name: str) -> Steps:
    return steps_of(PlanRecord.from_json((RECORDED / f"{name}.json").read_text(encoding="utf-8")))


def only(name: str, kind: Kind) -> Operator:
    (found,) = [each for each in steps(name).operators if each.kind is kind]
    return found


KINDS = {
    "stateless": [],
    "running": [Kind.AGGREGATION],
    "tumbling": [Kind.WATERMARK, Kind.AGGREGATION],
    "sliding": [Kind.WATERMARK, Kind.AGGREGATION],
    "taken_apart": [Kind.WATERMARK, Kind.AGGREGATION],
    "truncated": [Kind.WATERMARK, Kind.AGGREGATION],
    "session": [Kind.WATERMARK, Kind.AGGREGATION],
    "dynamic_session": [Kind.WATERMARK, Kind.AGGREGATION],
    "cube": [Kind.AGGREGATION],
    "distinct_count": [Kind.WATERMARK, Kind.AGGREGATION],
    "distinct": [Kind.DISTINCT],
    "inner_join": [Kind.WATERMARK, Kind.WATERMARK, Kind.JOIN],
    "join_where": [Kind.WATERMARK, Kind.WATERMARK, Kind.JOIN],
    "left_join": [Kind.WATERMARK, Kind.WATERMARK, Kind.JOIN],
    "unbounded_join": [Kind.WATERMARK, Kind.WATERMARK, Kind.JOIN],
    "window_join": [Kind.WATERMARK, Kind.WATERMARK, Kind.JOIN],
    "static_join": [Kind.STATIC_JOIN],
    "ordered": [Kind.AGGREGATION, Kind.SORT, Kind.LIMIT],
    "changing": [],
    "ranked": [Kind.WATERMARK, Kind.WINDOW_FUNCTION],
    "with_twice": [Kind.WATERMARK, Kind.WATERMARK, Kind.UNION],
    "second_watermark": [Kind.WATERMARK, Kind.WATERMARK],
    "dedup": [Kind.WATERMARK, Kind.DEDUP],
    "dedup_by_key": [Kind.WATERMARK, Kind.DEDUP],
    "dedup_within": [Kind.WATERMARK, Kind.DEDUP_WITHIN_WATERMARK],
    "processor": [Kind.WATERMARK, Kind.STATE],
    "pandas_state": [Kind.WATERMARK, Kind.STATE],
    "per_batch": [Kind.GROUPED_MAP],
    "python_function": [],
    "lost": [Kind.WATERMARK, Kind.AGGREGATION],
    "after_state": [Kind.AGGREGATION, Kind.WATERMARK],
}


@pytest.mark.parametrize("name", sorted(file.stem for file in RECORDED.glob("*.json")))
def test_the_steps_of_every_recorded_plan(name: str) -> None:
    assert [each.kind for each in steps(name).operators] == KINDS[name]


@pytest.mark.parametrize("name", sorted(file.stem for file in RECORDED.glob("*.json")))
def test_no_delay_and_no_other_fact_is_null(name: str) -> None:
    def nulls(value: Any, way: str) -> list[str]:
        if isinstance(value, dict):
            return [each for key, inner in value.items() for each in nulls(inner, f"{way}.{key}")]
        if isinstance(value, list | tuple):
            return [each for number, inner in enumerate(value) for each in nulls(inner, f"{way}[{number}]")]
        return [way] if value is None else []

    found = [way for each in steps(name).operators for way in nulls(dataclasses.asdict(each), each.kind)]
    # A step that is no join has no join, and a key that is no window has none.
    assert {way.rpartition(".")[2] for way in found} <= {"join", "state", "window"}
    for each in steps(name).operators:
        assert all(time.delay_ms > 0 for time in each.event_times)


def test_windows_carry_size_slide_and_delay() -> None:
    (tumbling, ad) = only("tumbling", Kind.AGGREGATION).keys
    assert tumbling.window == Window(False, "shown", 10 * MINUTE, 10 * MINUTE)
    assert (tumbling.watermarked, tumbling.delay_ms) == (True, 2 * HOUR)
    assert (ad.name, ad.watermarked, ad.window) == ("ad", False, None)
    (sliding,) = only("sliding", Kind.AGGREGATION).keys
    assert sliding.window == Window(False, "shown", 10 * MINUTE, 5 * MINUTE)


def test_sessions_carry_their_gap_where_it_is_one() -> None:
    assert only("session", Kind.AGGREGATION).keys[0].window == Window(True, "clicked", 30 * MINUTE, 0)
    assert only("dynamic_session", Kind.AGGREGATION).keys[0].window == Window(True, "clicked", 0, 0)


@pytest.mark.parametrize(
    ("name", "taken_apart", "made_from", "type_"),
    [
        ("taken_apart", True, "shown", "timestamp"),
        ("truncated", False, "shown", "timestamp"),
        ("lost", False, "clicked", "struct"),
    ],
)
def test_keys_that_lost_their_watermark_tell_what_they_are_made_from(
    name: str, taken_apart: bool, made_from: str, type_: str
) -> None:
    (key,) = only(name, Kind.AGGREGATION).keys
    assert (key.watermarked, key.taken_apart, key.made_from, key.type) == (
        False,
        taken_apart,
        (made_from,),
        type_,
    )


@pytest.mark.parametrize("name", ["inner_join", "join_where", "left_join"])
def test_joins_tell_how_far_each_side_reaches(name: str) -> None:
    join = only(name, Kind.JOIN).join
    assert join is not None
    assert join.left.event_times == (EventTime("shown", 2 * HOUR),)
    assert join.right.event_times == (EventTime("clicked", 3 * HOUR),)
    assert (join.left.bounded, join.left.reach_ms) == (True, HOUR)
    assert (join.right.bounded, join.right.reach_ms) == (True, 0)
    assert join.type == ("left outer" if name == "left_join" else "inner")


def test_a_join_without_a_range_has_no_bound_and_one_on_windows_has() -> None:
    unbounded, windows = only("unbounded_join", Kind.JOIN).join, only("window_join", Kind.JOIN).join
    assert unbounded is not None
    assert windows is not None
    assert (unbounded.left.bounded, unbounded.right.bounded) == (False, False)
    assert (windows.watermark_in_keys, windows.left.bounded, windows.right.bounded) == (True, True, True)


def test_a_static_side_is_no_stream() -> None:
    join = only("static_join", Kind.STATIC_JOIN).join
    assert join is not None
    assert (join.type, join.left.streaming, join.right.streaming) == ("left outer", True, False)


def test_aggregates_and_sets_of_keys() -> None:
    (distinct,) = only("distinct_count", Kind.AGGREGATION).aggregates
    assert (distinct.function, distinct.distinct) == ("Count", True)
    assert only("cube", Kind.AGGREGATION).expanded
    assert [key.name for key in only("cube", Kind.AGGREGATION).keys] == ["ad", "user"]


def test_dedup_knows_which_of_its_columns_is_the_event_time() -> None:
    assert [(key.name, key.watermarked) for key in only("dedup", Kind.DEDUP).keys] == [
        ("user", False),
        ("clicked", True),
    ]


def test_a_processor_is_asked_for_its_variables() -> None:
    state = only("processor", Kind.STATE).state
    assert state is not None
    assert (state.call, state.mode, state.time) == ("transformWithState", "append", "event time")
    assert state.variables == (
        Variable("count", "value", "n bigint"),
        Variable("pages", "map", "page string → n bigint", HOUR),
        Variable("order", "list", "page string"),
    )
    assert [key.name for key in only("processor", Kind.STATE).keys] == ["user"]


def test_applyinpandaswithstate_tells_its_mode_and_timeout() -> None:
    state = only("pandas_state", Kind.STATE).state
    assert state is not None
    assert (state.call, state.mode, state.time) == ("applyInPandasWithState", "update", "processing time")


def test_what_changes_from_run_to_run_is_named_at_its_place() -> None:
    found = [(each.sql, each.line, each.column) for each in steps("changing").non_deterministic]
    assert found == [("rand(1)", 1, 14), ("monotonically_increasing_id()", 1, 28)]
    assert steps("python_function").python_functions == (
        PythonFunction("<lambda>", "row", deterministic=False),
    )


def test_steps_stand_in_their_table_at_their_line() -> None:
    mark, aggregation = steps("tumbling").operators
    assert (mark.table, mark.line) == ("impressions", 0)
    assert (aggregation.table, aggregation.line, aggregation.column) == ("tumbling", 1, 67)
    assert aggregation.inputs == (0,)


def test_what_with_names_twice_is_read_twice() -> None:
    assert steps("with_twice").streams == ("clicks", "clicks")


def test_a_sliding_window_is_more_than_row_by_row_under_its_own_name() -> None:
    assert [each.sql for each in steps("sliding").beyond_rows] == ["watermark", "sliding window", "GROUP BY"]
    assert [each.sql for each in steps("cube").beyond_rows] == ["UNPIVOT", "GROUP BY"]
