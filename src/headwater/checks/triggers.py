"""Rules about triggers: what a query, its source and its sink must be able to do for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.checks.rules import Match, Query, Severity, Situation, pipeline_rule, rule
from headwater.connectors import all_connectors, sink_side
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
    quoted,
)

BATCHES = "use a trigger with batches, such as `every 1 second`"
_INSTEAD = {
    "WITH": "Declare what stands in `WITH` as a table of its own, or write it as a subquery in FROM",
    "watermark": "Leave the watermark out, which a query without state does not need",
    "observe": "Leave `observe` out",
    "hint": "Leave the hint out",
    "repartition": "Let the source make the partitions you want",
}
_LIMITS = frozenset(
    {
        "max_files_per_batch", "max_bytes_per_batch", "maxfilespertrigger", "maxbytespertrigger",
        "max_rows_per_batch", "maxoffsetspertrigger",
    }
)  # fmt: skip
_WAITS = frozenset({"min_rows_per_batch", "minoffsetspertrigger"})


def _ability(facts: QueryFacts) -> str:
    """What sources and sinks must be able to do for a trigger without batches; empty for one with batches."""
    match trigger_of(facts):
        case Continuous():
            return "continuous"
        case RealTime():
            return "real_time"
    return ""


def _instead(facts: QueryFacts, able: Iterable[str]) -> str:
    """The installed connectors that can do it, and what helps without them."""
    choice = quoted(sorted(able), last=" or ")
    return f"Use {choice}; or give `{facts.sink}` a trigger with batches, such as `every 1 second`."


def _options(query: Query, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The streams of a query with those of their options that have one of the names."""
    for source in streaming(query.facts):
        yield from ((source.name, option) for option in source.options if option.lower() in names)


@rule(
    "HW-TRIGGER-SINK-UNSUPPORTED",
    "The sink `{sink}` can't take rows under `{trigger}`: {connector} writes whole batches.",
    "{hint}",
    example="""
        sinks:
          copy: {reads: ticks, connector: files, path: copy/, format: json, trigger: continuous 1 second}
    """,
)
def trigger_sink(query: Query) -> Iterator[Match]:
    """Under `continuous` and `real time` there are no batches to hand over: a sink has to take rows one by
    one, from tasks that don't end. Few can."""
    facts, ability = query.facts, _ability(query.facts)
    able = {"continuous": facts.sink_continuous, "real_time": facts.sink_real_time}
    if not able.get(ability, True):
        names = [each.name for each in all_connectors().values() if getattr(each.sink, ability, False)]
        connector, hint = f"`{facts.connector}`", _instead(facts, names)
        yield query.match(query.at("trigger"), trigger=facts.trigger, connector=connector, hint=hint)


