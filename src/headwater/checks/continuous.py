"""Rules about continuous and real-time triggers: cores for the whole pipeline, and earlier checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.rules import Match, Query, Situation, pipeline_rule, rule
from headwater.checks.triggers import BATCHES
from headwater.connectors import sink_side
from headwater.errors import Entry
from headwater.plan.operators import Expression, Kind, Operator
from headwater.plan.predicates import slots_of, streaming, trigger_of
from headwater.values import Continuous, Duration, Position, RealTime, capitalized, quoted


@pipeline_rule(
    "HW-CORES-SHARED",
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


TRIGGER_SWITCHED = Entry(
    "The checkpoint of `{sink}` was written under `{before}` and does not fit `{trigger}`: how far `{name}` "
    "was read is noted in two ways, and `{connector}` can't go on from one to the other.",
    "Go back to `trigger: {before}`; or begin anew: remove {checkpoint} while the pipeline does not run.",
    code="HW-TRIGGER-SWITCHED",
)
PARTITIONS_CHANGED = Entry(
    "The checkpoint of `{sink}` was written with {before} partitions of `{name}`, and now there would be "
    "{now}: under `{trigger}` that number can't change.",
    "Have `{name}` make {before} partitions again (`partitions: {before}`); or begin anew: remove "
    "{checkpoint} while the pipeline does not run.",
    code="HW-PARTITIONS-CHANGED",
)


@pipeline_rule(
    entries=[TRIGGER_SWITCHED, PARTITIONS_CHANGED],
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
    "HW-REAL-TIME-MODE",
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
    "HW-REAL-TIME-STEP",
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
