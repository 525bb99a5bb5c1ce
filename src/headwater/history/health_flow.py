"""Rules about the pace of a query: its throughput, its event time and its state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from headwater.errors import Entry
from headwater.errors.catalogue.alerts import (
    BATCHES_SLOW,
    FALLING_BEHIND,
    FILE_BACKLOG_GROWING,
    LAG_GROWING,
    STATE_GROWING,
    TIMESTAMP_IN_FUTURE,
    WATERMARK_STUCK,
)
from headwater.events import BacklogChanged, Event, InputsIdle, QueryIdle, QueryProgress, WatermarkHeldBack
from headwater.events.status import lag_of
from headwater.history.health_rule import Reading, Rule, Watched, lasting, seconds_of
from headwater.history.health_windows import Trend
from headwater.spec.alerts import (
    FallingBehindAlert,
    FutureTimestampAlert,
    GrowingStateAlert,
    SlowBatchesAlert,
    StuckWatermarkAlert,
)
from headwater.values import quoted


class FallingBehind(Rule[FallingBehindAlert]):
    """Rows arrive faster than the query processes them, for a whole period.

    Without a limit, a batch reads everything that arrived during the previous one, so that a slow query has
    longer and longer batches. With a limit, lag or backlog grow. A query that catches up has a backlog that
    shrinks, and an idle one has none.
    """

    name = "falling_behind"
    lasts = False

    def __init__(self, limits: FallingBehindAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._seconds = limits.period.seconds
        self._previous_start: float | None = None
        self._durations = Trend(self._seconds)
        self._lags: dict[str, Trend] = {}
        self._partitions: dict[str, tuple[str, int, int]] = {}
        self._rows: dict[str, int] = {}
        self._files: Mapping[str, int] = {}
        self._backlogs: dict[str, Trend] = {}

    @classmethod
    def applies(cls, query: Watched) -> bool:
        return not query.is_bounded

    def take(self, event: Event, now: float) -> None:
        match event:
            case QueryProgress():
                if event.rows_in:
                    self._time(event, now)
                self._lag(event, now)
                for path, files in self._files.items():
                    self._backlogs.setdefault(path, Trend(self._seconds)).add(now, files)
            case BacklogChanged():
                self._files = event.files
                self._backlogs = {path: each for path, each in self._backlogs.items() if path in event.files}
            case QueryIdle():
                for trend in (self._durations, *self._lags.values()):
                    trend.clear()

    def _time(self, event: QueryProgress, now: float) -> None:
        start = seconds_of(event.progress.get("timestamp")) or now
        previous, self._previous_start = self._previous_start, start
        if previous is not None:
            duration = event.batch_ms / 1_000
            # A query that waits between its batches is not behind, even if they take longer.
            self._durations.add(now, duration if duration >= 0.9 * (start - previous) else 0.0)

    def _lag(self, event: QueryProgress, now: float) -> None:
        for number, report in enumerate(event.progress.get("sources") or ()):
            lag = lag_of(report)
            if lag:
                name, total = self.query.source(number, report), sum(lag.values())
                self._rows[name] = self._rows.get(name, 0) + int(report.get("numInputRows") or 0)
                self._lags.setdefault(name, Trend(self._seconds)).add(now, total, self._rows[name])
                most = max(lag, key=lag.__getitem__)
                self._partitions[name] = (most, lag[most], total)

    def readings(self, now: float) -> Iterator[Reading]:
        if rise := self._durations.rise(3):
            first, last = rise
            percent = 100 * (last.value - first.value) / (last.at - first.at)
            yield self._reading(FALLING_BEHIND, percent)
        for name, trend in self._lags.items():
            if rise := trend.rise(3):
                first, last = rise
                read = last.counter - first.counter
                partition, behind, total = self._partitions[name]
                lag = {"source": name, "lag": total, "partition": partition, "partition_lag": behind}
                percent = 100 * (last.value - first.value) / max(1, read)
                yield self._reading(LAG_GROWING, percent, name, **lag)
        for path, trend in self._backlogs.items():
            if rise := trend.rise(3):
                first, last = rise
                backlog = {"path": path, "before": int(first.value), "waiting": int(last.value)}
                percent = 100 * (last.value - first.value) / max(100, first.value)
                yield self._reading(FILE_BACKLOG_GROWING, percent, path, **backlog)

    def _reading(self, entry: Entry, percent: float, subject: str = "", **params: object) -> Reading:
        shown = {
            "query": self.query.name,
            "period": str(self.limits.period),
            "percent": round(percent, 2),
            **params,
        }
        limits = self.limits
        return Reading(entry, shown, percent / limits.warning, percent / limits.critical, subject)


class StuckWatermark(Rule[StuckWatermarkAlert]):
    """The watermark is the same for a long time, while rows arrive that should have advanced it.

    Rows that are exactly as new as the newest before are no evidence: event times are often rounded to hours
    or days. A pause between two batches counts as at most a fifth of the threshold.
    """

    name = "stuck_watermark"
    lasts = False
    ends_immediately = True

    def __init__(self, limits: StuckWatermarkAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._watermark: str | None = None
        self._newest = self._last = ""
        self._thresholds = (limits.warning.seconds, limits.critical.seconds)
        self._since: float | None = None
        self._before = 0.0
        self._counted = (0.0, 0.0)
        self._idle: tuple[str, ...] = ()
        self._blocking: tuple[str, ...] = ()
        self._sources: tuple[str, ...] = ()

    def take(self, event: Event, now: float) -> None:
        match event:
            case InputsIdle():
                idle = (str(name) for each in event.idle_inputs for name in each.get("sources", ()))
                self._idle = tuple(dict.fromkeys(idle))
            case WatermarkHeldBack():
                self._blocking = event.sources
            case QueryProgress():
                reports = enumerate(event.progress.get("sources") or ())
                names = self.query.details.sources or [self.query.source(*each) for each in reports]
                self._sources = tuple(dict.fromkeys(names))
                self._batch(event, now)

    def _batch(self, event: QueryProgress, now: float) -> None:
        times = event.progress.get("eventTime") or {}
        watermark, newest = times.get("watermark"), times.get("max")
        if watermark is None:
            return
        if watermark != self._watermark:
            self._newest = max(self._newest, self._last)
            self._watermark, self._since = watermark, None
        if newest is None or not event.rows_in:
            return
        self._last = str(newest)
        self._newest = self._newest or self._last
        if self._last == self._newest:
            self._since = None
            return
        if self._since is None:
            self._since, self._counted = now, (0.0, 0.0)
        else:
            warning, critical = (
                counted + min(now - self._before, threshold / 5)
                for counted, threshold in zip(self._counted, self._thresholds, strict=True)
            )
            self._counted = (warning, critical)
        self._before = now

    def readings(self, now: float) -> Iterator[Reading]:
        if self._since is None:
            return
        cause = f"all rows are older than {self._newest}" if self._last < self._newest else "no input is idle"
        if self._idle:
            cause = f"idle: {quoted(self._idle)}"
        slow = [name for name in self._slow if name not in self._idle]
        if slow:
            cause += f"; blocked by {quoted(slow)}"
        params = {
            "query": self.query.name,
            "lasting": lasting(self._before - self._since),
            "cause": cause,
            "watermark": self._watermark,
            "sources": ", ".join([*self._idle, *slow]),
        }
        warning, critical = (
            counted / threshold for counted, threshold in zip(self._counted, self._thresholds, strict=True)
        )
        yield Reading(WATERMARK_STUCK, params, warning, critical)

    @property
    def _slow(self) -> tuple[str, ...]:
        """The sources that block the watermark, as far as they are known; if the query has only one, that one."""
        return self._blocking or (self._sources if len(self._sources) == 1 and not self._idle else ())


class FutureTimestamp(Rule[FutureTimestampAlert]):
    """The newest event time of the last batch, or the watermark, is far ahead of the clock."""

    name = "future_timestamp"

    def __init__(self, limits: FutureTimestampAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._furthest: tuple[float, str] | None = None

    def take(self, event: Event, now: float) -> None:
        if isinstance(event, QueryProgress):
            times = event.progress.get("eventTime") or {}
            found = [str(times[name]) for name in ("max", "watermark") if times.get(name)]
            known = [(seconds, each) for each in found if (seconds := seconds_of(each)) is not None]
            self._furthest = max(known, default=None)

    def readings(self, now: float) -> Iterator[Reading]:
        if self._furthest is None:
            return
        ahead, time = self._furthest[0] - now, self._furthest[1]
        if ahead > 0:
            names = dict.fromkeys(self.query.details.sources)
            inputs = quoted(names, last=" or ") if names else "its input"
            params = {"query": self.query.name, "inputs": inputs, "ahead": lasting(ahead), "time": time}
            limits = self.limits
            ratios = (ahead / limits.warning.seconds, ahead / limits.critical.seconds)
            yield Reading(TIMESTAMP_IN_FUTURE, params, *ratios)


class GrowingState(Rule[GrowingStateAlert]):
    """The state of an operator grows over a long period, and its lowest size rises in every part of it.

    A state that the watermark bounds grows until its first rows are as old as the delay; this time is ignored.
    """

    name = "growing_state"
    PARTS = 6

    def __init__(self, limits: GrowingStateAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._first: float | None = None
        self._delay: float | None = None
        self._operators: dict[str, Trend] = {}

    def take(self, event: Event, now: float) -> None:
        if not isinstance(event, QueryProgress):
            return
        self._first = now if self._first is None else self._first
        newest = seconds_of((event.progress.get("eventTime") or {}).get("max"))
        reached = seconds_of(event.watermark)
        if newest is not None and reached is not None:
            delay = newest - reached
            # A watermark that is stuck increases the distance, but not the delay.
            self._delay = delay if self._delay is None else min(delay, self._delay)
        if now - self._first >= (self._delay or 0.0):
            operators = reversed(event.progress.get("stateOperators") or ())
            for label, operator in zip(event.late_rows, operators, strict=False):
                rows = int(operator.get("numRowsTotal") or 0)
                trend = self._operators.setdefault(label, Trend(self.limits.period.seconds))
                trend.add(now, rows, rows)

    def readings(self, now: float) -> Iterator[Reading]:
        for label, trend in self._operators.items():
            rise = trend.rise(self.PARTS)
            if rise and rise[1].counter >= self.limits.min_rows:
                first, last = rise
                params = {
                    "query": self.query.name,
                    "operator": label,
                    "before": int(first.value),
                    "rows": last.counter,
                    "period": str(self.limits.period),
                }
                percent = 100 * (last.value - first.value) / max(1.0, first.value)
                limits = self.limits
                ratios = (percent / limits.warning, percent / limits.critical)
                yield Reading(STATE_GROWING, params, *ratios, label)


class SlowBatches(Rule[SlowBatchesAlert]):
    """The last batches take as long as the trigger interval.

    The first batches after a start may read a backlog: they are ignored until one is fast, for up to an hour.
    """

    name = "slow_batches"
    lasts = False
    BATCHES, FEWEST = 10, 5
    GRACE_SECONDS = 3_600.0
    SECONDS = 600.0

    def __init__(self, limits: SlowBatchesAlert, query: Watched) -> None:
        super().__init__(limits, query)
        self._interval_ms = query.details.interval_ms or 0
        self._first: float | None = None
        self._caught_up = False
        self._durations: deque[tuple[float, int]] = deque(maxlen=self.BATCHES)

    @classmethod
    def applies(cls, query: Watched) -> bool:
        return query.details.trigger.startswith("every ") and bool(query.details.interval_ms)

    def take(self, event: Event, now: float) -> None:
        if isinstance(event, QueryProgress) and event.rows_in:
            self._first = now if self._first is None else self._first
            self._caught_up |= 100 * event.batch_ms < self.limits.warning * self._interval_ms
            if self._caught_up or now - self._first >= self.GRACE_SECONDS:
                self._durations.append((now, event.batch_ms))

    def readings(self, now: float) -> Iterator[Reading]:
        since = now - max(self.SECONDS, self.BATCHES * 2 * self._interval_ms / 1_000)
        last = [ms for at, ms in self._durations if at >= since]
        if len(last) >= self.FEWEST:
            percent = 100 * sum(last) / (len(last) * self._interval_ms)
            params = {
                "query": self.query.name,
                "average": sum(last) // len(last),
                "percent": round(percent, 2),
                "interval": self._interval_ms,
            }
            yield Reading(BATCHES_SLOW, params, percent / self.limits.warning, percent / self.limits.critical)
