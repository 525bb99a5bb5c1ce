"""Rules about triggers: what the query, the source and the sink must support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.checks.rules import Match, Query, Severity, Situation, pipeline_rule, rule
from headwater.connectors import all_connectors, sink_side, source_side
from headwater.errors import Entry
from headwater.plan import QueryFacts
from headwater.plan.operators import Expression, Kind, Operator
from headwater.plan.predicates import slots_of, streaming, trigger_of
from headwater.values import (
    AvailableNow,
    Continuous,
    Duration,
    Once,
    Position,
    RealTime,
    capitalized,
    count_of,
    quoted,
)

BATCHES = "set a micro-batch trigger, such as `every 1 second`"
_INSTEAD = {
    "WITH": "Declare the `WITH` query as a separate table, or write it as a subquery in FROM",
    "watermark": "Remove the watermark, which a stateless query does not need",
    "observe": "Remove `observe`",
    "hint": "Remove the hint",
    "repartition": "Configure the number of partitions on the source",
}
_LIMITS = frozenset(
    {
        "max_files_per_batch", "max_bytes_per_batch", "maxfilespertrigger", "maxbytespertrigger",
        "max_rows_per_batch", "maxoffsetspertrigger",
    }
)  # fmt: skip
_WAITS = frozenset({"min_rows_per_batch", "minoffsetspertrigger"})


def _ability(facts: QueryFacts) -> str:
    """What sources and sinks must support for a trigger without batches; empty for a micro-batch trigger."""
    match trigger_of(facts):
        case Continuous():
            return "continuous"
        case RealTime():
            return "real_time"
    return ""


def _instead(facts: QueryFacts, able: Iterable[str]) -> str:
    """A hint with the installed connectors that support the trigger, and the alternative."""
    choice = quoted(sorted(able), last=" or ")
    return f"Use {choice}, or set a micro-batch trigger on sink `{facts.sink}`, such as `every 1 second`."


def _options(query: Query, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The streams of a query, with those of their options that have one of the names."""
    for source in streaming(query.facts):
        yield from ((source.name, option) for option in source.options if option.lower() in names)


@rule(
    "HW-TRIGGER-SINK-UNSUPPORTED",
    "Sink `{sink}`: {connector} does not support `{trigger}` because it writes whole batches.",
    "{hint}",
    example="""
        sinks:
          copy: {reads: ticks, connector: files, path: copy/, format: json, trigger: continuous 1 second}
    """,
)
def trigger_sink(query: Query) -> Iterator[Match]:
    """With `continuous` and `real time`, a sink receives rows one at a time from tasks that never finish. Few
    sinks support this."""
    facts, ability = query.facts, _ability(query.facts)
    able = {"continuous": facts.sink_continuous, "real_time": facts.sink_real_time}
    if not able.get(ability, True):
        names = [each.name for each in all_connectors().values() if getattr(each.sink, ability, False)]
        connector, hint = f"`{facts.connector}`", _instead(facts, names)
        yield query.match(query.at("trigger"), trigger=facts.trigger, connector=connector, hint=hint)


@rule(
    "HW-TRIGGER-SOURCE-UNSUPPORTED",
    "Source `{name}`: {connector} does not support `{trigger}` because it reads rows in batches.",
    "{hint}",
    example="""
        sources:
          lines: {connector: files, path: lines/, format: text}
        sinks:
          copy: {reads: lines, connector: console, trigger: continuous 1 second}
    """,
)
def trigger_source(query: Query) -> Iterator[Match]:
    """With `continuous` and `real time`, a source must deliver rows to tasks that never finish. Few sources
    support this. For example, a `files` source lists directories to plan a batch."""
    facts, ability = query.facts, _ability(query.facts)
    able = [each.name for each in all_connectors().values() if getattr(each.source, ability, None)]
    for source in streaming(facts) if ability else ():
        if not getattr(source, ability):
            yield query.match(
                query.at("trigger"),
                name=source.name,
                connector=f"`{source.connector}`",
                trigger=facts.trigger,
                hint=_instead(facts, able),
            )


