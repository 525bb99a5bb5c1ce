"""Rules about what Spark's checker lets pass, and what then dies, stays silent or gives wrong rows."""

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

# What Spark puts behind the name of a column in such an aggregate.
_NUMBER = re.compile(r"#\d+L?")
_GLOBAL = "Global aggregation with session window"
_SEVERAL = "More than one event time columns"


@rule(
    "HW-PYTHON-AGGREGATE-UNSUPPORTED",
    "`{sql}` is an aggregate of Python ({form}), which needs all rows of a group at once and fails on a "
    "stream.",
    "Keep what it needs with `transformWithState`, or use Spark's own aggregates (avg, percentile_approx and "
    "so on).",
    example="""
        @pandas_udf("double")
        def middle(n: pd.Series) -> float: ...


        def middles(orders):
            return orders.groupBy("shop").agg(middle("amount"))
    """,
)
def python_aggregate(query: Query) -> Iterator[Match]:
    """A pandas or Arrow function that aggregates needs all rows of a group at once. Spark keeps only partial
    results between batches, and such a function has none: the query dies in its first batch."""
    for step in query.facts.steps(Kind.AGGREGATION):
        for aggregate in step.aggregates:
            if aggregate.python:
                yield query.match(step, sql=_NUMBER.sub("", aggregate.sql), form=aggregate.python)


@rule(
    "HW-SESSION-NEEDS-KEY",
    "Session windows without another key fail on a stream: {sql} is the only thing it groups by.",
    "Group by something else as well, such as the user whose session it is; for one session over all rows "
    "make a constant column before (`… FROM (SELECT 1 AS one, * FROM orders) GROUP BY one, "
    'session_window(…)`; `withColumn("one", lit(1))` in PySpark).',
    example="""
        tables:
          busy: SELECT session_window, count(*) AS n FROM clicks GROUP BY session_window(at, '5 minutes')
    """,
)
def global_session(query: Query) -> Iterator[Match]:
    """A session belongs to somebody. Spark can't merge sessions of all rows together on a stream: the query
    passes its checker and dies at its first batch."""
    for step in query.facts.steps(Kind.AGGREGATION):
        sessions = [key.window for key in step.keys if key.window and key.window.session]
        alone = all(is_session(key) or is_constant(key) for key in step.keys)
        # Spark finds constants that are computed, too, and then sees no other key.
        if sessions and (alone or query.facts.refused_for(_GLOBAL)):
            yield query.match(step, sql=f"`session_window({sessions[0].column}, …)`")


@rule(
    "HW-JOIN-NEEDS-EQUALITY",
    "A join of two streams needs something that is equal in both, and this one only compares.",
    "Write an equality into the condition (`a.id = b.id AND …`); where nothing is equal, make it so, for "
    "instance by the hour of both (`date_trunc('hour', a.at) = date_trunc('hour', b.at)`).",
    example="""
        tables:
          near: SELECT * FROM quakes q JOIN alarms a ON a.at BETWEEN q.at AND q.at + INTERVAL 1 MINUTE
    """,
)
def join_without_equality(query: Query) -> Iterator[Match]:
    """Two streams are joined by what is equal in both: by that Spark finds the rows that it has kept. A
    condition of comparisons alone passes its checker and dies at the first batch."""
    refused = query.facts.refused_for("without equality predicate")
    for step in query.facts.steps(Kind.JOIN) if refused else ():
        if step.join is not None and not has_equality(step.join):
            yield query.match(step)


