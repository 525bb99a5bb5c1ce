"""Rules about results that differ when Spark retries a batch."""

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
    "Sink `{sink}` ({connector}) is not exactly-once: {what} returns a different value when Spark retries a "
    "batch ({why}).",
    "{hint}",
    code="HW-NONDETERMINISTIC",
)
NONDETERMINISTIC_STATE = Entry(
    "Sink `{sink}` ({connector}): {what} is stored in the state and returns a different value when Spark "
    "retries a batch ({why}). After a crash, the output can contain missing or duplicate rows.",
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
def nondeterministic_query(query: Query) -> Iterator[Match]:
    """After a crash, Spark retries the batch. An exactly-once sink relies on getting the same rows again, but
    random numbers, clocks and functions marked as nondeterministic return different values. If such a value
    reaches the state, the state and the rows written before the crash can disagree. This affects every sink
    that stores rows, including at-least-once sinks."""
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
    "The watermark column is computed from {what}, which is nondeterministic ({why}). Late rows and windows "
    "then depend on chance.",
    "Declare the watermark on a timestamp column of the rows. To use the arrival time, declare it on "
    "`current_timestamp()`.",
    example="""
        tables:
          spread:
            sql: SELECT page, at + make_interval(0, 0, 0, 0, 0, 0, rand() * 60) AS at FROM clicks
            watermark: {column: at, delay: 10 minutes}
    """,
)
def nondeterministic_event_time(query: Query) -> Iterator[Match]:
    """A watermark follows the maximum event time. If the event time is computed from random numbers or a
    clock, each attempt drops different rows as late. Spark runs such a query without a warning."""
    for each in filter(_of_event_time, unstable_parts(query.facts)):
        grave = each.cause in (Cause.RANDOM, Cause.TASKS)
        severity = Severity.ERROR if grave else Severity.WARNING
        # A function can be marked only to prevent Spark from calling it twice.
        yield query.match(each.step, what=each.what, why=each.why, severity=severity, suppressible=True)


@rule(
    "HW-ORDER-DEPENDENT",
    "{what} depends on the order of the rows, which is not fixed within a batch. A retried batch can return "
    "a different value.",
    "{hint}",
    Severity.NOTE,
    example="""
        tables:
          latest: SELECT id, last(status) AS status FROM orders GROUP BY id
    """,
)
def order_dependent(query: Query) -> Iterator[Match]:
    """`first`, `last` and concatenated strings depend on the order of the rows. Within a batch, that order is
    not fixed, so the same rows can produce a different value after a crash or on a different cluster."""
    for each in unstable_parts(query.facts):
        aggregates = isinstance(each.step, Operator) and each.step.kind is Kind.AGGREGATION
        if each.cause is Cause.ORDER and aggregates and "any_value" not in each.what:
            yield query.match(each.step, what=each.what, hint=each.instead)


def _of_event_time(each: UnstablePart) -> bool:
    return isinstance(each.step, Expression) and each.step.event_time


# Rules about sources that are not replayable.


@pipeline_rule(
    "HW-SOURCE-NOT-REPLAYABLE",
    "Source `{name}` ({connector}) is not replayable: rows of a failed batch, and rows sent while the "
    "pipeline is stopped, are lost.",
    "In production, use a replayable source, such as `files` or `kafka`.",
    Severity.WARNING,
    example="""
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
    """,
)
def source_not_replayable(situation: Situation) -> Iterator[Match]:
    """After a crash, Spark reads the rows of the failed batch again. Some sources cannot return them a second
    time."""
    for source in unreplayable_sources(situation.spec):
        yield Match.at(source.position, name=source.name, connector=source.connector)


@pipeline_rule(
    "HW-SOURCE-NOT-REPLAYABLE-SHARED",
    "Source `{name}` ({connector}): several queries ({sinks}) read it, but it delivers each row only once, so "
    "each sink would get different rows.",
    "Set the same `group: NAME` on these sinks, so that they share one query. Or use one sink, or store the rows "
    "with a `files` sink and read its directory in another pipeline.",
    example="""
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          shown: {reads: lines, connector: console}
          kept: {reads: lines, connector: files, path: kept/, format: text}
    """,
)
def source_not_replayable_shared(situation: Situation) -> Iterator[Match]:
    """Each query reads its sources independently: each sink without a group, and each group. If a source
    delivers each row only once, every query gets only a part of the rows."""
    for source in unreplayable_sources(situation.spec):
        # A separate rule rejects tables that quarantine rows.
        readers = (sink for sink in situation.graph.readers(source.name) if not sink.is_quarantine)
        queries = list(dict.fromkeys(sink.query for sink in readers))
        if len(queries) > 1:
            params = {"name": source.name, "connector": source.connector, "sinks": quoted(queries)}
            yield Match(source.position, params)


@pipeline_rule(
    "HW-SOURCE-NOT-REPLAYABLE-RESUME",
    "Query `{sink}` cannot resume from its checkpoint: source `{name}` ({connector}) starts from scratch at "
    "each start.",
    "Delete {checkpoint}, and the output that a `files` sink wrote with it. The query then starts from "
    "scratch.",
    example="""
        sources:
          lines: {connector: socket, host: localhost, port: 9999}
        sinks:
          kept: {reads: lines, connector: files, path: kept/, format: text}   # with an existing checkpoint
    """,
    lasting=False,
)
def source_not_replayable_resume(situation: Situation) -> Iterator[Match]:
    """A checkpoint records the offsets of each source. If a source numbers its rows from scratch at each
    start, the query cannot resume there."""
    for source in situation.spec.sources:
        can_resume = source_side(source.connector).can_resume
        for sink in [] if source.static else situation.graph.readers(source.name):
            reached = situation.reached.get(sink.name)
            # A sink that lives in one process also starts from scratch.
            if reached is None or sink_side(sink.connector).in_process:
                continue
            # The checkpoint does not record which offset belongs to this source.
            if not all(map(can_resume, reached.offsets)):
                params = {
                    "name": source.name,
                    "connector": source.connector,
                    "checkpoint": reached.checkpoint,
                }
                yield Match(source.position, params, sink.name)
