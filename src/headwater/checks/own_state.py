"""Rules about state of one's own: `applyInPandasWithState` and `transformWithState`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from headwater.checks.rules import Match, Query, rule
from headwater.checks.steps import (
    AGGREGATING,
    MODES,
    aggregated_below,
    aggregations,
    on_streams,
    streams_in_words,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import ArbitraryState, Kind, Operator
from headwater.values import capitalized

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_APPLY = "applyInPandasWithState"


def states_of(facts: QueryFacts) -> Iterator[tuple[int, Operator, ArbitraryState]]:
    """The operators with state of one's own on streams, with their places."""
    for place, step in on_streams(facts, Kind.STATE):
        if step.state is not None:
            yield place, step, step.state


def _state_mode(facts: QueryFacts) -> Iterator[Operator]:
    if aggregations(facts) or facts.mode == "complete":
        return
    for _, step, state in states_of(facts):
        # Rows that stay as they are fit update mode, too; only the older call is not taken so.
        if state.mode != facts.mode and (facts.mode == "append" or state.call == _APPLY):
            yield step


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
    for step in _state_mode(facts):
        assert step.state is not None, "it has state of its own"
        given, call = step.state.mode, step.state.call
        ways = [f"use {given} mode (`mode: {given}` at the sink)"] if given in (facts.modes or MODES) else []
        stay = " if its rows stay as they are" if facts.mode == "append" else ""
        hint = "; or ".join([*ways, f'give `{call}` `outputMode="{facts.mode}"`{stay}'])
        yield query.match(
            query.at("mode"),
            table=step.table,
            mode=facts.mode,
            call=call,
            given=given,
            hint=f"{capitalized(hint)}.",
        )


@rule(
    "HW-STATE-AGGREGATED",
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
    facts = query.facts
    for place, step, state in states_of(facts):
        above = [facts.operators[each] for each in facts.above(place)]
        if state.mode == "update" and any(each.kind in AGGREGATING for each in above):
            yield query.match(step, call=state.call)


@rule(
    "HW-STATE-AFTER-RESULTS",
    "`{call}` reads the results of an aggregation, which Spark does not take.",
    "Aggregate inside `{call}`, or write the results with a sink and read that in another pipeline.",
    example="""
        def first_ones(clicks):
            return clicks.groupBy("user").count().groupBy("user").applyInPandasWithState(first, …)
    """,
)
def state_after_results(query: Query) -> Iterator[Match]:
    """`applyInPandasWithState` can't read the results of an aggregation, in no mode."""
    for place, step, state in states_of(query.facts):
        if state.call == _APPLY and aggregated_below(query.facts, place):
            yield query.match(step, call=state.call)


@rule(
    "HW-SEVERAL-STATES",
    "The query of the sink `{sink}` calls `applyInPandasWithState` {count} times, and Spark takes one.",
    "Use `transformWithState`, or write what the first gives with a sink and read that in another pipeline.",
    example="""
        def both(clicks):
            return second(first(clicks))  # each calls applyInPandasWithState
    """,
)
def several_states(query: Query) -> Iterator[Match]:
    """Spark takes one `applyInPandasWithState` in a query; `transformWithState` has no such limit."""
    older = [step for _, step, state in states_of(query.facts) if state.call == _APPLY]
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
    for _, step, state in states_of(query.facts):
        if state.time == "event time" and not step.event_times:
            # Spark lets one of the calls start, whose timers then never come.
            runs = query.facts.refusal is None
            yield query.match(step, call=state.call, streams=streams_in_words(step), acceptable=runs)


@rule(
    "HW-NEVER-ENDS",
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
    if query.facts.trigger != "available now":
        return
    for _, step, state in states_of(query.facts):
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
    if not provider or "RocksDB" in provider:
        return
    for _, step, state in states_of(query.facts):
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
    for _, step, state in states_of(query.facts):
        if state.call != _APPLY and not _has_protobuf():
            yield query.match(step, call=state.call)


def _has_protobuf() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False
