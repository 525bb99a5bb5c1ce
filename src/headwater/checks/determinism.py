"""Rules about what a batch gives when it runs again over the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.guarantees import Cause, UnstablePart, is_kept, is_kept_once, unstable_parts
from headwater.checks.rules import Match, Query, Severity, Situation, pipeline_rule, rule
from headwater.connectors import sink_side, source_side
from headwater.errors import Entry
from headwater.plan.operators import Expression, Kind, Operator
from headwater.plan.predicates import unreplayable_sources
from headwater.values import quoted

NONDETERMINISTIC = Entry(
    "{what} gives another value when a batch runs again after a crash ({why}), so the sink `{sink}` "
    "({connector}) is not exactly once.",
    "{hint}",
    code="HW-NONDETERMINISTIC",
)
NONDETERMINISTIC_STATE = Entry(
    "{what} reaches the state of the query and gives another value when a batch runs again after a crash "
    "({why}): what the sink `{sink}` ({connector}) got before the crash and what the state holds after it "
    "may disagree, and whoever reads the sink can miss rows or see them twice.",
    "{hint}",
    code="HW-NONDETERMINISTIC-STATE",
)


@rule(
    entries=[NONDETERMINISTIC, NONDETERMINISTIC_STATE],
    severity=Severity.WARNING,
    example="""
        tables:
          tagged: SELECT uuid() AS id, page FROM clicks
        sinks:
          tagged: {reads: tagged, connector: files, path: out/, format: json}
    """,
)
def not_repeatable(query: Query) -> Iterator[Match]:
    """After a crash a batch runs again, and an exactly-once sink counts on getting the same rows again. A
    random number, a clock or a function marked as non-deterministic gives others. Where its value reaches
    state, what was written and what the state holds can disagree: in every sink that keeps rows, also one
    that may get a batch twice."""
    facts = query.facts
    for each in unstable_parts(facts):
        reaches = isinstance(each.step, Expression) and each.step.stateful_input
        matters = is_kept(facts) if reaches else is_kept_once(facts)
        if matters and each.cause is not Cause.ORDER and not _of_event_time(each):
            yield query.match(
                each.step,
                entry=NONDETERMINISTIC_STATE if reaches else NONDETERMINISTIC,
                what=each.what,
                why=each.why,
                connector=facts.connector,
                hint=each.instead,
            )


@rule(
    "HW-NONDETERMINISTIC-EVENT-TIME",
    "A watermark stands on a column that is made from {what}, which gives another value each time ({why}): "
    "which rows are late, and into which window a row falls, is then left to chance.",
    "Put the watermark on a time that the rows bring with them, or on `current_timestamp()` for the time at "
    "which they come in.",
    example="""
        tables:
          spread:
            sql: SELECT page, at + make_interval(0, 0, 0, 0, 0, 0, rand() * 60) AS at FROM clicks
            watermark: {column: at, delay: 10 minutes}
    """,
)
def event_time_not_repeatable(query: Query) -> Iterator[Match]:
    """A watermark follows the greatest event time. Made from random numbers or a clock, it drops other rows
    as late in each attempt; Spark runs it without a word."""
    for each in filter(_of_event_time, unstable_parts(query.facts)):
        grave = each.cause in (Cause.RANDOM, Cause.TASKS)
        severity = Severity.ERROR if grave else Severity.WARNING
        # A function may be marked only to keep Spark from calling it twice.
        yield query.match(each.step, what=each.what, why=each.why, severity=severity, acceptable=True)


@rule(
    "HW-ORDER-DEPENDENT",
    "{what} depends on the order of the rows, and a stream promises none within a batch: a batch that runs "
    "again may give another value.",
    "{hint}",
    Severity.ADVICE,
    example="""
        tables:
          latest: SELECT id, last(status) AS status FROM orders GROUP BY id
    """,
)
def order_decides(query: Query) -> Iterator[Match]:
    """`first`, `last` and texts put together take rows as they come. Within a batch that order is not
    fixed: the same rows can give another value, after a crash or on another cluster."""
    for each in unstable_parts(query.facts):
        aggregates = isinstance(each.step, Operator) and each.step.kind is Kind.AGGREGATION
        if each.cause is Cause.ORDER and aggregates and "any_value" not in each.what:
            yield query.match(each.step, what=each.what, hint=each.instead)


def _of_event_time(each: UnstablePart) -> bool:
    return isinstance(each.step, Expression) and each.step.event_time


# Rules about sources whose rows can't be read a second time.


@pipeline_rule(
    "HW-SOURCE-NOT-REPLAYABLE",
    "The rows of the source `{name}` ({connector}) can't be read again: what a batch that fails had taken, "
    "and what is sent while nothing runs, is lost.",
    "Good for trying things out; for rows that count, read a source that keeps them, such as `files`.",
    Severity.WARNING,
    example="""
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
    """,
)
def not_replayable(situation: Situation) -> Iterator[Match]:
    """After a crash a batch is read again, and some sources can't give its rows a second time."""
    for source in unreplayable_sources(situation.spec):
        yield Match.at(source.position, name=source.name, connector=source.connector)


@pipeline_rule(
    "HW-SOURCE-NOT-REPLAYABLE-SHARED",
    "The sinks {sinks} all read the source `{name}` ({connector}), and each would get other rows.",
    "Leave one of them; or let one `files` sink store the rows, and read its folder in another pipeline.",
    example="""
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          shown: {reads: lines, connector: console}
          kept: {reads: lines, connector: files, path: kept/, format: text}
    """,
)
def not_replayable_shared(situation: Situation) -> Iterator[Match]:
    """Each sink reads its sources by itself; where rows come only once, each would get another part."""
    for source in unreplayable_sources(situation.spec):
        # A table that sets rows aside is refused by a rule of its own.
        sinks = [sink.name for sink in situation.graph.readers(source.name) if not sink.is_quarantine]
        if len(sinks) > 1:
            params = {"name": source.name, "connector": source.connector, "sinks": quoted(sinks)}
            yield Match(source.position, params)


@pipeline_rule(
    "HW-SOURCE-NOT-REPLAYABLE-RESUME",
    "The query `{sink}` can't go on from its checkpoint: the source `{name}` ({connector}) begins anew at "
    "each start.",
    "Begin anew: remove {checkpoint}, and what a `files` sink wrote with it.",
    example="""
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          kept: {reads: lines, connector: files, path: kept/, format: text}   # and it ran before
    """,
    lasting=False,
)
def not_replayable_checkpoint(situation: Situation) -> Iterator[Match]:
    """A checkpoint says how far a source was read; one that counts anew at each start can't go on there."""
    for source in situation.spec.sources:
        can_resume = source_side(source.connector).can_resume
        for sink in [] if source.static else situation.graph.readers(source.name):
            reached = situation.reached.get(sink.name)
            # A sink that lives in one process begins anew, too.
            if reached is None or sink_side(sink.connector).in_process:
                continue
            # Which of the offsets is this source's, the checkpoint does not say.
            if not all(map(can_resume, reached.offsets)):
                params = {
                    "name": source.name,
                    "connector": source.connector,
                    "checkpoint": reached.checkpoint,
                }
                yield Match(source.position, params, sink.name)