CONTINUOUS_UNSUPPORTED = Entry(
    "`{step}` does not support `{trigger}`. A continuous query can only filter rows and compute columns "
    "from each row.",
    "{hint}",
    code="HW-CONTINUOUS-UNSUPPORTED",
)
CONTINUOUS_TIME_UNSUPPORTED = Entry(
    "`{call}` does not support `{trigger}`: Spark sets the current time once per batch, and a continuous "
    "query has no batches.",
    "Use a timestamp column of the rows, such as `timestamp` of the source, or set a micro-batch trigger, "
    "such as `every 1 second`.",
    code="HW-CONTINUOUS-TIME-UNSUPPORTED",
)
CONTINUOUS_QUERY_UNSUPPORTED = Entry(
    "Sink `{sink}`: Spark cannot run the query with `{trigger}`: {says}.",
    "Only filter rows and compute columns, or set a micro-batch trigger, such as `every 1 second`.",
    code="HW-CONTINUOUS-QUERY-UNSUPPORTED",
)


@rule(
    entries=[CONTINUOUS_UNSUPPORTED, CONTINUOUS_TIME_UNSUPPORTED, CONTINUOUS_QUERY_UNSUPPORTED],
    example="""
        tables:
          late: SELECT *, current_timestamp() - timestamp AS late FROM ticks
        sinks:
          late: {reads: late, connector: console, trigger: continuous 1 second}
    """,
)
def continuous_query(query: Query) -> Iterator[Match]:
    """A continuous query processes each row separately: it can filter rows and compute columns. Operators
    that combine several rows, emit several rows for one, store state or move rows between tasks need batches.
    So does the current time, which Spark sets once per batch."""
    facts = query.facts
    if not isinstance(trigger_of(facts), Continuous):
        return
    for step in facts.beyond_rows:
        instead = _INSTEAD.get(step.sql, "")
        hint = f"{instead}, or {BATCHES}." if instead else f"{capitalized(BATCHES)}."
        yield query.match(step, step=step.sql, trigger=facts.trigger, hint=hint)
    for clock in facts.clock_reads:
        yield query.match(clock, entry=CONTINUOUS_TIME_UNSUPPORTED, call=clock.sql, trigger=facts.trigger)
    explained = facts.beyond_rows or facts.clock_reads
    # A separate rule reports sources that support only batches.
    if facts.trigger_refusal and not explained and all(each.continuous for each in streaming(facts)):
        says = facts.trigger_refusal.says.rstrip(".")
        yield query.match(
            query.at("trigger"), entry=CONTINUOUS_QUERY_UNSUPPORTED, trigger=facts.trigger, says=says
        )


@rule(
    "HW-OPTION-IGNORED-BY-TRIGGER",
    "Source `{name}`: `{option}` has no effect with `{trigger}`.",
    "Remove `{option}`, or set a micro-batch trigger, such as `every 1 second`.",
    example="""
        sources:
          ticks: {connector: rate, ramp_up_time: 1 minute}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """,
)
def option_ignored_by_trigger(query: Query) -> Iterator[Match]:
    """Some source options control batches. Without batches, Spark silently ignores them."""
    facts = query.facts
    for source in streaming(facts) if _ability(facts) else ():
        for option in source.idle_options:
            place = query.source_at(source.name, option)
            yield query.match(place, option=option, name=source.name, trigger=facts.trigger)


@rule(
    "HW-CORES-MISSING",
    "Sink `{sink}`: `{trigger}` needs {slots} cores at the same time, one per partition of {names}, but "
    "Spark has {cores}. The query would wait forever and emit nothing.",
    "Run it with at least {slots} cores (locally, `--master 'local[{slots}]'`), or reduce the partitions of "
    "{names} to {cores} in total.",
    example="""
        sources:
          ticks: {connector: rate, num_partitions: 64}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """,
    lasting=False,
)
def cores_missing(query: Query) -> Iterator[Match]:
    """A continuous or real-time query runs one task per partition of its sources, all at the same time and
    without an end. With fewer cores, the query starts, waits and never emits a row."""
    facts, slots = query.facts, slots_of(query.facts)
    if _ability(facts) and slots > facts.cores:
        names = quoted((source.name for source in streaming(facts) if source.slots), last=" and ")
        params = {"names": names, "slots": slots, "cores": facts.cores, "trigger": facts.trigger}
        yield Match(query.at("trigger"), params, facts.sink)


