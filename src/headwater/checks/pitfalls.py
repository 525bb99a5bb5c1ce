"""Rules about queries that pass Spark's checker and then fail, emit nothing or emit wrong rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from headwater.checks.rules import (
    AGGREGATING,
    DEDUP,
    Match,
    Query,
    Severity,
    aggregated_below,
    has_equality,
    is_constant,
    is_session,
    names_of,
    rule,
)
from headwater.errors import Entry
from headwater.plan import QueryFacts
from headwater.plan.operators import Kind, Operator
from headwater.values import quoted

# The suffix that Spark adds to the name of a column in such an aggregate.
_NUMBER = re.compile(r"#\d+L?")
_GLOBAL = "Global aggregation with session window"
_SEVERAL = "More than one event time columns"


@rule(
    "HW-PYTHON-AGGREGATE-UNSUPPORTED",
    "`{sql}` is a Python aggregate ({form}), which is not supported on a stream: it needs all rows of a "
    "group in one batch.",
    "Store what it needs with `transformWithState`, or use built-in Spark aggregates, such as `avg` or "
    "`percentile_approx`.",
    example="""
        @pandas_udf("double")
        def middle(n: pd.Series) -> float: ...


        def middles(orders):
            return orders.groupBy("shop").agg(middle("amount"))
    """,
)
def python_aggregate(query: Query) -> Iterator[Match]:
    """A pandas or Arrow UDF that aggregates needs all rows of a group in one batch. Between batches, Spark
    stores only partial results, and such a function has none. The query fails in its first batch."""
    for step in query.facts.steps(Kind.AGGREGATION):
        for aggregate in step.aggregates:
            if aggregate.python:
                yield query.match(step, sql=_NUMBER.sub("", aggregate.sql), form=aggregate.python)


@rule(
    "HW-SESSION-NEEDS-KEY",
    "A session window as the only key is not supported on a stream: {sql}.",
    "Add another key, such as the user of the session. For one session over all rows, add a constant column "
    "first: `… FROM (SELECT 1 AS one, * FROM orders) GROUP BY one, session_window(…)` (in PySpark, "
    "`withColumn('one', lit(1))`).",
    example="""
        tables:
          busy: SELECT session_window, count(*) AS n FROM clicks GROUP BY session_window(at, '5 minutes')
    """,
)
def session_needs_key(query: Query) -> Iterator[Match]:
    """A session belongs to a key, such as a user. On a stream, Spark cannot merge sessions over all rows: the
    query passes Spark's checker and fails in its first batch."""
    for step in query.facts.steps(Kind.AGGREGATION):
        sessions = [key.window for key in step.keys if key.window and key.window.session]
        alone = all(is_session(key) or is_constant(key) for key in step.keys)
        # Spark also detects computed constants, and then finds no other key.
        if sessions and (alone or query.facts.refused_for(_GLOBAL)):
            yield query.match(step, sql=f"`session_window({sessions[0].column}, …)`")


@rule(
    "HW-JOIN-NEEDS-EQUALITY",
    "A join of two streams requires an equality in its condition, but this one has only other comparisons.",
    "Add an equality: `a.id = b.id AND …`. If the rows have no common column, compute one, such as the "
    "hour: `date_trunc('hour', a.at) = date_trunc('hour', b.at)`.",
    example="""
        tables:
          near: SELECT * FROM quakes q JOIN alarms a ON a.at BETWEEN q.at AND q.at + INTERVAL 1 MINUTE
    """,
)
def join_needs_equality(query: Query) -> Iterator[Match]:
    """Spark uses an equality in the join condition to find the stored rows that match. A condition with only
    other comparisons passes Spark's checker and fails in the first batch."""
    refused = query.facts.refused_for("without equality predicate")
    for step in query.facts.steps(Kind.JOIN) if refused else ():
        if step.join is not None and not has_equality(step.join):
            yield query.match(step)


@rule(
    "HW-EVENT-TIME-CONFLICT",
    "Several columns with a watermark reach {operator} ({columns}), but Spark supports one. The query would "
    "fail in its first batch.",
    "Keep only one of them: list the columns in the SELECT, or `drop` the others in PySpark.",
    example="""
        tables:
          shown: SELECT *, window(shown_at, '10 minutes') AS w FROM impressions   # * includes shown_at
          clicked: SELECT window(clicked_at, '10 minutes') AS w, ad FROM clicks
          both: SELECT * FROM shown JOIN clicked USING (w, ad)
    """,
)
def event_time_conflict(query: Query) -> Iterator[Match]:
    """A stateful operator removes its state by one event time. If several columns with a watermark reach it,
    Spark does not know which one to use, and the query fails in its first batch. Examples are a window
    together with its time column, or the times of both sides of a join."""

    def several(step: Operator, columns: Iterable[str]) -> Match:
        operator = "a side of the join" if step.kind is Kind.JOIN else f"the `{step.name}`"
        return query.match(step, operator=operator, columns=quoted(dict.fromkeys(columns), " and "))

    # In complete mode, an aggregation removes no state.
    if query.facts.mode != "complete":
        yield from (several(each, each.clashing) for each in query.facts.operators if each.clashing)
    if query.facts.refused_for(_SEVERAL):
        joins = [step for step in query.facts.steps(Kind.JOIN) if step.join]
        sides = ((step, side) for step in joins if step.join for side in (step.join.left, step.join.right))
        unclear = ((step, side.event_times) for step, side in sides if len(side.event_times) > 1)
        for step, times in islice(unclear, 1):
            yield several(step, [each.column for each in times])


