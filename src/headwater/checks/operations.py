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
    on_streams,
    other_modes,
    rule,
    streams_in_words,
)
from headwater.errors import Entry
from headwater.errors.catalogue.running import PIVOT_ON_STREAM, WITHIN_NO_WATERMARK
from headwater.plan.lineage import unknown_steps
from headwater.plan.operators import Aggregate, Kind, Operator
from headwater.values import capitalized

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
        start = _CALL.search(sql)
        if start is None:
            return None
        arguments, rest = _arguments(sql[start.end() :])
        names = tuple(_bare(each, qualifiers) for each in arguments)
        return cls(start[1], names, rest.lstrip().startswith("FILTER"))


def ways_around(step: Operator, aggregate: Aggregate, *, in_sql: bool) -> str:
    """What gives the same number, with the columns as they are called."""
    # Columns of SQL have the name of their table before them; others may be a field of a struct.
    qualifiers = None if in_sql else frozenset({*step.streams, _UNNAMED})
    call = Call.of(aggregate.sql, qualifiers) or Call(aggregate.function.lower(), ("x",), filtered=False)
    columns = _told_apart(step, call) if len(step.aggregates) == 1 else []
    named = ", ".join(call.arguments)
    apart = (
        f"tell the rows apart first (a table with `distinct: [{', '.join(columns)}]` in the file, "
        f"dropDuplicates in PySpark) and use {call.function}({named}) over those"
    )
    found = _of_a_set(call) + [apart] * bool(columns)
    said = f"{', '.join(found[:-1])}, or {found[-1]}" if len(found) > 1 else found[0]
    return f"{capitalized(said)}."


def _of_a_set(call: Call) -> list[str]:
    value, suffix = call.arguments[0], " FILTER (WHERE …)" if call.filtered else ""
    if len(call.arguments) > 1:
        # DISTINCT passes over rows in which one of the values is NULL; a struct of them is none.
        there = " AND ".join(f"{each} IS NOT NULL" for each in call.arguments)
        value = f"struct({', '.join(call.arguments)})"
        suffix = f" FILTER (WHERE {there}{' AND …' if call.filtered else ''})"
    kept = f"collect_set({value}){suffix}"
    if call.function != "count":
        return [f"aggregate a set, which keeps every value: `aggregate({kept}, …)`"]
    return [
        f"use `approx_count_distinct({value}){suffix}` (an estimate)",
        f"`size({kept})` (exact; keeps every value)",
    ]


def _told_apart(step: Operator, call: Call) -> list[str]:
    """The columns by which rows can be told apart before; none where a key or a value is made on the way.

    A window that is left out would make one of the same value in two windows.
    """
    keys = [key for key in step.keys if not is_constant(key)]
    made = any(key.window or key.taken_apart or key.made_from for key in keys)
    names = [*(key.name for key in keys), *call.arguments]
    if made or call.filtered or step.expanded or not all(map(_COLUMN.fullmatch, names)):
        return []
    return list(dict.fromkeys(names))


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


def _bare(argument: str, qualifiers: frozenset[str] | None) -> str:
    """A column without the name of its table."""
    parts = argument.split(".")
    plain = len(parts) > 1 and all(map(_COLUMN.fullmatch, parts))
    return ".".join(parts[1:]) if plain and (qualifiers is None or parts[0] in qualifiers) else argument


WITH_STATIC_ROWS = "with static rows"
"""What the details of a UNION say where some of its rows are static."""
STATIC_ROWS_AFTER = "static rows after it"
"""What those of EXCEPT say where the stream stands before it alone."""
_SORTING = "Sorting"
_NO_WATERMARK = "aggregations without watermark"
_AGGREGATING = (*AGGREGATING, Kind.SET_OPERATION)
_EACH_BATCH = "sort each batch in a `foreach_batch` function"
_PLAIN_NAME = "monotonically_increasing_id"


SORTED_STREAM = Entry(
    "A stream can't be sorted: a row that belongs before the others may come at any time.",
    "{hint}",
    code="HW-SORTED-STREAM",
)
RANDOM_SPLIT = Entry(
    "`randomSplit` sorts its rows first, and a stream can't be sorted.",
    "Split by a column: `WHERE pmod(hash(id), 10) < 7` and `>= 7`, with a column of yours for `id`.",
    code="HW-RANDOM-SPLIT",
)


@rule(
    entries=[SORTED_STREAM, RANDOM_SPLIT],
    example="""
        tables:
          ranking: SELECT * FROM orders ORDER BY amount DESC
    """,
)
def sorted_stream(query: Query) -> Iterator[Match]:
    """A sort gives rows in order, and of a stream the first may be yet to come. The result of an aggregation
    is there as a whole in complete mode: that can be sorted."""
    facts = query.facts
    for place, step in on_streams(facts, Kind.SORT):
        whole = facts.mode == "complete" and aggregated_below(facts, place)
        if whole and not (facts.refusal and facts.refusal.says.startswith(_SORTING)):
            continue
        if any(facts.operators[each].kind is Kind.SAMPLE for each in facts.above(place)[:1]):
            yield query.match(step, entry=RANDOM_SPLIT)
        else:
            yield query.match(step, hint=_remedy(query, place))


def _remedy(query: Query, place: int) -> str:
    facts = query.facts
    if not aggregated_below(facts, place):
        return f"Take the sort out, or {_EACH_BATCH}."
    if facts.mode == "complete":
        return f"Write the aggregation in the query that sorts, not in a `WITH` before it; or {_EACH_BATCH}."
    if "complete" in (facts.modes or MODES):
        return f"Sort what is aggregated in complete mode, or {_EACH_BATCH}."
    return f"Take the sort out, or {_EACH_BATCH}."


