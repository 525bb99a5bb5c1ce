"""Rules about watermarks that do not do what they were declared for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwater.checks.rules import AGGREGATING, Match, Query, Severity, is_session, marked_below, rule
from headwater.errors import Entry
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Key, Kind, Operator
from headwater.plan.sql import grouped_by_windows
from headwater.values import quoted

_OR_ACCEPT = "; or accept it with a reason, if its state may grow"
_IN_PYTHON = 'In PySpark: `groupBy(window("{column}", …), …)`, and afterwards `select("window.start", …)`.'


def _uncleared(query: Query) -> Iterator[Operator]:
    """The aggregations whose keys a watermark should clear, and none of which carries it."""
    facts = query.facts
    for step in facts.steps(*AGGREGATING) if facts.mode != "complete" else ():
        reached = any(each.kind is Kind.WATERMARK for each in facts.below(step))
        if reached and not any(key.watermarked for key in step.keys):
            yield step


def _rewritten(query: Query, step: Operator) -> str:
    """The query as it should be; empty for one of Python, or that can't be rewritten."""
    text = query.text(step.table)
    return (grouped_by_windows(text, query.facts.timezone) or "") if text else ""


def _by_whole_windows(query: Query, step: Operator, key: Key, column: str, otherwise: str) -> Match:
    """What to write instead: the query itself where it is SQL that can be rewritten."""
    rewritten = _rewritten(query, step)
    in_python = "" if query.text(step.table) else f" {_IN_PYTHON.format(column=column)}"
    return query.match(
        step,
        acceptable=query.runs,
        rewritten=rewritten,
        key=key.sql.replace("`", ""),
        hint=f"Group by the whole window: {rewritten}" if rewritten else f"{otherwise}{in_python}",
    )


@rule(
    "HW-GROUP-BY-WINDOW-FIELD",
    "The query of `{sink}` groups by `{key}`, a part of a window: Spark sees no watermark on it, so that no "
    "window is ever over and its state grows for ever.",
    "{hint}",
    example="""
        tables:
          per_hour: |
            SELECT window(at, '1 hour').start AS hour, count(*) AS n
            FROM clicks GROUP BY window(at, '1 hour').start
    """,
)
def window_taken_apart(query: Query) -> Iterator[Match]:
    """A watermark clears a window when it is over. Spark sees that on the window as a whole; in its start or
    its end alone there is no watermark any more. In append mode that is refused, in update mode it runs, and
    its state never shrinks."""
    for step in _uncleared(query):
        # Of sessions there is more to say.
        for key in [key for key in step.keys if key.taken_apart and not is_session(key)][:1]:
            column = key.window.column if key.window else ""
            otherwise = "Group by the whole window, and take its start in what is selected."
            yield _by_whole_windows(query, step, key, column, otherwise)


@rule(
    "HW-GROUP-BY-SESSION-FIELD",
    "The query of `{sink}` groups by `{key}`, a part of a session: Spark makes one session of several rows "
    "only where the whole session is a key, so that each row would be a session of its own.",
    "{hint}",
    example="""
        tables:
          visits: |
            SELECT user, session_window(at, '5 minutes').start AS begin, count(*) AS n
            FROM clicks GROUP BY user, session_window(at, '5 minutes').start
    """,
)
def session_taken_apart(query: Query) -> Iterator[Match]:
    """Rows of one session are brought together when the session as a whole is a key. By its start or its end
    alone nothing is, in no mode and with no watermark: every row has a session of its own."""
    for step in (each for each in query.facts.operators if each.kind is Kind.AGGREGATION):
        sessions = list(filter(is_session, step.keys))
        if sessions and all(key.taken_apart for key in sessions):
            rewritten = _rewritten(query, step)
            hint = "Group by the whole `session_window(…)`, and take its start in what is selected."
            if rewritten:
                hint = f"Group by the whole session: {rewritten}"
            yield query.match(step, key=sessions[0].sql.replace("`", ""), hint=hint, rewritten=rewritten)


