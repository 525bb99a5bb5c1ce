"""Rules about state that never ends."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from headwater.checks.bounds import Bound, Extent, bounds_of, growing_values, is_time
from headwater.checks.guarantees import call_of
from headwater.checks.joins import sides_in_words, waits_for_ever
from headwater.checks.pitfalls import why_not_apart
from headwater.checks.rules import (
    AGGREGATING,
    MODES,
    Match,
    Query,
    Severity,
    aggregated_below,
    rule,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import ArbitraryState, Kind, Operator
from headwater.values import capitalized, quoted

_EVERY_VALUE = ("CollectList", "ListAgg")
_ENDLESS = {
    **dict.fromkeys(_EVERY_VALUE, "keep a count, a sum or a maximum instead"),
    "Mode": "group by the value too and count its rows",
    **dict.fromkeys(
        ("Median", "Percentile", "PercentileCont", "PercentileDisc"),
        "write `percentile_approx(x, 0.5)`, which keeps a summary of a fixed size",
    ),
}
"""Beside lists what counts how often each value came, with what keeps less and may do as well. A set is left
out: who asks for one has few as a rule."""


def open_ended(query: Query, *kinds: Kind) -> Iterator[tuple[Operator, Bound]]:
    """The operators of some kinds whose state has no end. A query that Spark refuses has other troubles."""
    for bound in () if query.facts.refusal else bounds_of(query.facts):
        step = query.facts.operators[bound.operator]
        if step.kind in kinds and bound.extent in (Extent.UNBOUNDED, Extent.BY_KEYS):
            yield step, bound


@rule(
    "HW-UNBOUNDED-WINDOWS",
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Add {missing} (`watermark:` in the file, `withWatermark` in PySpark).",
    Severity.WARNING,
    example="""
        sources:
          clicks: {connector: files, path: clicks/, format: json, schema: {page: string, at: timestamp}}
        tables:
          per_hour: SELECT window(at, '1 hour') AS hour, count(*) AS n FROM clicks GROUP BY 1
        sinks:
          per_hour: {reads: per_hour, connector: console, mode: update}
    """,
)
def windows_kept(query: Query) -> Iterator[Match]:
    """New windows come as long as time goes on. Without a watermark Spark can't know that one is over, and
    keeps all of them: the state grows until memory or disk is full."""
    for step, bound in open_ended(query, *AGGREGATING) if query.facts.mode != "complete" else ():
        # Why a watermark that comes before can't clear the keys is told by the rules about watermarks.
        marked = any(each.kind is Kind.WATERMARK for each in query.facts.below(step))
        if bound.missing and not marked:
            yield query.match(step, operator=step.name, why=bound.why, missing=bound.missing)


@rule(
    "HW-UNBOUNDED-COMPLETE",
    "The state of {operator} in the query of `{sink}` only grows: {why}.",
    "Use {missing}.",
    Severity.WARNING,
    example="""
        tables:
          per_hour: SELECT window(at, '1 hour') AS hour, count(*) AS n FROM clicks GROUP BY 1
        sinks:
          per_hour: {reads: per_hour, connector: console, mode: complete}
    """,
)
def complete_keeps_all(query: Query) -> Iterator[Match]:
    """Complete mode writes the whole result each time, so it keeps all of it, whatever the watermark says.
    With windows among the keys the result itself grows for ever, and every batch writes all of it."""
    for step, bound in open_ended(query, *AGGREGATING) if query.facts.mode == "complete" else ():
        if any(map(is_time, step.keys)):
            params = {"operator": step.name, "why": bound.why, "missing": bound.missing}
            yield Match(query.at("mode"), params, query.facts.sink, step.table)


@rule(
    "HW-UNBOUNDED-DEDUP",
    "The state of `{operator}` in the query of `{sink}` only grows: {why}.",
    "{hint}",
    Severity.WARNING,
    example="""
        sources:
          payments: {connector: files, path: payments/, format: json, schema: {id: string, at: timestamp}}
        tables:
          once: {reads: payments, distinct: [id]}
    """,
)
def repeats_remembered(query: Query) -> Iterator[Match]:
    """To drop every repeat, however late, all keys that ever came have to be remembered. Keys such as ids
    never end; most repeats come soon after the first row, and a watermark says how soon."""
    within = "write `within: watermark` (`dropDuplicatesWithinWatermark` in PySpark)"
    for step, bound in open_ended(query, Kind.DEDUP):
        if not why_not_apart(query.facts, step):
            hint = f"If repeats come soon, declare a watermark on the event time and {within}."
            if step.event_times:
                more = f"add `{step.event_times[0].column}` to the columns"
                hint = f"If repeats come within the watermark's delay, {within}, or {more}."
            yield query.match(step, operator=step.name, why=bound.why, hint=hint)


@rule(
    "HW-UNBOUNDED-JOIN",
    "The state of the join of {left} with {right} in the query of `{sink}` only grows: {why}.",
    "Add {missing}.",
    Severity.WARNING,
    example="""
        tables:
          clicked: SELECT i.ad, shown, clicked FROM impressions i JOIN clicks c ON i.ad = c.ad
    """,
)
def join_keeps_all(query: Query) -> Iterator[Match]:
    """A row of one stream waits for partners in the other. Without watermarks and a time range Spark can't
    know that none will come, and keeps every row of both."""
    for step, bound in open_ended(query, Kind.JOIN):
        # An outer join that needs the end which is missing is an error of its own.
        if step.join is not None and not any(waits_for_ever(step)):
            left, right = sides_in_words(step.join)
            yield query.match(step, left=left, right=right, why=bound.why, missing=bound.missing)


@rule(
    "HW-UNBOUNDED-COLLECT",
    "{aggregates} in the query of `{sink}` keeps every {values} that ever came, since no key is ever over.",
    "Group by a window of a column with a watermark too, or {instead}.",
    Severity.WARNING,
    example="""
        tables:
          pages: SELECT user, collect_list(page) AS pages FROM clicks GROUP BY user
    """,
)
def values_grow(query: Query) -> Iterator[Match]:
    """`collect_list` and its like keep every value of a key; `median`, `mode` and `percentile` every distinct
    one, with how often it came. Where a key is never over, what is kept for it has no end: it is read and
    written whole with every batch that touches it."""
    for bound in () if query.facts.refusal else bounds_of(query.facts):
        step = query.facts.operators[bound.operator]
        grown = [each for each in growing_values(step) if each.function in _ENDLESS]
        if grown and not bound.kept and step.kind is Kind.AGGREGATION:
            listed = any(each.function in _EVERY_VALUE for each in grown)
            yield query.match(
                step,
                aggregates=quoted(map(call_of, grown), " and "),
                values="value" if listed else "distinct value",
                instead=" or ".join(dict.fromkeys(_ENDLESS[each.function] for each in grown)),
            )


# A rule about the number of pieces that state is divided into.

KEY = "spark.sql.shuffle.partitions"
FEW = 16
FOR_EACH_CORE = 8


@rule(
    "HW-STATE-PARTITIONS",
    "The state of the sink `{sink}` is divided into {partitions} partitions for {cores} core(s): every batch "
    "runs {partitions} tasks for each step that keeps state, most of them for a few rows or none (200 on two "
    "cores make a batch of 1,000 rows take ten seconds instead of a fifth of one).",
    "Set `spark.sql.shuffle.partitions` to {cores}, or up to twice that, before the first start; it can't be "
    "changed later. A declared pipeline that leaves it out gets one partition for each core.",
    Severity.ADVICE,
    example="""
        spark: {spark.sql.shuffle.partitions: 200}   # on a machine with 4 cores
        tables:
          per_page: SELECT page, count(*) AS n FROM clicks GROUP BY page
    """,
    lasting=False,
)
def state_partitions(query: Query) -> Iterator[Match]:
    """Every batch runs a task for each partition of state and writes its files, also for partitions that
    get no row. Spark's default of 200 is made for large batch jobs; the number freezes at the first start."""
    facts = query.facts
    written = facts.settings.get(KEY, "")
    partitions = int(written) if written.isdigit() else 0
    # What froze at the first start can only be lived with.
    if facts.stateful and not query.begun and partitions > max(FEW, FOR_EACH_CORE * facts.cores):
        yield query.match(
            query.setting_at(KEY, written) or query.at(), partitions=partitions, cores=facts.cores
        )


