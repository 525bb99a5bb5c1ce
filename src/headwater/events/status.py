"""The status of a run: what its events so far add up to.

A run, its history and `hw.watch` use the same fold, so that `headwater status`, the metrics and the handles of
another process agree.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headwater.errors import Problem
from headwater.events.counts import SourceCounts, TableCounts
from headwater.events.kinds import (
    Alert,
    BacklogChanged,
    EpochCommitted,
    Event,
    EventsDropped,
    InputsIdle,
    QueryDetails,
    QueryIdle,
    QueryProgress,
    QueryRestarted,
    QueryRestarting,
    QueryRunning,
    QueryStarted,
    QueryStatus,
    QueryTerminated,
    RunFinished,
    RunStarted,
    WatermarkHeldBack,
    as_json,
)

VERSION = 1
ENDED = (QueryStatus.FINISHED, QueryStatus.STOPPED, QueryStatus.FAILED)
ENDED_KEPT = 100
"""How many ended queries of a program are kept in memory. A program can start any number, each with a new name."""


class EndedQueries:
    """The names of the queries of a program that have ended, up to a number; the oldest are forgotten."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def started(self, name: str) -> None:
        """The query has started again."""
        self._names.pop(name, None)

    def ended(self, name: str) -> list[str]:
        """The query has ended; returns the names to forget."""
        self._names.pop(name, None)
        self._names[name] = None
        oldest = list(self._names)[:-ENDED_KEPT]
        for each in oldest:
            del self._names[each]
        return oldest


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """One Spark source of a query after its last batch."""

    name: str
    rows: int
    """Rows in the last batch with data."""
    rows_per_second: float | None
    start_offset: Any
    end_offset: Any
    latest_offset: Any
    lag: Mapping[str, int]
    """Rows behind the newest offset, by `topic-partition`; empty if the source does not report it."""

    def to_json(self) -> dict[str, Any]:
        return {**_fields(self), "total_lag": sum(self.lag.values()) if self.lag else None}


@dataclass(frozen=True, kw_only=True)
class StateStatus:
    """The state of one stateful operator after the last batch."""

    operator: str
    rows: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return _fields(self)


@dataclass(frozen=True, kw_only=True)
class BatchStatus:
    """One batch."""

    batch_id: int
    at: str
    rows_in: int
    rows_out: int | None
    duration_ms: int
    phases_ms: Mapping[str, int]
    rows_in_per_second: float | None
    """The rate at which rows arrived."""
    rows_processed_per_second: float | None

    def to_json(self) -> dict[str, Any]:
        return _fields(self)

    @classmethod
    def of(cls, event: QueryProgress) -> BatchStatus:
        progress = event.progress
        return cls(
            batch_id=event.batch_id,
            at=str(progress.get("timestamp") or event.at),
            rows_in=event.rows_in,
            rows_out=event.rows_out,
            duration_ms=event.batch_ms,
            phases_ms={name: int(ms) for name, ms in (progress.get("durationMs") or {}).items()},
            rows_in_per_second=progress.get("inputRowsPerSecond"),
            rows_processed_per_second=progress.get("processedRowsPerSecond"),
        )