@rule(
    "HW-WATERMARK-LOST",
    "The query of `{sink}` groups by `{key}`, which is computed from `{column}` and has lost its watermark: "
    "no group is ever over, and its state grows for ever.",
    "{hint}",
    example="""
        tables:
          per_hour: SELECT date_trunc('hour', at) AS hour, count(*) AS n FROM clicks GROUP BY 1
    """,
)
def watermark_lost(query: Query) -> Iterator[Match]:
    """What is computed from an event time (an hour cut off, a day, a time moved by an offset) has no
    watermark of its own, so that groups by it are never over."""
    for step in _uncleared(query):
        # Keys that go on with time, and whose time is made from one that has a watermark.
        lost = [
            key
            for key in step.keys
            if key.made_from and (key.grows or key.window or (key.type in TIME_TYPES and not key.slow))
        ]
        # The parts of a date, where together they never come again: a year, and a month or an hour of it.
        parts = [key for key in step.keys if key.cyclic]
        if len(parts) > 1 and any("year(" in key.sql.lower() for key in parts):
            lost += parts
        if not lost or any(key.taken_apart for key in step.keys):
            continue
        column = lost[0].made_from[0]
        otherwise = (
            f"Group by a window of `{column}`; or take the watermark off `{column}` and declare it "
            f"on the table that computes the new time{_OR_ACCEPT * query.runs}."
        )
        before = [each for each in query.facts.below(step) if each.kind is Kind.AGGREGATION]
        if any(key.window for each in before for key in each.keys):
            otherwise = "Hand the whole window on, and make the larger one of it: `window(window, '1 hour')`."
        match = _by_whole_windows(query, step, lost[0], column, otherwise)
        yield replace(match, params={**match.params, "column": column})