@rule(
    "HW-NO-DATA-AT-START",
    "Source `{name}` generates rows while a query runs, but `{trigger}` reads only the rows available at "
    "the start. The first run emits no rows.",
    "Set a trigger that keeps running, such as `every 1 second`, and stop the run when you have enough rows.",
    Severity.WARNING,
    example="""
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: available now}
    """,
)
def no_data_at_start(query: Query) -> Iterator[Match]:
    """`available now` and `once` read the rows available at the start and stop. A source that generates rows
    while a query runs has none at its first start, so the query emits nothing."""
    facts = query.facts
    for source in streaming(facts) if isinstance(trigger_of(facts), AvailableNow | Once) else ():
        if source.made_while_running:
            yield query.match(query.at("trigger"), name=source.name, trigger=facts.trigger)


@rule(
    "HW-OPTION-IGNORED-BY-ONCE",
    "Source `{name}`: `{option}` is ignored by `once`, which reads everything in one batch.",
    "Set `trigger: available now`, which reads the same rows in several batches and then stops.",
    Severity.WARNING,
    example="""
        sources:
          lines: {connector: files, path: lines/, format: text, max_files_per_batch: 100}
        sinks:
          copy: {reads: lines, connector: files, path: copy/, format: text, trigger: once}
    """,
)
def option_ignored_by_once(query: Query) -> Iterator[Match]:
    """`once` reads everything in one batch, regardless of the limits of the source. After a long pause, that
    batch can be too large for the cluster. `available now` respects the limits."""
    for source, option in _options(query, _LIMITS) if isinstance(trigger_of(query.facts), Once) else ():
        yield query.match(query.source_at(source, option), option=option, name=source)


@rule(
    "HW-OPTION-IGNORED-BY-AVAILABLE-NOW",
    "Source `{name}`: `{option}` waits for more rows, but `{trigger}` reads the available rows and stops. "
    "It would ignore the option, or leave the last rows unread.",
    "Remove `{option}`, or set a trigger that keeps running, such as `every 1 minute`.",
    example="""
        sources:
          clicks: {connector: kafka, bootstrap_servers: "kafka:9092", topic: clicks, min_rows_per_batch: 1000}
        sinks:
          copy: {reads: clicks, connector: files, path: copy/, format: json, trigger: available now}
    """,
)
def option_ignored_by_available_now(query: Query) -> Iterator[Match]:
    """A source can wait until a given number of rows is available. `available now` would treat the wait as
    the end of the data and leave the last rows unread. `once` ignores the option."""
    ends = isinstance(trigger_of(query.facts), AvailableNow | Once)
    for source, option in _options(query, _WAITS) if ends else ():
        place = query.source_at(source, option)
        yield query.match(place, option=option, name=source, trigger=query.facts.trigger)


# Rules about continuous and real-time triggers: cores for the whole pipeline, and earlier checkpoints.