# Rules about state of one's own: `applyInPandasWithState` and `transformWithState`.

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_APPLY = "applyInPandasWithState"


def states_of(facts: QueryFacts) -> Iterator[tuple[Operator, ArbitraryState]]:
    """The operators with state of one's own on streams."""
    return ((step, step.state) for step in facts.steps(Kind.STATE) if step.state is not None)


def _state_mode(facts: QueryFacts) -> Iterator[tuple[Operator, ArbitraryState]]:
    if any(facts.steps(*AGGREGATING)) or facts.mode == "complete":
        return
    for step, state in states_of(facts):
        # Rows that stay as they are fit update mode, too; only the older call is not taken so.
        if state.mode != facts.mode and (facts.mode == "append" or state.call == _APPLY):
            yield step, state


@rule(
    "HW-STATE-MODE",
    "The sink `{sink}` is in {mode} mode, and `{call}` gives it rows in {given} mode.",
    "{hint}",
    example="""
        def counts(clicks):  # the sink is in append mode
            return clicks.groupBy("user").transformWithState(Counts(), SCHEMA, "Update", "None")
    """,
    refuses=_state_mode,
)
def state_mode(query: Query) -> Iterator[Match]:
    """A function with state says whether the rows that it gives stay as they are (append) or replace those of
    the same key (update). In a sink of append mode changes would be taken for rows that stay, which Spark
    refuses for one of the calls and lets pass for the other."""
    facts = query.facts
    for step, state in _state_mode(facts):
        given, call = state.mode, state.call
        ways = [f"use {given} mode (`mode: {given}` at the sink)"] if given in (facts.modes or MODES) else []
        stay = " if its rows stay as they are" if facts.mode == "append" else ""
        ways.append(f'give `{call}` `outputMode="{facts.mode}"`{stay}')
        hint = f"{capitalized('; or '.join(ways))}."
        params = {"mode": facts.mode, "call": call, "given": given, "hint": hint}
        yield Match(query.at("mode"), params, facts.sink, step.table)