@dataclass(kw_only=True)
class QueryView:
    """One query, from its start to now."""

    name: str
    details: QueryDetails = field(default_factory=QueryDetails)
    id: str = ""
    run_id: str = ""
    status: QueryStatus = QueryStatus.STARTING
    since: str = ""
    """When it got this status."""
    restarts: int = 0
    restart_attempt: int | None = None
    """The attempt that is due, while the query waits for a restart."""
    batch: int | None = None
    """The newest batch or epoch."""
    batches: int = 0
    batch_ms: int = 0
    """The duration of all batches together."""
    rows_in: int = 0
    rows_out: int = 0
    last_batch: BatchStatus | None = None
    sources: tuple[SourceStatus, ...] = ()
    watermark: str | None = None
    held_back_by: tuple[str, ...] = ()
    """The sources that hold back the watermark while others are ahead of it."""
    event_time: Mapping[str, str] = field(default_factory=dict)
    idle_inputs: tuple[Mapping[str, Any], ...] = ()
    state: tuple[StateStatus, ...] = ()
    row_counts: dict[str, SourceCounts] = field(default_factory=dict)
    expectations: dict[str, TableCounts] = field(default_factory=dict)
    late_rows: dict[str, int] = field(default_factory=dict)
    waiting_files: Mapping[str, int] = field(default_factory=dict)
    alerts: dict[tuple[str, str], Alert] = field(default_factory=dict)
    """The active alerts, by rule and subject."""
    problem: Problem | None = None
    """The last failure, also of a query that was restarted."""
    failed_at: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def health(self) -> str:
        """`ok`, `warning` or `critical`."""
        if self.status is QueryStatus.FAILED:
            return "critical"
        severities = {alert.severity for alert in self.alerts.values()}
        return next((each for each in ("critical", "warning") if each in severities), "ok")

    def set_status(self, status: QueryStatus, at: str) -> None:
        """Change the status; `since` stays if it is the same."""
        if status is not self.status or not self.since:
            self.status, self.since = status, at

    def _set_active(self, status: QueryStatus, at: str) -> None:
        """Change the status, unless the query has terminated or failed: its last events may arrive late."""
        if not self.ended and self.status is not QueryStatus.RESTARTING:
            self.set_status(status, at)

    def apply(self, event: Event) -> None:
        """Take in an event of this query."""
        match event:
            case QueryStarted():
                self.id, self.run_id = event.id, event.run_id
                self.details = event.details or self.details
                self.restart_attempt = None
                self.set_status(QueryStatus.STARTING, event.at)
            case QueryProgress():
                self._add(event)
                self._set_active(QueryStatus.RUNNING, event.at)
            case EpochCommitted():
                self.batch = event.epoch
                self._set_active(QueryStatus.RUNNING, event.at)
            case QueryRunning():
                self._set_active(QueryStatus.RUNNING, event.at)
            case QueryIdle():
                self._set_active(QueryStatus.IDLE, event.at)
            case InputsIdle():
                self.idle_inputs = event.idle_inputs
            case WatermarkHeldBack():
                self.held_back_by = event.sources
            case BacklogChanged():
                self.waiting_files = event.files
            case QueryRestarting():
                self.problem, self.failed_at = event.problem, event.at
                self.restart_attempt = event.attempt
                self.set_status(QueryStatus.RESTARTING, event.at)
            case QueryRestarted():
                self.restarts, self.restart_attempt = event.restarts, None
                if self.ended or self.status is QueryStatus.RESTARTING:
                    self.set_status(QueryStatus.STARTING, event.at)
            case QueryTerminated():
                self.restart_attempt = None
                if event.problem:
                    self.problem, self.failed_at = event.problem, event.at
                self.set_status(event.status, event.at)
            case Alert():
                key = (event.alert, event.subject)
                if event.active:
                    self.alerts[key] = event
                else:
                    self.alerts.pop(key, None)

    def _add(self, event: QueryProgress) -> None:
        progress = event.progress
        self.batch, self.batches = event.batch_id, self.batches + 1
        self.batch_ms += event.batch_ms
        self.rows_in += event.rows_in
        self.rows_out += event.rows_out or 0
        self.last_batch = BatchStatus.of(event)
        self.sources = _sources(self.details.sources, progress)
        self.watermark = event.watermark
        times = progress.get("eventTime") or {}
        self.event_time = {name: str(time) for name, time in times.items() if name != "watermark"}
        self.state = tuple(
            StateStatus(
                operator=str(each.get("operatorName")),
                rows=int(each.get("numRowsTotal") or 0),
                bytes=int(each.get("memoryUsedBytes") or 0),
            )
            for each in progress.get("stateOperators") or ()
        )
        for name, counts in event.source_counts.items():
            self.row_counts[name] = self.row_counts.get(name, SourceCounts()) + counts
        for name, failed in event.table_counts.items():
            self.expectations[name] = self.expectations.get(name, TableCounts()) + failed
        for operator, rows in event.late_rows.items():
            self.late_rows[operator] = self.late_rows.get(operator, 0) + rows

    def to_json(self) -> dict[str, Any]:
        """The form of `headwater status --json`."""
        return {
            "query": self.name,
            "id": self.id,
            "run_id": self.run_id,
            "status": self.status.value,
            "since": self.since,
            "health": self.health,
            **{name: value for name, value in self.details.to_json().items() if name != "sources"},
            "restarts": self.restarts,
            "restart_attempt": self.restart_attempt,
            "batch": self.batch,
            "batches": self.batches,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "last_batch": as_json(self.last_batch),
            "sources": as_json(self.sources),
            "waiting_files": dict(self.waiting_files),
            "watermark": self.watermark,
            "held_back_by": list(self.held_back_by),
            "event_time": dict(self.event_time),
            "idle_inputs": as_json(self.idle_inputs),
            "state": as_json(self.state),
            "rows_by_source": as_json(self.row_counts),
            "expectations": as_json(self.expectations),
            "late_rows": dict(self.late_rows),
            "alerts": [alert.to_json() for alert in self.alerts.values()],
            "problem": as_json(self.problem),
            "failed_at": self.failed_at,
        }


