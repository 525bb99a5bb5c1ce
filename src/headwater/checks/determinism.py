"""Rules about what a batch gives when it runs again over the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.guarantees import Differs, Sort, differing, is_kept, is_kept_once
from headwater.checks.rule import Finding, Query, QueryRule, Rule, Severity, Situation
from headwater.connectors import sink_side, source_side
from headwater.errors.catalogue.checks import (
    EVENT_TIME_NOT_REPEATABLE,
    NOT_REPEATABLE,
    NOT_REPLAYABLE,
    NOT_REPLAYABLE_CHECKPOINT,
    NOT_REPLAYABLE_SHARED,
    ORDER_DECIDES,
    STATE_NOT_REPEATABLE,
)
from headwater.plan.operators import Expression, Kind, Operator
from headwater.plan.predicates import passing_sources

_GRAVE = (Sort.RANDOM, Sort.TASKS)


class NotRepeatable(QueryRule):
    """After a crash a batch runs again, and an exactly-once sink counts on getting the same rows again. A
    random number, a clock or a function marked as non-deterministic gives others. Where its value reaches
    state, what was written and what the state holds can disagree: in every sink that keeps rows, also one
    that may get a batch twice."""

    entries = {NOT_REPEATABLE: Severity.WARNING, STATE_NOT_REPEATABLE: Severity.WARNING}
    example = """
        tables:
          tagged: SELECT uuid() AS id, page FROM clicks
        sinks:
          tagged: {reads: tagged, connector: files, path: out/, format: json}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        for each in differing(facts):
            reaches = isinstance(each.step, Expression) and each.step.stateful_input
            matters = is_kept(facts) if reaches else is_kept_once(facts)
            if not matters or each.sort is Sort.ORDER or _of_event_time(each):
                continue
            problem = (STATE_NOT_REPEATABLE if reaches else NOT_REPEATABLE).at(
                query.where(each.step),
                what=each.what,
                why=each.why,
                sink=facts.sink,
                connector=facts.connector,
                hint=each.instead,
            )
            yield Finding(problem, Severity.WARNING, facts.sink, each.step.table)


class EventTimeNotRepeatable(QueryRule):
    """A watermark follows the greatest event time. Made from random numbers or a clock, it drops other rows
    as late in each attempt; Spark runs it without a word."""

    entries = {EVENT_TIME_NOT_REPEATABLE: Severity.ERROR}
    example = """
        tables:
          spread:
            sql: SELECT page, at + make_interval(0, 0, 0, 0, 0, 0, rand() * 60) AS at FROM clicks
            watermark: {column: at, delay: 10 minutes}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for each in filter(_of_event_time, differing(query.facts)):
            problem = EVENT_TIME_NOT_REPEATABLE.at(query.where(each.step), what=each.what, why=each.why)
            severity = Severity.ERROR if each.sort in _GRAVE else Severity.WARNING
            # A function may be marked only to keep Spark from calling it twice.
            yield Finding(problem, severity, query.facts.sink, each.step.table, acceptable=True)


class OrderDecides(QueryRule):
    """`first`, `last` and texts put together take rows as they come. Within a batch that order is not
    fixed: the same rows can give another value, after a crash or on another cluster."""

    entries = {ORDER_DECIDES: Severity.ADVICE}
    example = """
        tables:
          latest: SELECT id, last(status) AS status FROM orders GROUP BY id
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for each in differing(query.facts):
            if each.sort is Sort.ORDER and _is_aggregation(each.step) and "any_value" not in each.what:
                problem = ORDER_DECIDES.at(query.where(each.step), what=each.what, hint=each.instead)
                yield Finding(problem, Severity.ADVICE, query.facts.sink, each.step.table)


def _of_event_time(each: Differs) -> bool:
    return isinstance(each.step, Expression) and each.step.event_time


def _is_aggregation(step: Expression | Operator) -> bool:
    return isinstance(step, Operator) and step.kind is Kind.AGGREGATION


# Rules about sources whose rows can't be read a second time.


class NotReplayable(Rule):
    """After a crash a batch is read again, and some sources can't give its rows a second time."""

    entries = {NOT_REPLAYABLE: Severity.WARNING}
    example = """
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in passing_sources(situation.spec):
            problem = NOT_REPLAYABLE.at(source.position, name=source.name, connector=source.connector)
            yield Finding(problem, Severity.WARNING)


class NotReplayableShared(Rule):
    """Each sink reads its sources by itself; where rows come only once, each would get another part."""

    entries = {NOT_REPLAYABLE_SHARED: Severity.ERROR}
    example = """
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          shown: {reads: lines, connector: console}
          kept: {reads: lines, connector: files, path: kept/, format: text}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in passing_sources(situation.spec):
            # A table that sets rows aside is refused by a rule of its own.
            sinks = [sink for sink in situation.graph.readers(source.name) if not sink.sets_aside]
            if len(sinks) > 1:
                shown = ", ".join(f"`{sink.name}`" for sink in sinks)
                yield Finding(
                    NOT_REPLAYABLE_SHARED.at(
                        source.position, name=source.name, connector=source.connector, sinks=shown
                    )
                )


class NotReplayableCheckpoint(Rule):
    """A checkpoint says how far a source was read; one that counts anew at each start can't go on there."""

    entries = {NOT_REPLAYABLE_CHECKPOINT: Severity.ERROR}
    example = """
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          kept: {reads: lines, connector: files, path: kept/, format: text}   # and it ran before
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            can_resume = source_side(source.connector).can_resume
            for sink in [] if source.static else situation.graph.readers(source.name):
                # A sink that lives in one process begins anew, too.
                anew = sink_side(sink.connector).in_process
                reached = None if anew else situation.reached.get(sink.name)
                # Which of the offsets is this source's, the checkpoint does not say.
                if reached and not all(map(can_resume, reached.offsets)):
                    yield Finding(
                        NOT_REPLAYABLE_CHECKPOINT.at(
                            source.position,
                            sink=sink.name,
                            name=source.name,
                            connector=source.connector,
                            checkpoint=reached.checkpoint,
                        ),
                        sink=sink.name,
                    )
