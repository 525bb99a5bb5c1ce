"""Rules about query and mode: whether a query can give what the mode of its sink asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwater.checks.rules import (
    AGGREGATING,
    MODES,
    Match,
    Query,
    aggregated_below,
    is_constant,
    is_session,
    marked_below,
    names_of,
    rule,
    use_mode,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Kind, Operator
from headwater.values import capitalized, quoted

ONLY_APPEND = "4.1."
"""The Spark in which a join of two streams is in append mode only; later ones take inner joins in update."""
APART = "write what comes before with a sink of its own, and read that in another pipeline"
WATERMARKED = "(`watermark:` in the file, `withWatermark` in PySpark)"


def _never_final(facts: QueryFacts) -> Iterator[Operator]:
    for step in facts.steps(*AGGREGATING) if facts.mode == "append" else ():
        if not any(key.watermarked for key in step.keys):
            yield step


@rule(
    "HW-APPEND-NEEDS-WATERMARK",
    "The sink `{sink}` is in append mode, which gives a row once it is final, and {rows} never is: {why}.",
    "{hint}",
    example="""
        tables:
          counts: SELECT word, count(*) AS n FROM lines GROUP BY word
        sinks:
          counts: {reads: counts, connector: files, path: counts/, format: json}   # mode: append
    """,
    refuses=_never_final,
)
def never_final(query: Query) -> Iterator[Match]:
    """Append mode gives each row once, when it can't change any more. Of an aggregation Spark can tell that
    only by a watermark on one of the keys, most often a window of time; without one, nothing ever comes."""
    facts = query.facts
    # Of several the last: it gives the rows that the sink gets.
    for step in list(_never_final(facts))[-1:]:
        of_time = any(
            key.window or key.taken_apart or (key.made_from and key.type in TIME_TYPES) for key in step.keys
        )
        # Where a watermark was declared for it and got lost, the rules about watermarks say how.
        if not (of_time and any(each.kind is Kind.WATERMARK for each in facts.below(step))):
            why, way = _why_never_final(facts, step)
            rows = f"a row for each {names_of(step.keys)}" if step.keys else "the one row of all"
            yield query.match(step, rows=rows, why=why, hint=use_mode(facts, way))


def _why_never_final(facts: QueryFacts, step: Operator) -> tuple[str, str]:
    """Why no row of an aggregation is ever final, and what would make it so."""
    window = next((key.window for key in step.keys if key.window), None)
    marked = [time.column for time in step.event_times]
    if not window:
        # A SELECT may have left the time out before.
        marked = marked or marked_below(facts, step)
    if window and not marked:
        return (
            f"`{window.column}`, of which the windows are made, has no watermark that says when one is over",
            f"declare a watermark on `{window.column}` {WATERMARKED}",
        )
    if marked:
        why = (
            f"more rows may come at any time, since the column with the watermark, {quoted(marked, ' or ')}, "
            "is not among its keys"
        )
        way = f"group by a window of it as well: `GROUP BY window({marked[0]}, '10 minutes'), …`"
    else:
        why = "more rows may come at any time, and no watermark says when they don't"
        way = (
            f"declare a watermark on a column with a time {WATERMARKED} and group by a window of that column "
            "as well: `GROUP BY window(at, '10 minutes'), …`"
        )
    return why, _each_once(facts, step) or way


def _each_once(facts: QueryFacts, step: Operator) -> str:
    """How append mode gives each row once where that is all that is asked for; empty for an aggregation."""
    if step.kind is not Kind.DISTINCT:
        return ""
    union = any(each.kind is Kind.UNION for each in facts.inputs_of(step))
    first = "write `UNION ALL` and give" if union else "leave the DISTINCT out and give"
    columns = ", ".join(key.name for key in step.keys)
    return (
        f"{first} each row when it first comes: a table `{{reads: …, distinct: [{columns}]}}` over it "
        "(`dropDuplicates` in PySpark)"
    )


def _nothing_to_complete(facts: QueryFacts) -> Iterator[None]:
    if facts.mode == "complete" and not any(facts.steps(*AGGREGATING)):
        yield None


@rule(
    "HW-COMPLETE-NEEDS-AGGREGATION",
    "The sink `{sink}` is in complete mode, which gives the whole result each time, and without an "
    "aggregation that is every row that ever came.",
    "{hint}",
    example="""
        sinks:
          orders: {reads: orders, connector: console, mode: complete}   # orders is not aggregated
    """,
    refuses=_nothing_to_complete,
)
def nothing_to_complete(query: Query) -> Iterator[Match]:
    """Complete mode gives the whole result after each batch. Only the result of an aggregation is kept to
    be given again; other rows are gone with their batch."""
    for _ in _nothing_to_complete(query.facts):
        yield query.match(query.at("mode"), hint=use_mode(query.facts, "aggregate (GROUP BY)"))


def _sessions_in_update(facts: QueryFacts) -> Iterator[Operator]:
    for step in facts.steps(*AGGREGATING) if facts.mode == "update" else ():
        if any(map(is_session, step.keys)):
            yield step


@rule(
    "HW-SESSION-MODE-UNSUPPORTED",
    "The sink `{sink}` is in update mode, and session windows of {keys} can't be given so: two sessions "
    "may grow into one, and what was given for them can't be taken back.",
    "{hint}",
    example="""
        tables:
          visits: SELECT user, count(*) AS n FROM clicks GROUP BY user, session_window(at, '5 minutes')
        sinks:
          visits: {reads: visits, connector: console, mode: update}
    """,
    refuses=_sessions_in_update,
)
def sessions_in_update(query: Query) -> Iterator[Match]:
    """Sessions grow together: a late row may make one of two. What update mode gave for the two could not
    be taken back, so Spark has no update mode for session windows."""
    for step in _sessions_in_update(query.facts):
        (time, *_) = (key.window.column for key in step.keys if key.window and key.window.session)
        others = [key for key in step.keys if not is_session(key) and not is_constant(key)]
        keys = f"`{time}` by {names_of(others)}" if others else f"`{time}`"
        yield query.match(step, keys=keys, hint=_modes_of_sessions(query.facts, step))


def _modes_of_sessions(facts: QueryFacts, step: Operator) -> str:
    """The modes that sessions can have. By a part of its window, such as the start, no session grows."""
    marked = bool(marked_below(facts, step))
    if any(is_session(key) and key.taken_apart for key in step.keys):
        whole = replace(
            step,
            keys=tuple(
                replace(key, taken_apart=False, watermarked=marked) if is_session(key) else key
                for key in step.keys
            ),
        )
        steps = tuple(whole if each is step else each for each in facts.operators)
        remedy = _modes_of_sessions(replace(facts, operators=steps), whole)
        first = "Group by the whole `session_window(…)`, not by a part of it"
        return f"{first}, and {remedy[:1].lower()}{remedy[1:]}"
    closed = marked or any(key.watermarked for key in step.keys)
    way = f"declare a watermark {WATERMARKED} and use append mode"
    return use_mode(facts, *([way] if "append" in (facts.modes or MODES) and not closed else []))


def _results_counted_again(facts: QueryFacts) -> Iterator[Operator]:
    if facts.mode == "append":
        return
    joins = list(_join_in_mode(facts))
    for step in facts.steps(*AGGREGATING, Kind.JOIN, Kind.STATE):
        # Rules of their own tell of pivots, and of what can't read results in any mode.
        older = step.state is not None and step.state.call == "applyInPandasWithState"
        elsewhere = older or any(each.function == "PivotFirst" for each in step.aggregates)
        if aggregated_below(facts, step) and not elsewhere and step not in joins:
            yield step


@rule(
    "HW-CHAINED-AGGREGATION",
    "{later} reads the results of {earlier}, and in {mode} mode these come again each time they change.",
    "{hint}",
    example="""
        tables:
          per_user: SELECT user, count(*) AS n FROM clicks GROUP BY user
          how_many: SELECT n, count(*) AS users FROM per_user GROUP BY n
        sinks:
          how_many: {reads: how_many, connector: console, mode: complete}
    """,
    refuses=_results_counted_again,
)
def results_counted_again(query: Query) -> Iterator[Match]:
    """In update and complete mode an aggregation gives the same key again whenever its result changes. What
    keeps state after it (a second aggregation, a join with a stream) would take each change for a new row.
    Spark refuses it where it sees it; through a `WITH` it does not, and the result is wrong."""
    facts = query.facts
    for step in _results_counted_again(facts):
        earlier = next(each for each in reversed(facts.below(step)) if each.kind in AGGREGATING)
        later, hint = capitalized(_in_words(step)), use_mode(facts, APART)
        yield query.match(step, later=later, earlier=_in_words(earlier), mode=facts.mode, hint=hint)


def _in_words(step: Operator) -> str:
    keys = f" by {names_of(step.keys)}" if step.keys else ""
    return f"`{step.name}`{keys}" if step.kind is not Kind.AGGREGATION else f"the aggregation{keys}"


def _join_in_mode(facts: QueryFacts) -> Iterator[Operator]:
    # In complete mode an aggregation is missed first of all.
    if facts.mode == "append" or list(_nothing_to_complete(facts)):
        return
    joins = list(facts.steps(Kind.JOIN))
    if facts.mode == "update" and not facts.spark_version.startswith(ONLY_APPEND):
        joins = [step for step in joins if step.join and "outer" in step.join.type]
    # The last one stands for those below it.
    yield from joins[-1:]


@rule(
    "HW-JOIN-MODE-UNSUPPORTED",
    "The {type} join of two streams can't be in {mode} mode: {why}.",
    "{hint}",
    example="""
        tables:
          clicked: SELECT * FROM impressions LEFT JOIN clicks ON ad = clicked_ad AND clicked_at BETWEEN …
        sinks:
          clicked: {reads: clicked, connector: console, mode: update}
    """,
    refuses=_join_in_mode,
)
def join_in_mode(query: Query) -> Iterator[Match]:
    """A join of two streams gives each pair once, and a row without a partner when it is final: that is
    append mode. No join keeps its result, which complete mode would need."""
    for step in _join_in_mode(query.facts):
        assert step.join is not None, "it is a join"
        why = "it gives each pair once, and never again"
        if "outer" in step.join.type:
            why = "its rows without a partner come when they are final, once"
        hint = use_mode(query.facts, APART)
        yield query.match(step, type=step.join.type, mode=query.facts.mode, why=why, hint=hint)


def _limit_in_update(facts: QueryFacts) -> Iterator[Operator]:
    yield from facts.steps(Kind.LIMIT) if facts.mode == "update" else ()


@rule(
    "HW-LIMIT-MODE-UNSUPPORTED",
    "The sink `{sink}` is in update mode, and `LIMIT` can't be: rows that were given would have to be taken "
    "back when others change.",
    "{hint}",
    example="""
        tables:
          few: SELECT * FROM orders LIMIT 10
        sinks:
          few: {reads: few, connector: console, mode: update}
    """,
    refuses=_limit_in_update,
)
def limit_in_update(query: Query) -> Iterator[Match]:
    """A limit gives the first rows and then no more. In update mode rows that are among the first may
    change, and Spark does not take a limit there."""
    for step in _limit_in_update(query.facts):
        hint = use_mode(query.facts, "use the limit in a `foreach_batch` function, on each batch")
        yield query.match(step, hint=hint)


def _union_in_complete(facts: QueryFacts) -> Iterator[Operator]:
    if facts.mode == "complete" and any(facts.steps(*AGGREGATING)):
        for step in facts.steps(Kind.UNION):
            # An aggregation above takes all rows in.
            above = any(each.kind is Kind.AGGREGATION for each in facts.above(step))
            if step.details == IN_PART_AGGREGATED and not above:
                yield step


@rule(
    "HW-UNION-MODE-UNSUPPORTED",
    "The sink `{sink}` is in complete mode, and a part of its UNION is not aggregated: of that part each "
    "batch would give only the new rows, and the older ones would be gone.",
    "Give each part a sink of its own, or use update mode.",
    example="""
        tables:
          both: SELECT word, NULL AS n FROM lines UNION ALL SELECT word, count(*) FROM lines GROUP BY word
        sinks:
          both: {reads: both, connector: console, mode: complete}
    """,
    refuses=_union_in_complete,
)
def union_in_complete(query: Query) -> Iterator[Match]:
    """In complete mode each batch replaces what was given before. A UNION of results and plain rows would
    give all results and only the newest of the plain rows; Spark lets it start."""
    yield from map(query.match, _union_in_complete(query.facts))


IN_PART_AGGREGATED = "in part aggregated"