WATERMARK_WRONG_COLUMN = Entry(
    "The query of `{sink}` groups by windows of `{column}`, and its watermark stands on {others}: no window "
    "is ever over, and its state grows for ever.",
    "Declare the watermark on `{column}`, or make the windows of {others}.",
    code="HW-WATERMARK-WRONG-COLUMN",
)
WATERMARK_BRANCH_MISSING = Entry(
    "The query of `{sink}` groups by windows of `{column}`, which has a watermark in some branches of a "
    "UNION and none in the first: no window is ever over, and its state grows for ever.",
    "Declare a watermark on `{column}` in every branch, or once on the table that holds the UNION.",
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
    """Windows are cleared by the watermark of the time that they are made of, and by no other."""
    for step in _uncleared(query):
        windows = [key.window.column for key in step.keys if key.window and not key.made_from]
        for column in windows[:1]:
            marked = marked_below(query.facts, step)
            if column in marked:
                yield query.match(step, entry=WATERMARK_BRANCH_MISSING, acceptable=query.runs, column=column)
            else:
                others = quoted(marked, " and ")
                yield query.match(step, acceptable=query.runs, column=column, others=others)


@rule(
    "HW-WATERMARK-CONFLICT",
    "The rows of {streams} pass two watermarks on their way to `{sink}`, on `{first}` and on `{second}`; "
    "Spark allows one, and would fail in the first batch or never give a row.",
    "Take one of the two out.",
    example="""
        sources:
          clicks: {watermark: {column: at, delay: 1 hour}}
        tables:
          late: {sql: SELECT * FROM clicks, watermark: {column: at, delay: 2 hours}}
    """,
)
def watermark_twice(query: Query) -> Iterator[Match]:
    """Spark takes one watermark on the way of a row. A second one is found out only by the first batch, which
    fails; or, after an aggregation, it keeps the time at 1970 for ever, and no row comes."""
    for step in query.facts.steps(Kind.WATERMARK):
        firsts = [each for each in query.facts.below(step) if each.kind is Kind.WATERMARK]
        if firsts:
            first, second = (each.event_times[0].column for each in (firsts[0], step))
            yield query.match(step, streams=quoted(step.streams, " and "), first=first, second=second)


@rule(
    "HW-WATERMARK-AFTER-STATE",
    "The watermark on `{column}` stands after the {operator} in the query of `{sink}`, where it can clear "
    "none of what that keeps.",
    "Declare it before the {operator}: on the source {streams}, or on a table that the {operator} reads; or "
    "take it out.",
    example="""
        tables:
          newest:
            sql: SELECT user, max(at) AS at FROM clicks GROUP BY user
            watermark: {column: at, delay: 1 hour}
    """,
)
def watermark_after_state(query: Query) -> Iterator[Match]:
    """A watermark acts on what comes after it. What an aggregation, a dedup or a join before it keeps is not
    cleared by it, and if nothing comes after it, it does nothing at all."""
    facts = query.facts
    for step in facts.steps(Kind.WATERMARK):
        before = facts.below(step)
        kept = [each.name for each in before if each.is_stateful]
        serves = any(each.is_stateful for each in facts.above(step))
        # A second watermark on the way is an error of its own.
        if kept and not serves and not any(each.kind is Kind.WATERMARK for each in before):
            column, streams = step.event_times[0].column, quoted(step.streams, " and ")
            yield query.match(step, acceptable=query.runs, column=column, operator=kept[-1], streams=streams)


@rule(
    "HW-WATERMARK-DELAY-ZERO",
    "The watermark on `{column}` has no delay: every row that is older than the newest one of an earlier "
    "batch may be dropped.",
    "Give it the time by which rows of {streams} may be late, such as `10 minutes`.",
    Severity.WARNING,
    example="""
        sources:
          clicks: {watermark: {column: at, delay: 0 seconds}}
    """,
)
def watermark_no_delay(query: Query) -> Iterator[Match]:
    """With a delay of 0 the newest row of a batch is the limit for the next: rows that come a moment out of
    order are dropped. Few streams are in such an order."""
    if not query.facts.stateful or query.facts.mode == "complete":
        return
    for step in query.facts.steps(Kind.WATERMARK):
        (time, *_) = step.event_times
        if time.delay_ms == 0:
            yield query.match(step, column=time.column, streams=quoted(step.streams, " and "))


# Rules about streams that a UNION puts together.


@rule(
    "HW-UNION-WATERMARK-MISSING",
    "The query of `{sink}` puts {streams} together with {others} in a UNION, and there is a "
    "watermark on {others} only: Spark holds all rows to it, so that rows of {streams} can be dropped as "
    "late by a limit that nobody set for them.",
    "Declare a watermark on {streams} too, or only one, on the table that holds the UNION (`watermark:` in "
    "the file, `withWatermark` in PySpark).",
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
def branch_without_watermark(query: Query) -> Iterator[Match]:
    """The rows of a UNION go by the watermark of its first branch, all of them. A stream in another branch
    that has no watermark of its own does not hold it back, and its rows are dropped as late by a limit that
    nobody set for them."""
    facts = query.facts
    # Complete mode forgets nothing, and so drops nothing as late.
    if facts.mode == "complete" or facts.refusal:
        return
    unions = list(facts.steps(Kind.UNION))
    for union in unions:
        # A UNION that is only a branch of another is told of with all branches together.
        inner = any(each is union for outer in unions for each in facts.inputs_of(outer))
        bare, marked = _branches(facts, union)
        if bare and marked and not inner and _goes_by_watermark(facts, union):
            streams, others = (quoted(dict.fromkeys(each), " and ") for each in (bare, marked))
            yield query.match(union, streams=streams, others=others)


def _branches(facts: QueryFacts, union: Operator) -> tuple[list[str], list[str]]:
    """The streams of the branches without a watermark, and of those with one."""
    inputs = facts.inputs_of(union)
    # A branch that does nothing with its rows is no operator.
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
    """Whether a step above drops rows of an operator by their own watermark."""
    for step in facts.above(union):
        if step.kind is Kind.WATERMARK:
            return False
        if step.kind is Kind.JOIN:
            # What comes behind may go by the time of the other side.
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
