"""Rules about real time: what Spark's newest way to run a query takes so far."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Query, QueryRule
from headwater.checks.triggers import BATCHES, trigger_of
from headwater.errors.catalogue.triggers import REAL_TIME_INTERVAL, REAL_TIME_MODE, REAL_TIME_STEP
from headwater.plan import QueryFacts
from headwater.plan.operators import Expression, Kind, Operator
from headwater.values import Duration, RealTime

LEAST = Duration(5_000)
"""What Spark asks for unless `spark.sql.streaming.realTimeMode.minBatchDuration` says otherwise."""
_STATELESS = ("4.1.", "4.2.")
"""The lines of Spark in which a query in real time can't keep state; later ones take some of it."""
_NO_SHUFFLE = frozenset({"repartition", "REBALANCE", "mapInPandas", "mapInArrow"})
_PASSING = frozenset({Kind.WATERMARK, Kind.UNION, Kind.STATIC_JOIN})
_MOVED = "it moves rows between tasks, or keeps some back, and every row is to come out at once"


class RealTimeMode(QueryRule):
    """In real time each row of the result is given as soon as it is there or has changed: that is update
    mode, and Spark takes no other."""

    entries = {REAL_TIME_MODE: Severity.ERROR}
    example = """
        sinks:
          copy: {reads: orders, connector: console, trigger: real time 5 minutes}   # mode: append
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if isinstance(trigger_of(facts), RealTime) and facts.mode != "update":
            place = query.at("mode")
            problem = REAL_TIME_MODE.at(place, sink=facts.sink, mode=facts.mode, trigger=facts.trigger)
            yield Finding(problem, sink=facts.sink)


class RealTimeInterval(QueryRule):
    """The interval of `real time` is how long a batch lasts, at whose end it is noted how far was read; it
    does not keep rows back. Spark wants five seconds at least."""

    entries = {REAL_TIME_INTERVAL: Severity.ERROR}
    example = """
        sinks:
          copy: {reads: orders, connector: console, mode: update, trigger: real time 1 second}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        trigger = trigger_of(query.facts)
        if isinstance(trigger, RealTime) and trigger.interval.milliseconds < LEAST.milliseconds:
            problem = REAL_TIME_INTERVAL.at(
                query.at("trigger"), trigger=query.facts.trigger, least=str(LEAST)
            )
            yield Finding(problem, sink=query.facts.sink)


class RealTimeSteps(QueryRule):
    """In real time a row goes through the whole query at once. Spark has a list of what can be done so: to
    choose rows, compute columns, explode, UNION, and join with a static table small enough to be sent to
    every task; no Python functions, and no state before Spark 4.3."""

    entries = {REAL_TIME_STEP: Severity.ERROR}
    example = """
        tables:
          counts: SELECT word, count(*) AS n FROM words GROUP BY word
        sinks:
          counts: {reads: counts, connector: console, mode: update, trigger: real time 5 minutes}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), RealTime):
            return
        for step, name, why in self._refused(facts):
            place = query.where(step) if step else query.at("trigger")
            problem = REAL_TIME_STEP.at(
                place,
                step=name,
                trigger=facts.trigger,
                version=facts.spark_version,
                why=why,
                hint=f"{BATCHES[:1].upper()}{BATCHES[1:]}.",
            )
            yield Finding(problem, sink=facts.sink, table=step.table if step else "")

    def _refused(self, facts: QueryFacts) -> Iterator[tuple[Operator | Expression | None, str, str]]:
        for function in facts.python_functions:
            yield None, function.name, "it is a Python function, to which rows are sent in groups"
        for step in facts.beyond_rows:
            if step.sql in _NO_SHUFFLE:
                yield step, step.sql, _MOVED
        for name in facts.repeated_streams:
            yield None, name, "it is read several times over, and can be only once"
        for operator in facts.operators:
            if not operator.streams:
                continue
            if operator.is_stateful and facts.spark_version.startswith(_STATELESS):
                yield operator, operator.name, "it keeps state, and in real time no query can yet"
            elif not operator.is_stateful and operator.kind not in _PASSING:
                yield operator, operator.name, _MOVED
            elif operator.kind is Kind.STATIC_JOIN and facts.trigger_refusal:
                why = f"Spark would run it as a {facts.trigger_refusal.says}, and it can only join by equal "
                yield operator, operator.name, f"{why}columns with static rows that `broadcast` sends to all"