@rule(
    "HW-AGGREGATION-AFTER-UPDATE",
    "The query of the sink `{sink}` aggregates the rows of `{call}` in update mode, and would count a row "
    "again each time it changes.",
    'Let `{call}` give rows that stay as they are, with `outputMode="append"`.',
    example="""
        def totals(clicks):
            changes = clicks.groupBy("user").transformWithState(Counts(), SCHEMA, "Update", "None")
            return changes.groupBy().sum("n")
    """,
)
def state_aggregated(query: Query) -> Iterator[Match]:
    """Rows that a function with state gives in update mode replace earlier ones of the same key. An
    aggregation over them does not know that, and counts each change as a row of its own."""
    for step, state in states_of(query.facts):
        if state.mode == "update" and any(each.kind in AGGREGATING for each in query.facts.above(step)):
            yield query.match(step, call=state.call)


@rule(
    "HW-STATE-AFTER-AGGREGATION",
    "`{call}` reads the results of an aggregation, which Spark does not take.",
    "Aggregate inside `{call}`, or write the results with a sink and read that in another pipeline.",
    example="""
        def first_ones(clicks):
            return clicks.groupBy("user").count().groupBy("user").applyInPandasWithState(first, …)
    """,
)
def state_after_results(query: Query) -> Iterator[Match]:
    """`applyInPandasWithState` can't read the results of an aggregation, in no mode."""
    for step, state in states_of(query.facts):
        if state.call == _APPLY and aggregated_below(query.facts, step):
            yield query.match(step, call=state.call)


