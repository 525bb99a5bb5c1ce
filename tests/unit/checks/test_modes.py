from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.checks import Query
from headwater.checks.modes import (
    append_needs_watermark,
    chained_aggregation,
    complete_needs_aggregation,
    join_mode,
    limit_in_update_mode,
    session_windows_in_update_mode,
    union_in_complete_mode,
)
from headwater.checks.rules import Finding, other_modes, use_mode
from headwater.plan import QueryFacts
from headwater.plan.operators import EventTime, Kind, Operator
from tests.unit.checks.facts import aggregation, facts, join, key, side, watermark, window_key

AT = EventTime("at", 600_000)
COUNTS = aggregation(key("word"))
WINDOWS = aggregation(window_key(watermarked=True), key("word"))
ROWS = ("rows",)


def found(rule: object, known: QueryFacts) -> list[Finding]:
    return list(rule.about(Query(known)))  # type: ignore[attr-defined]


def told(rule: object, known: QueryFacts) -> list[str]:
    return [str(each.problem.params.get("hint")) for each in found(rule, known)]


class TestNeverFinal:
    def test_a_window_with_a_watermark_is_final_some_time(self) -> None:
        assert found(append_needs_watermark, facts(watermark(), WINDOWS)) == []

    @pytest.mark.parametrize("mode", ["update", "complete"])
    def test_other_modes_need_no_end(self, mode: str) -> None:
        assert found(append_needs_watermark, facts(COUNTS, mode=mode)) == []

    def test_keys_without_a_watermark_are_never_final(self) -> None:
        (finding,) = found(append_needs_watermark, facts(COUNTS))
        assert finding.is_error
        assert not finding.suppressible
        assert finding.problem.code == "HW-APPEND-NEEDS-WATERMARK"
        assert finding.problem.params["rows"] == "the row of each `word`"
        assert str(finding.problem.params["hint"]).startswith(
            "Set `mode: update` or `mode: complete`. To keep append mode, declare"
        )

    def test_the_time_with_the_watermark_is_named_where_it_is_not_among_the_keys(self) -> None:
        (finding,) = found(
            append_needs_watermark, facts(watermark(), aggregation(key("word"), event_times=(AT,)))
        )
        assert "`at`" in str(finding.problem.params["why"])
        assert "`GROUP BY window(at, '10 minutes'), …`" in str(finding.problem.params["hint"])

    def test_a_window_over_a_time_without_a_watermark_asks_for_one(self) -> None:
        (finding,) = found(append_needs_watermark, facts(aggregation(window_key())))
        assert "declare a watermark on `at`" in str(finding.problem.params["hint"])

    def test_one_row_of_all_is_never_final(self) -> None:
        (finding,) = found(append_needs_watermark, facts(aggregation()))
        assert finding.problem.params["rows"] == "the result over all rows"

    def test_a_sink_that_takes_append_only_is_not_told_another_mode(self) -> None:
        (remedy,) = told(append_needs_watermark, facts(COUNTS, modes=("append",)))
        assert remedy.startswith("Declare a watermark on a timestamp column")

    def test_distinct_rows_are_an_aggregation_too(self) -> None:
        distinct = Operator(Kind.DISTINCT, "SELECT DISTINCT", streams=ROWS, keys=(key("word"),))
        (finding,) = found(append_needs_watermark, facts(distinct))
        assert "no watermark" in str(finding.problem.params["why"])

    def test_a_watermark_below_is_named_though_distinct_rows_have_left_its_column_out(self) -> None:
        distinct = Operator(Kind.DISTINCT, "SELECT DISTINCT", (0,), ROWS, keys=(key("user"),))
        (finding,) = found(append_needs_watermark, facts(watermark(), distinct))
        assert "the column with the watermark, `at`, is not among" in str(finding.problem.params["why"])
        assert "`{reads: …, deduplicate: [user]}`" in str(finding.problem.params["hint"])
        assert "UNION" not in str(finding.problem.params["hint"])

    def test_a_union_gives_each_row_once_by_a_table_of_its_own(self) -> None:
        union = Operator(Kind.UNION, "UNION", (0,), ROWS)
        distinct = Operator(Kind.DISTINCT, "SELECT DISTINCT", (1,), ROWS, keys=(key("user"), key("n")))
        (remedy,) = told(append_needs_watermark, facts(watermark(), union, distinct))
        assert "use `UNION ALL`" in remedy
        assert "deduplicate: [user, n]" in remedy

    def test_a_lower_aggregation_counts_as_well(self) -> None:
        upper = aggregation(window_key(watermarked=True), inputs=(0,))
        assert [
            each.problem.params["rows"] for each in found(append_needs_watermark, facts(COUNTS, upper))
        ] == ["the row of each `word`"]

    def test_a_window_taken_apart_is_left_to_the_rule_that_rewrites_it(self) -> None:
        apart = facts(watermark(), aggregation(window_key(taken_apart=True), inputs=(0,)))
        assert found(append_needs_watermark, apart) == []
        assert "append" not in other_modes(replace(apart, mode="complete"))

    def test_static_rows_are_not_meant(self) -> None:
        assert found(append_needs_watermark, facts(aggregation(key("word"), streams=()))) == []


class TestNothingToComplete:
    def test_rows_that_are_not_kept_can_not_be_given_again(self) -> None:
        (finding,) = found(complete_needs_aggregation, facts(mode="complete"))
        assert finding.problem.code == "HW-COMPLETE-NEEDS-AGGREGATION"
        assert (
            finding.problem.params["hint"] == "Set `mode: append` or `mode: update`, or aggregate (GROUP BY)."
        )

    def test_an_aggregation_is_kept(self) -> None:
        assert found(complete_needs_aggregation, facts(COUNTS, mode="complete")) == []


