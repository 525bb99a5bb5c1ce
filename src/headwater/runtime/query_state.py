"""The state of one query while it runs, and the counts of its batches."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.engine.query import RunningQuery
from headwater.errors import Problem
from headwater.errors.catalogue.running import PROGRESS_LOST
from headwater.events import (
    EpochCommitted,
    Event,
    Notice,
    QueryIdle,
    QueryProgress,
    QueryRunning,
    QueryStatus,
    QuerySummary,
)
from headwater.events.counts import SourceCounts, TableCounts
from headwater.events.idle import Idle
from headwater.runtime.scope import shown
from headwater.spark.errors import SparkStopped
from headwater.spec import RestartPolicy

ENDED = (QueryStatus.FINISHED, QueryStatus.STOPPED, QueryStatus.FAILED)
_BETWEEN_BATCHES = (QueryStatus.STARTING, QueryStatus.IDLE)
_KEPT = 100
_LAST_EVENTS_SECONDS = 5.0
_STATIC_RESTARTS = 3


class RecentProgress:
    """The newest progress reports of a query, as JSON: as objects, they would take several times the memory."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque(maxlen=_KEPT)

    def append(self, progress: Mapping[str, Any]) -> None:
        self._texts.append(json.dumps(progress))

    @property
    def last(self) -> Mapping[str, Any] | None:
        return _report(self._texts[-1]) if self._texts else None

    @property
    def all(self) -> tuple[Mapping[str, Any], ...]:
        """Oldest first."""
        return tuple(map(_report, self._texts.copy()))


def _report(text: str) -> Mapping[str, Any]:
    report: Mapping[str, Any] = json.loads(text)
    return report