@rule(
    "HW-TRIGGER-SOURCE-UNSUPPORTED",
    "The source `{name}` can't be read under `{trigger}`: {connector} gives its rows in batches.",
    "{hint}",
    example="""
        sources:
          lines: {connector: files, path: lines/, format: text}
        sinks:
          copy: {reads: lines, connector: console, trigger: continuous 1 second}
    """,
)
def trigger_source(query: Query) -> Iterator[Match]:
    """Under `continuous` and `real time` a source has to give rows to tasks that don't end. Few can: those
    of files, for instance, list folders to make a batch."""
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
    "`{step}` can't run under `{trigger}`, where a query may only choose rows and compute columns, each row "
    "by itself.",
    "{hint}",
    code="HW-CONTINUOUS-UNSUPPORTED",
)
CONTINUOUS_TIME_UNSUPPORTED = Entry(
    "`{call}` can't run under `{trigger}`: Spark knows one current time for each batch, and there is none.",
    "Use a time that the rows bring along, such as `timestamp` of the source; or a trigger with batches, "
    "such as `every 1 second`.",
    code="HW-CONTINUOUS-TIME-UNSUPPORTED",
)
CONTINUOUS_QUERY_UNSUPPORTED = Entry(
    "Spark can't run the query of `{sink}` under `{trigger}`: {says}.",
    "Choose rows and compute columns only; or use a trigger with batches, such as `every 1 second`.",
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
def row_by_row(query: Query) -> Iterator[Match]:
    """A continuous query takes each row by itself: it may choose rows and compute columns. Whatever looks at
    several rows, makes several of one, keeps state or moves rows between tasks needs batches; so does the
    current time, of which there is one for each batch."""
    facts = query.facts
    if not isinstance(trigger_of(facts), Continuous):
        return
    for step in facts.beyond_rows:
        instead = _INSTEAD.get(step.sql, "")
        hint = f"{instead}; or {BATCHES}." if instead else f"{capitalized(BATCHES)}."
        yield query.match(step, step=step.sql, trigger=facts.trigger, hint=hint)
    for clock in facts.clock_reads:
        yield query.match(clock, entry=CONTINUOUS_TIME_UNSUPPORTED, call=clock.sql, trigger=facts.trigger)
    explained = facts.beyond_rows or facts.clock_reads
    # A source that only gives batches is another rule's.
    if facts.trigger_refusal and not explained and all(each.continuous for each in streaming(facts)):
        says = facts.trigger_refusal.says.rstrip(".")
        yield query.match(
            query.at("trigger"), entry=CONTINUOUS_QUERY_UNSUPPORTED, trigger=facts.trigger, says=says
        )


@rule(
    "HW-OPTION-IGNORED-BY-TRIGGER",
    "`{option}` of the source `{name}` does nothing under `{trigger}`.",
    "Leave `{option}` out; or use a trigger with batches, such as `every 1 second`.",
    example="""
        sources:
          ticks: {connector: rate, ramp_up: 1 minute}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """,
)
def option_idle(query: Query) -> Iterator[Match]:
    """Some options of a source are about its batches; where there are none, Spark passes over them
    silently."""
    facts = query.facts
    for source in streaming(facts) if _ability(facts) else ():
        for option in source.idle_options:
            place = query.source_at(source.name, option)
            yield query.match(place, option=option, name=source.name, trigger=facts.trigger)


@rule(
    "HW-CORES-MISSING",
    "The query of `{sink}` needs {slots} cores at once under `{trigger}`, one for each partition of "
    "{names}, and there are {cores}: it would wait for ever and give nothing.",
    "Run it with {slots} cores or more, on one machine `--master 'local[{slots}]'`; or have {names} make "
    "at most {cores} partitions in all.",
    example="""
        sources:
          ticks: {connector: rate, partitions: 64}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """,
    lasting=False,
)
def too_few_cores(query: Query) -> Iterator[Match]:
    """A continuous query, and a batch in real time, has one task for each partition of its sources, all at
    once and without an end. Where there are fewer cores, the query starts, waits and never gives a row."""
    facts, slots = query.facts, slots_of(query.facts)
    if _ability(facts) and slots > facts.cores:
        names = quoted((source.name for source in streaming(facts) if source.slots), last=" and ")
        params = {"names": names, "slots": slots, "cores": facts.cores, "trigger": facts.trigger}
        yield Match(query.at("trigger"), params, facts.sink)


@rule(
    "HW-NO-DATA-AT-START",
    "The rows of `{name}` are made while a query runs, and `{trigger}` reads only what is there at the "
    "start: the first run gives none.",
    "Use a trigger that goes on, such as `every 1 second`, and stop the run when you have seen enough.",
    Severity.WARNING,
    example="""
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: available now}
    """,
)
def nothing_yet(query: Query) -> Iterator[Match]:
    """`available now` and `once` read what is there at the start and end. A source whose rows are made while
    a query runs has nothing yet at its first start, so that nothing comes."""
    facts = query.facts
    for source in streaming(facts) if isinstance(trigger_of(facts), AvailableNow | Once) else ():
        if source.made_while_running:
            yield query.match(query.at("trigger"), name=source.name, trigger=facts.trigger)


@rule(
    "HW-OPTION-IGNORED-BY-ONCE",
    "`{option}` of the source `{name}` does nothing under `once`, which reads everything in one batch.",
    "Write `available now`, which reads the same in batches of that size and ends, too.",
    Severity.WARNING,
    example="""
        sources:
          lines: {connector: files, path: lines/, format: text, max_files_per_batch: 100}
        sinks:
          copy: {reads: lines, connector: files, path: copy/, format: text, trigger: once}
    """,
)
def limit_not_kept(query: Query) -> Iterator[Match]:
    """`once` reads everything in one batch, whatever limit the source was given. After a long pause that
    batch can be too large for the cluster; `available now` keeps the limit."""
    for source, option in _options(query, _LIMITS) if isinstance(trigger_of(query.facts), Once) else ():
        yield query.match(query.source_at(source, option), option=option, name=source)


@rule(
    "HW-OPTION-IGNORED-BY-AVAILABLE-NOW",
    "`{option}` of the source `{name}` waits for more rows, and `{trigger}` reads what is there and ends: it "
    "would not look at the option, or leave the last rows unread.",
    "Leave `{option}` out; or use a trigger that goes on, such as `every 1 minute`.",
    example="""
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, min_rows_per_batch: 1000}
        sinks:
          copy: {reads: clicks, connector: files, path: copy/, format: json, trigger: available now}
    """,
)
def rows_held_back(query: Query) -> Iterator[Match]:
    """A source can be told to wait until it has so many rows. `available now` does not wait: it would take
    the wait for the end of what is there, and leave the last rows unread. `once` does not look at it."""
    ends = isinstance(trigger_of(query.facts), AvailableNow | Once)
    for source, option in _options(query, _WAITS) if ends else ():
        place = query.source_at(source, option)
        yield query.match(place, option=option, name=source, trigger=query.facts.trigger)


# Rules about continuous and real-time triggers: cores for the whole pipeline, and earlier checkpoints.


@pipeline_rule(
    "HW-CORES-CONFLICT",
    "The queries of {sinks} keep {slots} cores busy for as long as they run, and the pipeline needs "
    "{needed}: there are {cores}, so {starved} would wait for ever.",
    "Run it with {needed} cores or more, on one machine `--master 'local[{needed}]'`; or have the sources "
    "make fewer partitions; or use triggers with batches, such as `every 1 second`.",
    example="""
        sources:
          ticks: {connector: rate}   # as many partitions as there are cores
        sinks:
          quick: {reads: ticks, connector: console, trigger: continuous 1 second}
          kept: {reads: ticks, connector: files, path: kept/, format: json}   # finds no core
    """,
    lasting=False,
)
def cores_shared(situation: Situation) -> Iterator[Match]:
    """All queries of a pipeline share its cores, and one that is continuous or in real time never gives back
    those it has. What is left must be enough for the others: a core for each partition of the others of this
    kind, and one for all queries with batches together."""
    lasting = {
        name: facts
        for name, facts in situation.facts.items()
        if isinstance(trigger_of(facts), Continuous | RealTime) and slots_of(facts)
    }
    cores = min((facts.cores for facts in lasting.values()), default=0)
    others = [sink.name for sink in situation.spec.sinks if sink.name not in lasting]
    slots = sum(map(slots_of, lasting.values()))
    needed = slots + bool(others)
    # One that is too large by itself is told by itself.
    if needed > cores and lasting and all(slots_of(facts) <= cores for facts in lasting.values()):
        first = next(sink for sink in situation.spec.sinks if sink.name in lasting)
        yield Match.at(
            first.at("trigger"),
            sink=first.name,
            sinks=quoted(lasting, last=" and "),
            slots=slots,
            needed=needed,
            cores=cores,
            starved=quoted(others, last=" and ") if others and slots <= cores else "one of them",
        )


TRIGGER_CHANGED = Entry(
    "The checkpoint of `{sink}` was written under `{before}` and does not fit `{trigger}`: how far `{name}` "
    "was read is noted in two ways, and `{connector}` can't go on from one to the other.",
    "Go back to `trigger: {before}`; or begin anew: remove {checkpoint} while the pipeline does not run.",
    code="HW-TRIGGER-CHANGED",
)
PARTITIONS_CHANGED = Entry(
    "The checkpoint of `{sink}` was written with {before} partitions of `{name}`, and now there would be "
    "{now}: under `{trigger}` that number can't change.",
    "Have `{name}` make {before} partitions again (`partitions: {before}`); or begin anew: remove "
    "{checkpoint} while the pipeline does not run.",
    code="HW-PARTITIONS-CHANGED",
)


@pipeline_rule(
    entries=[TRIGGER_CHANGED, PARTITIONS_CHANGED],
    example="""
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: every 1 second}   # was: continuous 1 second
    """,
    lasting=False,
)
def trigger_switched(situation: Situation) -> Iterator[Match]:
    """A continuous query notes how far it has read in another way than one with batches. Headwater makes a
    checkpoint fit where the source's own offsets are the same in both, as those of Kafka are. Others can't
    go on from one to the other, and Spark would die with an error that says nothing of it."""
    for sink, before, now in situation.resuming():
        reached = situation.reached.get(sink.name)
        # A sink that lives in one process begins anew; a checkpoint without offsets fits everything.
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
                    trigger=now.trigger if is_ else "a trigger with batches",
                    name=source.name,
                    connector=source.connector,
                    checkpoint=reached.checkpoint,
                )
        for source in unfit if was and is_ else ():
            kept = partitions.get(source.name, 0)
            if kept and source.slots and kept != source.slots:
                yield Match.at(
                    sink.at("trigger"),
                    entry=PARTITIONS_CHANGED,
                    sink=sink.name,
                    name=source.name,
                    before=kept,
                    now=source.slots,
                    trigger=now.trigger,
                    checkpoint=reached.checkpoint,
                )