@rule(
    "HW-EVENT-TIME-CONFLICT",
    "More than one column with a watermark comes to {operator}, {columns}, and Spark takes one: the query "
    "would fail in its first batch.",
    "Leave all but one out before: name the columns in the SELECT, or `drop` the others in PySpark.",
    example="""
        tables:
          shown: SELECT *, window(shown_at, '10 minutes') AS w FROM impressions   # shown_at, too, is in the *
          clicked: SELECT window(clicked_at, '10 minutes') AS w, ad FROM clicks
          both: SELECT * FROM shown JOIN clicked USING (w, ad)
    """,
)
def several_event_times(query: Query) -> Iterator[Match]:
    """What keeps state clears it by one event time. Where several columns with a watermark come to it (a
    window beside the time that it is made of, the times of both sides of a join), Spark does not know by
    which to go, and the query dies in its first batch."""

    def several(step: Operator, columns: Iterable[str]) -> Match:
        operator = "a side of the join" if step.kind is Kind.JOIN else f"the `{step.name}`"
        return query.match(step, operator=operator, columns=quoted(dict.fromkeys(columns), " and "))

    # In complete mode an aggregation clears nothing.
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
    "`{call}` on a stream gets the rows of one batch at a time: a group that comes in several batches is "
    "given in several pieces, cut by chance.",
    "Use `transformWithState`, which keeps what it has seen of each group; if batch by batch is what you "
    "want, accept it: `accept: {{HW-GROUPS-SPLIT-BY-BATCH: why}}`.",
    example="""
        def summed(orders):
            return orders.groupBy("shop").applyInPandas(sum_up, "shop string, total double")
    """,
)
def one_batch_at_a_time(query: Query) -> Iterator[Match]:
    """`applyInPandas` and its like are called with the rows that one batch has of a group. Spark accepts that
    on a stream; where a batch begins and ends is chance, and so are the results."""
    for step in query.facts.steps(Kind.GROUPED_MAP, Kind.COGROUPED_MAP):
        if not _sees_whole_groups(query.facts, step):
            yield query.match(step, call=step.name, acceptable=True)


def _sees_whole_groups(facts: QueryFacts, step: Operator) -> bool:
    """After an aggregation a group may come whole: all results, those of a key, those of a closed window."""
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
def dedup_of_results(query: Query) -> Iterator[Match]:
    """An aggregation has one row for each key already. To tell its results apart again passes Spark's
    checker; then it dies in its first batch, or drops every later result of a key, or ends with nothing."""
    remedy = "Take it out: an aggregation gives one row for each of its keys."
    for step in query.facts.steps(*DEDUP):
        why = why_not_apart(query.facts, step)
        if why:
            yield query.match(step, call=step.name, keys=names_of(step.keys), why=why, hint=remedy)


def why_not_apart(facts: QueryFacts, step: Operator) -> str:
    """Why a step can't tell rows apart that are the results of an aggregation; empty where it can."""
    if not aggregated_below(facts, step):
        return ""
    if facts.mode != "append":
        return f"in {facts.mode} mode only the first result of each would pass, and no later one"
    names = [key.name for key in step.keys]
    aggregations = [each for each in facts.inputs_of(step) if each.kind in AGGREGATING]
    if any([key.name for key in each.keys] == names for each in aggregations):
        return "these are its keys already, and Spark fails with both in one step"
    return ""


# Joins that make many rows of one.

# These give a row once or not at all, however many partners it has.
_NEVER_MORE = ("semi", "anti", "existence")


CROSS_JOIN_UNBOUNDED = Entry(
    "This {join} has no condition: every row of the stream meets every row of {static}, so that one row "
    "becomes as many as there are.",
    "Say which rows belong together, `JOIN … ON a.id = b.id`; or accept it if the static side has one row "
    "only, or few.",
    code="HW-CROSS-JOIN-UNBOUNDED",
)
RANGE_JOIN_SLOW = Entry(
    "This {join} compares nothing by equality (`{condition}`): every row of the stream is compared with all "
    "of {static}, and comes out once for each that fits.",
    "If ranges may overlap, make sure that this is meant; an additional `a.key = b.key` makes it fast.",
    code="HW-RANGE-JOIN-SLOW",
)


@rule(
    entries={CROSS_JOIN_UNBOUNDED: Severity.WARNING, RANGE_JOIN_SLOW: Severity.ADVICE},
    example="""
        tables:
          priced: SELECT o.id, p.price FROM orders o CROSS JOIN prices p
    """,
)
def fan_out(query: Query) -> Iterator[Match]:
    """A join with static rows that compares nothing by equality gives each row of the stream as often as
    there are static rows that fit; without a condition, with every one of them."""
    facts = query.facts
    names = [each.name for each in facts.sources if not each.streaming]
    static = f"`{names[0]}`" if len(names) == 1 else "the static side"
    # The condition of such a join stands inside: `LATERAL (SELECT … WHERE id = o.id)`.
    laterals = [
        (each.table, each.line, each.column) for each in facts.beyond_rows if each.sql == "LateralJoin"
    ]
    # Two streams without an equality are refused by Spark itself.
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