class TestSessionsInUpdate:
    SESSIONS = aggregation(window_key(session=True, watermarked=True), key("user"))

    def test_sessions_have_no_update_mode(self) -> None:
        known = facts(watermark(), self.SESSIONS, mode="update")
        assert told(session_windows_in_update_mode, known) == ["Set `mode: append` or `mode: complete`."]

    def test_without_a_watermark_they_are_not_in_append_mode_either(self) -> None:
        sessions = aggregation(window_key(session=True), key("user"))
        (remedy,) = told(session_windows_in_update_mode, facts(sessions, mode="update"))
        assert remedy.startswith("Set `mode: complete`, or declare a watermark")

    def test_by_a_part_of_its_window_no_session_grows(self) -> None:
        start = window_key(session=True, taken_apart=True, name="start", made_from=("at",))
        parts = aggregation(key("1"), key("user"), start, inputs=(0,))
        (finding,) = found(session_windows_in_update_mode, facts(watermark(), parts, mode="update"))
        assert finding.problem.params["keys"] == "`at` by `user`"
        assert finding.problem.params["hint"] == (
            "Group by the whole `session_window(…)`, not by one of its fields, and set `mode: append` or "
            "`mode: complete`."
        )
        (remedy,) = told(session_windows_in_update_mode, facts(replace(parts, inputs=()), mode="update"))
        assert ", and set `mode: complete`, or declare a watermark" in remedy

    def test_sessions_of_nobody_have_their_time_alone(self) -> None:
        sessions = aggregation(key("1"), window_key(session=True, watermarked=True))
        (finding,) = found(session_windows_in_update_mode, facts(sessions, mode="update"))
        assert finding.problem.params["keys"] == "`at`"

    @pytest.mark.parametrize("mode", ["append", "complete"])
    def test_other_modes_are_fine(self, mode: str) -> None:
        assert found(session_windows_in_update_mode, facts(watermark(), self.SESSIONS, mode=mode)) == []


class TestResultsCountedAgain:
    SECOND = aggregation(window_key(watermarked=True), inputs=(1,))

    def test_a_second_aggregation_is_for_append_mode(self) -> None:
        known = facts(watermark(), WINDOWS, self.SECOND, mode="complete")
        (finding,) = found(chained_aggregation, known)
        assert finding.problem.params["earlier"] == "the aggregation by `window` and `word`"
        assert str(finding.problem.params["hint"]).startswith(
            "Set `mode: append`, or write the earlier result"
        )

    def test_in_append_mode_results_come_once(self) -> None:
        assert found(chained_aggregation, facts(watermark(), WINDOWS, self.SECOND)) == []

    def test_without_an_end_there_is_no_mode_for_it(self) -> None:
        (remedy,) = told(
            chained_aggregation, facts(COUNTS, aggregation(key("c"), inputs=(0,)), mode="update")
        )
        assert remedy.startswith("Write the earlier result to a separate sink")


class TestJoinInMode:
    def test_an_outer_join_is_in_append_mode(self) -> None:
        outer = join(side("shown", "at"), side("clicked", "then"), "left outer")
        (finding,) = found(join_mode, facts(outer, mode="update"))
        assert (finding.problem.code, finding.problem.params["type"]) == (
            "HW-JOIN-MODE-UNSUPPORTED",
            "left outer",
        )

    def test_an_inner_join_in_update_mode_depends_on_the_version(self) -> None:
        inner = join(side("shown"), side("clicked"))
        assert len(found(join_mode, facts(inner, mode="update", spark_version="4.1.4"))) == 1
        assert found(join_mode, facts(inner, mode="update", spark_version="4.3.0")) == []
        assert found(join_mode, facts(inner)) == []

    def test_a_join_with_static_rows_is_free(self) -> None:
        static = join(side("shown"), side("ads", streaming=False))
        assert found(join_mode, facts(static, mode="update")) == []


def test_a_limit_is_not_in_update_mode() -> None:
    limit = Operator(Kind.LIMIT, "LIMIT", streams=ROWS, details="10")
    (finding,) = found(limit_in_update_mode, facts(limit, mode="update"))
    assert finding.problem.code == "HW-LIMIT-MODE-UNSUPPORTED"
    assert str(finding.problem.params["hint"]).startswith("Set `mode: append`, or")
    assert found(limit_in_update_mode, facts(limit)) == []


def test_a_union_of_results_and_rows_is_not_in_complete_mode() -> None:
    union = Operator(Kind.UNION, "UNION", (0,), ROWS, details="in part aggregated")
    known = facts(COUNTS, union, mode="complete")
    assert [each.problem.code for each in found(union_in_complete_mode, known)] == [
        "HW-UNION-MODE-UNSUPPORTED"
    ]
    assert found(union_in_complete_mode, facts(COUNTS, union, mode="update")) == []
    whole = Operator(Kind.UNION, "UNION", (0,), ROWS)
    assert found(union_in_complete_mode, facts(COUNTS, whole, mode="complete")) == []


def test_another_mode_is_one_that_the_sink_takes_and_no_rule_has_something_against() -> None:
    assert other_modes(facts(COUNTS)) == ["update", "complete"]
    assert other_modes(facts(COUNTS, modes=("append", "complete"))) == ["complete"]
    assert other_modes(facts(mode="complete")) == ["append", "update"]
    assert use_mode(facts(COUNTS, modes=("append",))) == "Change the query."