@pipeline_rule(
    "HW-CORES-CONFLICT",
    "Continuous and real-time queries ({sinks}) occupy {slots} as long as they run. The pipeline needs "
    "{needed} cores, but Spark has {cores}, so {starved} would wait forever.",
    "Run it with at least {needed} cores (locally, `--master 'local[{needed}]'`), reduce the partitions of "
    "the sources, or set micro-batch triggers, such as `every 1 second`.",
    example="""
        sources:
          ticks: {connector: rate}   # one partition per core
        sinks:
          quick: {reads: ticks, connector: console, trigger: continuous 1 second}
          kept: {reads: ticks, connector: files, path: kept/, format: json}   # no core left
    """,
    lasting=False,
)
def cores_conflict(situation: Situation) -> Iterator[Match]:
    """All queries of a pipeline share its cores, and a continuous or real-time query never releases its own.
    The rest must suffice for the other queries: one core per partition for continuous and real-time queries,
    and one core for all micro-batch queries together."""
    lasting = {
        name: facts
        for name, facts in situation.facts.items()
        if isinstance(trigger_of(facts), Continuous | RealTime) and slots_of(facts)
    }
    cores = min((facts.cores for facts in lasting.values()), default=0)
    others = [sink.name for sink in situation.spec.sinks if sink.name not in lasting]
    slots = sum(map(slots_of, lasting.values()))
    needed = slots + bool(others)
    # A separate rule reports a query that is too large on its own.
    if needed > cores and lasting and all(slots_of(facts) <= cores for facts in lasting.values()):
        first = next(sink for sink in situation.spec.sinks if sink.name in lasting)
        yield Match.at(
            first.at("trigger"),
            sink=first.name,
            sinks=quoted(lasting, last=" and "),
            slots=count_of(slots, "core"),
            needed=needed,
            cores=cores,
            starved=quoted(others, last=" and ") if others and slots <= cores else "one of them",
        )


TRIGGER_CHANGED = Entry(
    "Query `{sink}` cannot resume from its checkpoint: it was written with `{before}`, and its trigger is "
    "now {trigger}. Source `{name}` ({connector}) stores different offsets for the two.",
    "Restore `trigger: {before}`, or start from scratch: stop the pipeline and delete {checkpoint}.",
    code="HW-TRIGGER-CHANGED",
)
PARTITIONS_CHANGED = Entry(
    "Query `{sink}` cannot resume from its checkpoint: source `{name}` had {before}, and now has {now}. "
    "With `{trigger}`, this number cannot change.",
    "{fix}, or start from scratch: stop the pipeline and delete {checkpoint}.",
    code="HW-PARTITIONS-CHANGED",
)


@pipeline_rule(
    entries=[TRIGGER_CHANGED, PARTITIONS_CHANGED],
    example="""
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: every 1 second}   # before: continuous 1 second
    """,
    lasting=False,
)
def trigger_changed(situation: Situation) -> Iterator[Match]:
    """A continuous query stores offsets in a different form than a micro-batch query. Headwater converts the
    checkpoint if the source uses the same offsets for both, as Kafka does. Other sources cannot switch, and
    Spark would fail with an error that does not mention the cause."""
    for sink, before, now in situation.resuming():
        reached = situation.reached.get(sink.name)
        # A sink that lives in one process starts from scratch; a checkpoint without offsets fits any trigger.
        if reached is None or reached.batch < 0 or sink_side(sink.connector).in_process:
            continue
        was, is_ = (isinstance(trigger_of(each), Continuous) for each in (before, now))
        partitions = {source.name: source.slots for source in streaming(before)}
        unfit = [source for source in streaming(now) if not source.switches]
        if was != is_:
            for source in unfit[:1]:
                yield Match.at(
                    sink.at("trigger"),
                    sink=sink.name,
                    before=before.trigger if was else "every 1 second",
                    trigger=f"`{now.trigger}`" if is_ else "a micro-batch trigger",
                    name=source.name,
                    connector=source.connector,
                    checkpoint=reached.checkpoint,
                )
        for source in unfit if was and is_ else ():
            kept = partitions.get(source.name, 0)
            if kept and source.slots and kept != source.slots:
                had = count_of(kept, "partition")
                key = "num_partitions" in source_side(source.connector).options.model_fields
                yield Match.at(
                    sink.at("trigger"),
                    entry=PARTITIONS_CHANGED,
                    sink=sink.name,
                    name=source.name,
                    before=had,
                    now=source.slots,
                    fix=f"Set `num_partitions: {kept}`" if key else f"Restore the {had} of `{source.name}`",
                    trigger=now.trigger,
                    checkpoint=reached.checkpoint,
                )


# Rules about real-time mode: what Spark supports so far.