@rule(
    "HW-GROUPS-SPLIT-BY-BATCH",
    "`{call}` on a stream receives only the rows of one batch. A group that spans several batches is split "
    "arbitrarily.",
    "Use `transformWithState`, which stores state per group. If you need results per batch, suppress this "
    "finding: `suppress: {{HW-GROUPS-SPLIT-BY-BATCH: reason}}`.",
    example="""
        def summed(orders):
            return orders.groupBy("shop").applyInPandas(sum_up, "shop string, total double")
    """,
)
def groups_split_by_batch(query: Query) -> Iterator[Match]:
    """`applyInPandas` and similar functions are called with the rows of a group in one batch. Spark accepts
    this on a stream, but batch boundaries are arbitrary, and so are the results."""
    for step in query.facts.steps(Kind.GROUPED_MAP, Kind.COGROUPED_MAP):
        if not _sees_whole_groups(query.facts, step):
            yield query.match(step, call=step.name, suppressible=True)


def _sees_whole_groups(facts: QueryFacts, step: Operator) -> bool:
    """Whether each group is complete, after an aggregation: all results, the results of a key, or of a closed
    window."""
    if step.kind is Kind.COGROUPED_MAP or not aggregated_below(facts, step):
        return False
    if facts.mode == "complete":
        return True
    inputs, names = facts.inputs_of(step), {key.name for key in step.keys}
    whole = all(each.kind in AGGREGATING and {key.name for key in each.keys} <= names for each in inputs)
    closed = facts.mode == "append" and any(key.watermarked for key in step.keys)
    return bool(inputs) and (whole or closed)


@rule(
    "HW-DEDUP-AFTER-AGGREGATION",
    "`{call}` by {keys} reads the results of an aggregation: {why}.",
    "{hint}",
    example="""
        def once(clicks):
            return clicks.groupBy("user").count().dropDuplicates(["user"])
    """,
)
def dedup_after_aggregation(query: Query) -> Iterator[Match]:
    """An aggregation already emits one row per key. Deduplicating its results passes Spark's checker. Then
    the query fails in its first batch, drops all later results of a key, or emits nothing."""
    remedy = "Remove it: an aggregation emits one row per key."
    for step in query.facts.steps(*DEDUP):
        why = why_not_deduplicated(query.facts, step)
        if why:
            yield query.match(step, call=step.name, keys=names_of(step.keys), why=why, hint=remedy)


def why_not_deduplicated(facts: QueryFacts, step: Operator) -> str:
    """Why a step cannot deduplicate the results of an aggregation; empty if it can."""
    if not aggregated_below(facts, step):
        return ""
    if facts.mode != "append":
        return f"in {facts.mode} mode, it would drop all results of a key except the first"
    names = [key.name for key in step.keys]
    aggregations = [each for each in facts.inputs_of(step) if each.kind in AGGREGATING]
    if any([key.name for key in each.keys] == names for each in aggregations):
        return "its keys are the same, and Spark fails on both together"
    return ""


# Joins that emit a row several times.

# These emit a row at most once, regardless of the number of matches.
_NEVER_MORE = ("semi", "anti", "existence")


CROSS_JOIN_UNBOUNDED = Entry(
    "This {join} has no condition: it emits every row of the stream once for every row of {static}.",
    "Add a condition: `JOIN … ON a.id = b.id`. If the static side has only a few rows, suppress this "
    "finding.",
    code="HW-CROSS-JOIN-UNBOUNDED",
)
RANGE_JOIN_SLOW = Entry(
    "This {join} has no equality (`{condition}`): Spark compares every row of the stream with all rows of "
    "{static}, and emits it once per match.",
    "Add an equality to make it fast: `a.key = b.key`. If ranges can overlap, check that multiple matches "
    "are intended.",
    code="HW-RANGE-JOIN-SLOW",
)


@rule(
    entries={CROSS_JOIN_UNBOUNDED: Severity.WARNING, RANGE_JOIN_SLOW: Severity.NOTE},
    example="""
        tables:
          priced: SELECT o.id, p.price FROM orders o CROSS JOIN prices p
    """,
)
def fan_out(query: Query) -> Iterator[Match]:
    """A join with static rows without an equality emits each row of the stream once per matching static row.
    Without a condition, every static row matches."""
    facts = query.facts
    names = [each.name for each in facts.sources if not each.streaming]
    static = f"`{names[0]}`" if len(names) == 1 else "the static side"
    # The condition of such a join is inside: `LATERAL (SELECT … WHERE id = o.id)`.
    laterals = [
        (each.table, each.line, each.column) for each in facts.beyond_rows if each.sql == "LateralJoin"
    ]
    # Spark itself rejects a join of two streams without an equality.
    for step in facts.steps(Kind.STATIC_JOIN):
        join = step.join
        if join is None or has_equality(join) or any(each in join.type for each in _NEVER_MORE):
            continue
        if join.left.single or join.right.single:
            continue
        if join.condition:
            condition = join.condition
            yield query.match(step, entry=RANGE_JOIN_SLOW, join=step.name, static=static, condition=condition)
        elif (step.table, step.line, step.column) not in laterals:
            yield query.match(step, join=step.name, static=static)
