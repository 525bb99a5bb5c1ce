"""Rules about watermarks that do not do what they were declared for."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.rules import Match, Query, Severity, on_streams, rule
from headwater.errors import Entry
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Key, Kind, Operator, Side
from headwater.plan.sql import grouped_by_windows

_OR_ACCEPT = "; or accept it with a reason, if its state may grow"
_IN_PYTHON = 'In PySpark: `groupBy(window("{column}", …), …)`, and afterwards `select("window.start", …)`.'


def _uncleared(query: Query) -> Iterator[tuple[int, Operator]]:
    """The aggregations whose keys a watermark should clear, and none of which carries it."""
    facts = query.facts
    if facts.mode == "complete":
        return
    for place, operator in enumerate(facts.operators):
        if operator.kind in (Kind.AGGREGATION, Kind.DISTINCT) and operator.streams:
            reached = any(facts.operators[each].kind is Kind.WATERMARK for each in facts.below(place))
            if reached and not any(key.watermarked for key in operator.keys):
                yield place, operator


def _rewritten(query: Query, operator: Operator) -> str:
    """The query as it should be; empty for one of Python, or that can't be rewritten."""
    text = query.text(operator.table)
    return (grouped_by_windows(text, query.facts.timezone) or "") if text else ""


def _remedy(query: Query, operator: Operator, column: str, otherwise: str) -> str:
    """What to write instead: the query itself where it is SQL that can be rewritten."""
    rewritten = _rewritten(query, operator)
    if rewritten:
        return f"Group by the whole window: {rewritten}"
    return otherwise if query.text(operator.table) else f"{otherwise} {_IN_PYTHON.format(column=column)}"


