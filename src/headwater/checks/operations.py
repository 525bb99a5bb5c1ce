"""Rules about operations that Spark does not support on a stream, each with an alternative."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.checks.rules import (
    AGGREGATING,
    MODES,
    Match,
    Query,
    Severity,
    aggregated_below,
    is_constant,
    other_modes,
    rule,
)
from headwater.errors import Entry
from headwater.errors.catalogue.running import DEDUP_NEEDS_WATERMARK, PIVOT_UNSUPPORTED
from headwater.plan.lineage import unknown_steps
from headwater.plan.operators import Aggregate, Kind, Operator
from headwater.values import capitalized, quoted

# Alternatives to an aggregate with DISTINCT, which a stream does not support.

_CALL = re.compile(r"(\w+)\(DISTINCT ")
_COLUMN = re.compile(r"\w+|`[^`]+`")
_UNNAMED = "__auto_generated_subquery_name"
_CLOSING = {"(": 1, ")": -1}


@dataclass(frozen=True)
class Call:
    """A parsed aggregate with DISTINCT, such as `count(DISTINCT user) FILTER (WHERE n > 2)`."""

    function: str
    arguments: tuple[str, ...]
    filtered: bool

    @classmethod
    def of(cls, sql: str, qualifiers: frozenset[str] | None) -> Call | None:
        """None if the SQL has a different form. `qualifiers` are the prefixes that can be dropped; None means
        any."""

        def bare(argument: str) -> str:
            first, *parts = argument.split(".")
            plain = parts and all(map(_COLUMN.fullmatch, (first, *parts)))
            return ".".join(parts) if plain and (qualifiers is None or first in qualifiers) else argument

        start = _CALL.search(sql)
        if start is None:
            return None
        arguments, rest = _arguments(sql[start.end() :])
        return cls(start[1], tuple(map(bare, arguments)), rest.lstrip().startswith("FILTER"))


def alternatives_to(step: Operator, aggregate: Aggregate, *, in_sql: bool) -> str:
    """A hint with alternatives that return the same number, using the column names of the query."""
    # Columns in SQL are prefixed with their table; elsewhere the prefix can be a struct.
    qualifiers = None if in_sql else frozenset({*step.streams, _UNNAMED})
    call = Call.of(aggregate.sql, qualifiers) or Call(aggregate.function.lower(), ("x",), filtered=False)
    named = ", ".join(call.arguments)
    value, suffix = named, " FILTER (WHERE …)" if call.filtered else ""
    if len(call.arguments) > 1:
        # DISTINCT ignores rows in which a value is NULL; a struct of the values is never NULL.
        there = " AND ".join(f"{each} IS NOT NULL" for each in call.arguments)
        value = f"struct({named})"
        suffix = f" FILTER (WHERE {there}{' AND …' if call.filtered else ''})"
    kept = f"collect_set({value}){suffix}"
    ways = [f"aggregate a set, which stores every value: `aggregate({kept}, …)`"]
    if call.function == "count":
        estimate = f"use `approx_count_distinct({value}){suffix}` (an estimate)"
        ways = [estimate, f"`size({kept})` (exact; stores every value)"]
    # Rows can be deduplicated before if no key or value is computed: without the window as a key, the same
    # value in two windows would count once.
    keys = [key for key in step.keys if not is_constant(key)]
    made = any(key.window or key.taken_apart or key.made_from for key in keys)
    columns = list(dict.fromkeys([*(key.name for key in keys), *call.arguments]))
    plain = not made and not call.filtered and not step.expanded and all(map(_COLUMN.fullmatch, columns))
    if plain and len(step.aggregates) == 1:
        ways.append(
            f"deduplicate the rows first (a table with `deduplicate: [{', '.join(columns)}]` in the file, "
            f"`dropDuplicates` in PySpark) and use `{call.function}({named})` on the result"
        )
    return capitalized(", or ".join(filter(None, [", ".join(ways[:-1]), ways[-1]]))) + "."


def _arguments(text: str) -> tuple[list[str], str]:
    """The arguments between the parentheses of a call, and the text after it."""
    depth, found = 0, [""]
    for place, sign in enumerate(text):
        depth += _CLOSING.get(sign, 0)
        if depth < 0:
            return [each.strip() for each in found], text[place + 1 :]
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [each.strip() for each in found], ""


WITH_STATIC_ROWS = "with static rows"
"""The details of a UNION if some of its rows are static."""
STATIC_ROWS_AFTER = "static rows after it"
"""The details of an EXCEPT if only its left side is a stream."""
_SORTING = "Sorting"
_NO_WATERMARK = "aggregations without watermark"


SORT_UNSUPPORTED = Entry(
    "A stream cannot be sorted: a row that belongs before the others can arrive at any time.",
    "{hint}",
    code="HW-SORT-UNSUPPORTED",
)
RANDOM_SPLIT_UNSUPPORTED = Entry(
    "`randomSplit` sorts its rows first, but a stream cannot be sorted.",
    "Split by a column of your rows: `WHERE pmod(hash(id), 10) < 7` and `>= 7`.",
    code="HW-RANDOM-SPLIT-UNSUPPORTED",
)


@rule(
    entries=[SORT_UNSUPPORTED, RANDOM_SPLIT_UNSUPPORTED],
    example="""
        tables:
          ranking: SELECT * FROM orders ORDER BY amount DESC
    """,
)
def sorted_stream(query: Query) -> Iterator[Match]:
    """A sort would have to wait for rows that are yet to arrive. In complete mode, the result of an
    aggregation is available as a whole, so it can be sorted."""
    facts = query.facts
    for step in facts.steps(Kind.SORT):
        aggregated, complete = aggregated_below(facts, step), facts.mode == "complete"
        refused = facts.refusal and facts.refusal.says.startswith(_SORTING)
        if aggregated and complete and not refused:
            continue
        if any(each.kind is Kind.SAMPLE for each in facts.above(step)[:1]):
            yield query.match(step, entry=RANDOM_SPLIT_UNSUPPORTED)
            continue
        instead = "Remove the sort,"
        if aggregated and complete:
            instead = "Move the aggregation from the `WITH` clause to the query that sorts,"
        elif aggregated and "complete" in (facts.modes or MODES):
            instead = "Set `mode: complete` to sort aggregated rows,"
        yield query.match(step, hint=f"{instead} or sort each batch in a `foreach_batch` function.")


@rule(
    "HW-OFFSET-UNSUPPORTED",
    "`OFFSET` is not supported on a stream, because its rows have no order.",
    "Remove it, or skip rows by a condition: `WHERE id > 100`.",
    example="""
        tables:
          later: SELECT * FROM orders OFFSET 100
    """,
)
def offset_on_stream(query: Query) -> Iterator[Match]:
    """`OFFSET` skips the first rows in an order, but a stream has no order."""
    return map(query.match, query.facts.steps(Kind.OFFSET))


@rule(
    "HW-WINDOW-FUNCTION-UNSUPPORTED",
    "{functions} is not supported on a stream: it needs the rows before and after each row.",
    "Group by a time window with `max_by`, `min_by` or `count`: `GROUP BY window(at, '10 minutes'), key`. "
    "To compare a row with the previous one, store that row with `transformWithState`.",
    example="""
        tables:
          newest: SELECT *, row_number() OVER (PARTITION BY user ORDER BY at DESC) AS n FROM clicks
    """,
)
def window_functions(query: Query) -> Iterator[Match]:
    """`row_number() OVER …`, `lag` and similar functions need the neighbors of a row among all rows. Time
    windows are different because they end: `GROUP BY window(at, '10 minutes')`."""
    for step in query.facts.steps(Kind.WINDOW_FUNCTION):
        functions = f"`{step.details}` with `OVER`" if step.details else "A window function (`OVER`)"
        yield query.match(step, functions=functions)


@rule(
    "HW-DISTINCT-AGGREGATE-UNSUPPORTED",
    "`{sql}` is not supported on a stream: it would have to store every value ever read.",
    "{hint}",
    example="""
        tables:
          users: SELECT count(DISTINCT user) AS users FROM clicks
    """,
)
def distinct_aggregate(query: Query) -> Iterator[Match]:
    """`count(DISTINCT x)` needs every value ever read, and Spark does not store them on a stream. There are
    three alternatives, each with its cost: an estimate, a set in the state, or deduplication before the
    aggregation."""
    for step in query.facts.steps(Kind.AGGREGATION):
        for aggregate in step.aggregates:
            if aggregate.distinct:
                remedy = alternatives_to(step, aggregate, in_sql=bool(query.text(step.table)))
                yield query.match(step, sql=aggregate.sql, hint=remedy)


INTERSECT_UNSUPPORTED = Entry(
    "`INTERSECT` is not supported on a stream.",
    "Use `SELECT … FROM a LEFT SEMI JOIN b ON …` with the stream as `a`. If both are streams, add "
    "watermarks and a time range to the condition.",
    code="HW-INTERSECT-UNSUPPORTED",
)
EXCEPT_UNSUPPORTED = Entry("`EXCEPT` {why}.", "{hint}", code="HW-EXCEPT-UNSUPPORTED")


@rule(
    entries=[INTERSECT_UNSUPPORTED, EXCEPT_UNSUPPORTED],
    example="""
        tables:
          unknown: SELECT user FROM clicks EXCEPT SELECT user FROM users
    """,
)
def set_operations(query: Query) -> Iterator[Match]:
    """INTERSECT and EXCEPT compare whole sets. A join returns the same for each row of a stream."""
    for step in query.facts.steps(Kind.SET_OPERATION):
        if step.name.startswith("INTERSECT"):
            yield query.match(step)
        elif step.details != STATIC_ROWS_AFTER:
            why = "does not support a stream on its right side: an emitted row could still arrive there"
            hint = (
                "Use a LEFT JOIN with watermarks and a time range, and select the rows whose right side IS "
                "NULL."
            )
            yield query.match(step, entry=EXCEPT_UNSUPPORTED, why=why, hint=hint)
        elif query.facts.mode == "append":
            why = "removes duplicates like DISTINCT, and in append mode such rows are never final"
            update = ", or set `mode: update`" if "update" in other_modes(query.facts) else ""
            anti = "Use `SELECT … FROM a LEFT ANTI JOIN b ON …`, which keeps duplicates"
            yield query.match(step, entry=EXCEPT_UNSUPPORTED, why=why, hint=f"{anti}{update}.")


@rule(
    "HW-AGGREGATION-IN-SUBQUERY",
    "Sink `{sink}`: Spark rewrites a part of the query, usually a LATERAL subquery, to an aggregation of "
    "the stream. In append mode, its rows are never final.",
    "Aggregate first, then join the result: `… FROM a JOIN (SELECT id, max(n) AS n FROM b GROUP BY id) "
    "USING (id)`.",
    example="""
        tables:
          best: SELECT o.id, t.best FROM orders o, LATERAL (SELECT max(b) AS best FROM bids WHERE id = o.id) t
    """,
)
def aggregation_in_subquery(query: Query) -> Iterator[Match]:
    """Spark's optimizer rewrites a subquery that aggregates for each row (LATERAL) to an aggregation of the
    stream. Spark's checker does not detect this, and the query fails in its first batch."""
    aggregates = any(query.facts.steps(*AGGREGATING, Kind.SET_OPERATION))
    if query.facts.refused_for(_NO_WATERMARK) and not aggregates:
        yield query.match(query.at())


