"""Rules about state of one's own: `applyInPandasWithState` and `transformWithState`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from headwater.checks.operations import told
from headwater.checks.rule import Finding, ModeRule, Query, QueryRule, Severity
from headwater.checks.steps import (
    AGGREGATING,
    MODES,
    aggregated_below,
    aggregations,
    on_streams,
    streams_in_words,
)
from headwater.errors.catalogue.checks import (
    NEVER_ENDS,
    PROTOBUF_MISSING,
    SEVERAL_STATES,
    STATE_AFTER_RESULTS,
    STATE_AGGREGATED,
    STATE_MODE,
    STATE_STORE,
    TIMERS_NEED_WATERMARK,
)
from headwater.plan import QueryFacts
from headwater.plan.operators import ArbitraryState, Kind, Operator

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_APPLY = "applyInPandasWithState"


def states_of(facts: QueryFacts) -> Iterator[tuple[int, Operator, ArbitraryState]]:
    """The operators with state of one's own on streams, with their places."""
    for place, step in on_streams(facts, Kind.STATE):
        if step.state is not None:
            yield place, step, step.state


class StateMode(ModeRule):
    """A function with state says whether the rows that it gives stay as they are (append) or replace those of
    the same key (update). In a sink of append mode changes would be taken for rows that stay, which Spark
    refuses for one of the calls and lets pass for the other."""

    entries = {STATE_MODE: Severity.ERROR}
    example = """
        def counts(clicks):  # the sink is in append mode
            return clicks.groupBy("user").transformWithState(Counts(), SCHEMA, "Update", "None")
    """

    def objects(self, facts: QueryFacts) -> Iterator[Operator | None]:
        if aggregations(facts) or facts.mode == "complete":
            return
        for _, step, state in states_of(facts):
            # Rows that stay as they are fit update mode, too; only the older call is not taken so.
            if state.mode != facts.mode and (facts.mode == "append" or state.call == _APPLY):
                yield step

    def finding(self, query: Query, step: Operator | None) -> Finding:
        assert step is not None, "a function with state is to blame"
        assert step.state is not None, "it has state of its own"
        facts, given = query.facts, step.state.mode
        ways = [f"use {given} mode (`mode: {given}` at the sink)"] if given in (facts.modes or MODES) else []
        stay = " if its rows stay as they are" if facts.mode == "append" else ""
        ways.append(f'give `{step.state.call}` `outputMode="{facts.mode}"`{stay}')
        remedy = "; or ".join(ways)
        problem = STATE_MODE.at(
            query.at("mode"),
            sink=facts.sink,
            mode=facts.mode,
            call=step.state.call,
            given=given,
            hint=f"{remedy[:1].upper()}{remedy[1:]}.",
        )
        return Finding(problem, sink=facts.sink, table=step.table)


class StateAggregated(QueryRule):
    """Rows that a function with state gives in update mode replace earlier ones of the same key. An
    aggregation over them does not know that, and counts each change as a row of its own."""

    entries = {STATE_AGGREGATED: Severity.ERROR}
    example = """
        def totals(clicks):
            changes = clicks.groupBy("user").transformWithState(Counts(), SCHEMA, "Update", "None")
            return changes.groupBy().sum("n")
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        for place, step, state in states_of(facts):
            above = [facts.operators[each] for each in facts.above(place)]
            if state.mode == "update" and any(each.kind in AGGREGATING for each in above):
                yield told(query, STATE_AGGREGATED, step, sink=facts.sink, call=state.call)


class StateAfterResults(QueryRule):
    """`applyInPandasWithState` can't read the results of an aggregation, in no mode."""

    entries = {STATE_AFTER_RESULTS: Severity.ERROR}
    example = """
        def first_ones(clicks):
            return clicks.groupBy("user").count().groupBy("user").applyInPandasWithState(first, …)
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for place, step, state in states_of(query.facts):
            if state.call == _APPLY and aggregated_below(query.facts, place):
                yield told(query, STATE_AFTER_RESULTS, step, call=state.call)


class SeveralStates(QueryRule):
    """Spark takes one `applyInPandasWithState` in a query; `transformWithState` has no such limit."""

    entries = {SEVERAL_STATES: Severity.ERROR}
    example = """
        def both(clicks):
            return second(first(clicks))  # each calls applyInPandasWithState
    """

    def about(self, query: Query) -> Iterator[Finding]:
        older = [step for _, step, state in states_of(query.facts) if state.call == _APPLY]
        if len(older) > 1:
            yield told(query, SEVERAL_STATES, older[-1], sink=query.facts.sink, count=len(older))


class TimersNeedWatermark(QueryRule):
    """Event time moves with the watermark. Without one, a timer or timeout of event time never comes."""

    entries = {TIMERS_NEED_WATERMARK: Severity.ERROR}
    example = """
        def sessions(clicks):  # clicks has no watermark
            return clicks.groupBy("user").transformWithState(Sessions(), SCHEMA, "Append", "EventTime")
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for _, step, state in states_of(query.facts):
            if state.time == "event time" and not step.event_times:
                problem = TIMERS_NEED_WATERMARK.at(
                    query.where(step), call=state.call, streams=streams_in_words(step)
                )
                # Spark lets one of the calls start, whose timers then never come.
                runs = query.facts.refusal is None
                yield Finding(problem, sink=query.facts.sink, table=step.table, acceptable=runs)


class NeverEnds(QueryRule):
    """`available now` ends when nothing is left to do. With timers or timeouts of processing time Spark
    always has another batch to run, so it reads what there is, and goes on for ever."""

    entries = {NEVER_ENDS: Severity.ERROR}
    example = """
        sinks:
          idle: {reads: idle, connector: console, mode: update, trigger: available now}   # timers inside
    """

    def about(self, query: Query) -> Iterator[Finding]:
        if query.facts.trigger != "available now":
            return
        for _, step, state in states_of(query.facts):
            if state.time == "processing time":
                problem = NEVER_ENDS.at(query.at("trigger"), sink=query.facts.sink, call=state.call)
                yield Finding(problem, sink=query.facts.sink, table=step.table, acceptable=True)


class StateStore(QueryRule):
    """`transformWithState` keeps several variables for each key, which only RocksDB can. Headwater chooses
    that; a setting of the user's may name another one, and the query then dies in its first batch."""

    entries = {STATE_STORE: Severity.ERROR}
    example = """
        spark:
          spark.sql.streaming.stateStore.providerClass: …HDFSBackedStateStoreProvider
    """

    def about(self, query: Query) -> Iterator[Finding]:
        provider = query.facts.settings.get(PROVIDER, "")
        if not provider or "RocksDB" in provider:
            return
        for _, step, state in states_of(query.facts):
            if state.call != _APPLY:
                name = provider.rpartition(".")[2]
                yield told(query, STATE_STORE, step, call=state.call, provider=name, key=PROVIDER)


class ProtobufMissing(QueryRule):
    """`transformWithState` talks to Spark through the package protobuf, which PySpark does not bring; without
    it the worker dies and says nothing of the cause."""

    entries = {PROTOBUF_MISSING: Severity.ERROR}
    example = """
        $ pip uninstall protobuf
        $ headwater check pipeline.yml   # a table uses transformWithState
    """
    lasting = False

    def about(self, query: Query) -> Iterator[Finding]:
        for _, step, state in states_of(query.facts):
            if state.call != _APPLY and not _has_protobuf():
                yield told(query, PROTOBUF_MISSING, step, call=state.call)


def _has_protobuf() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False
