"""The rules of health: those about rows, restarts, idle sources and the disk, and the list of all rules."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headwater.errors.catalogue.alerts import (
    DISK_ALMOST_FULL,
    RESTARTS_REPEATED,
    ROWS_BAD,
    ROWS_LATE,
    SOURCE_IDLE,
)
from headwater.events import Event, QueryIdle, QueryProgress, QueryRestarting, QueryStarted
from headwater.history.health_flow import (
    FallingBehind,
    FutureTimestamp,
    GrowingState,
    SlowBatches,
    StuckWatermark,
)
from headwater.history.health_rule import Reading, Rule, Watched, lasting
from headwater.history.health_windows import SlidingSums
from headwater.spec.alerts import (
    BadRowsAlert,
    DiskAlmostFullAlert,
    IdleSourceAlert,
    LateRowsAlert,
    RepeatedRestartsAlert,
)
from headwater.values import count_of


class LateRows(Rule[LateRowsAlert]):
    """The share of rows that an operator dropped behind the watermark."""

    name = "late_rows"

    def __init__(self, limits: LateRowsAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._operators: dict[str, SlidingSums] = {}

    def take(self, event: Event, now: float) -> None:
        if isinstance(event, QueryProgress):
            for label, late in event.late_rows.items():
                sums = self._operators.setdefault(label, SlidingSums(self.limits.period.seconds, 2))
                sums.add(now, late, event.rows_in)

    def readings(self, now: float) -> Iterator[Reading]:
        for label, sums in self._operators.items():
            late, rows = sums.totals(now)
            if late and rows >= self.limits.min_rows:
                percent = 100 * late / rows
                counts = {"operator": label, "late": late, "rows": rows, "percent": round(percent, 2)}
                ratios = (percent / self.limits.warning, percent / self.limits.critical)
                yield Reading(ROWS_LATE, {"query": self.query.name, **counts}, *ratios, label)


class BadRows(Rule[BadRowsAlert]):
    """The share of rows of a source that do not match its schema."""

    name = "bad_rows"

    def __init__(self, limits: BadRowsAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._sources: dict[str, SlidingSums] = {}

    def take(self, event: Event, now: float) -> None:
        if isinstance(event, QueryProgress):
            for name, counts in event.source_counts.items():
                sums = self._sources.setdefault(name, SlidingSums(self.limits.period.seconds, 2))
                sums.add(now, counts.bad, counts.read)

    def readings(self, now: float) -> Iterator[Reading]:
        for name, sums in self._sources.items():
            bad, rows = sums.totals(now)
            if bad and rows >= self.limits.min_rows:
                percent = 100 * bad / rows
                counts = {"source": name, "bad": bad, "rows": rows, "percent": round(percent, 2)}
                ratios = (percent / self.limits.warning, percent / self.limits.critical)
                yield Reading(ROWS_BAD, {"query": self.query.name, **counts}, *ratios, name)


class RepeatedRestarts(Rule[RepeatedRestartsAlert]):
    """The number of restarts after failures within a period."""

    name = "repeated_restarts"

    def __init__(self, limits: RepeatedRestartsAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._times: deque[float] = deque(maxlen=limits.critical)
        self._code = ""

    def take(self, event: Event, now: float) -> None:
        if isinstance(event, QueryRestarting):
            self._times.append(now)
            self._code = event.problem.code

    def readings(self, now: float) -> Iterator[Reading]:
        while self._times and self._times[0] <= now - self.limits.within.seconds:
            self._times.popleft()
        if self._times:
            count, period = len(self._times), str(self.limits.within)
            params = {
                "query": self.query.name,
                "restarts": count,
                "times": count_of(count, "time"),
                "period": period,
                "code": self._code,
            }
            yield Reading(
                RESTARTS_REPEATED, params, count / self.limits.warning, count / self.limits.critical
            )


@dataclass
class _Pauses:
    """When a source delivered rows, and its longest pause of every six hours of the last seven days."""

    first: float
    last: float
    batches: int = 1
    longest: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=28))

    def add(self, now: float) -> None:
        number, pause = int(now // 21_600), now - self.last
        if self.longest and self.longest[-1][0] == number:
            self.longest[-1] = (number, max(pause, self.longest[-1][1]))
        else:
            self.longest.append((number, pause))
        self.last, self.batches = now, self.batches + 1


class IdleSource(Rule[IdleSourceAlert]):
    """A source delivers no rows for much longer than it did before.

    Only time in which Spark polled counts: a long batch does not make a source idle.
    """

    name = "idle_source"
    ends_immediately = True
    FEWEST = 10
    """How many batches with rows make a history."""

    def __init__(self, limits: IdleSourceAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._sources: dict[str, _Pauses] = {}
        self._polled = 0.0

    @classmethod
    def applies(cls, query: Watched) -> bool:
        return not query.is_bounded

    def take(self, event: Event, now: float) -> None:
        match event:
            case QueryProgress():
                self._polled = now
                for number, report in enumerate(event.progress.get("sources") or ()):
                    if int(report.get("numInputRows") or 0):
                        name = self.query.source(number, report)
                        if name in self._sources:
                            self._sources[name].add(now)
                        else:
                            self._sources[name] = _Pauses(now, now)
            case QueryIdle():
                self._polled = now
            case QueryStarted():
                # The time without a query is no pause of the source.
                for pauses in self._sources.values():
                    pauses.last = now

    def readings(self, now: float) -> Iterator[Reading]:
        least = self.limits.warning.seconds
        for name, pauses in self._sources.items():
            idle = self._polled - pauses.last
            known = pauses.batches >= self.FEWEST and pauses.last - pauses.first >= least
            if known and idle >= least / 2:
                usual = max((pause for _, pause in pauses.longest), default=0.0)
                params = {"source": name, "lasting": lasting(idle), "usual": lasting(usual)}
                longest = max(least, self.limits.times_usual * usual)
                yield Reading(SOURCE_IDLE, {"query": self.query.name, **params}, idle / longest, subject=name)


class DiskAlmostFull(Rule[DiskAlmostFullAlert]):
    """The free space of the disk that contains a local checkpoint."""

    name = "disk_almost_full"
    SECONDS = 10.0
    """How often the disk is checked."""

    def __init__(self, limits: DiskAlmostFullAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._path = local_path(query.details.checkpoint)
        self._checked = -math.inf
        self._reading: Reading | None = None

    @classmethod
    def applies(cls, query: Watched) -> bool:
        return local_path(query.details.checkpoint) is not None

    def readings(self, now: float) -> Iterator[Reading]:
        if self._path is not None and now - self._checked >= self.SECONDS:
            self._checked, self._reading = now, self._read(self._path)
        if self._reading:
            yield self._reading

    def _read(self, path: Path) -> Reading | None:
        try:
            existing = next((each for each in (path, *path.parents) if each.exists()), path)
            usage = self.query.disk(str(existing))
        except OSError:
            return self._reading
        percent = 100 * usage.free / max(1, usage.total)
        params = {"free": round(usage.free / 1e9, 1), "percent": round(percent, 2), "path": str(path)}
        warning, critical = (
            limit.of(usage.total) / max(1, usage.free)
            for limit in (self.limits.warning, self.limits.critical)
        )
        return Reading(DISK_ALMOST_FULL, {"query": self.query.name, **params}, warning, critical)


def local_path(checkpoint: str) -> Path | None:
    """The directory of a checkpoint on a local disk; None if it is elsewhere."""
    if checkpoint.startswith("/"):
        return Path(checkpoint)
    address = urlsplit(checkpoint)
    return Path(unquote(address.path)) if address.scheme == "file" else None


RULES: tuple[type[Rule[Any]], ...] = (
    FallingBehind,
    StuckWatermark,
    FutureTimestamp,
    GrowingState,
    SlowBatches,
    LateRows,
    BadRows,
    RepeatedRestarts,
    IdleSource,
    DiskAlmostFull,
)
