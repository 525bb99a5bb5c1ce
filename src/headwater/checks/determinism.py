"""Rules about what a batch gives when it runs again over the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.guarantees import is_kept, is_kept_once
from headwater.checks.repeating import Differs, Sort, differing
from headwater.checks.rule import Query, QueryRule
from headwater.errors.catalogue.guarantees import (
    EVENT_TIME_NOT_REPEATABLE,
    NOT_REPEATABLE,
    ORDER_DECIDES,
    STATE_NOT_REPEATABLE,
)
from headwater.plan.operators import Expression, Kind, Operator

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
