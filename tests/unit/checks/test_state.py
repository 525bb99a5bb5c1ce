from __future__ import annotations

from typing import Any

import pytest

from headwater.checks import Query
from headwater.checks import state as module
from headwater.checks.state import (
    PROVIDER,
    aggregation_after_update,
    available_now_unbounded,
    protobuf_missing,
    state_after_aggregation,
    state_mode,
    state_operator_conflict,
    state_store,
    timers_need_watermark,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import ArbitraryState, EventTime, Kind, Operator
from tests.unit.checks.facts import aggregation, facts, key

OLDER, NEWER = "applyInPandasWithState", "transformWithState"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def state(call: str = NEWER, mode: str = "update", time: str = "none", **overrides: Any) -> Operator:
    return Operator(Kind.STATE, call, streams=("rows",), state=ArbitraryState(call, mode, time), **overrides)


def codes(rule: object, known: QueryFacts) -> list[str]:
    return [each.problem.code for each in rule.about(Query(known))]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "given", "mode", "fits"),
    [
        (OLDER, "update", "update", True),
        (OLDER, "append", "append", True),
        (OLDER, "update", "append", False),
        (OLDER, "append", "update", False),
        (NEWER, "update", "append", False),
        (NEWER, "append", "update", True),
    ],
)
def test_the_mode_of_the_function_and_the_mode_of_the_sink(
    call: str, given: str, mode: str, fits: bool
) -> None:
    assert codes(state_mode, facts(state(call, given), mode=mode)) == ([] if fits else ["HW-STATE-MODE"])


def test_a_sink_without_that_mode_is_not_told_it() -> None:
    (finding,) = state_mode.about(Query(facts(state(), modes=("append",))))
    assert finding.problem.params["hint"] == (
        'Call `transformWithState` with `outputMode="append"` if its rows are final.'
    )


def test_changes_are_not_to_be_aggregated() -> None:
    counted = aggregation(key("word"), inputs=(0,))
    assert codes(aggregation_after_update, facts(state(), counted, mode="complete")) == [
        "HW-AGGREGATION-AFTER-UPDATE"
    ]
    assert codes(aggregation_after_update, facts(state(mode="append"), counted, mode="complete")) == []
    assert codes(state_mode, facts(state(), counted, mode="complete")) == []


def test_the_older_call_can_not_read_results() -> None:
    counts = aggregation(key("word"))
    after = facts(counts, state(OLDER, "append", inputs=(0,)))
    assert codes(state_after_aggregation, after) == ["HW-STATE-AFTER-AGGREGATION"]
    assert codes(state_after_aggregation, facts(counts, state(NEWER, "append", inputs=(0,)))) == []


def test_the_older_call_comes_once() -> None:
    assert codes(state_operator_conflict, facts(state(OLDER), state(OLDER, inputs=(0,)))) == [
        "HW-STATE-OPERATOR-CONFLICT"
    ]
    assert codes(state_operator_conflict, facts(state(OLDER), state(NEWER, inputs=(0,)))) == []


def test_event_time_needs_a_watermark() -> None:
    assert codes(timers_need_watermark, facts(state(time="event time"))) == ["HW-TIMERS-NEED-WATERMARK"]
    marked = state(time="event time", event_times=(EventTime("at", 1),))
    assert codes(timers_need_watermark, facts(marked)) == []
    assert codes(timers_need_watermark, facts(state(time="processing time"))) == []


def test_what_waits_by_the_clock_never_ends() -> None:
    known = facts(state(time="processing time"), trigger="available now")
    (finding,) = available_now_unbounded.about(Query(known))
    assert (finding.problem.code, finding.suppressible) == ("HW-AVAILABLE-NOW-UNBOUNDED", True)
    assert codes(available_now_unbounded, facts(state(time="processing time"))) == []
    assert codes(available_now_unbounded, facts(state(time="event time"), trigger="available now")) == []


def test_several_variables_need_rocksdb() -> None:
    known = facts(state(), settings={PROVIDER: HDFS})
    (finding,) = state_store.about(Query(known))
    assert finding.problem.params["provider"] == "HDFSBackedStateStoreProvider"
    assert codes(state_store, facts(state(OLDER), settings={PROVIDER: HDFS})) == []
    assert codes(state_store, facts(state(), settings={PROVIDER: "x.RocksDBStateStoreProvider"})) == []
    assert codes(state_store, facts(state())) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes(protobuf_missing, facts(state())) == []
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert codes(protobuf_missing, facts(state())) == ["HW-PROTOBUF-MISSING"]
    assert codes(protobuf_missing, facts(state(OLDER))) == []
