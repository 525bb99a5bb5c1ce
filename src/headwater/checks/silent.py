"""Rules about what Spark's checker lets pass, and what then dies, stays silent or gives wrong rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from headwater.checks.operations import told
from headwater.checks.rule import Finding, Query, QueryRule, Severity
from headwater.checks.steps import (
    AGGREGATING,
    DEDUP,
    aggregated_below,
    has_equality,
    is_constant,
    is_session,
    names_of,
    on_streams,
)
from headwater.errors.catalogue.checks import (
    CROSS_JOIN,
    DEDUP_OF_RESULTS,
    GLOBAL_SESSION,
    JOIN_WITHOUT_EQUALITY,
    ONE_BATCH_AT_A_TIME,
    PYTHON_AGGREGATE,
    RANGE_JOIN,
    SEVERAL_EVENT_TIMES,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import Join, Kind, Operator

# What Spark puts behind the name of a column in such an aggregate.
_NUMBER = re.compile(r"#\d+L?")
_GLOBAL = "Global aggregation with session window"
_SEVERAL = "More than one event time columns"


class PythonAggregate(QueryRule):
    """A pandas or Arrow function that aggregates needs all rows of a group at once. Spark keeps only partial
    results between batches, and such a function has none: the query dies in its first batch."""

    entries = {PYTHON_AGGREGATE: Severity.ERROR}
    example = """
        @pandas_udf("double")
        def middle(n: pd.Series) -> float: ...


        def middles(orders):
            return orders.groupBy("shop").agg(middle("amount"))
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for _, step in on_streams(query.facts, Kind.AGGREGATION):
            for aggregate in step.aggregates:
                if aggregate.python:
                    sql = _NUMBER.sub("", aggregate.sql)
                    yield told(query, PYTHON_AGGREGATE, step, sql=sql, form=aggregate.python)


class GlobalSession(QueryRule):
    """A session belongs to somebody. Spark can't merge sessions of all rows together on a stream: the query
    passes its checker and dies at its first batch."""

    entries = {GLOBAL_SESSION: Severity.ERROR}
    example = """
        tables:
          busy: SELECT session_window, count(*) AS n FROM clicks GROUP BY session_window(at, '5 minutes')
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for _, step in on_streams(query.facts, Kind.AGGREGATION):
            sessions = [key.window for key in step.keys if key.window and key.window.session]
            alone = all(is_session(key) or is_constant(key) for key in step.keys)
            if sessions and (alone or _refused_as_global(query.facts)):
                sql = f"`session_window({sessions[0].column}, …)`"
                yield told(query, GLOBAL_SESSION, step, sql=sql)


def _refused_as_global(facts: QueryFacts) -> bool:
    """Whether Spark sees no other key: it finds constants that are computed, too."""
    return facts.refusal is not None and _GLOBAL in facts.refusal.says


class JoinWithoutEquality(QueryRule):
    """Two streams are joined by what is equal in both: by that Spark finds the rows that it has kept. A
    condition of comparisons alone passes its checker and dies at the first batch."""

    entries = {JOIN_WITHOUT_EQUALITY: Severity.ERROR}
    example = """
        tables:
          near: SELECT * FROM quakes q JOIN alarms a ON a.at BETWEEN q.at AND q.at + INTERVAL 1 MINUTE
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for _, step in on_streams(query.facts, Kind.JOIN):
            compares = step.join is not None and not has_equality(step.join)
            if compares and _dies_in_planning(query.facts):
                yield told(query, JOIN_WITHOUT_EQUALITY, step)


def _dies_in_planning(facts: QueryFacts) -> bool:
    return facts.refusal is not None and "without equality predicate" in facts.refusal.says


class SeveralEventTimes(QueryRule):
    """What keeps state clears it by one event time. Where several columns with a watermark come to it (a
    window beside the time that it is made of, the times of both sides of a join), Spark does not know by
    which to go, and the query dies in its first batch."""

    entries = {SEVERAL_EVENT_TIMES: Severity.ERROR}
    example = """
        tables:
          shown: SELECT *, window(shown_at, '10 minutes') AS w FROM impressions   # shown_at, too, is in the *
          clicked: SELECT window(clicked_at, '10 minutes') AS w, ad FROM clicks
          both: SELECT * FROM shown JOIN clicked USING (w, ad)
    """

    def about(self, query: Query) -> Iterator[Finding]:
        # In complete mode an aggregation clears nothing.
        if query.facts.mode != "complete":
            for step in (each for each in query.facts.operators if each.clashing):
                yield _several(query, step, step.clashing)
        refusal = query.facts.refusal
        if refusal is not None and _SEVERAL in refusal.says:
            for _, step in on_streams(query.facts, Kind.JOIN):
                for side in (step.join.left, step.join.right) if step.join else ():
                    if len(side.event_times) > 1:
                        yield _several(query, step, [each.column for each in side.event_times])
                        return