@rule(
    "HW-OFFSET-ON-STREAM",
    "`OFFSET` leaves out the first rows, and a stream has no order by which some are the first.",
    "Take it out, or leave rows out by what is in them: `WHERE id > 100`.",
    example="""
        tables:
          later: SELECT * FROM orders OFFSET 100
    """,
)
def offset_on_stream(query: Query) -> Iterator[Match]:
    """`OFFSET` leaves out the first rows of an order, which a stream does not have."""
    for _, step in on_streams(query.facts, Kind.OFFSET):
        yield query.match(step)


@rule(
    "HW-WINDOW-FUNCTION",
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
    for _, step in on_streams(query.facts, Kind.WINDOW_FUNCTION):
        functions = f"`{step.details}` with `OVER`" if step.details else "A function with `OVER`"
        yield query.match(step, functions=functions)


@rule(
    "HW-DISTINCT-AGGREGATE",
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
    for _, step in on_streams(query.facts, Kind.AGGREGATION):
        for aggregate in step.aggregates:
            if aggregate.distinct:
                remedy = ways_around(step, aggregate, in_sql=bool(query.text(step.table)))
                yield query.match(step, sql=aggregate.sql, hint=remedy)


INTERSECT_ON_STREAM = Entry(
    "`INTERSECT` can't be done with a stream.",
    "Write `SELECT … FROM a LEFT SEMI JOIN b ON …`, with the stream as `a`; if both are streams, with "
    "watermarks and a time range in the condition.",
    code="HW-INTERSECT-ON-STREAM",
)
EXCEPT_ON_STREAM = Entry("`EXCEPT` {why}.", "{hint}", code="HW-EXCEPT-ON-STREAM")


@rule(
    entries=[INTERSECT_ON_STREAM, EXCEPT_ON_STREAM],
    example="""
        tables:
          unknown: SELECT user FROM clicks EXCEPT SELECT user FROM users
    """,
)
def set_operations(query: Query) -> Iterator[Match]:
    """INTERSECT and EXCEPT compare whole sets. A join says the same about each row of a stream."""
    for _, step in on_streams(query.facts, Kind.SET_OPERATION):
        if step.name.startswith("INTERSECT"):
            yield query.match(step)
        else:
            yield from _except(query, step)


def _except(query: Query, step: Operator) -> Iterator[Match]:
    anti = "Write `SELECT … FROM a LEFT ANTI JOIN b ON …`"
    if step.details == STATIC_ROWS_AFTER:
        if query.facts.mode == "append":
            why = "gives each row once, like DISTINCT, and in append mode no row of it is ever final"
            modes = [mode for mode in other_modes(query.facts) if mode == "update"]
            remedy = f"{anti}, which gives every row of the stream{'; or use update mode' * len(modes)}."
            yield query.match(step, entry=EXCEPT_ON_STREAM, why=why, hint=remedy)
        return
    why = "can't have a stream after it: a row that was given may turn out to be in there"
    remedy = "Write a LEFT JOIN with watermarks and a time range, and keep rows whose partner IS NULL."
    yield query.match(step, entry=EXCEPT_ON_STREAM, why=why, hint=remedy)


@rule(
    "HW-HIDDEN-AGGREGATION",
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
    by Spark's optimiser. Its checker does not see that, and the query dies in its first batch."""
    facts = query.facts
    if facts.refused_for(_NO_WATERMARK) and not any(
        each.streams for each in facts.operators if each.kind in _AGGREGATING
    ):
        yield query.match(query.at())


@rule(
    "HW-UNKNOWN-STEP",
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
    "HW-SAMPLE-ON-STREAM",
    "Spark can't take a sample of a stream.",
    "Choose by a column: `WHERE pmod(hash(id), 100) < 10` keeps a tenth, and the same rows each time.",
    example="""
        def some(clicks):
            return clicks.sample(0.1)
    """,
)
def sample_on_stream(query: Query) -> Iterator[Match]:
    """A sample by chance would be another one each time a batch runs again; Spark does not take one."""
    facts = query.facts
    for place, step in on_streams(facts, Kind.SAMPLE):
        if not any(facts.operators[each].kind is Kind.SORT for each in facts.operators[place].inputs):
            yield query.match(step)


@rule(
    "HW-UNION-WITH-STATIC",
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
    for _, step in on_streams(query.facts, Kind.UNION):
        if step.details == WITH_STATIC_ROWS:
            yield query.match(step, streams=streams_in_words(step))


@rule(
    entries=[WITHIN_NO_WATERMARK],
    example="""
        def once(clicks):  # clicks has no watermark
            return clicks.dropDuplicatesWithinWatermark(["id"])
    """,
)
def within_needs_watermark(query: Query) -> Iterator[Match]:
    """Rows are told apart only for a while, and a watermark says for how long."""
    for _, step in on_streams(query.facts, Kind.DEDUP_WITHIN_WATERMARK):
        if not step.event_times:
            name = step.table or query.facts.sink
            yield query.match(step, name=name, source=streams_in_words(step))


@rule(
    "HW-ROW-NUMBERS",
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
        if expression.sql.startswith(_PLAIN_NAME):
            yield query.match(expression)


@rule(
    entries=[PIVOT_ON_STREAM],
    example="""
        def by_kind(clicks):
            return clicks.groupBy("user").pivot("kind", ["a", "b"]).count()
    """,
)
def pivot_on_stream(query: Query) -> Iterator[Match]:
    """Spark makes a pivot of two aggregations, and a stream has none after another outside append mode."""
    for _, step in on_streams(query.facts, Kind.AGGREGATION):
        if query.facts.mode != "append" and any(each.function == "PivotFirst" for each in step.aggregates):
            yield query.match(step, mode=query.facts.mode)