# Rules about real time: what Spark's newest way to run a query takes so far.

LEAST = Duration(5_000)
"""What Spark asks for unless `spark.sql.streaming.realTimeMode.minBatchDuration` says otherwise."""
_STATELESS = ("4.1.", "4.2.")
"""The lines of Spark in which a query in real time can't keep state; later ones take some of it."""
_NO_SHUFFLE = frozenset({"repartition", "REBALANCE", "mapInPandas", "mapInArrow"})
_PASSING = frozenset({Kind.WATERMARK, Kind.UNION, Kind.STATIC_JOIN})
_MOVED = "it moves rows between tasks, or keeps some back, and every row is to come out at once"


@rule(
    "HW-REAL-TIME-MODE-UNSUPPORTED",
    "The sink `{sink}` is in {mode} mode, and `{trigger}` can only be in update mode.",
    'Use update mode: `mode: update` in the file, `outputMode("update")` in PySpark.',
    example="""
        sinks:
          copy: {reads: orders, connector: console, trigger: real time 5 minutes}   # mode: append
    """,
)
def real_time_mode(query: Query) -> Iterator[Match]:
    """In real time each row of the result is given as soon as it is there or has changed: that is update
    mode, and Spark takes no other."""
    facts = query.facts
    if isinstance(trigger_of(facts), RealTime) and facts.mode != "update":
        yield query.match(query.at("mode"), mode=facts.mode, trigger=facts.trigger)