@dataclass
class QueryState:
    """One query from start to termination; the supervisor changes it under its lock.

        starting ──► running ◄──► idle ──► finished    it has read everything
           ▲            │          │  ├──► stopped     `stopping`: a stop was requested
           │            ▼          ▼  └──► failed      a batch failed, or a `problem` stopped it
           └──────── restarting ◄──┘                   waits until `restart_at`

    A query whose failure a retry can fix waits for its restart, as its policy says. If only a file of a static
    source has disappeared, it is restarted immediately, a few times between two batches.
    """

    query: RunningQuery
    newest: int = -1
    """The newest batch taken in, or the last batch or epoch of previous runs."""
    status: QueryStatus = QueryStatus.STARTING
    recent: RecentProgress = field(default_factory=RecentProgress)
    rows_in: int = 0
    rows_out: int = 0
    sources: dict[str, SourceCounts] = field(default_factory=dict)
    """Good and bad rows since the start, for each source that detects bad rows."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows dropped behind the watermark since the start, by operator."""
    tables: dict[str, TableCounts] = field(default_factory=dict)
    """Rows that failed expectations since the start, by table."""
    batch: int | None = None
    """The newest batch of this run."""
    epoch: int | None = None
    """The newest epoch of a continuous query, which has no batches."""
    problem: Problem | None = None
    stopping: bool = False
    stuck: bool = False
    """Its batch could neither finish nor be interrupted."""
    must_end: bool = False
    """The problem was found outside the query, and the query was stopped for it: it has failed."""
    quiet_watermark: str | None = None
    idle_polls: int = 0
    """How often it was found idle."""
    last_poll_at: str = ""
    """When the last of these polls started; empty if unknown."""
    inactive_since: float | None = None
    static_restarts: int = 0
    """How often it was restarted because of a static source since its last progress."""
    restarts: int = 0
    """How often it was restarted since the start of the run."""
    attempts: deque[float] = field(default_factory=deque)
    """When its restarts within the period of its policy were due."""
    restart_at: float | None = None
    """When it will be restarted, on the clock of `time.monotonic()`; None if it does not wait for that."""
    restart_requested: bool = False
    """Whether it is restarted when it has stopped."""
    last_failure: Problem | None = None
    """The failure for which it waits to be restarted."""
    delivered: dict[str, int] = field(default_factory=dict)
    """The newest batch since the start in which each source delivered rows."""
    idle_inputs: tuple[Idle, ...] = ()
    """The idle inputs that block its watermark."""
    held_back_by: tuple[str, ...] = ()
    """The sources that hold back its watermark, idle or not."""

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def must_stop(self) -> bool:
        return self.stopping or self.problem is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it is about to terminate for good, because a stop was requested."""
        return self.must_stop and not (self.ended or self.restart_requested or self.stuck)

    @property
    def may_restart_for_static(self) -> bool:
        return not self.must_stop and self.static_restarts < _STATIC_RESTARTS

    def next_attempt(self, policy: RestartPolicy, now: float) -> int | None:
        """The number of the next restart within the period of the policy; None if no more are allowed."""
        while self.attempts and self.attempts[0] <= now - policy.within.seconds:
            self.attempts.popleft()
        number = len(self.attempts) + 1
        return number if number <= policy.attempts else None

    def wait_for_restart(self, at: float, failure: Problem | None = None) -> None:
        """It has terminated, and will be restarted."""
        self.status, self.restart_at, self.last_failure = QueryStatus.RESTARTING, at, failure
        self.stopping = self.must_end = self.restart_requested = False
        self.problem = None

    def failure(self) -> Exception | None:
        """The failure of its query; SparkStopped if Spark has ended under it."""
        failure = self.query.failure()
        if (failure or self.query.is_active) and self.query.is_gone:
            return SparkStopped(str(failure or "Spark was stopped"))
        return failure

    def seems_over(self) -> bool:
        """Whether Spark's query has terminated without an event from Spark's listener for some seconds."""
        if self.query.is_active:
            return False
        if self.query.is_gone:
            return True
        self.inactive_since = self.inactive_since or time.monotonic()
        return time.monotonic() - self.inactive_since > _LAST_EVENTS_SECONDS

    def polled(self, times: int, since: str) -> bool:
        """Whether it was found idle `times` times, the last time by a poll that started after `since`."""
        recent = not self.last_poll_at or self.last_poll_at >= since
        return self.ended or (self.idle_polls >= times and recent)

    def apply(self, event: Event) -> None:
        """Take in an event from Spark. A query that has terminated has its final counts."""
        match event:
            case _ if self.ended:
                return
            case QueryProgress():
                self._add(event)
                quiet = self._is_quiet(event)
                if self.restart_at is not None:
                    # It terminated after this batch.
                    return
                self.status = QueryStatus.IDLE if quiet else QueryStatus.RUNNING
                self.idle_polls += quiet
                self.last_poll_at = str(event.progress.get("timestamp") or "")
            case EpochCommitted(epoch=epoch) if self.restart_at is None:
                self.status, self.epoch = QueryStatus.RUNNING, epoch
            case QueryRunning() if self.restart_at is None:
                self.status = QueryStatus.RUNNING
            case QueryIdle(started_at=started_at) if self.restart_at is None:
                self.status, self.last_poll_at = QueryStatus.IDLE, started_at
                self.idle_polls += 1

    def _add(self, event: QueryProgress) -> None:
        self.newest = self.batch = event.batch_id
        self.static_restarts = 0
        # Decisions use Spark's values; what is shown to others contains no secrets.
        self.recent.append(shown(event.progress))
        self.delivered |= dict.fromkeys(self.query.inputs.rows_in(event.progress), event.batch_id)
        self.rows_in += event.rows_in
        self.rows_out += event.rows_out or 0
        for name, counts in event.source_counts.items():
            self.sources[name] = self.sources.get(name, SourceCounts()) + counts
        for name, failed in event.table_counts.items():
            self.tables[name] = self.tables.get(name, TableCounts()) + failed
        for operator, rows in event.late_rows.items():
            self.late[operator] = self.late.get(operator, 0) + rows

    def _is_quiet(self, event: QueryProgress) -> bool:
        """Batches without data and without a watermark advance: only timeouts keep the query active."""
        if event.rows_in or event.moved:
            self.quiet_watermark = None
            return False
        mark = event.watermark or "none"
        quiet = self.quiet_watermark == mark
        self.quiet_watermark = mark
        return quiet

    def restarted(self, query: RunningQuery, *, for_static: bool = False) -> None:
        """It continues with a new start."""
        self.query, self.status, self.inactive_since = query, QueryStatus.STARTING, None
        self.delivered, self.restart_at, self.stuck = {}, None, False
        self.restarts += 1
        self.static_restarts += for_static

    def outcome(self, *, failed: bool) -> QueryStatus:
        """The final status. If a batch had to be interrupted, its failure does not count."""
        if self.must_end or (failed and not self.problem):
            return QueryStatus.FAILED
        return QueryStatus.STOPPED if self.stopping else QueryStatus.FINISHED

    def summary(self) -> QuerySummary:
        """The summary of this run. The listener's thread may add to it concurrently."""
        has_batches = self.query.has_batches
        return QuerySummary(
            status=self.status.value,
            rows_in=self.rows_in if has_batches else None,
            rows_out=self.rows_out if has_batches else None,
            sources={name: counts.to_json() for name, counts in list(self.sources.items())},
            expectations={name: counts.to_json() for name, counts in list(self.tables.items())},
            late_rows=dict(self.late),
            batch=self.batch if self.epoch is None else self.epoch,
            idle_inputs=tuple(idle.to_json(self.name) for idle in self.idle_inputs),
            problem=self.problem,
            restarts=self.restarts,
        )


# Events from Spark's listener: each batch once, in order, without gaps.


def in_order(queries: Mapping[str, QueryState], event: Event) -> Iterator[Event]:
    """An event, after the earlier batches that did not arrive; nothing if its batch was already taken in."""
    if not isinstance(event, QueryProgress):
        yield event
        return
    state = queries.get(event.query)
    # A query that is not known yet catches up as soon as it is. A terminated one has its final counts.
    if state is None or state.ended or event.batch_id <= state.newest:
        return
    gap = event.batch_id - state.newest - 1
    if gap:
        before = [each for each in state.query.progress_after(state.newest) if each.batch_id < event.batch_id]
        if len(before) < gap:
            lost = PROGRESS_LOST.at(None, sink=state.name, lost=gap - len(before))
            yield Notice.of(lost)
        yield from before
    yield event


def missed(queries: Mapping[str, QueryState]) -> Iterator[Event]:
    """What has not arrived: committed batches, and batches that have begun, which Spark's listener never reports.

    The events of Spark's listener are handled on the same thread, so what arrives later also happened later.
    """
    for state in list(queries.values()):
        if state.query.has_batches and not state.ended:
            for event in state.query.progress_after(state.newest):
                yield from in_order(queries, event)
            if state.status in _BETWEEN_BATCHES and state.query.is_processing:
                yield QueryRunning(query=state.name)
