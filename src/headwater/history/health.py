"""The health of the queries of a run: alerts that start, change their severity and end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from headwater.events import (
    Alert,
    Emit,
    Event,
    QueryDetails,
    QueryRestarting,
    QueryStarted,
    QueryTerminated,
    RunFinished,
    RunStarted,
)
from headwater.events.status import EndedQueries
from headwater.history.health_rule import DiskUsage, Reading, Rule, Watched
from headwater.history.health_rules import RULES
from headwater.spec.alerts import Alerts

ENDS_BELOW = 0.8
"""An alert ends, or its severity drops, below this part of the threshold."""
ENDS_AFTER_SECONDS = 300.0
"""How long the value must stay there."""


class Severity(IntEnum):
    """The severity of an alert."""

    OK = 0
    WARNING = 1
    CRITICAL = 2

    @classmethod
    def of(cls, reading: Reading | None, part: float = 1.0) -> Severity:
        """The highest severity of which the value reaches this part of the threshold."""
        if reading is None:
            return cls.OK
        if reading.critical >= part:
            return cls.CRITICAL
        return cls.WARNING if reading.warning >= part else cls.OK


class Alarm:
    """The severity of one condition: it rises immediately and drops late, so that it does not flap."""

    def __init__(self, patience: float = ENDS_AFTER_SECONDS) -> None:
        self.severity = Severity.OK
        self.reading: Reading | None = None
        """What was measured when the severity last changed."""
        self._patience = patience
        self._calm_since: float | None = None
        self._calm = Severity.OK

    def see(self, reading: Reading | None, now: float) -> bool:
        """Take in a measurement; returns whether the severity has changed."""
        reached, kept = Severity.of(reading), Severity.of(reading, ENDS_BELOW)
        if reached > self.severity:
            return self._change(reached, reading)
        if kept >= self.severity:
            self._calm_since = None
            return False
        if self._calm_since is None:
            self._calm_since, self._calm = now, kept
        self._calm = max(self._calm, kept)
        if now - self._calm_since < self._patience:
            return False
        return self._change(self._calm, reading)

    def _change(self, severity: Severity, reading: Reading | None) -> bool:
        self.severity, self._calm_since = severity, None
        self.reading = reading or self.reading
        return True


class QueryHealth:
    """The rules and alarms of one query."""

    def __init__(self, thresholds: Alerts, query: Watched) -> None:
        self._query = query
        limits = {kind: getattr(thresholds, kind.name) for kind in RULES if kind.applies(query)}
        self._limits = {kind: each for kind, each in limits.items() if each is not None}
        self._rules: dict[type[Rule[Any]], Rule[Any]] = {
            kind: kind(each, query) for kind, each in self._limits.items()
        }
        self._alarms: dict[type[Rule[Any]], dict[str, Alarm]] = {kind: {} for kind in self._limits}

    def take(self, event: Event, now: float) -> Iterator[Alert]:
        """Take in an event of the query; yields the alerts that change."""
        if isinstance(event, QueryStarted | QueryRestarting):
            yield from self._start_again(now)
        for rule in self._rules.values():
            rule.take(event, now)
        yield from self.check(now)

    def check(self, now: float) -> Iterator[Alert]:
        """Evaluate every rule; yields the alerts that change."""
        for kind, rule in self._rules.items():
            alarms = self._alarms[kind]
            found = {reading.subject: reading for reading in rule.readings(now)}
            for subject in [*found, *(name for name in alarms if name not in found)]:
                reading = found.get(subject)
                alarm = alarms.get(subject)
                if alarm is None:
                    if not Severity.of(reading):
                        continue
                    alarm = alarms[subject] = Alarm(0.0 if kind.ends_immediately else ENDS_AFTER_SECONDS)
                before = alarm.severity
                if alarm.see(reading, now):
                    yield self._alert(kind, subject, alarm, before, now)
                if alarm.severity is Severity.OK:
                    del alarms[subject]

    def end(self, now: float) -> Iterator[Alert]:
        """End every alert, because the query has terminated."""
        for kind in self._rules:
            yield from self._end(kind, now)

    def _start_again(self, now: float) -> Iterator[Alert]:
        for kind, limits in self._limits.items():
            if not kind.lasts:
                yield from self._end(kind, now)
                self._rules[kind] = kind(limits, self._query)

    def _end(self, kind: type[Rule[Any]], now: float) -> Iterator[Alert]:
        alarms, self._alarms[kind] = self._alarms[kind], {}
        for subject, alarm in alarms.items():
            before, alarm.severity = alarm.severity, Severity.OK
            yield self._alert(kind, subject, alarm, before, now)

    def _alert(
        self, kind: type[Rule[Any]], subject: str, alarm: Alarm, before: Severity, now: float
    ) -> Alert:
        """The event; one that ends an alert has the severity and the figures of before."""
        reading = alarm.reading
        assert reading is not None, "an alarm changes only after a measurement"
        problem = reading.entry.at(None, **reading.params)
        at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Alert(
            at=at,
            query=self._query.name,
            alert=kind.name,
            subject=subject,
            severity=(alarm.severity or before).name.lower(),
            active=alarm.severity is not Severity.OK,
            code=problem.code,
            message=problem.message,
            hint=problem.hint,
            fields=reading.params,
        )


class HealthMonitor:
    """Takes in the events of a run and emits its alerts. Everything is called on one thread."""

    def __init__(
        self,
        thresholds: Alerts,
        emit: Emit,
        *,
        clock: Callable[[], float] = time.time,
        disk: Callable[[str], DiskUsage] = shutil.disk_usage,
    ) -> None:
        self._thresholds = thresholds
        self._emit = emit
        self._clock = clock
        self._disk = disk
        self._declared: Mapping[str, QueryDetails] = {}
        self._started: dict[str, QueryDetails] = {}
        """The details of queries that a program has started."""
        self._queries: dict[str, QueryHealth] = {}
        self._terminated = EndedQueries()

    def __call__(self, event: Event) -> None:
        """Take in the next event of the run."""
        now = self._clock()
        match event:
            case RunStarted():
                self._declared = event.details
                for name in event.queries:
                    self._of(name)
            case RunFinished():
                for name in tuple(self._queries):
                    self._end(name, now)
            case QueryTerminated():
                self._terminated.ended(event.query)
                self._end(event.query, now)
                self._started.pop(event.query, None)
            case Alert():
                # Its own events return over the bus.
                return
            case _:
                name = str(getattr(event, "query", ""))
                if isinstance(event, QueryStarted):
                    self._terminated.started(name)
                    if event.details:
                        self._started[name] = event.details
                if name and name not in self._terminated:
                    self._pass_on(self._of(name).take(event, now))

    def tick(self) -> None:
        """Check what depends on time alone; called about once a second."""
        now = self._clock()
        for query in self._queries.values():
            self._pass_on(query.check(now))

    def _of(self, name: str) -> QueryHealth:
        if name not in self._queries:
            details = self._started.get(name) or self._declared.get(name, QueryDetails())
            watched = Watched(name, details, self._disk)
            self._queries[name] = QueryHealth(self._thresholds, watched)
        return self._queries[name]

    def _end(self, name: str, now: float) -> None:
        if name in self._queries:
            self._pass_on(self._queries.pop(name).end(now))

    def _pass_on(self, alerts: Iterator[Alert]) -> None:
        for alert in alerts:
            self._emit(alert)
