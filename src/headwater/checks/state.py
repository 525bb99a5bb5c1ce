"""Rules about unbounded state and custom state."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from headwater.checks.bounds import Bound, Extent, bounds_of, growing_values, is_time
from headwater.checks.guarantees import call_of
from headwater.checks.joins import sides_in_words, unmatched_never_emitted
from headwater.checks.pitfalls import why_not_deduplicated
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
from headwater.values import capitalized, count_of, quoted

_EVERY_VALUE = ("CollectList", "ListAgg")
_ENDLESS = {
    **dict.fromkeys(_EVERY_VALUE, "use a count, a sum or a maximum instead"),
    "Mode": "group by the value and count its rows",
    **dict.fromkeys(
        ("Median", "Percentile", "PercentileCont", "PercentileDisc"),
        "use `percentile_approx(x, 0.5)`, which stores a summary of fixed size",
    ),
}
"""Aggregates that store all values, with alternatives. Sets are not included: they usually have few
values."""


def open_ended(query: Query, *kinds: Kind) -> Iterator[tuple[Operator, Bound]]:
    """The operators of some kinds with unbounded or per-key state. A query that Spark rejects has other
    problems."""
    for bound in () if query.facts.refusal else bounds_of(query.facts):
        step = query.facts.operators[bound.operator]
        if step.kind in kinds and bound.extent in (Extent.UNBOUNDED, Extent.PER_KEY):
            yield step, bound


@rule(
    "HW-UNBOUNDED-WINDOWS",
    "Sink `{sink}`: the state of `{operator}` is unbounded: {why}.",
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
def unbounded_windows(query: Query) -> Iterator[Match]:
    """Time produces new windows continuously. Without a watermark, Spark cannot know that a window is
    complete, and never removes one: the state grows until memory or disk is full."""
    for step, bound in open_ended(query, *AGGREGATING) if query.facts.mode != "complete" else ():
        # If a watermark exists but cannot remove the keys, the watermark rules explain why.
        marked = any(each.kind is Kind.WATERMARK for each in query.facts.below(step))
        if bound.missing and not marked:
            yield query.match(step, operator=step.name, why=bound.why, missing=bound.missing)


@rule(
    "HW-UNBOUNDED-COMPLETE",
    "Sink `{sink}`: the state of `{operator}` is unbounded: {why}.",
    "Use {missing}.",
    Severity.WARNING,
    example="""
        tables:
          per_hour: SELECT window(at, '1 hour') AS hour, count(*) AS n FROM clicks GROUP BY 1
        sinks:
          per_hour: {reads: per_hour, connector: console, mode: complete}
    """,
)
def unbounded_complete(query: Query) -> Iterator[Match]:
    """Complete mode writes the whole result in every batch, so Spark stores all of it, regardless of the
    watermark. If windows are among the keys, the result grows forever, and every batch writes all of it."""
    for step, bound in open_ended(query, *AGGREGATING) if query.facts.mode == "complete" else ():
        if any(map(is_time, step.keys)):
            params = {"operator": step.name, "why": bound.why, "missing": bound.missing}
            yield Match(query.at("mode"), params, query.facts.sink, step.table)


@rule(
    "HW-UNBOUNDED-DEDUP",
    "Sink `{sink}`: the state of `{operator}` is unbounded: {why}.",
    "{hint}",
    Severity.WARNING,
    example="""
        sources:
          payments: {connector: files, path: payments/, format: json, schema: {id: string, at: timestamp}}
        tables:
          once: {reads: payments, deduplicate: [id]}
    """,
)
def unbounded_dedup(query: Query) -> Iterator[Match]:
    """To drop every duplicate, regardless of how late it arrives, Spark must store all keys ever read. IDs
    never repeat, so this state only grows. Most duplicates arrive soon after the first row, and a watermark
    defines how soon."""
    within = "set `within: watermark` (in PySpark, use `dropDuplicatesWithinWatermark`)"
    for step, bound in open_ended(query, Kind.DEDUP):
        if not why_not_deduplicated(query.facts, step):
            hint = f"If duplicates arrive soon, declare a watermark on the event time and {within}."
            if step.event_times:
                more = f"add `{step.event_times[0].column}` to the columns"
                hint = f"If duplicates arrive within the delay of the watermark, {within}, or {more}."
            yield query.match(step, operator=step.name, why=bound.why, hint=hint)


@rule(
    "HW-UNBOUNDED-JOIN",
    "Sink `{sink}`: the state of the join of {left} with {right} is unbounded: {why}.",
    "Add {missing}.",
    Severity.WARNING,
    example="""
        tables:
          clicked: SELECT i.ad, shown, clicked FROM impressions i JOIN clicks c ON i.ad = c.ad
    """,
)
def unbounded_join(query: Query) -> Iterator[Match]:
    """A row of one stream waits for matches in the other. Without watermarks and a time range, Spark cannot
    know that no match will arrive, and stores every row of both streams."""
    for step, bound in open_ended(query, Kind.JOIN):
        # A separate rule reports outer joins that need the missing bound.
        if step.join is not None and not any(unmatched_never_emitted(step)):
            left, right = sides_in_words(step.join)
            yield query.match(step, left=left, right=right, why=bound.why, missing=bound.missing)


@rule(
    "HW-UNBOUNDED-COLLECT",
    "Sink `{sink}`: the state of {aggregates} is unbounded: it stores every {values} of a key, and keys are "
    "never removed.",
    "Also group by a window of a column with a watermark, or {instead}.",
    Severity.WARNING,
    example="""
        tables:
          pages: SELECT user, collect_list(page) AS pages FROM clicks GROUP BY user
    """,
)
def unbounded_collect(query: Query) -> Iterator[Match]:
    """`collect_list` and similar aggregates store every value of a key. `median`, `mode` and `percentile`
    store every distinct value with its count. If a key is never removed, its state grows without limit, and
    every batch that updates the key reads and writes all of it."""
    for bound in () if query.facts.refusal else bounds_of(query.facts):
        step = query.facts.operators[bound.operator]
        grown = [each for each in growing_values(step) if each.function in _ENDLESS]
        if grown and not bound.retention and step.kind is Kind.AGGREGATION:
            listed = any(each.function in _EVERY_VALUE for each in grown)
            yield query.match(
                step,
                aggregates=quoted(map(call_of, grown), " and "),
                values="value" if listed else "distinct value",
                instead=" or ".join(dict.fromkeys(_ENDLESS[each.function] for each in grown)),
            )


# A rule about the number of state partitions.

KEY = "spark.sql.shuffle.partitions"
FEW = 16
FOR_EACH_CORE = 8


@rule(
    "HW-STATE-PARTITIONS",
    "Sink `{sink}`: the state has {partitions} partitions for {cores}. Every batch runs {partitions} tasks "
    "per stateful operator, most of them for few rows or none.",
    "Before the first start, set `spark.sql.shuffle.partitions` to the number of cores, or up to twice "
    "that. It cannot be changed later. A pipeline that omits it uses one partition per core.",
    Severity.NOTE,
    example="""
        spark: {spark.sql.shuffle.partitions: 200}   # on a machine with 4 cores
        tables:
          per_page: SELECT page, count(*) AS n FROM clicks GROUP BY page
    """,
    lasting=False,
)
def state_partitions(query: Query) -> Iterator[Match]:
    """Every batch runs one task per state partition and writes its files, even for partitions without new
    rows. On 2 cores, 200 partitions slow down a batch of 1,000 rows from 0.2 s to 10 s. Spark's default of
    200 is meant for large batch jobs. Spark stores the number at the first start."""
    facts = query.facts
    written = facts.settings.get(KEY, "")
    partitions = int(written) if written.isdigit() else 0
    # After the first start, the number cannot be changed.
    if facts.stateful and not query.begun and partitions > max(FEW, FOR_EACH_CORE * facts.cores):
        yield query.match(
            query.setting_at(KEY, written) or query.at(),
            partitions=partitions,
            cores=count_of(facts.cores, "core"),
        )


# Rules about custom state: `applyInPandasWithState` and `transformWithState`.

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_APPLY = "applyInPandasWithState"


def states_of(facts: QueryFacts) -> Iterator[tuple[Operator, ArbitraryState]]:
    """The operators with custom state on streams."""
    return ((step, step.state) for step in facts.steps(Kind.STATE) if step.state is not None)


def _state_mode(facts: QueryFacts) -> Iterator[tuple[Operator, ArbitraryState]]:
    if any(facts.steps(*AGGREGATING)) or facts.mode == "complete":
        return
    for step, state in states_of(facts):
        # Final rows are also valid in update mode, except for the older call.
        if state.mode != facts.mode and (facts.mode == "append" or state.call == _APPLY):
            yield step, state


@rule(
    "HW-STATE-MODE",
    "Sink `{sink}`: `{call}` emits rows in {given} mode, but the sink is in {mode} mode.",
    "{hint}",
    example="""
        def counts(clicks):  # the sink is in append mode
            return clicks.groupBy("user").transformWithState(Counts(), SCHEMA, "Update", "None")
    """,
    refuses=_state_mode,
)
def state_mode(query: Query) -> Iterator[Match]:
    """A stateful function declares whether its rows are final (append) or replace earlier rows of the same
    key (update). A sink in append mode would treat updates as final rows. Spark rejects this for
    `applyInPandasWithState`, but not for `transformWithState`."""
    facts = query.facts
    for step, state in _state_mode(facts):
        given, call = state.mode, state.call
        ways = [f"set `mode: {given}` on the sink"] if given in (facts.modes or MODES) else []
        stay = " if its rows are final" if facts.mode == "append" else ""
        ways.append(f'call `{call}` with `outputMode="{facts.mode}"`{stay}')
        hint = f"{capitalized(', or '.join(ways))}."
        params = {"mode": facts.mode, "call": call, "given": given, "hint": hint}
        yield Match(query.at("mode"), params, facts.sink, step.table)


@rule(
    "HW-AGGREGATION-AFTER-UPDATE",
    "Sink `{sink}`: the query aggregates the rows of `{call}` in update mode, so it would count a row again "
    "whenever it changes.",
    'Emit only final rows from `{call}`, with `outputMode="append"`.',
    example="""
        def totals(clicks):
            changes = clicks.groupBy("user").transformWithState(Counts(), SCHEMA, "Update", "None")
            return changes.groupBy().sum("n")
    """,
)
def aggregation_after_update(query: Query) -> Iterator[Match]:
    """Rows that a stateful function emits in update mode replace earlier rows of the same key. An aggregation
    after it cannot know this, and counts each update as a separate row."""
    for step, state in states_of(query.facts):
        if state.mode == "update" and any(each.kind in AGGREGATING for each in query.facts.above(step)):
            yield query.match(step, call=state.call)


@rule(
    "HW-STATE-AFTER-AGGREGATION",
    "Spark does not support `{call}` on the results of an aggregation.",
    "Aggregate inside `{call}`, or write the results to a sink and read it in another pipeline.",
    example="""
        def first_ones(clicks):
            return clicks.groupBy("user").count().groupBy("user").applyInPandasWithState(first, …)
    """,
)
def state_after_aggregation(query: Query) -> Iterator[Match]:
    """`applyInPandasWithState` cannot read the results of an aggregation in any mode."""
    for step, state in states_of(query.facts):
        if state.call == _APPLY and aggregated_below(query.facts, step):
            yield query.match(step, call=state.call)


@rule(
    "HW-STATE-OPERATOR-CONFLICT",
    "Sink `{sink}`: the query calls `applyInPandasWithState` {count} times, but Spark supports only one "
    "call per query.",
    "Use `transformWithState`, or write the first result to a sink and read it in another pipeline.",
    example="""
        def both(clicks):
            return second(first(clicks))  # each calls applyInPandasWithState
    """,
)
def state_operator_conflict(query: Query) -> Iterator[Match]:
    """Spark supports one `applyInPandasWithState` per query. `transformWithState` has no such limit."""
    older = [step for step, state in states_of(query.facts) if state.call == _APPLY]
    if len(older) > 1:
        yield query.match(older[-1], count=len(older))


@rule(
    "HW-TIMERS-NEED-WATERMARK",
    "`{call}` uses event-time timers or timeouts, but there is no watermark on {streams} to advance the "
    "event time.",
    "Declare a watermark (`watermark:` in the file, `withWatermark` in PySpark), or use processing time.",
    example="""
        def sessions(clicks):  # clicks has no watermark
            return clicks.groupBy("user").transformWithState(Sessions(), SCHEMA, "Append", "EventTime")
    """,
)
def timers_need_watermark(query: Query) -> Iterator[Match]:
    """Event time advances with the watermark. Without one, an event-time timer or timeout never fires."""
    for step, state in states_of(query.facts):
        if state.time == "event time" and not step.event_times:
            # Spark starts one of the calls, but its timers never fire.
            yield query.match(step, call=state.call, streams=quoted(step.streams), suppressible=query.runs)


@rule(
    "HW-AVAILABLE-NOW-UNBOUNDED",
    "Sink `{sink}`: the trigger `available now` never stops, because `{call}` uses processing-time timers "
    "or timeouts.",
    "Set a different trigger, such as `every 1 minute`, and run `headwater run --until-idle`. Or use event "
    "time.",
    example="""
        sinks:
          idle: {reads: idle, connector: console, mode: update, trigger: available now}   # uses timers
    """,
)
def available_now_unbounded(query: Query) -> Iterator[Match]:
    """`available now` stops when there is no more work. With processing-time timers or timeouts, Spark always
    has another batch to run. It reads all available data, but never stops."""
    for step, state in states_of(query.facts) if query.facts.trigger == "available now" else ():
        if state.time == "processing time":
            yield query.match(query.at("trigger"), table=step.table, call=state.call, suppressible=True)


@rule(
    "HW-STATE-STORE",
    "`{call}` requires the RocksDB state store, but the settings select {provider}.",
    "Before the first start, set `{key}` to "
    "`org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider`. A pipeline that omits the "
    "setting uses RocksDB.",
    example="""
        spark:
          spark.sql.streaming.stateStore.providerClass: …HDFSBackedStateStoreProvider
    """,
)
def state_store(query: Query) -> Iterator[Match]:
    """`transformWithState` stores several variables per key, which only RocksDB supports. Headwater selects
    RocksDB by default. If a setting selects a different state store, the query fails in its first batch."""
    provider = query.facts.settings.get(PROVIDER, "")
    if provider and "RocksDB" not in provider:
        for step, state in states_of(query.facts):
            if state.call != _APPLY:
                name = provider.rpartition(".")[2]
                yield query.match(step, call=state.call, provider=name, key=PROVIDER)


@rule(
    "HW-PROTOBUF-MISSING",
    "`{call}` requires the Python package `protobuf`, which is not installed.",
    "Run `pip install protobuf`.",
    example="""
        $ pip uninstall protobuf
        $ headwater check pipeline.yml   # a table uses transformWithState
    """,
    lasting=False,
)
def protobuf_missing(query: Query) -> Iterator[Match]:
    """`transformWithState` communicates with Spark through the package `protobuf`, which PySpark does not
    install. Without it, the Python worker fails without reporting the cause."""
    calls = [(step, state.call) for step, state in states_of(query.facts) if state.call != _APPLY]
    # The package `google` exists only if one of its subpackages does.
    if calls and (find_spec("google") is None or find_spec("google.protobuf") is None):
        yield from (query.match(step, call=call) for step, call in calls)
