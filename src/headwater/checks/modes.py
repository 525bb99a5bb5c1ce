"""Rules about output modes: whether a query supports the mode of its sink."""

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
    set_mode,
    use_mode,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Kind, Operator
from headwater.values import capitalized, quoted

ONLY_APPEND = "4.1."
"""The Spark line in which joins of two streams support only append mode; later ones support inner joins in
update mode."""
APART = "write the earlier result to a separate sink and read it in another pipeline"
WATERMARKED = "(`watermark:` in the file, `withWatermark` in PySpark)"


def _never_final(facts: QueryFacts) -> Iterator[Operator]:
    for step in facts.steps(*AGGREGATING) if facts.mode == "append" else ():
        if not any(key.watermarked for key in step.keys):
            yield step


@rule(
    "HW-APPEND-NEEDS-WATERMARK",
    "Sink `{sink}`: append mode emits only final rows, but {rows} is never final: {why}.",
    "{hint}",
    example="""
        tables:
          counts: SELECT word, count(*) AS n FROM lines GROUP BY word
        sinks:
          counts: {reads: counts, connector: files, path: counts/, format: json}   # mode: append
    """,
    refuses=_never_final,
)
def append_needs_watermark(query: Query) -> Iterator[Match]:
    """Append mode emits each row once, when it can no longer change. For an aggregation, Spark can determine
    this only from a watermark on one of the keys, usually a time window. Without one, the query never emits a
    row."""
    facts = query.facts
    # The last one: it produces the rows that the sink receives.
    for step in list(_never_final(facts))[-1:]:
        of_time = any(
            key.window or key.taken_apart or (key.made_from and key.type in TIME_TYPES) for key in step.keys
        )
        # If a watermark was declared and lost, the watermark rules explain it.
        if not (of_time and any(each.kind is Kind.WATERMARK for each in facts.below(step))):
            why, way = _why_never_final(facts, step)
            rows = f"the row of each {names_of(step.keys)}" if step.keys else "the result over all rows"
            modes = set_mode(facts)
            hint = f"{capitalized(modes)}. To keep append mode, {way}." if modes else f"{capitalized(way)}."
            yield query.match(step, rows=rows, why=why, hint=hint)


def _why_never_final(facts: QueryFacts, step: Operator) -> tuple[str, str]:
    """Why no row of an aggregation is ever final, and how to change that."""
    window = next((key.window for key in step.keys if key.window), None)
    marked = [time.column for time in step.event_times]
    if not window:
        # A SELECT can have dropped the time column before.
        marked = marked or marked_below(facts, step)
    if window and not marked:
        return (
            f"`{window.column}`, the column of the window, has no watermark",
            f"declare a watermark on `{window.column}` {WATERMARKED}",
        )
    if marked:
        why = f"the column with the watermark, {quoted(marked, ' or ')}, is not among the keys"
        way = f"also group by a window: `GROUP BY window({marked[0]}, '10 minutes'), …`"
    else:
        why = "this aggregation has no watermark"
        way = (
            f"declare a watermark on a timestamp column {WATERMARKED} and also group by a window: "
            "`GROUP BY window(at, '10 minutes'), …`"
        )
    return why, _each_once(facts, step) or way


def _each_once(facts: QueryFacts, step: Operator) -> str:
    """How append mode can emit each row once if the query only removes duplicates; empty for an
    aggregation."""
    if step.kind is not Kind.DISTINCT:
        return ""
    union = any(each.kind is Kind.UNION for each in facts.inputs_of(step))
    first = "use `UNION ALL`" if union else "remove the DISTINCT"
    columns = ", ".join(key.name for key in step.keys)
    return (
        f"{first} and add a table that drops duplicates: `{{reads: …, deduplicate: [{columns}]}}` "
        "(`dropDuplicates` in PySpark)"
    )


def _nothing_to_complete(facts: QueryFacts) -> Iterator[None]:
    if facts.mode == "complete" and not any(facts.steps(*AGGREGATING)):
        yield None


