"""Rules about operations that Spark refuses on a stream, each with what to write instead."""

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

# What to write in place of an aggregate with DISTINCT, which a stream can't have.

_CALL = re.compile(r"(\w+)\(DISTINCT ")
_COLUMN = re.compile(r"\w+|`[^`]+`")
_UNNAMED = "__auto_generated_subquery_name"
_CLOSING = {"(": 1, ")": -1}


@dataclass(frozen=True)
class Call:
    """An aggregate with DISTINCT, taken apart: `count(DISTINCT user) FILTER (WHERE n > 2)`."""

    function: str
    arguments: tuple[str, ...]
    filtered: bool

    @classmethod
    def of(cls, sql: str, qualifiers: frozenset[str] | None) -> Call | None:
        """None for what is not written like this; the qualifiers that may be left out, or None for any."""

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
    """What gives the same number, with the columns as they are called."""
    # Columns of SQL have the name of their table before them; others may be a field of a struct.
    qualifiers = None if in_sql else frozenset({*step.streams, _UNNAMED})
    call = Call.of(aggregate.sql, qualifiers) or Call(aggregate.function.lower(), ("x",), filtered=False)
    named = ", ".join(call.arguments)
    value, suffix = named, " FILTER (WHERE …)" if call.filtered else ""
    if len(call.arguments) > 1:
        # DISTINCT passes over rows in which one of the values is NULL; a struct of them is none.
        there = " AND ".join(f"{each} IS NOT NULL" for each in call.arguments)
        value = f"struct({named})"
        suffix = f" FILTER (WHERE {there}{' AND …' if call.filtered else ''})"
    kept = f"collect_set({value}){suffix}"
    ways = [f"aggregate a set, which keeps every value: `aggregate({kept}, …)`"]
    if call.function == "count":
        estimate = f"use `approx_count_distinct({value}){suffix}` (an estimate)"
        ways = [estimate, f"`size({kept})` (exact; keeps every value)"]
    # Rows can be told apart before where no key or value is made on the way: a window that is left out
    # would make one of the same value in two windows.
    keys = [key for key in step.keys if not is_constant(key)]
    made = any(key.window or key.taken_apart or key.made_from for key in keys)
    columns = list(dict.fromkeys([*(key.name for key in keys), *call.arguments]))
    plain = not made and not call.filtered and not step.expanded and all(map(_COLUMN.fullmatch, columns))
    if plain and len(step.aggregates) == 1:
        ways.append(
            f"tell the rows apart first (a table with `distinct: [{', '.join(columns)}]` in the file, "
            f"dropDuplicates in PySpark) and use {call.function}({named}) over those"
        )
    return capitalized(", or ".join(filter(None, [", ".join(ways[:-1]), ways[-1]]))) + "."


def _arguments(text: str) -> tuple[list[str], str]:
    """What stands between the parentheses of a call, and what comes after."""
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
"""What the details of a UNION say where some of its rows are static."""
STATIC_ROWS_AFTER = "static rows after it"
"""What those of EXCEPT say where the stream stands before it alone."""
_SORTING = "Sorting"
_NO_WATERMARK = "aggregations without watermark"