class RunView:
    """A run, from its start to now. Events arrive on one thread; any thread may read."""

    def __init__(self) -> None:
        self.run_id = ""
        self.pipeline = ""
        self.run_dir = ""
        self.spark_version = ""
        self.started_at = ""
        self.ended_at: str | None = None
        self.exit_code: int | None = None
        self.problem: Problem | None = None
        """Why the run could not start."""
        self.dropped: dict[str, int] = {}
        """How many events each consumer has missed."""
        self.queries: dict[str, QueryView] = {}
        """The queries by name: those of the pipeline, or those that a program has started."""
        self._declared: tuple[str, ...] = ()
        self._ended = EndedQueries()
        self.turn = threading.RLock()
        """Held while an event is taken in; hold it to read several values of the same moment."""

    def apply(self, event: Event) -> None:
        """Take in the next event of the run."""
        with self.turn:
            match event:
                case RunStarted():
                    self._start(event)
                case RunFinished():
                    self.ended_at, self.exit_code = event.at, event.exit_code
                case EventsDropped():
                    self.dropped[event.consumer] = self.dropped.get(event.consumer, 0) + event.dropped
                case Alert() if event.query not in self.queries:
                    # The last alert of a query that is forgotten already.
                    pass
                case _:
                    name = getattr(event, "query", "")
                    if name:
                        self.queries.setdefault(name, QueryView(name=name)).apply(event)
                        self._forget(event, name)

    def _forget(self, event: Event, name: str) -> None:
        """Forget the oldest of the queries that a program has started and that have ended."""
        if name in self._declared:
            return
        if isinstance(event, QueryStarted):
            self._ended.started(name)
        elif isinstance(event, QueryTerminated):
            for oldest in self._ended.ended(name):
                del self.queries[oldest]

    def _start(self, event: RunStarted) -> None:
        self.run_id, self.pipeline, self.started_at = event.run_id, event.pipeline, event.at
        self.run_dir, self.spark_version = event.run_dir, event.spark_version
        self._declared = event.queries
        self.queries |= {
            name: QueryView(name=name, details=event.details.get(name, QueryDetails()), since=event.at)
            for name in event.queries
        }

    @property
    def status(self) -> str:
        """`starting`, `running`, `finished`, `stopped` or `failed`."""
        states = {query.status for query in self.queries.values()}
        if self.ended_at is None:
            return "running" if states - {QueryStatus.STARTING} else "starting"
        if self.exit_code:
            return "failed"
        return "finished" if states == {QueryStatus.FINISHED} else "stopped"

    @property
    def health(self) -> str:
        """The worst health of any query."""
        found = {query.health for query in self.queries.values()}
        if self.problem is not None:
            return "critical"
        return next((each for each in ("critical", "warning") if each in found), "ok")

    def to_json(self) -> dict[str, Any]:
        """The form of `headwater status --json`."""
        with self.turn:
            return {
                "version": VERSION,
                "run_id": self.run_id,
                "pipeline": self.pipeline,
                "run_dir": self.run_dir,
                "spark_version": self.spark_version,
                "status": self.status,
                "health": self.health,
                "started_at": self.started_at,
                "ended_at": self.ended_at,
                "exit_code": self.exit_code,
                "problem": as_json(self.problem),
                "events_dropped": dict(self.dropped),
                "queries": [query.to_json() for query in self.queries.values()],
            }


def lag_of(source: Mapping[str, Any]) -> dict[str, int]:
    """The rows that a source has not read, by `topic-partition`, from its part of a progress report."""
    latest, end = source.get("latestOffset"), source.get("endOffset")
    if not isinstance(latest, Mapping) or not isinstance(end, Mapping):
        return {}
    found: dict[str, int] = {}
    for topic, partitions in latest.items():
        reached: Mapping[str, Any] = end.get(topic) or {}
        for partition, offset in (partitions if isinstance(partitions, Mapping) else {}).items():
            found[f"{topic}-{partition}"] = max(0, int(offset) - int(reached.get(partition) or 0))
    return found


def _sources(names: tuple[str, ...], progress: Mapping[str, Any]) -> tuple[SourceStatus, ...]:
    reports = progress.get("sources") or ()
    found = []
    for number, report in enumerate(reports):
        name = names[number] if number < len(names) else str(report.get("description") or number)
        found.append(
            SourceStatus(
                name=name,
                rows=int(report.get("numInputRows") or 0),
                rows_per_second=report.get("inputRowsPerSecond"),
                start_offset=report.get("startOffset"),
                end_offset=report.get("endOffset"),
                latest_offset=report.get("latestOffset"),
                lag=lag_of(report),
            )
        )
    return tuple(found)


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