@rule(
    "HW-COMPLETE-NEEDS-AGGREGATION",
    "Sink `{sink}`: complete mode requires an aggregation, since otherwise the result would be every "
    "row ever read.",
    "{hint}",
    example="""
        sinks:
          orders: {reads: orders, connector: console, mode: complete}   # orders is not aggregated
    """,
    refuses=_nothing_to_complete,
)
def complete_needs_aggregation(query: Query) -> Iterator[Match]:
    """Complete mode emits the whole result after each batch. Spark stores only the result of an aggregation;
    other rows are not available after their batch."""
    for _ in _nothing_to_complete(query.facts):
        yield query.match(query.at("mode"), hint=use_mode(query.facts, "aggregate (GROUP BY)"))


def _sessions_in_update(facts: QueryFacts) -> Iterator[Operator]:
    for step in facts.steps(*AGGREGATING) if facts.mode == "update" else ():
        if any(map(is_session, step.keys)):
            yield step


@rule(
    "HW-SESSION-MODE-UNSUPPORTED",
    "Sink `{sink}`: session windows on {keys} do not support update mode. Two sessions can merge, and Spark "
    "cannot retract rows it has already emitted.",
    "{hint}",
    example="""
        tables:
          visits: SELECT user, count(*) AS n FROM clicks GROUP BY user, session_window(at, '5 minutes')
        sinks:
          visits: {reads: visits, connector: console, mode: update}
    """,
    refuses=_sessions_in_update,
)
def session_windows_in_update_mode(query: Query) -> Iterator[Match]:
    """Sessions can merge: a late row can turn two sessions into one. Update mode would already have emitted
    both, and Spark cannot retract them. So Spark does not support update mode for session windows."""
    for step in _sessions_in_update(query.facts):
        (time, *_) = (key.window.column for key in step.keys if key.window and key.window.session)
        others = [key for key in step.keys if not is_session(key) and not is_constant(key)]
        keys = f"`{time}` by {names_of(others)}" if others else f"`{time}`"
        yield query.match(step, keys=keys, hint=_modes_of_sessions(query.facts, step))


def _modes_of_sessions(facts: QueryFacts, step: Operator) -> str:
    """A hint with the modes that sessions support. Grouped by a field of its window, such as the start, no
    session grows."""
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
        first = "Group by the whole `session_window(…)`, not by one of its fields"
        return f"{first}, and {remedy[:1].lower()}{remedy[1:]}"
    closed = marked or any(key.watermarked for key in step.keys)
    way = f"declare a watermark {WATERMARKED} and set `mode: append`"
    return use_mode(facts, *([way] if "append" in (facts.modes or MODES) and not closed else []))


def _results_counted_again(facts: QueryFacts) -> Iterator[Operator]:
    if facts.mode == "append":
        return
    joins = list(_join_in_mode(facts))
    for step in facts.steps(*AGGREGATING, Kind.JOIN, Kind.STATE):
        # Separate rules cover pivots, and operators that cannot read results in any mode.
        older = step.state is not None and step.state.call == "applyInPandasWithState"
        elsewhere = older or any(each.function == "PivotFirst" for each in step.aggregates)
        if aggregated_below(facts, step) and not elsewhere and step not in joins:
            yield step