@rule(
    "HW-OPERATOR-UNKNOWN",
    "Sink `{sink}`: operator {step} of Spark {version} was not checked. No rule covers what it stores and "
    "when it emits rows.",
    "Check in the Spark documentation how the operator works on a stream, and test the query with "
    "`headwater test`.",
    Severity.NOTE,
    example="""
        tables:
          loud: SELECT TRANSFORM(line) USING 'tr a-z A-Z' AS (line STRING) FROM lines
    """,
)
def unknown_operator(query: Query) -> Iterator[Match]:
    """A newer Spark can have operators that no rule covers. The check reports such an operator instead of
    ignoring it: you need to find out what it stores and when it emits rows."""
    for step in unknown_steps(query.facts.beyond_rows):
        yield query.match(step, step=step.sql, version=query.facts.spark_version)


@rule(
    "HW-SAMPLE-UNSUPPORTED",
    "Spark does not support `sample` on a stream.",
    "Select rows by a column: `WHERE pmod(hash(id), 100) < 10` returns a tenth of the rows, and always the "
    "same ones.",
    example="""
        def some(clicks):
            return clicks.sample(0.1)
    """,
)
def sample_on_stream(query: Query) -> Iterator[Match]:
    """A random sample would differ each time Spark retries a batch, so Spark does not support it on a
    stream."""
    for step in query.facts.steps(Kind.SAMPLE):
        if not any(each.kind is Kind.SORT for each in query.facts.inputs_of(step)):
            yield query.match(step)


