from __future__ import annotations

from typing import Any

import pytest

from headwater.checks import Query
from headwater.checks.operations import (
    aggregation_in_subquery,
    dedup_needs_watermark,
    distinct_aggregate,
    offset_on_stream,
    pivot_on_stream,
    row_ids,
    sample_on_stream,
    set_operations,
    sorted_stream,
    union_with_static,
    unknown_operator,
    window_functions,
)
from headwater.checks.pitfalls import (
    dedup_after_aggregation,
    event_time_conflict,
    groups_split_by_batch,
    join_needs_equality,
    python_aggregate,
    session_needs_key,
)
from headwater.checks.rules import Finding
from headwater.checks.suppression import check_query, unexplained
from headwater.plan import QueryFacts, Refusal
from headwater.plan.operators import Aggregate, EventTime, Expression, Key, Kind, Operator
from tests.unit.checks.facts import aggregation, facts, join, key, side, watermark, window_key

REFUSED = Refusal("_LEGACY_ERROR_TEMP_3102", "no")
COUNTS = aggregation(key("word"))
ROWS = ("rows",)


def step(kind: Kind, name: str = "", inputs: tuple[int, ...] = (), details: str = "") -> Operator:
    return Operator(kind, name or kind.value, inputs, ROWS, details=details)


def found(rule: object, known: QueryFacts) -> list[Finding]:
    return list(rule.about(Query(known)))  # type: ignore[attr-defined]


def codes(rule: object, known: QueryFacts) -> list[str]:
    return [each.problem.code for each in found(rule, known)]


class TestSortedStream:
    SORT = step(Kind.SORT, "ORDER BY")

    def test_rows_of_a_stream_have_no_order(self) -> None:
        (finding,) = found(sorted_stream, facts(self.SORT, refusal=REFUSED))
        assert finding.problem.code == "HW-SORT-UNSUPPORTED"
        assert str(finding.problem.params["hint"]).startswith("Remove the sort")

    def test_results_are_sorted_in_complete_mode(self) -> None:
        sort = step(Kind.SORT, "ORDER BY", (0,))
        assert found(sorted_stream, facts(COUNTS, sort, mode="complete")) == []
        (finding,) = found(sorted_stream, facts(COUNTS, sort, mode="update", refusal=REFUSED))
        assert "Set `mode: complete`" in str(finding.problem.params["hint"])
        (finding,) = found(sorted_stream, facts(COUNTS, sort, modes=("append",), refusal=REFUSED))
        assert "complete" not in str(finding.problem.params["hint"])

    def test_results_that_spark_does_not_see_through_a_with(self) -> None:
        sort = step(Kind.SORT, "ORDER BY", (0,))
        refused = Refusal(REFUSED.condition, "Sorting is not supported")
        (finding,) = found(sorted_stream, facts(COUNTS, sort, mode="complete", refusal=refused))
        assert "`WITH`" in str(finding.problem.params["hint"])

    def test_a_random_split_is_called_by_its_name(self) -> None:
        known = facts(self.SORT, step(Kind.SAMPLE, inputs=(0,)), refusal=REFUSED)
        assert codes(sorted_stream, known) == ["HW-RANDOM-SPLIT-UNSUPPORTED"]
        assert codes(sample_on_stream, known) == []

    def test_static_rows_may_be_sorted(self) -> None:
        assert found(sorted_stream, facts(Operator(Kind.SORT, "ORDER BY"))) == []


@pytest.mark.parametrize(
    ("rule", "operator", "code"),
    [
        (offset_on_stream, step(Kind.OFFSET), "HW-OFFSET-UNSUPPORTED"),
        (window_functions, step(Kind.WINDOW_FUNCTION), "HW-WINDOW-FUNCTION-UNSUPPORTED"),
        (sample_on_stream, step(Kind.SAMPLE), "HW-SAMPLE-UNSUPPORTED"),
        (union_with_static, step(Kind.UNION, details="with static rows"), "HW-UNION-STATIC-UNSUPPORTED"),
        (set_operations, step(Kind.SET_OPERATION, "INTERSECT"), "HW-INTERSECT-UNSUPPORTED"),
        (dedup_needs_watermark, step(Kind.DEDUP_WITHIN_WATERMARK), "HW-DEDUP-NEEDS-WATERMARK"),
    ],
)
def test_what_a_stream_can_not_do(rule: object, operator: Operator, code: str) -> None:
    (finding,) = found(rule, facts(operator, refusal=REFUSED))
    assert finding.problem.code == code
    assert (finding.is_error, finding.suppressible, finding.sink) == (True, False, "out")