@rule(
    "HW-STATE-OPERATOR-CONFLICT",
    "The query of the sink `{sink}` calls `applyInPandasWithState` {count} times, and Spark takes one.",
    "Use `transformWithState`, or write what the first gives with a sink and read that in another pipeline.",
    example="""
        def both(clicks):
            return second(first(clicks))  # each calls applyInPandasWithState
    """,
)
def several_states(query: Query) -> Iterator[Match]:
    """Spark takes one `applyInPandasWithState` in a query; `transformWithState` has no such limit."""
    older = [step for step, state in states_of(query.facts) if state.call == _APPLY]
    if len(older) > 1:
        yield query.match(older[-1], count=len(older))


@rule(
    "HW-TIMERS-NEED-WATERMARK",
    "`{call}` waits by event time, and {streams} has no watermark by which that time moves.",
    "Declare one (`watermark:` in the file, `withWatermark` in PySpark), or let it wait by processing time.",
    example="""
        def sessions(clicks):  # clicks has no watermark
            return clicks.groupBy("user").transformWithState(Sessions(), SCHEMA, "Append", "EventTime")
    """,
)
def timers_need_watermark(query: Query) -> Iterator[Match]:
    """Event time moves with the watermark. Without one, a timer or timeout of event time never comes."""
    for step, state in states_of(query.facts):
        if state.time == "event time" and not step.event_times:
            # Spark lets one of the calls start, whose timers then never come.
            yield query.match(step, call=state.call, streams=quoted(step.streams), acceptable=query.runs)


@rule(
    "HW-AVAILABLE-NOW-UNBOUNDED",
    "The sink `{sink}` has the trigger `available now`, and `{call}` waits by processing time, for which "
    "Spark runs batch after batch: it never ends.",
    "Use another trigger (`every 1 minute`) and `headwater run --until-idle`, or wait by event time.",
    example="""
        sinks:
          idle: {reads: idle, connector: console, mode: update, trigger: available now}   # timers inside
    """,
)
def never_ends(query: Query) -> Iterator[Match]:
    """`available now` ends when nothing is left to do. With timers or timeouts of processing time Spark
    always has another batch to run, so it reads what there is, and goes on for ever."""
    for step, state in states_of(query.facts) if query.facts.trigger == "available now" else ():
        if state.time == "processing time":
            yield query.match(query.at("trigger"), table=step.table, call=state.call, acceptable=True)


@rule(
    "HW-STATE-STORE",
    "`{call}` needs the state store RocksDB, and the settings name {provider}.",
    "Set `{key}` to `org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider` before the "
    "first start; a declared pipeline that leaves the setting out has it.",
    example="""
        spark:
          spark.sql.streaming.stateStore.providerClass: …HDFSBackedStateStoreProvider
    """,
)
def state_store(query: Query) -> Iterator[Match]:
    """`transformWithState` keeps several variables for each key, which only RocksDB can. Headwater chooses
    that; a setting of the user's may name another one, and the query then dies in its first batch."""
    provider = query.facts.settings.get(PROVIDER, "")
    if provider and "RocksDB" not in provider:
        for step, state in states_of(query.facts):
            if state.call != _APPLY:
                name = provider.rpartition(".")[2]
                yield query.match(step, call=state.call, provider=name, key=PROVIDER)


@rule(
    "HW-PROTOBUF-MISSING",
    "`{call}` needs the Python package protobuf, which is not installed here.",
    "Install it: `pip install protobuf`.",
    example="""
        $ pip uninstall protobuf
        $ headwater check pipeline.yml   # a table uses transformWithState
    """,
    lasting=False,
)
def protobuf_missing(query: Query) -> Iterator[Match]:
    """`transformWithState` talks to Spark through the package protobuf, which PySpark does not bring; without
    it the worker dies and says nothing of the cause."""
    calls = [(step, state.call) for step, state in states_of(query.facts) if state.call != _APPLY]
    # The package `google` is there only where one of those inside is.
    if calls and (find_spec("google") is None or find_spec("google.protobuf") is None):
        yield from (query.match(step, call=call) for step, call in calls)