@rule(
    "HW-UNION-STATIC-UNSUPPORTED",
    "Spark does not support a UNION of {streams} with static rows: static rows do not belong to any batch.",
    "Read the static rows as a stream (remove `static: true`; in PySpark, use `readStream`), or write them "
    "once in a separate job.",
    example="""
        tables:
          all_users: SELECT id FROM sign_ups UNION ALL SELECT id FROM old_users   # old_users is static
    """,
)
def union_with_static(query: Query) -> Iterator[Match]:
    """The rows of a stream arrive in batches. Static rows do not belong to any of them."""
    for step in query.facts.steps(Kind.UNION):
        if step.details == WITH_STATIC_ROWS:
            yield query.match(step, streams=quoted(step.streams))


@rule(
    entries=[DEDUP_NEEDS_WATERMARK],
    example="""
        def once(clicks):  # clicks has no watermark
            return clicks.dropDuplicatesWithinWatermark(["id"])
    """,
)
def dedup_needs_watermark(query: Query) -> Iterator[Match]:
    """Deduplication within the watermark stores keys only for a limited time. The watermark defines how
    long."""
    for step in query.facts.steps(Kind.DEDUP_WITHIN_WATERMARK):
        if not step.event_times:
            name = step.table or query.facts.sink
            yield query.match(step, name=name, source=quoted(step.streams))


@rule(
    "HW-ROW-ID-UNSUPPORTED",
    "`monotonically_increasing_id()` is not supported on a stream: it restarts in every batch.",
    "Derive the ID from columns of the row: `sha2(concat_ws('|', a, b), 256)`.",
    example="""
        tables:
          numbered: SELECT monotonically_increasing_id() AS id, * FROM clicks
    """,
)
def row_ids(query: Query) -> Iterator[Match]:
    """`monotonically_increasing_id()` counts within a batch, so the next batch produces the same numbers
    again."""
    for expression in query.facts.non_deterministic:
        if expression.sql.startswith("monotonically_increasing_id"):
            yield query.match(expression)


@rule(
    entries=[PIVOT_UNSUPPORTED],
    example="""
        def by_kind(clicks):
            return clicks.groupBy("user").pivot("kind", ["a", "b"]).count()
    """,
)
def pivot_on_stream(query: Query) -> Iterator[Match]:
    """Spark runs a pivot as two aggregations. Outside append mode, a stream does not support one aggregation
    after another."""
    for step in query.facts.steps(Kind.AGGREGATION):
        if query.facts.mode != "append" and any(each.function == "PivotFirst" for each in step.aggregates):
            yield query.match(step, mode=query.facts.mode)