def test_a_union_of_streams_is_fine() -> None:
    assert found(union_with_static, facts(step(Kind.UNION))) == []


def test_rows_are_told_apart_within_a_watermark_where_there_is_one() -> None:
    within = Operator(Kind.DEDUP_WITHIN_WATERMARK, "within", (0,), ROWS, event_times=(EventTime("at", 1),))
    assert found(dedup_needs_watermark, facts(watermark(), within)) == []


class TestExcept:
    EXCEPT = step(Kind.SET_OPERATION, "EXCEPT", details="static rows after it")

    def test_static_rows_after_it_are_a_matter_of_mode(self) -> None:
        (finding,) = found(set_operations, facts(self.EXCEPT))
        assert "LEFT ANTI JOIN" in str(finding.problem.params["hint"])
        assert found(set_operations, facts(self.EXCEPT, mode="update")) == []

    def test_a_stream_after_it_is_never_possible(self) -> None:
        known = facts(step(Kind.SET_OPERATION, "EXCEPT"), mode="update", refusal=REFUSED)
        assert codes(set_operations, known) == ["HW-EXCEPT-UNSUPPORTED"]


class TestDistinctAggregate:
    def test_each_is_named_with_the_ways_around(self) -> None:
        distinct = (Aggregate("count(DISTINCT user)", "Count", True), Aggregate("sum(n)", "Sum"))
        known = facts(aggregation(key("word"), aggregates=distinct), mode="update", refusal=REFUSED)
        (finding,) = found(distinct_aggregate, known)
        remedy = str(finding.problem.params["hint"])
        assert finding.problem.params["sql"] == "count(DISTINCT user)"
        assert all(each in remedy for each in ("approx_count_distinct(user)", "size(collect_set(user))"))
        # The sum would lose rows.
        assert "distinct:" not in remedy

    def told(self, sql: str, *keys: Key, in_sql: bool = True, **overrides: Any) -> str:
        step = aggregation(*keys, aggregates=(Aggregate(sql, "Count", True),), **overrides)
        query = Query(facts(step, mode="update", refusal=REFUSED), text=lambda table: "SELECT …" * in_sql)
        (finding,) = distinct_aggregate.about(query)
        return str(finding.problem.params["hint"])

    def test_rows_are_told_apart_by_all_keys_and_the_column_itself(self) -> None:
        remedy = self.told("count(DISTINCT orders.user) AS users", key("status"), key("1"))
        assert "`deduplicate: [status, user]`" in remedy
        assert remedy.endswith("use `count(user)` on the result.")

    @pytest.mark.parametrize(
        ("sql", "keys"),
        [
            ("count(DISTINCT orders.user)", (window_key(watermarked=True),)),
            ("count(DISTINCT orders.user)", (window_key(taken_apart=True), key("status"))),
            ("count(DISTINCT orders.user)", (key("CAST(at AS DATE)"),)),
            ("count(DISTINCT lower(orders.user))", (key("status"),)),
            ("count(DISTINCT orders.user) FILTER (WHERE (orders.n > 2)) AS u", ()),
        ],
    )
    def test_what_is_made_on_the_way_can_not_tell_rows_apart_before(
        self, sql: str, keys: tuple[Key, ...]
    ) -> None:
        remedy = self.told(sql, *keys)
        assert "distinct:" not in remedy
        assert "dropDuplicates" not in remedy
        assert "approx_count_distinct(" in remedy

    def test_several_columns_are_counted_where_none_is_null(self) -> None:
        remedy = self.told("count(DISTINCT o.a, o.b)")
        assert "size(collect_set(struct(a, b)) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL))" in remedy
        assert "`deduplicate: [a, b]`" in remedy

    def test_a_filter_stays(self) -> None:
        assert "`size(collect_set(user) FILTER (WHERE …))`" in self.told(
            "count(DISTINCT t.user) FILTER (WHERE (t.n > 2))"
        )

    def test_without_sql_only_a_known_name_is_left_out(self) -> None:
        assert "collect_set(user)" in self.told("count(DISTINCT rows.user)", in_sql=False)
        assert "collect_set(address.city)" in self.told("count(DISTINCT address.city)", in_sql=False)

    def test_sets_of_keys_have_no_rows_to_tell_apart(self) -> None:
        assert "distinct:" not in self.told("count(DISTINCT user)", key("status"), expanded=True)

    def test_other_aggregates_have_other_ways(self) -> None:
        known = facts(aggregation(aggregates=(Aggregate("sum(DISTINCT n)", "Sum", True),)), refusal=REFUSED)
        (finding,) = found(distinct_aggregate, known)
        remedy = str(finding.problem.params["hint"])
        assert "approx_count_distinct" not in remedy
        assert "`aggregate(collect_set(n), …)`" in remedy
        assert "`deduplicate: [n]`" in remedy