@rule(
    "HW-CHAINED-AGGREGATION",
    "{later} reads the results of {earlier}, which {mode} mode emits again whenever they change.",
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
def chained_aggregation(query: Query) -> Iterator[Match]:
    """In update and complete mode, an aggregation emits a key again whenever its result changes. A stateful
    operator after it (a second aggregation, a join with a stream) would treat each change as a new row. Spark
    rejects such queries, except if the aggregation is in a `WITH` clause: then the result is wrong."""
    facts = query.facts
    for step in _results_counted_again(facts):
        earlier = next(each for each in reversed(facts.below(step)) if each.kind in AGGREGATING)
        later, hint = capitalized(_in_words(step)), use_mode(facts, APART)
        yield query.match(step, later=later, earlier=_in_words(earlier), mode=facts.mode, hint=hint)


def _in_words(step: Operator) -> str:
    keys = f" by {names_of(step.keys)}" if step.keys else ""
    return f"`{step.name}`{keys}" if step.kind is not Kind.AGGREGATION else f"the aggregation{keys}"


def _join_in_mode(facts: QueryFacts) -> Iterator[Operator]:
    # In complete mode, the missing aggregation is reported first.
    if facts.mode == "append" or list(_nothing_to_complete(facts)):
        return
    joins = list(facts.steps(Kind.JOIN))
    if facts.mode == "update" and not facts.spark_version.startswith(ONLY_APPEND):
        joins = [step for step in joins if step.join and "outer" in step.join.type]
    # The last one represents those below it.
    yield from joins[-1:]


@rule(
    "HW-JOIN-MODE-UNSUPPORTED",
    "Sink `{sink}`: the {type} join of two streams does not support {mode} mode: {why}.",
    "{hint}",
    example="""
        tables:
          clicked: SELECT * FROM impressions LEFT JOIN clicks ON ad = clicked_ad AND clicked_at BETWEEN …
        sinks:
          clicked: {reads: clicked, connector: console, mode: update}
    """,
    refuses=_join_in_mode,
)
def join_mode(query: Query) -> Iterator[Match]:
    """A join of two streams emits each pair once, and an unmatched row once it is final, so it needs append
    mode. Complete mode would need the whole result, but Spark does not store the result of a join."""
    for step in _join_in_mode(query.facts):
        assert step.join is not None, "it is a join"
        why = "it emits each pair only once"
        if "outer" in step.join.type:
            why = "it emits unmatched rows only once, when they are final"
        hint = use_mode(query.facts, APART)
        yield query.match(step, type=step.join.type, mode=query.facts.mode, why=why, hint=hint)


def _limit_in_update(facts: QueryFacts) -> Iterator[Operator]:
    yield from facts.steps(Kind.LIMIT) if facts.mode == "update" else ()


@rule(
    "HW-LIMIT-MODE-UNSUPPORTED",
    "Sink `{sink}`: `LIMIT` does not support update mode, because Spark cannot retract rows it has already emitted.",
    "{hint}",
    example="""
        tables:
          few: SELECT * FROM orders LIMIT 10
        sinks:
          few: {reads: few, connector: console, mode: update}
    """,
    refuses=_limit_in_update,
)
def limit_in_update_mode(query: Query) -> Iterator[Match]:
    """A limit emits the first rows and then no more. In update mode, these rows can change later, so Spark
    does not support a limit there."""
    for step in _limit_in_update(query.facts):
        hint = use_mode(query.facts, "apply the limit to each batch in a `foreach_batch` function")
        yield query.match(step, hint=hint)


def _union_in_complete(facts: QueryFacts) -> Iterator[Operator]:
    if facts.mode == "complete" and any(facts.steps(*AGGREGATING)):
        for step in facts.steps(Kind.UNION):
            # An aggregation above includes all rows.
            above = any(each.kind is Kind.AGGREGATION for each in facts.above(step))
            if step.details == IN_PART_AGGREGATED and not above:
                yield step


@rule(
    "HW-UNION-MODE-UNSUPPORTED",
    "Sink `{sink}`: complete mode does not support a UNION of aggregated and plain rows. Each batch would "
    "replace the earlier plain rows with the new ones.",
    "Use a separate sink for each part of the UNION, or set `mode: update`.",
    example="""
        tables:
          both: SELECT word, NULL AS n FROM lines UNION ALL SELECT word, count(*) FROM lines GROUP BY word
        sinks:
          both: {reads: both, connector: console, mode: complete}
    """,
    refuses=_union_in_complete,
)
def union_in_complete_mode(query: Query) -> Iterator[Match]:
    """In complete mode, each batch replaces the earlier output. A UNION of results and plain rows would emit
    all results, but only the newest plain rows. Spark starts such a query without an error."""
    yield from map(query.match, _union_in_complete(query.facts))


IN_PART_AGGREGATED = "in part aggregated"
