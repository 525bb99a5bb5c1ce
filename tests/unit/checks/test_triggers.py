"""Rules about triggers, over facts made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Query, Rule
from headwater.checks.triggers import (
    continuous_query,
    cores_missing,
    no_data_at_start,
    option_ignored_by_available_now,
    option_ignored_by_once,
    option_ignored_by_trigger,
    real_time_interval,
    real_time_mode,
    real_time_steps,
    trigger_sink,
    trigger_source,
)
from headwater.plan import QueryFacts, SourceFacts
from headwater.plan.facts import Refusal
from headwater.plan.operators import Expression, Operator, PythonFunction
from tests.unit.checks.facts import aggregation, facts, join, key, side, watermark

CONTINUOUS = "continuous 1 second"
REAL_TIME = "real time 5 minutes"
ABLE = SourceFacts("ticks", "rate", continuous=True, real_time=True, slots=1)


def query(*operators: Operator, trigger: str = CONTINUOUS, **overrides: Any) -> QueryFacts:
    """A query that a source and a sink are able to run under any trigger."""
    able = {"sources": (ABLE,), "sink_continuous": True, "sink_real_time": True, "spark_version": "4.1.4"}
    mode = {"mode": "update"} if trigger.startswith("real") else {}
    return facts(*operators, trigger=trigger, **(able | mode | overrides))


def codes(rule: Rule, known: QueryFacts) -> list[tuple[str, str]]:
    """What a rule says: each code, with what it is about."""
    shown = ("step", "call", "option", "name", "names", "connector", "mode", "trigger", "says")
    return [
        (
            each.problem.code,
            str(next(each.problem.params[name] for name in shown if name in each.problem.params)),
        )
        for each in rule.about(Query(known))
    ]


@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME])
def test_nothing_is_said_where_all_are_able(trigger: str) -> None:
    known = query(trigger=trigger)
    rules: list[Rule] = [
        trigger_sink, trigger_source, continuous_query, option_ignored_by_trigger, cores_missing, real_time_mode,
        real_time_interval, real_time_steps, no_data_at_start, option_ignored_by_once, option_ignored_by_available_now,
    ]  # fmt: skip
    assert [said for rule in rules for said in codes(rule, known)] == []


@pytest.mark.parametrize("trigger", ["default", "every 1 second", "available now", "Spark's own"])
def test_batches_ask_for_no_special_abilities(trigger: str) -> None:
    known = facts(aggregation(key("word")), trigger=trigger, beyond_rows=(Expression("GROUP BY"),))
    rules: list[Rule] = [trigger_sink, trigger_source, continuous_query, real_time_mode, real_time_steps]
    assert [said for rule in rules for said in codes(rule, known)] == []


@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME])
def test_sink_and_source_must_be_able(trigger: str) -> None:
    unable = query(
        trigger=trigger,
        connector="files",
        sources=(SourceFacts("lines", "files"), SourceFacts("names", "files", streaming=False)),
        sink_continuous=False,
        sink_real_time=False,
    )
    assert codes(trigger_sink, unable) == [("HW-TRIGGER-SINK-UNSUPPORTED", "`files`")]
    assert codes(trigger_source, unable) == [("HW-TRIGGER-SOURCE-UNSUPPORTED", "lines")]


def test_the_able_ones_are_named() -> None:
    (sink,) = trigger_sink.about(Query(query(sink_continuous=False)))
    assert str(sink.problem.params["hint"]).startswith(
        "Use `console`, `kafka`, `memory` or `noop`, or set a micro-batch trigger on sink `"
    )
    (source,) = trigger_source.about(Query(query(sources=(replace(ABLE, continuous=False),))))
    assert str(source.problem.params["hint"]).startswith(
        "Use `kafka`, `rate` or `socket`, or set a micro-batch trigger on sink `"
    )


def test_in_real_time_other_ones_are_able() -> None:
    known = query(trigger=REAL_TIME, sink_real_time=False, sources=(replace(ABLE, real_time=False),))
    (source,) = trigger_source.about(Query(known))
    assert str(source.problem.params["hint"]).startswith(
        "Use `kafka`, or set a micro-batch trigger on sink `"
    )
    (sink,) = trigger_sink.about(Query(known))
    assert str(sink.problem.params["hint"]).startswith(
        "Use `console` or `kafka`, or set a micro-batch trigger on sink `"
    )


class TestRowByRow:
    def test_each_step_and_each_look_at_the_clock_is_told(self) -> None:
        known = query(
            beyond_rows=(Expression("GROUP BY", "counts", 2), Expression("WITH")),
            clock_reads=(Expression("current_date()"),),
            trigger_refusal=Refusal("", "Continuous processing does not support Aggregate operations."),
        )
        assert codes(continuous_query, known) == [
            ("HW-CONTINUOUS-UNSUPPORTED", "GROUP BY"),
            ("HW-CONTINUOUS-UNSUPPORTED", "WITH"),
            ("HW-CONTINUOUS-TIME-UNSUPPORTED", "current_date()"),
        ]

    def test_what_no_rule_knows_is_told_in_the_words_of_spark(self) -> None:
        refusal = Refusal("", "Continuous processing does not support Strange operations.")
        (found,) = continuous_query.about(Query(query(trigger_refusal=refusal)))
        assert found.problem.code == "HW-CONTINUOUS-QUERY-UNSUPPORTED"
        assert found.problem.params["says"] == refusal.says.rstrip(".")

    def test_a_source_that_gives_batches_is_told_alone(self) -> None:
        refusal = Refusal("", "Continuous processing does not support StreamingRelation operations.")
        known = query(trigger_refusal=refusal, sources=(SourceFacts("lines", "files"),))
        assert codes(continuous_query, known) == []


def test_options_of_batches_do_nothing() -> None:
    known = query(sources=(replace(ABLE, idle_options=("ramp_up_time",)),))
    assert codes(option_ignored_by_trigger, known) == [("HW-OPTION-IGNORED-BY-TRIGGER", "ramp_up_time")]


@pytest.mark.parametrize(("slots", "said"), [(2, []), (3, [("HW-CORES-MISSING", "`ticks`")])])
def test_every_partition_needs_a_core(slots: int, said: list[tuple[str, str]]) -> None:
    assert codes(cores_missing, query(sources=(replace(ABLE, slots=slots),), cores=2)) == said


def test_the_partitions_of_all_sources_need_cores_together() -> None:
    two = tuple(replace(ABLE, name=name, slots=2) for name in ("ticks", "tocks"))
    said = [("HW-CORES-MISSING", "`ticks` and `tocks`")]
    assert codes(cores_missing, query(trigger=REAL_TIME, sources=two, cores=3)) == said
    assert codes(cores_missing, query(trigger=REAL_TIME, sources=two, cores=4)) == []


class TestRealTime:
    @pytest.mark.parametrize("mode", ["append", "complete"])
    def test_takes_update_mode_only(self, mode: str) -> None:
        assert codes(real_time_mode, query(trigger=REAL_TIME, mode=mode)) == [
            ("HW-REAL-TIME-MODE-UNSUPPORTED", mode)
        ]

    def test_lasts_five_seconds_at_least(self) -> None:
        assert codes(real_time_interval, query(trigger="real time 5 seconds")) == []
        said = codes(real_time_interval, query(trigger="real time 4 seconds"))
        assert said == [("HW-REAL-TIME-INTERVAL", "real time 4 seconds")]

    def test_keeps_no_state_before_4_3(self) -> None:
        known = query(aggregation(key("word")), trigger=REAL_TIME)
        assert codes(real_time_steps, known) == [("HW-REAL-TIME-UNSUPPORTED", "GROUP BY")]
        assert codes(real_time_steps, replace(known, spark_version="4.3.0")) == []

    def test_calls_no_python_and_moves_no_rows(self) -> None:
        known = query(
            trigger=REAL_TIME,
            python_functions=(PythonFunction("plus", "row"),),
            beyond_rows=(Expression("repartition"), Expression("explode")),
        )
        assert codes(real_time_steps, known) == [
            ("HW-REAL-TIME-UNSUPPORTED", "plus"),
            ("HW-REAL-TIME-UNSUPPORTED", "repartition"),
        ]

    def test_joins_static_rows_that_are_sent_to_all(self) -> None:
        equal = join(side("ticks"), side("names", streaming=False))
        assert codes(real_time_steps, query(watermark(), equal, trigger=REAL_TIME)) == []
        moved = query(watermark(), equal, trigger=REAL_TIME, trigger_refusal=Refusal("", "SortMergeJoin"))
        said = codes(real_time_steps, moved)
        assert said == [("HW-REAL-TIME-UNSUPPORTED", "INNER JOIN")]

    def test_reads_each_source_once(self) -> None:
        known = query(trigger=REAL_TIME, repeated_streams=("ticks",))
        assert codes(real_time_steps, known) == [("HW-REAL-TIME-UNSUPPORTED", "ticks")]


@pytest.mark.parametrize("trigger", ["available now", "once"])
def test_rows_made_while_running_are_not_there_yet(trigger: str) -> None:
    known = query(trigger=trigger, sources=(replace(ABLE, made_while_running=True),))
    (found,) = no_data_at_start.about(Query(known))
    assert found.problem.code == "HW-NO-DATA-AT-START"
    assert not found.is_error


def test_once_keeps_no_limit() -> None:
    limited = SourceFacts("lines", "files", options={"max_files_per_batch": "10", "path": "lines/"})
    assert codes(option_ignored_by_once, query(trigger="available now", sources=(limited,))) == []
    assert codes(option_ignored_by_once, query(trigger="once", sources=(limited,))) == [
        ("HW-OPTION-IGNORED-BY-ONCE", "max_files_per_batch")
    ]


@pytest.mark.parametrize(
    ("trigger", "held"),
    [("available now", ["min_rows_per_batch"]), ("once", ["min_rows_per_batch"]), ("every 1 second", [])],
)
def test_a_query_that_ends_does_not_wait_for_more_rows(trigger: str, held: list[str]) -> None:
    options = {"min_rows_per_batch": "9", "max_rows_per_batch": "99"}
    known = query(trigger=trigger, sources=(replace(ABLE, options=options),))
    assert codes(option_ignored_by_available_now, known) == [
        ("HW-OPTION-IGNORED-BY-AVAILABLE-NOW", option) for option in held
    ]
    limited = ["max_rows_per_batch"] if trigger == "once" else []
    assert codes(option_ignored_by_once, known) == [
        ("HW-OPTION-IGNORED-BY-ONCE", option) for option in limited
    ]
