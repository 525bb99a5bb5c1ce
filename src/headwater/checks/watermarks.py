"""Rules about watermarks that do not have the intended effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwater.checks.rules import AGGREGATING, Match, Query, Severity, is_session, marked_below, rule
from headwater.errors import Entry
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Key, Kind, Operator
from headwater.plan.sql import grouped_by_windows
from headwater.values import quoted

_OR_SUPPRESS = ", or suppress this finding if unbounded state is acceptable"
_IN_PYTHON = 'In PySpark: `groupBy(window("{column}", …), …)`, then `select("window.start", …)`.'


def _uncleared(query: Query) -> Iterator[Operator]:
    """The aggregations whose keys a watermark should remove, but none of whose keys has it."""
    facts = query.facts
    for step in facts.steps(*AGGREGATING) if facts.mode != "complete" else ():
        reached = any(each.kind is Kind.WATERMARK for each in facts.below(step))
        if reached and not any(key.watermarked for key in step.keys):
            yield step


def _rewritten(query: Query, step: Operator) -> str:
    """The corrected query; empty for a Python table, or if it cannot be rewritten."""
    text = query.text(step.table)
    return (grouped_by_windows(text, query.facts.timezone) or "") if text else ""


def _by_whole_windows(query: Query, step: Operator, key: Key, column: str, otherwise: str) -> Match:
    """A match with a hint: the corrected query, if the table is SQL that can be rewritten."""
    rewritten = _rewritten(query, step)
    in_python = "" if query.text(step.table) else f" {_IN_PYTHON.format(column=column)}"
    return query.match(
        step,
        suppressible=query.runs,
        suggested_sql=rewritten,
        key=key.sql.replace("`", ""),
        hint=f"Group by the whole window: {rewritten}" if rewritten else f"{otherwise}{in_python}",
    )


@rule(
    "HW-GROUP-BY-WINDOW-FIELD",
    "Sink `{sink}`: the query groups by `{key}`, a field of a window. The field has no watermark, so Spark "
    "never closes a window, and the state is unbounded.",
    "{hint}",
    example="""
        tables:
          per_hour: |
            SELECT window(at, '1 hour').start AS hour, count(*) AS n
            FROM clicks GROUP BY window(at, '1 hour').start
    """,
)
def group_by_window_field(query: Query) -> Iterator[Match]:
    """A watermark removes a window after its end. Spark recognizes this only for the window as a whole: its
    start or end alone has no watermark. Spark rejects such a query in append mode. In update mode it runs,
    and its state never shrinks."""
    for step in _uncleared(query):
        # A separate rule covers sessions.
        for key in [key for key in step.keys if key.taken_apart and not is_session(key)][:1]:
            column = key.window.column if key.window else ""
            otherwise = "Group by the whole window, and select its start."
            yield _by_whole_windows(query, step, key, column, otherwise)


@rule(
    "HW-GROUP-BY-SESSION-FIELD",
    "Sink `{sink}`: the query groups by `{key}`, a field of a session window. Spark merges rows into "
    "sessions only if the whole window is a key, so each row would be its own session.",
    "{hint}",
    example="""
        tables:
          visits: |
            SELECT user, session_window(at, '5 minutes').start AS begin, count(*) AS n
            FROM clicks GROUP BY user, session_window(at, '5 minutes').start
    """,
)
def group_by_session_field(query: Query) -> Iterator[Match]:
    """Spark merges rows into a session if the session window as a whole is a key. Grouped by its start or end
    alone, every row is its own session, in any mode and with any watermark."""
    for step in (each for each in query.facts.operators if each.kind is Kind.AGGREGATION):
        sessions = list(filter(is_session, step.keys))
        if sessions and all(key.taken_apart for key in sessions):
            rewritten = _rewritten(query, step)
            hint = "Group by the whole `session_window(…)`, and select its start."
            if rewritten:
                hint = f"Group by the whole session window: {rewritten}"
            yield query.match(step, key=sessions[0].sql.replace("`", ""), hint=hint, suggested_sql=rewritten)


@rule(
    "HW-WATERMARK-LOST",
    "Sink `{sink}`: the query groups by `{key}`, which is computed from `{column}` and has no watermark. "
    "Spark never closes a group, and the state is unbounded.",
    "{hint}",
    example="""
        tables:
          per_hour: SELECT date_trunc('hour', at) AS hour, count(*) AS n FROM clicks GROUP BY 1
    """,
)
def watermark_lost(query: Query) -> Iterator[Match]:
    """A value computed from an event time (a truncated hour, a day, a shifted time) has no watermark. Groups
    by such a value are never closed."""
    for step in _uncleared(query):
        # Keys that grow with time and are computed from a column with a watermark.
        lost = [
            key
            for key in step.keys
            if key.made_from and (key.grows or key.window or (key.type in TIME_TYPES and not key.slow))
        ]
        # The parts of a date that together never repeat: a year, and a month or an hour of it.
        parts = [key for key in step.keys if key.cyclic]
        if len(parts) > 1 and any("year(" in key.sql.lower() for key in parts):
            lost += parts
        if not lost or any(key.taken_apart for key in step.keys):
            continue
        column = lost[0].made_from[0]
        otherwise = (
            f"Group by a window of `{column}`{',' if query.runs else ', or'} move the watermark from `{column}` "
            f"to the table that computes the new time{_OR_SUPPRESS * query.runs}."
        )
        before = [each for each in query.facts.below(step) if each.kind is Kind.AGGREGATION]
        if any(key.window for each in before for key in each.keys):
            otherwise = (
                "Select the whole window, and compute the larger one from it: `window(window, '1 hour')`."
            )
        match = _by_whole_windows(query, step, lost[0], column, otherwise)
        yield replace(match, params={**match.params, "column": column})


WATERMARK_WRONG_COLUMN = Entry(
    "Sink `{sink}`: the query groups by windows of `{column}`, but its watermark is on {others}. Spark "
    "never closes a window, and the state is unbounded.",
    "Declare the watermark on `{column}`, or group by windows of {others}.",
    code="HW-WATERMARK-WRONG-COLUMN",
)
WATERMARK_BRANCH_MISSING = Entry(
    "Sink `{sink}`: the query groups by windows of `{column}`, which has a watermark in some branches of a "
    "UNION, but not in the first. Spark never closes a window, and the state is unbounded.",
    "Declare a watermark on `{column}` in every branch, or once on the table with the UNION.",
    code="HW-WATERMARK-BRANCH-MISSING",
)


@rule(
    entries=[WATERMARK_WRONG_COLUMN, WATERMARK_BRANCH_MISSING],
    example="""
        sources:
          orders:
            schema: {placed: timestamp, paid: timestamp}
            watermark: {column: placed, delay: 1 hour}
        tables:
          per_hour: SELECT window(paid, '1 hour') AS hour, count(*) AS n FROM orders GROUP BY 1
    """,
)
def watermark_wrong_column(query: Query) -> Iterator[Match]:
    """Only the watermark on the column of a window closes that window."""
    for step in _uncleared(query):
        windows = [key.window.column for key in step.keys if key.window and not key.made_from]
        for column in windows[:1]:
            marked = marked_below(query.facts, step)
            if column in marked:
                yield query.match(
                    step, entry=WATERMARK_BRANCH_MISSING, suppressible=query.runs, column=column
                )
            else:
                others = quoted(marked, " and ")
                yield query.match(step, suppressible=query.runs, column=column, others=others)


@rule(
    "HW-WATERMARK-CONFLICT",
    "Sink `{sink}`: rows of {streams} pass two watermarks, on `{first}` and on `{second}`, but Spark "
    "supports one. The query would fail in its first batch or never emit a row.",
    "Remove one of the watermarks.",
    example="""
        sources:
          clicks: {watermark: {column: at, delay: 1 hour}}
        tables:
          late: {sql: SELECT * FROM clicks, watermark: {column: at, delay: 2 hours}}
    """,
)
def watermark_conflict(query: Query) -> Iterator[Match]:
    """Spark supports one watermark between a source and the sink. It detects a second one only in the first
    batch, which fails. After an aggregation, the second watermark stays at 1970, and the query never emits a
    row."""
    for step in query.facts.steps(Kind.WATERMARK):
        firsts = [each for each in query.facts.below(step) if each.kind is Kind.WATERMARK]
        if firsts:
            first, second = (each.event_times[0].column for each in (firsts[0], step))
            yield query.match(step, streams=quoted(step.streams, " and "), first=first, second=second)


@rule(
    "HW-WATERMARK-AFTER-STATE",
    "Sink `{sink}`: the watermark on `{column}` is declared after the {operator}, so it cannot remove the "
    "state of that operator.",
    "Declare it before the {operator}: on {streams}, or on a table that the {operator} reads. Or remove it.",
    example="""
        tables:
          newest:
            sql: SELECT user, max(at) AS at FROM clicks GROUP BY user
            watermark: {column: at, delay: 1 hour}
    """,
)
def watermark_after_state(query: Query) -> Iterator[Match]:
    """A watermark affects only the operators after it. It does not remove the state of an aggregation, a
    deduplication or a join before it. If no stateful operator follows, it has no effect."""
    facts = query.facts
    for step in facts.steps(Kind.WATERMARK):
        before = facts.below(step)
        kept = [each.name for each in before if each.is_stateful]
        serves = any(each.is_stateful for each in facts.above(step))
        # A separate rule reports a second watermark.
        if kept and not serves and not any(each.kind is Kind.WATERMARK for each in before):
            column, streams = step.event_times[0].column, quoted(step.streams, " and ")
            yield query.match(
                step, suppressible=query.runs, column=column, operator=kept[-1], streams=streams
            )


@rule(
    "HW-WATERMARK-DELAY-ZERO",
    "The watermark on `{column}` has a delay of 0: Spark can drop every row that is older than the newest "
    "row of an earlier batch.",
    "Set the delay to the time by which rows of {streams} can be late, such as `10 minutes`.",
    Severity.WARNING,
    example="""
        sources:
          clicks: {watermark: {column: at, delay: 0 seconds}}
    """,
)
def watermark_delay_zero(query: Query) -> Iterator[Match]:
    """With a delay of 0, the newest row of a batch is the limit for the next one: Spark drops rows that are
    only slightly out of order. Few streams are ordered that strictly."""
    if not query.facts.stateful or query.facts.mode == "complete":
        return
    for step in query.facts.steps(Kind.WATERMARK):
        (time, *_) = step.event_times
        if time.delay_ms == 0:
            yield query.match(step, column=time.column, streams=quoted(step.streams, " and "))


# A rule about streams that a UNION combines.


@rule(
    "HW-UNION-WATERMARK-MISSING",
    "Sink `{sink}`: the query combines {streams} with {others} in a UNION, but there is no watermark on "
    "{streams}. Spark applies the watermark of {others} to all rows, so rows of {streams} can be dropped as "
    "late.",
    "Also declare a watermark on {streams}, or declare a single one on the table with the UNION "
    "(`watermark:` in the file, `withWatermark` in PySpark).",
    Severity.WARNING,
    example="""
        sources:
          north: {schema: {at: timestamp, amount: double}, watermark: {column: at, delay: 10 minutes}}
          south: {schema: {at: timestamp, amount: double}}
        tables:
          sales: SELECT at, amount FROM north UNION ALL SELECT at, amount FROM south
          per_hour: SELECT window(at, '1 hour') AS hour, sum(amount) AS amount FROM sales GROUP BY 1
    """,
)
def union_watermark_missing(query: Query) -> Iterator[Match]:
    """Spark applies the watermark of the first branch to all rows of a UNION. A stream in another branch
    without its own watermark does not delay it, so its rows can be dropped as late by a delay that was
    declared for a different stream."""
    facts = query.facts
    # Complete mode removes no state, so it drops no late rows.
    if facts.mode == "complete" or facts.refusal:
        return
    unions = list(facts.steps(Kind.UNION))
    for union in unions:
        # A UNION that is a branch of another is reported with all branches.
        inner = any(each is union for outer in unions for each in facts.inputs_of(outer))
        bare, marked = _branches(facts, union)
        if bare and marked and not inner and _goes_by_watermark(facts, union):
            streams, others = (quoted(dict.fromkeys(each), " and ") for each in (bare, marked))
            yield query.match(union, streams=streams, others=others)


def _branches(facts: QueryFacts, union: Operator) -> tuple[list[str], list[str]]:
    """The streams of the branches without a watermark, and of those with one."""
    inputs = facts.inputs_of(union)
    # A branch without operators is not in the list.
    bare = [name for name in union.streams if not any(name in each.streams for each in inputs)]
    marked: list[str] = []
    for step in inputs:
        if step.kind is Kind.UNION:
            inner = _branches(facts, step)
            bare, marked = bare + inner[0], marked + inner[1]
        elif any(each.kind is Kind.WATERMARK for each in (step, *facts.below(step))):
            marked += step.streams
        else:
            bare += step.streams
    return bare, marked


def _goes_by_watermark(facts: QueryFacts, union: Operator) -> bool:
    """Whether an operator above drops late rows by the watermark of the UNION."""
    for step in facts.above(union):
        if step.kind is Kind.WATERMARK:
            return False
        if step.kind is Kind.JOIN:
            # Later operators can use the time of the other side.
            sides = (step.join.left, step.join.right) if step.join else ()
            mine = [side for side in sides if set(union.streams) <= set(side.streams)]
            return any(side.bounded and side.event_times for side in mine)
        if _drops_late(step):
            return True
    return False


def _drops_late(operator: Operator) -> bool:
    match operator.kind:
        case Kind.AGGREGATION | Kind.DISTINCT | Kind.DEDUP:
            return any(key.watermarked for key in operator.keys)
        case Kind.DEDUP_WITHIN_WATERMARK:
            return bool(operator.event_times)
        case Kind.STATE:
            by_time = operator.state is not None and operator.state.time == "event time"
            return by_time and bool(operator.event_times)
    return False