LEAST = Duration(5_000)
"""Spark's default of `spark.sql.streaming.realTimeMode.minBatchDuration`."""
_STATELESS = ("4.1.", "4.2.")
"""The Spark lines without stateful real-time queries; later ones support some."""
_NO_SHUFFLE = frozenset({"repartition", "REBALANCE", "mapInPandas", "mapInArrow"})
_PASSING = frozenset({Kind.WATERMARK, Kind.UNION, Kind.STATIC_JOIN})
_MOVED = "it moves rows between tasks or delays them, but every row must be emitted immediately"


@rule(
    "HW-REAL-TIME-MODE-UNSUPPORTED",
    "Sink `{sink}`: `{trigger}` supports only update mode, but the sink is in {mode} mode.",
    'Set `mode: update` (in PySpark, `outputMode("update")`).',
    example="""
        sinks:
          copy: {reads: orders, connector: console, trigger: real time 5 minutes}   # mode: append
    """,
)
def real_time_mode(query: Query) -> Iterator[Match]:
    """In real-time mode, Spark emits each row of the result as soon as it is computed or changes. That is
    update mode, and Spark supports no other."""
    facts = query.facts
    if isinstance(trigger_of(facts), RealTime) and facts.mode != "update":
        yield query.match(query.at("mode"), mode=facts.mode, trigger=facts.trigger)


@rule(
    "HW-REAL-TIME-INTERVAL",
    "The interval of `{trigger}` is too short: the minimum in Spark is {least}.",
    "Set `real time 5 minutes`. The interval determines only how often offsets are committed; rows are "
    "emitted immediately.",
    example="""
        sinks:
          copy: {reads: orders, connector: console, mode: update, trigger: real time 1 second}
    """,
)
def real_time_interval(query: Query) -> Iterator[Match]:
    """The interval of `real time` is the length of a batch. Spark commits offsets at its end, but does not
    delay rows. Spark requires at least five seconds."""
    trigger = trigger_of(query.facts)
    if isinstance(trigger, RealTime) and trigger.interval.milliseconds < LEAST.milliseconds:
        yield query.match(query.at("trigger"), trigger=query.facts.trigger, least=str(LEAST))


@rule(
    "HW-REAL-TIME-UNSUPPORTED",
    "`{step}` does not support `{trigger}` in Spark {version}: {why}.",
    "{hint}",
    example="""
        tables:
          counts: SELECT word, count(*) AS n FROM words GROUP BY word
        sinks:
          counts: {reads: counts, connector: console, mode: update, trigger: real time 5 minutes}
    """,
)
def real_time_steps(query: Query) -> Iterator[Match]:
    """In real-time mode, a row passes through the whole query immediately. Spark supports only certain
    operations: filters, computed columns, explode, UNION, and a join with a static table that is small enough
    to broadcast. It supports no Python functions, and no state before Spark 4.3."""
    facts, hint = query.facts, f"{capitalized(BATCHES)}."
    if not isinstance(trigger_of(facts), RealTime):
        return

    def refused(at: Operator | Expression | Position | None, step: str, why: str) -> Match:
        return query.match(
            at, step=step, trigger=facts.trigger, version=facts.spark_version, why=why, hint=hint
        )

    for function in facts.python_functions:
        why = "it is a Python function, which receives rows in groups"
        yield refused(query.at("trigger"), function.name, why)
    for each in facts.beyond_rows:
        if each.sql in _NO_SHUFFLE:
            yield refused(each, each.sql, _MOVED)
    for name in facts.repeated_streams:
        yield refused(
            query.at("trigger"), name, "the query reads it several times, but can read it only once"
        )
    for operator in (each for each in facts.operators if each.streams):
        if operator.is_stateful and facts.spark_version.startswith(_STATELESS):
            yield refused(
                operator, operator.name, "it is stateful, which real-time queries do not support yet"
            )
        elif not operator.is_stateful and operator.kind not in _PASSING:
            yield refused(operator, operator.name, _MOVED)
        elif operator.kind is Kind.STATIC_JOIN and facts.trigger_refusal:
            why = f"Spark would run it as a {facts.trigger_refusal.says}, but supports only equality "
            why += "joins with static rows that are broadcast"
            yield refused(operator, operator.name, why)