@rule(
    "HW-WINDOW-TAKEN-APART",
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
    for _, operator in _uncleared(query):
        parts = [key for key in operator.keys if key.taken_apart]
        # Of sessions there is more to say.
        for key in [each for each in parts if not (each.window and each.window.session)][:1]:
            column = key.window.column if key.window else ""
            otherwise = "Group by the whole window, and take its start in what is selected."
            yield query.match(
                operator,
                key=key.sql.replace("`", ""),
                hint=_remedy(query, operator, column, otherwise),
                acceptable=query.runs,
                rewritten=_rewritten(query, operator),
            )


@rule(
    "HW-SESSION-TAKEN-APART",
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
    for operator in (each for each in query.facts.operators if each.kind is Kind.AGGREGATION):
        sessions = [key for key in operator.keys if key.window and key.window.session]
        if sessions and all(key.taken_apart for key in sessions):
            hint = _rewritten(query, operator)
            yield query.match(
                operator,
                key=sessions[0].sql.replace("`", ""),
                hint=f"Group by the whole session: {hint}"
                if hint
                else "Group by the whole `session_window(…)`, and take its start in what is selected.",
                rewritten=hint,
            )


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
    for place, operator in _uncleared(query):
        lost = [key for key in operator.keys if _has_lost(key)] or _calendar(operator)
        if lost and not any(key.taken_apart for key in operator.keys):
            key = lost[0]
            column = key.made_from[0]
            otherwise = _over_windows(query.facts, place) or (
                f"Group by a window of `{column}`; or take the watermark off `{column}` and declare it "
                f"on the table that computes the new time{_OR_ACCEPT * query.runs}."
            )
            yield query.match(
                operator,
                key=key.sql.replace("`", ""),
                column=key.made_from[0],
                hint=_remedy(query, operator, key.made_from[0], otherwise),
                acceptable=query.runs,
                rewritten=_rewritten(query, operator),
            )


def _over_windows(facts: QueryFacts, place: int) -> str:
    """How windows are made of windows; empty where none come before."""
    before = [facts.operators[each] for each in facts.below(place)]
    if not any(key.window for each in before if each.kind is Kind.AGGREGATION for key in each.keys):
        return ""
    return "Hand the whole window on, and make the larger one of it: `window(window, '1 hour')`."


def _has_lost(key: Key) -> bool:
    """Whether a key goes on with time, and its time is made from one that has a watermark."""
    goes_on = key.grows or key.window is not None or (key.type in TIME_TYPES and not key.slow)
    return bool(key.made_from) and not key.taken_apart and goes_on


def _calendar(operator: Operator) -> list[Key]:
    """The parts of a date, where together they never come again: a year, and a month or an hour of it."""
    parts = [key for key in operator.keys if key.cyclic]
    return parts if len(parts) > 1 and any("year(" in key.sql.lower() for key in parts) else []


WATERMARK_WRONG_COLUMN = Entry(
    "The query of `{sink}` groups by windows of `{column}`, and its watermark stands on {others}: no window "
    "is ever over, and its state grows for ever.",
    "Declare the watermark on `{column}`, or make the windows of {others}.",
    code="HW-WATERMARK-WRONG-COLUMN",
)
WATERMARK_ON_A_BRANCH = Entry(
    "The query of `{sink}` groups by windows of `{column}`, which has a watermark in some branches of a "
    "UNION and none in the first: no window is ever over, and its state grows for ever.",
    "Declare a watermark on `{column}` in every branch, or once on the table that holds the UNION.",
    code="HW-WATERMARK-ON-A-BRANCH",
)


@rule(
    entries=[WATERMARK_WRONG_COLUMN, WATERMARK_ON_A_BRANCH],
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
    for place, operator in _uncleared(query):
        for key in [key for key in operator.keys if key.window and not key.made_from][:1]:
            assert key.window is not None, "only windows were chosen"
            others = _marked_below(query.facts, place)
            column = key.window.column
            if column in others:
                yield query.match(operator, entry=WATERMARK_ON_A_BRANCH, acceptable=query.runs, column=column)
            else:
                named = " and ".join(f"`{each}`" for each in others)
                yield query.match(operator, acceptable=query.runs, column=column, others=named)


def _marked_below(facts: QueryFacts, place: int) -> list[str]:
    """The columns that have a watermark somewhere before a step."""
    marks = [facts.operators[each] for each in facts.below(place)]
    return list(dict.fromkeys(each.event_times[0].column for each in marks if each.kind is Kind.WATERMARK))


@rule(
    "HW-WATERMARK-TWICE",
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
    for place, operator in _watermarks(query.facts):
        before = [query.facts.operators[each] for each in query.facts.below(place)]
        firsts = [each for each in before if each.kind is Kind.WATERMARK]
        if firsts:
            yield query.match(
                operator,
                streams=_named(operator),
                first=firsts[0].event_times[0].column,
                second=operator.event_times[0].column,
            )


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
    for place, operator in _watermarks(facts):
        before = [facts.operators[each] for each in facts.below(place)]
        kept = [each for each in before if each.is_stateful]
        serves = any(facts.operators[each].is_stateful for each in facts.above(place))
        # A second watermark on the way is an error of its own.
        if kept and not serves and not any(each.kind is Kind.WATERMARK for each in before):
            yield query.match(
                operator,
                sink=facts.sink,
                column=operator.event_times[0].column,
                operator=kept[-1].name,
                streams=_named(operator),
                acceptable=query.runs,
            )


@rule(
    "HW-WATERMARK-NO-DELAY",
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
    for _, operator in _watermarks(query.facts):
        if operator.event_times[0].delay_ms == 0:
            yield query.match(operator, column=operator.event_times[0].column, streams=_named(operator))


def _watermarks(facts: QueryFacts) -> Iterator[tuple[int, Operator]]:
    return ((place, each) for place, each in enumerate(facts.operators) if each.kind is Kind.WATERMARK)


def _named(operator: Operator) -> str:
    return " and ".join(f"`{name}`" for name in operator.streams)


# Rules about streams that a UNION puts together.


@rule(
    "HW-BRANCH-WITHOUT-WATERMARK",
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
    for place, union in on_streams(facts, Kind.UNION):
        bare, marked = _branches(facts, place)
        if bare and marked and not _is_a_branch(facts, place) and _goes_by_watermark(facts, place):
            yield query.match(union, streams=_branch_named(bare), others=_branch_named(marked))


def _branches(facts: QueryFacts, place: int) -> tuple[list[str], list[str]]:
    """The streams of the branches without a watermark, and of those with one."""
    union = facts.operators[place]
    inputs = [facts.operators[each] for each in union.inputs]
    # A branch that does nothing with its rows is no operator.
    bare = [name for name in union.streams if not any(name in each.streams for each in inputs)]
    marked: list[str] = []
    for below, operator in zip(union.inputs, inputs, strict=True):
        if operator.kind is Kind.UNION:
            inner = _branches(facts, below)
            bare, marked = bare + inner[0], marked + inner[1]
        elif _is_marked(facts, below):
            marked += operator.streams
        else:
            bare += operator.streams
    return bare, marked


def _is_marked(facts: QueryFacts, place: int) -> bool:
    return any(facts.operators[each].kind is Kind.WATERMARK for each in (place, *facts.below(place)))


def _is_a_branch(facts: QueryFacts, place: int) -> bool:
    """Whether a UNION is only a branch of another, which tells of all branches together."""
    return any(place in each.inputs for each in facts.operators if each.kind is Kind.UNION)


def _goes_by_watermark(facts: QueryFacts, place: int) -> bool:
    """Whether a step above drops rows of an operator by their own watermark."""
    for above in facts.above(place):
        operator = facts.operators[above]
        if operator.kind is Kind.WATERMARK:
            return False
        if operator.kind is Kind.JOIN:
            # What comes behind may go by the time of the other side.
            return _joins_by_time(operator, facts.operators[place].streams)
        if _drops_late(operator):
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


def _joins_by_time(operator: Operator, streams: tuple[str, ...]) -> bool:
    sides: tuple[Side, ...] = (operator.join.left, operator.join.right) if operator.join else ()
    return any(side.bounded and side.event_times and set(streams) <= set(side.streams) for side in sides)


def _branch_named(streams: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in dict.fromkeys(streams))