SORT_UNSUPPORTED = Entry(
    "A stream can't be sorted: a row that belongs before the others may come at any time.",
    "{hint}",
    code="HW-SORT-UNSUPPORTED",
)
RANDOM_SPLIT_UNSUPPORTED = Entry(
    "`randomSplit` sorts its rows first, and a stream can't be sorted.",
    "Split by a column: `WHERE pmod(hash(id), 10) < 7` and `>= 7`, with a column of yours for `id`.",
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
    """A sort gives rows in order, and of a stream the first may be yet to come. The result of an aggregation
    is there as a whole in complete mode: that can be sorted."""
    facts = query.facts
    for step in facts.steps(Kind.SORT):
        aggregated, complete = aggregated_below(facts, step), facts.mode == "complete"
        refused = facts.refusal and facts.refusal.says.startswith(_SORTING)
        if aggregated and complete and not refused:
            continue
        if any(each.kind is Kind.SAMPLE for each in facts.above(step)[:1]):
            yield query.match(step, entry=RANDOM_SPLIT_UNSUPPORTED)
            continue
        instead = "Take the sort out,"
        if aggregated and complete:
            instead = "Write the aggregation in the query that sorts, not in a `WITH` before it;"
        elif aggregated and "complete" in (facts.modes or MODES):
            instead = "Sort what is aggregated in complete mode,"
        yield query.match(step, hint=f"{instead} or sort each batch in a `foreach_batch` function.")


@rule(
    "HW-OFFSET-UNSUPPORTED",
    "`OFFSET` leaves out the first rows, and a stream has no order by which some are the first.",
    "Take it out, or leave rows out by what is in them: `WHERE id > 100`.",
    example="""
        tables:
          later: SELECT * FROM orders OFFSET 100
    """,
)
def offset_on_stream(query: Query) -> Iterator[Match]:
    """`OFFSET` leaves out the first rows of an order, which a stream does not have."""
    return map(query.match, query.facts.steps(Kind.OFFSET))


@rule(
    "HW-WINDOW-FUNCTION-UNSUPPORTED",
    "{functions} looks at rows before and after each row, and those of a stream are not all there.",
    "Group by a window of time (`GROUP BY window(at, '10 minutes'), key` with max_by, min_by, count); to "
    "compare a row with the one before it, keep that one with `transformWithState`.",
    example="""
        tables:
          newest: SELECT *, row_number() OVER (PARTITION BY user ORDER BY at DESC) AS n FROM clicks
    """,
)
def window_functions(query: Query) -> Iterator[Match]:
    """`row_number() OVER …`, `lag` and their like look at neighbours of a row among all rows. Windows of
    time, which have an end, are something else: `GROUP BY window(at, '10 minutes')`."""
    for step in query.facts.steps(Kind.WINDOW_FUNCTION):
        functions = f"`{step.details}` with `OVER`" if step.details else "A function with `OVER`"
        yield query.match(step, functions=functions)


@rule(
    "HW-DISTINCT-AGGREGATE-UNSUPPORTED",
    "`{sql}` would have to keep every value that ever came, which Spark does not do on a stream.",
    "{hint}",
    example="""
        tables:
          users: SELECT count(DISTINCT user) AS users FROM clicks
    """,
)
def distinct_aggregate(query: Query) -> Iterator[Match]:
    """`count(DISTINCT x)` needs every value that ever came. Spark does not keep them by itself; there are
    three ways around, with their prices: an estimate, a set in the state, rows told apart first."""
    for step in query.facts.steps(Kind.AGGREGATION):
        for aggregate in step.aggregates:
            if aggregate.distinct:
                remedy = alternatives_to(step, aggregate, in_sql=bool(query.text(step.table)))
                yield query.match(step, sql=aggregate.sql, hint=remedy)


INTERSECT_UNSUPPORTED = Entry(
    "`INTERSECT` can't be done with a stream.",
    "Write `SELECT … FROM a LEFT SEMI JOIN b ON …`, with the stream as `a`; if both are streams, with "
    "watermarks and a time range in the condition.",
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
    """INTERSECT and EXCEPT compare whole sets. A join says the same about each row of a stream."""
    for step in query.facts.steps(Kind.SET_OPERATION):
        if step.name.startswith("INTERSECT"):
            yield query.match(step)
        elif step.details != STATIC_ROWS_AFTER:
            why = "can't have a stream after it: a row that was given may turn out to be in there"
            hint = "Write a LEFT JOIN with watermarks and a time range, and keep rows whose partner IS NULL."
            yield query.match(step, entry=EXCEPT_UNSUPPORTED, why=why, hint=hint)
        elif query.facts.mode == "append":
            why = "gives each row once, like DISTINCT, and in append mode no row of it is ever final"
            update = "; or use update mode" if "update" in other_modes(query.facts) else ""
            anti = "Write `SELECT … FROM a LEFT ANTI JOIN b ON …`, which gives every row of the stream"
            yield query.match(step, entry=EXCEPT_UNSUPPORTED, why=why, hint=f"{anti}{update}.")


@rule(
    "HW-AGGREGATION-IN-SUBQUERY",
    "Spark makes an aggregation of the stream out of a part of the query of `{sink}`, most often a LATERAL "
    "subquery that aggregates, and in append mode no row of it is ever final.",
    "Aggregate first and join with that: "
    "`… FROM a JOIN (SELECT id, max(n) AS n FROM b GROUP BY id) USING (id)`.",
    example="""
        tables:
          best: SELECT o.id, t.best FROM orders o, LATERAL (SELECT max(b) AS best FROM bids WHERE id = o.id) t
    """,
)
def hidden_aggregation(query: Query) -> Iterator[Match]:
    """A subquery that aggregates for each row of a stream (LATERAL) is made into an aggregation of the stream
    by Spark's optimizer. Its checker does not see that, and the query dies in its first batch."""
    aggregates = any(query.facts.steps(*AGGREGATING, Kind.SET_OPERATION))
    if query.facts.refused_for(_NO_WATERMARK) and not aggregates:
        yield query.match(query.at())


@rule(
    "HW-OPERATOR-UNKNOWN",
    "Not judged: {step}. No rule covers this step of Spark {version} in the query of `{sink}`: `check` does "
    "not know what it stores and when it emits rows.",
    "Read in Spark's documentation what the step does on a stream, and write a test of the query: "
    "`headwater test`.",
    Severity.ADVICE,
    example="""
        tables:
          loud: SELECT TRANSFORM(line) USING 'tr a-z A-Z' AS (line STRING) FROM lines
    """,
)
def unknown_step(query: Query) -> Iterator[Match]:
    """A newer Spark may have steps that no rule knows. Rather than pass over such a step, the check names
    it: what it stores, and when it gives rows, is left to you."""
    for step in unknown_steps(query.facts.beyond_rows):
        yield query.match(step, step=step.sql, version=query.facts.spark_version)


@rule(
    "HW-SAMPLE-UNSUPPORTED",
    "Spark can't take a sample of a stream.",
    "Choose by a column: `WHERE pmod(hash(id), 100) < 10` keeps a tenth, and the same rows each time.",
    example="""
        def some(clicks):
            return clicks.sample(0.1)
    """,
)
def sample_on_stream(query: Query) -> Iterator[Match]:
    """A sample by chance would be another one each time a batch runs again; Spark does not take one."""
    for step in query.facts.steps(Kind.SAMPLE):
        if not any(each.kind is Kind.SORT for each in query.facts.inputs_of(step)):
            yield query.match(step)


@rule(
    "HW-UNION-STATIC-UNSUPPORTED",
    "A UNION of the stream {streams} with static rows can't be done: the static ones have no batch to come "
    "in.",
    "Read them as a stream, too (without `static: true`, with `readStream`), or write them once by "
    "themselves.",
    example="""
        tables:
          all_users: SELECT id FROM sign_ups UNION ALL SELECT id FROM old_users   # old_users is static
    """,
)
def union_with_static(query: Query) -> Iterator[Match]:
    """The rows of a stream come in batches; static rows belong to none of them."""
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
def within_needs_watermark(query: Query) -> Iterator[Match]:
    """Rows are told apart only for a while, and a watermark says for how long."""
    for step in query.facts.steps(Kind.DEDUP_WITHIN_WATERMARK):
        if not step.event_times:
            name = step.table or query.facts.sink
            yield query.match(step, name=name, source=quoted(step.streams))


@rule(
    "HW-ROW-ID-UNSUPPORTED",
    "`monotonically_increasing_id()` begins anew in every batch, so Spark does not take it on a stream.",
    "Make the id of the row's own columns: `sha2(concat_ws('|', a, b), 256)`.",
    example="""
        tables:
          numbered: SELECT monotonically_increasing_id() AS id, * FROM clicks
    """,
)
def row_numbers(query: Query) -> Iterator[Match]:
    """`monotonically_increasing_id()` counts within a batch: the next one has the same numbers again."""
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
    """Spark makes a pivot of two aggregations, and a stream has none after another outside append mode."""
    for step in query.facts.steps(Kind.AGGREGATION):
        if query.facts.mode != "append" and any(each.function == "PivotFirst" for each in step.aggregates):
            yield query.match(step, mode=query.facts.mode)