def _several(query: Query, step: Operator, columns: Iterable[str]) -> Finding:
    names = dict.fromkeys(f"`{each}`" for each in columns)
    operator = "a side of the join" if step.kind is Kind.JOIN else f"the `{step.name}`"
    return told(query, SEVERAL_EVENT_TIMES, step, operator=operator, columns=" and ".join(names))


class OneBatchAtATime(QueryRule):
    """`applyInPandas` and its like are called with the rows that one batch has of a group. Spark accepts that
    on a stream; where a batch begins and ends is chance, and so are the results."""

    entries = {ONE_BATCH_AT_A_TIME: Severity.ERROR}
    example = """
        def summed(orders):
            return orders.groupBy("shop").applyInPandas(sum_up, "shop string, total double")
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        for place, step in on_streams(facts, Kind.GROUPED_MAP, Kind.COGROUPED_MAP):
            if not _sees_whole_groups(facts, place, step):
                problem = ONE_BATCH_AT_A_TIME.at(query.where(step), call=step.name)
                yield Finding(problem, sink=facts.sink, table=step.table, acceptable=True)


def _sees_whole_groups(facts: QueryFacts, place: int, step: Operator) -> bool:
    """After an aggregation a group may come whole: all results, those of a key, those of a closed window."""
    if step.kind is Kind.COGROUPED_MAP or not aggregated_below(facts, place):
        return False
    if facts.mode == "complete":
        return True
    inputs = [facts.operators[each] for each in step.inputs]
    names = {key.name for key in step.keys}
    whole = all(each.kind in AGGREGATING and {key.name for key in each.keys} <= names for each in inputs)
    closed = facts.mode == "append" and any(key.watermarked for key in step.keys)
    return bool(inputs) and (whole or closed)


class DedupOfResults(QueryRule):
    """An aggregation has one row for each key already. To tell its results apart again passes Spark's
    checker; then it dies in its first batch, or drops every later result of a key, or ends with nothing."""

    entries = {DEDUP_OF_RESULTS: Severity.ERROR}
    example = """
        def once(clicks):
            return clicks.groupBy("user").count().dropDuplicates(["user"])
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        for place, step in on_streams(facts, *DEDUP):
            why = why_not_apart(facts, place)
            if not why:
                continue
            remedy = "Take it out: an aggregation gives one row for each of its keys."
            yield told(
                query,
                DEDUP_OF_RESULTS,
                step,
                call=step.name,
                keys=names_of(step.keys),
                why=why,
                hint=remedy,
            )


def why_not_apart(facts: QueryFacts, place: int) -> str:
    """Why a step can't tell rows apart that are the results of an aggregation; empty where it can."""
    if not aggregated_below(facts, place):
        return ""
    if facts.mode != "append":
        return f"in {facts.mode} mode only the first result of each would pass, and no later one"
    if _same_keys(facts, facts.operators[place]):
        return "these are its keys already, and Spark fails with both in one step"
    return ""


def _same_keys(facts: QueryFacts, step: Operator) -> bool:
    below = [facts.operators[each] for each in step.inputs]
    return any(
        each.kind in AGGREGATING and [key.name for key in each.keys] == [key.name for key in step.keys]
        for each in below
    )


# Joins that make many rows of one.

_LATERAL = "LateralJoin"
# These give a row once or not at all, however many partners it has.
_NEVER_MORE = ("semi", "anti", "existence")


class FanOut(QueryRule):
    """A join with static rows that compares nothing by equality gives each row of the stream as often as
    there are static rows that fit; without a condition, with every one of them."""

    entries = {CROSS_JOIN: Severity.WARNING, RANGE_JOIN: Severity.ADVICE}
    example = """
        tables:
          priced: SELECT o.id, p.price FROM orders o CROSS JOIN prices p
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for operator in query.facts.operators:
            join = operator.join
            if join is None or not _may_fan_out(operator, join):
                continue
            told = {"join": operator.name, "static": _static(query.facts)}
            if join.condition:
                problem = RANGE_JOIN.at(query.where(operator), condition=join.condition, **told)
                severity = Severity.ADVICE
            elif _is_lateral(query.facts, operator):
                continue
            else:
                problem, severity = CROSS_JOIN.at(query.where(operator), **told), Severity.WARNING
            yield Finding(problem, severity, query.facts.sink, operator.table)


def _may_fan_out(operator: Operator, join: Join) -> bool:
    # Two streams without an equality are refused by Spark itself.
    if operator.kind is not Kind.STATIC_JOIN or not operator.streams:
        return False
    if has_equality(join) or any(each in join.type for each in _NEVER_MORE):
        return False
    return not (join.left.single or join.right.single)


def _is_lateral(facts: QueryFacts, operator: Operator) -> bool:
    """Whether its condition stands inside: `LATERAL (SELECT … WHERE id = o.id)`."""
    here = (operator.table, operator.line, operator.column)
    laterals = [each for each in facts.beyond_rows if each.sql == _LATERAL]
    return here in [(each.table, each.line, each.column) for each in laterals]


def _static(facts: QueryFacts) -> str:
    names = [each.name for each in facts.sources if not each.streaming]
    return f"`{names[0]}`" if len(names) == 1 else "the static side"