def test_an_aggregation_that_only_the_optimizer_makes() -> None:
    refused = Refusal("STREAMING_OUTPUT_MODE.X", "No streaming aggregations without watermark")
    assert codes(aggregation_in_subquery, facts(refusal=refused)) == ["HW-AGGREGATION-IN-SUBQUERY"]
    assert codes(aggregation_in_subquery, facts(COUNTS, refusal=refused)) == []
    assert codes(aggregation_in_subquery, facts(refusal=REFUSED)) == []


def test_numbers_that_begin_anew_in_each_batch() -> None:
    expression = Expression("monotonically_increasing_id()", "t", 1, 8)
    known = facts(non_deterministic=(expression, Expression("rand()")), refusal=REFUSED)
    assert codes(row_ids, known) == ["HW-ROW-ID-UNSUPPORTED"]


def test_a_pivot_is_two_aggregations() -> None:
    pivot = aggregation(key("word"), functions=("PivotFirst",), inputs=(0,))
    assert codes(pivot_on_stream, facts(COUNTS, pivot, mode="update")) == ["HW-PIVOT-UNSUPPORTED"]
    assert codes(pivot_on_stream, facts(COUNTS, pivot)) == []


def test_an_aggregate_of_python_is_refused() -> None:
    mean = Aggregate("mean(n)", "mean", python="pandas")
    known = facts(aggregation(key("word"), aggregates=(mean,)), mode="update")
    (finding,) = found(python_aggregate, known)
    assert (finding.problem.params["sql"], finding.problem.params["form"]) == ("mean(n)", "pandas")
    assert found(python_aggregate, facts(COUNTS)) == []


def test_a_session_belongs_to_somebody() -> None:
    alone, kept = window_key(session=True, watermarked=True), key("user")
    assert codes(session_needs_key, facts(watermark(), aggregation(alone))) == ["HW-SESSION-NEEDS-KEY"]
    assert codes(session_needs_key, facts(watermark(), aggregation(alone, kept))) == []
    assert codes(session_needs_key, facts(watermark(), aggregation(window_key(watermarked=True)))) == []
    assert codes(session_needs_key, facts(aggregation())) == []


@pytest.mark.parametrize("constant", ["1", "'x'", "1.5BD", "true", "DATE '2024-01-01'", "CAST(NULL AS INT)"])
def test_a_constant_is_nobody(constant: str) -> None:
    alone = window_key(session=True, watermarked=True)
    (finding,) = found(session_needs_key, facts(watermark(), aggregation(key(constant, "int"), alone)))
    assert finding.problem.params["sql"] == "`session_window(at, …)`"


def test_a_constant_that_spark_computes_is_nobody_either() -> None:
    keys = (key("(1 + 1)"), window_key(session=True, watermarked=True))
    refused = Refusal("", "Global aggregation with session window in streaming query is not supported")
    assert codes(session_needs_key, facts(aggregation(*keys), refusal=refused)) == ["HW-SESSION-NEEDS-KEY"]
    assert codes(session_needs_key, facts(aggregation(*keys))) == []


def test_two_streams_need_an_equality() -> None:
    refused = Refusal("", "Stream-stream join without equality predicate is not supported")
    compared = join(side("a"), side("b"), condition="(a.at >= b.at) AND (a.at <= b.at)")
    assert codes(join_needs_equality, facts(compared, refusal=refused)) == ["HW-JOIN-NEEDS-EQUALITY"]
    assert codes(join_needs_equality, facts(join(side("a"), side("b")), refusal=refused)) == []


