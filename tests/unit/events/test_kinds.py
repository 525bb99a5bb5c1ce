"""What a progress event counts, and which inputs hold a watermark back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.events import (
    QueryDetails,
    QueryIdle,
    QueryProgress,
    QuerySummary,
    RunFinished,
    RunStarted,
)
from headwater.events.counts import SourceCounts, TableCounts
from headwater.events.idle import Idle, InputMark, QueryInputs, held_back_by, idle_inputs, idle_sources
from headwater.events.kinds import of_pipeline


def progress(**more: object) -> QueryProgress:
    said = {"batchId": 3, "numInputRows": 5, "sources": [], **more}
    return QueryProgress(query="q", rows_out=2, progress=said)


def test_good_and_bad_rows_by_source() -> None:
    observed = {"headwater": {"rows_out": 2}, "headwater.rows.orders": {"read": 5, "bad": 2}}
    event = progress(observedMetrics=observed)
    assert event.source_counts == {"orders": SourceCounts(5, 2)}
    assert event.to_json()["sources"] == {"orders": {"read": 5, "good": 3, "bad": 2}}
    assert SourceCounts(5, 2) + SourceCounts(1, 1) == SourceCounts(6, 3)
    assert progress().source_counts == {}


def test_late_rows_by_operator_from_the_sources_on() -> None:
    operators = [
        {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 1},
        {"operatorName": "dedupe", "numRowsDroppedByWatermark": 2},
        {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0},
        {"operatorName": "newOne", "numRowsDroppedByWatermark": 4},
    ]
    late = progress(stateOperators=operators).late_rows
    assert late == {"newOne": 4, "aggregation 1": 0, "deduplication": 2, "aggregation 2": 1}
    assert progress().late_rows == {}


PROGRESS = {
    "batchId": 3,
    "numInputRows": 5,
    "sources": [],
    "observedMetrics": {
        "headwater": {"rows": 4},
        "headwater.rows.orders": {"read": 9, "bad": 1},
        "headwater.expect.priced": {"all rows": 5, "paid": 2, "rows": 0},
        "headwater.expect.empty": {"all rows": None, "paid": None},
    },
}


def test_what_failed_is_told_by_table_and_expectation() -> None:
    event = QueryProgress(query="out", rows_out=4, progress=PROGRESS)
    priced = TableCounts(5, {"paid": 2, "rows": 0})
    assert event.table_counts == {"priced": priced, "empty": TableCounts(0, {"paid": 0})}
    assert event.to_json()["expectations"]["priced"] == {"rows": 5, "failed": {"paid": 2, "rows": 0}}


def test_batches_add_up() -> None:
    total = TableCounts() + TableCounts(5, {"paid": 2}) + TableCounts(3, {"paid": 1, "new": 4})
    assert total == TableCounts(8, {"paid": 3, "new": 4})


def at(hour: int) -> datetime:
    return datetime(2026, 1, 1, hour, tzinfo=UTC)


def mark(reached: int | None, *sources: str) -> InputMark:
    return InputMark(sources, None if reached is None else at(reached))


def test_an_input_that_never_spoke_is_idle_while_another_does() -> None:
    found = idle_inputs({"a": 0}, [mark(10, "a"), mark(None, "b")], None)
    assert found == (Idle(("b",), None, None),)


def test_an_input_that_fell_silent_is_idle_since_its_last_batch() -> None:
    found = idle_inputs({"a": 5, "b": 3}, [mark(12, "a"), mark(9, "b")], at(9))
    assert found == (Idle(("b",), 3, at(9)),)


def test_an_input_that_brings_old_rows_is_slow_and_not_idle() -> None:
    assert idle_inputs({"a": 5, "b": 5}, [mark(12, "a"), mark(9, "b")], at(9)) == ()


@pytest.mark.parametrize(
    ("marks", "watermark", "sources"),
    [
        ([mark(12, "a"), mark(9, "b")], 9, ("b",)),
        ([mark(12, "a"), mark(None, "b")], None, ("b",)),
        # One above a union, and one that reads the same source again.
        ([mark(12, "a"), mark(9, "b", "c"), mark(9, "c")], 9, ("b", "c")),
        # No source is ahead, or none reports.
        ([mark(9, "a"), mark(9, "b")], 9, ()),
        ([], None, ()),
    ],
)
def test_the_sources_behind_the_others_hold_back_the_watermark(
    marks: list[InputMark], watermark: int | None, sources: tuple[str, ...]
) -> None:
    assert held_back_by(marks, None if watermark is None else at(watermark)) == sources


def test_rows_that_are_no_newer_leave_nobody_idle() -> None:
    assert idle_inputs({"a": 5, "b": 3}, [mark(9, "a"), mark(9, "b")], at(9)) == ()


def test_after_a_restart_nobody_waits_before_someone_is_ahead_of_the_kept_watermark() -> None:
    assert idle_inputs({"a": 7}, [mark(8, "a"), mark(None, "b")], at(9)) == ()
    assert idle_sources({"a": 8}, [mark(10, "a"), mark(None, "b")], at(9)) == ("b",)


def test_only_the_inputs_at_the_watermark_are_waited_for() -> None:
    marks = [mark(12, "a"), mark(9, "b"), mark(10, "c"), mark(None, "d")]
    assert idle_sources({"a": 5, "b": 3, "c": 3}, marks, at(9)) == ("b", "d")


def test_a_watermark_over_several_sources_waits_for_any_of_them() -> None:
    marks = [mark(12, "a"), mark(9, "b", "c")]
    assert idle_inputs({"a": 5, "b": 2, "c": 4}, marks, at(9)) == (Idle(("b", "c"), 4, at(9)),)
    assert idle_inputs({"a": 5, "b": 2, "c": 5}, marks, at(9)) == ()


def test_sources_without_a_watermark_do_not_count() -> None:
    assert idle_inputs({"a": 3, "b": 3, "z": 9}, [mark(12, "a"), mark(9, "b")], at(9)) == ()


def test_times_before_1970_are_not_ahead_of_no_watermark() -> None:
    old = InputMark(("a",), datetime(1960, 1, 1, tzinfo=UTC))
    assert idle_inputs({"a": 0}, [old, mark(None, "b")], None) == ()


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
    st.lists(st.one_of(st.none(), st.integers(0, 23)), min_size=1, max_size=3),
)
def test_under_the_fastest_policy_nobody_is_idle(delivered: dict[str, int], hours: list[int | None]) -> None:
    marks = [mark(hour, name) for hour, name in zip(hours, "abc", strict=False)]
    fastest = max((each.reached for each in marks if each.reached), default=None)
    assert idle_inputs(delivered, marks, fastest) == ()


@pytest.mark.parametrize(
    ("idle", "says"),
    [
        (
            Idle(("clicks",), 3, at(12)),
            "out: idle input `clicks` blocks the watermark (no rows since batch 3; "
            "watermark at 2026-01-01T12:00:00Z).",
        ),
        (
            Idle(("a", "b"), None, None),
            "out: idle inputs `a` and `b` block the watermark (no rows since the query started; "
            "no watermark yet).",
        ),
    ],
)
def test_it_is_said_in_one_line(idle: Idle, says: str) -> None:
    assert idle.problem("out").message == says
    assert idle.to_json("out")["message"] == says


def test_rows_go_by_the_names_of_the_sources() -> None:
    progress = {"sources": [{"numInputRows": 2}, {"numInputRows": 0}, {"numInputRows": 3}, {}]}
    assert QueryInputs(("a", "b", "a", "c")).rows_in(progress) == {"a": 5}


def test_the_queries_of_several_pipelines_have_the_same_names_in_every_event() -> None:
    summary = QuerySummary(
        status="finished",
        rows_in=1,
        rows_out=1,
        sources={},
        expectations={},
        late_rows={},
        batch=0,
        idle_inputs=(),
        problem=None,
    )
    started = RunStarted(
        run_id="r",
        pipeline="p",
        queries=("out",),
        run_dir="/run",
        spark_version="4.1.4",
        details={"out": QueryDetails(connector="noop")},
    )
    named = [
        of_pipeline(event, "p").to_json()
        for event in (
            started,
            QueryIdle(query="out"),
            RunFinished(run_id="r", exit_code=0, queries={"out": summary}),
        )
    ]
    assert (named[0]["queries"], [*named[0]["details"]]) == (["p.out"], ["p.out"])
    assert named[1]["query"] == "p.out"
    assert [*named[2]["queries"]] == ["p.out"]