@rule(
    "HW-REAL-TIME-INTERVAL",
    "`{trigger}` is too short: {least} is the least that Spark takes.",
    "Write `real time 5 minutes`: rows come out at once all the same, the interval only says how often it "
    "is noted how far the query has read.",
    example="""
        sinks:
          copy: {reads: orders, connector: console, mode: update, trigger: real time 1 second}
    """,
)
def real_time_interval(query: Query) -> Iterator[Match]:
    """The interval of `real time` is how long a batch lasts, at whose end it is noted how far was read; it
    does not keep rows back. Spark wants five seconds at least."""
    trigger = trigger_of(query.facts)
    if isinstance(trigger, RealTime) and trigger.interval.milliseconds < LEAST.milliseconds:
        yield query.match(query.at("trigger"), trigger=query.facts.trigger, least=str(LEAST))


@rule(
    "HW-REAL-TIME-UNSUPPORTED",
    "`{step}` can't run under `{trigger}` in Spark {version}: {why}.",
    "{hint}",
    example="""
        tables:
          counts: SELECT word, count(*) AS n FROM words GROUP BY word
        sinks:
          counts: {reads: counts, connector: console, mode: update, trigger: real time 5 minutes}
    """,
)
def real_time_steps(query: Query) -> Iterator[Match]:
    """In real time a row goes through the whole query at once. Spark has a list of what can be done so: to
    choose rows, compute columns, explode, UNION, and join with a static table small enough to be sent to
    every task; no Python functions, and no state before Spark 4.3."""
    facts, hint = query.facts, f"{capitalized(BATCHES)}."
    if not isinstance(trigger_of(facts), RealTime):
        return

    def refused(at: Operator | Expression | Position | None, step: str, why: str) -> Match:
        return query.match(
            at, step=step, trigger=facts.trigger, version=facts.spark_version, why=why, hint=hint
        )

    for function in facts.python_functions:
        why = "it is a Python function, to which rows are sent in groups"
        yield refused(query.at("trigger"), function.name, why)
    for each in facts.beyond_rows:
        if each.sql in _NO_SHUFFLE:
            yield refused(each, each.sql, _MOVED)
    for name in facts.repeated_streams:
        yield refused(query.at("trigger"), name, "it is read several times over, and can be only once")
    for operator in (each for each in facts.operators if each.streams):
        if operator.is_stateful and facts.spark_version.startswith(_STATELESS):
            yield refused(operator, operator.name, "it keeps state, and in real time no query can yet")
        elif not operator.is_stateful and operator.kind not in _PASSING:
            yield refused(operator, operator.name, _MOVED)
        elif operator.kind is Kind.STATIC_JOIN and facts.trigger_refusal:
            why = f"Spark would run it as a {facts.trigger_refusal.says}, and it can only join by equal "
            why += "columns with static rows that `broadcast` sends to all"
            yield refused(operator, operator.name, why)
