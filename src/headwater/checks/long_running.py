"""Rules about triggers that look at a whole pipeline, or at the checkpoint of an earlier start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.checks.triggers import named, slots_of, streaming, trigger_of
from headwater.connectors import sink_side
from headwater.errors.catalogue.triggers import CORES_SHARED, PARTITIONS_CHANGED, TRIGGER_SWITCHED
from headwater.plan import QueryFacts
from headwater.spec import SinkSpec
from headwater.values import Continuous, RealTime


def most_partitions(query: QueryFacts, source: str, together: Sequence[QueryFacts]) -> int | None:
    """How many partitions of a source a query has cores for, beside the others that run with it.

    None for one with batches, which waits for no core.
    """
    lasting = [each for each in together if isinstance(trigger_of(each), Continuous | RealTime)]
    if query not in lasting:
        return None
    spare = query.cores - sum(map(slots_of, lasting)) - (len(lasting) < len(together))
    readers = [each for each in lasting if any(one.name == source for one in streaming(each))]
    slots = sum(each.slots for each in streaming(query) if each.name == source)
    # One partition more is one more for each of them.
    return slots + spare // max(len(readers), 1)


class CoresShared(Rule):
    """All queries of a pipeline share its cores, and one that is continuous or in real time never gives back
    those it has. What is left must be enough for the others: a core for each partition of the others of this
    kind, and one for all queries with batches together."""

    entries = {CORES_SHARED: Severity.ERROR}
    lasting = False
    asks_parts = True
    example = """
        sources:
          ticks: {connector: rate}   # as many partitions as there are cores
        sinks:
          quick: {reads: ticks, connector: console, trigger: continuous 1 second}
          kept: {reads: ticks, connector: files, path: kept/, format: json}   # finds no core
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        lasting = {
            name: facts
            for name, facts in situation.facts.items()
            if isinstance(trigger_of(facts), Continuous | RealTime) and slots_of(facts)
        }
        cores = min((facts.cores for facts in lasting.values()), default=0)
        # One that is too large by itself is told by itself.
        if not lasting or any(slots_of(facts) > cores for facts in lasting.values()):
            return
        others = [sink.name for sink in situation.spec.sinks if sink.name not in lasting]
        slots = sum(map(slots_of, lasting.values()))
        needed = slots + bool(others)
        if needed > cores:
            first = next(sink for sink in situation.spec.sinks if sink.name in lasting)
            problem = CORES_SHARED.at(
                first.at("trigger"),
                sinks=named(lasting),
                slots=slots,
                needed=needed,
                cores=cores,
                starved=named(others) if others and slots <= cores else "one of them",
            )
            yield Finding(problem, sink=first.name)


class TriggerSwitched(Rule):
    """A continuous query notes how far it has read in another way than one with batches. Headwater makes a
    checkpoint fit where the source's own offsets are the same in both, as those of Kafka are. Others can't
    go on from one to the other, and Spark would die with an error that says nothing of it."""

    entries = {TRIGGER_SWITCHED: Severity.ERROR, PARTITIONS_CHANGED: Severity.ERROR}
    lasting = False
    asks_parts = True
    example = """
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: every 1 second}   # was: continuous 1 second
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for sink in situation.spec.sinks:
            now, before = situation.facts.get(sink.name), situation.stored.get(sink.name)
            reached = situation.reached.get(sink.name)
            # A sink that lives in one process begins anew; a checkpoint without offsets fits everything.
            anew = sink_side(sink.connector).in_process or reached is None or reached.batch < 0
            if now and before and reached and not anew:
                yield from self._compared(sink, now, before, reached.checkpoint)

    def _compared(
        self, sink: SinkSpec, now: QueryFacts, before: QueryFacts, checkpoint: str
    ) -> Iterator[Finding]:
        was, is_ = (isinstance(trigger_of(each), Continuous) for each in (before, now))
        unfit = [source for source in streaming(now) if not source.switches]
        if was != is_ and unfit:
            problem = TRIGGER_SWITCHED.at(
                sink.at("trigger"),
                sink=sink.name,
                before=before.trigger if was else "every 1 second",
                trigger=now.trigger if is_ else "a trigger with batches",
                name=unfit[0].name,
                connector=unfit[0].connector,
                checkpoint=checkpoint,
            )
            yield Finding(problem, sink=sink.name)
        partitions = {source.name: source.slots for source in streaming(before)}
        for source in unfit if was and is_ else ():
            kept = partitions.get(source.name, 0)
            if kept and source.slots and kept != source.slots:
                problem = PARTITIONS_CHANGED.at(
                    sink.at("trigger"),
                    sink=sink.name,
                    name=source.name,
                    before=kept,
                    now=source.slots,
                    trigger=now.trigger,
                    checkpoint=checkpoint,
                )
                yield Finding(problem, sink=sink.name)