def test_a_side_of_a_join_has_one_event_time() -> None:
    refused = Refusal("", "More than one event time columns are available")
    both = side("a", event_times=(EventTime("at", 1), EventTime("window", 1)))
    (finding,) = found(event_time_conflict, facts(join(both, side("b", "bt")), refusal=refused))
    assert finding.problem.params["columns"] == "`at` and `window`"
    assert found(event_time_conflict, facts(join(both, side("b", "bt")))) == []


class TestOneBatchAtATime:
    def grouped(self, *keys: str, inputs: tuple[int, ...] = ()) -> Operator:
        return Operator(
            Kind.GROUPED_MAP, "applyInPandas", inputs, ROWS, keys=tuple(key(each) for each in keys)
        )

    def test_it_is_an_error_that_may_be_accepted(self) -> None:
        (finding,) = found(groups_split_by_batch, facts(self.grouped("word")))
        assert (finding.is_error, finding.suppressible) == (True, True)

    def test_a_cogroup_is_one_too(self) -> None:
        assert codes(groups_split_by_batch, facts(step(Kind.COGROUPED_MAP, "cogroup"))) == [
            "HW-GROUPS-SPLIT-BY-BATCH"
        ]

    def test_results_come_whole(self) -> None:
        by_word, by_other = self.grouped("word", inputs=(0,)), self.grouped("other", inputs=(0,))
        assert found(groups_split_by_batch, facts(COUNTS, by_other, mode="complete")) == []
        assert found(groups_split_by_batch, facts(COUNTS, by_word, mode="update")) == []
        assert len(found(groups_split_by_batch, facts(COUNTS, by_other, mode="update"))) == 1


class TestDedupOfResults:
    def dedup(self, *names: str) -> Operator:
        return Operator(Kind.DEDUP, "dropDuplicates", (0,), ROWS, keys=tuple(key(each) for each in names))

    @pytest.mark.parametrize("mode", ["update", "complete"])
    def test_only_first_results_would_pass(self, mode: str) -> None:
        assert codes(dedup_after_aggregation, facts(COUNTS, self.dedup("c"), mode=mode)) == [
            "HW-DEDUP-AFTER-AGGREGATION"
        ]

    def test_in_append_mode_the_same_keys_fail(self) -> None:
        windows = aggregation(window_key(watermarked=True), key("word"))
        assert codes(dedup_after_aggregation, facts(windows, self.dedup("window", "word"))) == [
            "HW-DEDUP-AFTER-AGGREGATION"
        ]
        assert codes(dedup_after_aggregation, facts(windows, self.dedup("word"))) == []


class TestUnexplained:
    def test_spark_speaks_where_no_rule_does(self) -> None:
        (finding,) = unexplained(Query(facts(refusal=REFUSED)), [])
        assert (finding.problem.code, finding.problem.params["says"]) == (
            "HW-STREAM-OPERATION-UNSUPPORTED",
            "no",
        )

    def test_modes_and_plans_have_their_own_sentences(self) -> None:
        by_mode = Refusal("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION", "Invalid mode: x. Not so")
        (finding,) = unexplained(Query(facts(refusal=by_mode)), [])
        assert (finding.problem.code, finding.problem.params["says"]) == ("HW-MODE-UNSUPPORTED", "not so")
        (finding,) = unexplained(Query(facts(refusal=Refusal("", "no plan"))), [])
        assert finding.problem.code == "HW-SPARK-ANALYSIS-FAILED"

    def test_a_rule_that_knows_the_cause_is_enough(self) -> None:
        known = facts(step(Kind.OFFSET), refusal=REFUSED)
        assert [each.problem.code for each in check_query(Query(known))] == ["HW-OFFSET-UNSUPPORTED"]

    def test_nothing_is_said_of_what_spark_takes(self) -> None:
        assert check_query(Query(facts())) == []


@pytest.mark.parametrize("name", ["GROUP BY", "sliding window", "LateralJoin", "Sample", "hint"])
def test_a_step_that_rules_know_is_no_news(name: str) -> None:
    assert found(unknown_operator, facts(beyond_rows=(Expression(name),))) == []


def test_a_step_that_no_rule_knows_is_named() -> None:
    unknown = Expression("NearestByJoin", "near", 1, 8)
    (finding,) = found(unknown_operator, facts(beyond_rows=(unknown,), spark_version="4.4.0"))
    assert (finding.code, finding.severity.value, finding.table) == ("HW-OPERATOR-UNKNOWN", "note", "near")
    assert finding.message.startswith("Sink `out`: operator NearestByJoin of Spark 4.4.0 was not checked.")
