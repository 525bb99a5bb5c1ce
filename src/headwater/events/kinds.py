"""The kinds of events; each has a timestamp and a JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from headwater.errors import Problem
from headwater.events.counts import (
    SourceCounts,
    TableCounts,
    late_rows,
    source_counts,
    table_counts,
)

VERSION = 1


class QueryStatus(StrEnum):
    """The status of a query."""

    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
    RESTARTING = "restarting"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


def now() -> str:
    """The time in the format of events and of Spark."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    kind: ClassVar[str] = "event"
    at: str = field(default_factory=now)

    def to_json(self) -> dict[str, Any]:
        """The form of `--json`: one object, with its kind first."""
        return {"event": self.kind, "version": VERSION, **self._fields()}

    def _fields(self) -> dict[str, Any]:
        return {each.name: as_json(getattr(self, each.name)) for each in fields(self)}


def as_json(value: Any) -> Any:
    """A value of an event, or an object with such values, in its JSON form."""
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    return value.to_json() if hasattr(value, "to_json") else value


class Emit(Protocol):
    """Receives the events of a run."""

    def __call__(self, event: Event, /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SparkStarting(Event):
    """Spark is about to start; this takes some seconds. The check of the pipeline follows."""

    kind: ClassVar[str] = "spark_starting"


@dataclass(frozen=True, kw_only=True)
class StartPhase(Event):
    """A phase of the start is still running; emitted only if a phase takes some seconds."""

    kind: ClassVar[str] = "start_phase"
    phase: str
    message: str
    seconds: int
    """How long the phase has taken so far."""
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, kw_only=True)
class Found(Event):
    """A finding of the check before the start, in its JSON form."""

    kind: ClassVar[str] = "finding"
    finding: Mapping[str, Any]

    def _fields(self) -> dict[str, Any]:
        return {"at": self.at, **self.finding}


@dataclass(frozen=True, kw_only=True)
class QueryDetails:
    """What is known of a query before it starts."""

    connector: str = ""
    mode: str = "append"
    trigger: str = ""
    interval_ms: int | None = None
    """The interval of its trigger, if it has one."""
    guarantee: str = ""
    """The delivery guarantee of its sink, such as `exactly-once`."""
    sources: tuple[str, ...] = ()
    """The name of each Spark source, in the order of Spark's progress reports."""
    checkpoint: str = ""

    def to_json(self) -> dict[str, Any]:
        return {each.name: as_json(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """The run has started; its queries are about to start."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    pipeline: str
    queries: tuple[str, ...]
    run_dir: str
    spark_version: str
    details: Mapping[str, QueryDetails] = field(default_factory=dict)
    """What is known of each query before it starts."""


@dataclass(frozen=True, kw_only=True)
class QueryStarted(Event):
    """A query has started. Its ID stays the same across restarts; its run ID is new each time."""

    kind: ClassVar[str] = "query_started"
    query: str
    id: str
    run_id: str
    details: QueryDetails | None = None
    """What is known of a query that a program started itself; otherwise, `run_started` has the details."""

    def _fields(self) -> dict[str, Any]:
        found = super()._fields()
        return {name: value for name, value in found.items() if name != "details" or value is not None}


@dataclass(frozen=True, kw_only=True)
class QueryProgress(Event):
    """A batch was committed; `progress` contains every field that Spark reports."""

    kind: ClassVar[str] = "query_progress"
    query: str
    rows_out: int | None
    progress: Mapping[str, Any]

    @property
    def batch_id(self) -> int:
        return int(self.progress["batchId"])

    @property
    def rows_in(self) -> int:
        return int(self.progress["numInputRows"])

    @property
    def moved(self) -> bool:
        """Whether any source advanced, even past files without rows."""
        return any(
            source.get("startOffset") != source.get("endOffset") for source in self.progress["sources"]
        )

    @property
    def watermark(self) -> str | None:
        found = (self.progress.get("eventTime") or {}).get("watermark")
        # Spark reports the epoch as long as no watermark has been reached.
        return str(found) if found and not str(found).startswith("1970-01-01T00:00:00.000") else None

    @property
    def source_counts(self) -> dict[str, SourceCounts]:
        """Good and bad rows of each source that detects bad rows, by its name."""
        return source_counts(self.progress)

    @property
    def late_rows(self) -> dict[str, int]:
        """The rows that were dropped behind the watermark, by operator."""
        return late_rows(self.progress)

    @property
    def table_counts(self) -> dict[str, TableCounts]:
        """The rows of each table with expectations, and how many failed each, by table name."""
        return table_counts(self.progress)

    def _fields(self) -> dict[str, Any]:
        counts = {"sources": self.source_counts, "expectations": self.table_counts}
        return {**super()._fields(), **as_json(counts), "late_rows": self.late_rows}

    @property
    def batch_ms(self) -> int:
        return int(self.progress.get("batchDuration") or 0)

    @property
    def rows_in_per_second(self) -> float:
        return float(self.progress.get("processedRowsPerSecond") or 0.0)


@dataclass(frozen=True, kw_only=True)
class EpochCommitted(Event):
    """A continuous query has committed an epoch. Spark does not report its rows."""

    kind: ClassVar[str] = "epoch_committed"
    query: str
    epoch: int


@dataclass(frozen=True, kw_only=True)
class QueryIdle(Event):
    """A query polled for data and found none."""

    kind: ClassVar[str] = "query_idle"
    query: str
    started_at: str = ""
    """When the poll started, as reported by Spark; the event may arrive much later."""


@dataclass(frozen=True, kw_only=True)
class QueryRunning(Event):
    """A query that had just started or was idle processes a batch, which is not committed yet."""

    kind: ClassVar[str] = "query_running"
    query: str


@dataclass(frozen=True, kw_only=True)
class InputsIdle(Event):
    """The inputs that block the watermark of a query have changed; none if it advances again."""

    kind: ClassVar[str] = "inputs_idle"
    query: str
    idle_inputs: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class WatermarkHeldBack(Event):
    """Other sources hold back the watermark of a query than before; none if no source is ahead of it."""

    kind: ClassVar[str] = "watermark_held_back"
    query: str
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BacklogChanged(Event):
    """The number of files that the sources of a query have listed and not read has changed."""

    kind: ClassVar[str] = "backlog_changed"
    query: str
    files: Mapping[str, int]
    """By path."""


@dataclass(frozen=True, kw_only=True)
class QueryRestarting(Event):
    """A query failed and will be restarted after a delay."""

    kind: ClassVar[str] = "query_restarting"
    query: str
    attempt: int
    """The number of this restart within the period of the restart policy."""
    attempts: int
    """How many restarts the policy allows in that period."""
    delay_ms: int
    problem: Problem


@dataclass(frozen=True, kw_only=True)
class QueryRestarted(Event):
    """A query runs again, after a failure or at the user's request."""

    kind: ClassVar[str] = "query_restarted"
    query: str
    restarts: int
    """How often it was restarted since the start of the run."""


@dataclass(frozen=True, kw_only=True)
class Alert(Event):
    """The health of a query has changed: a condition that needs attention was found, or has ended."""

    kind: ClassVar[str] = "alert"
    query: str
    alert: str
    """The name of the rule, such as `falling_behind`."""
    subject: str = ""
    """What it is about, if the rule applies to parts of a query: a source, an operator."""
    severity: str
    """`warning` or `critical`."""
    active: bool
    """False if the condition has ended."""
    code: str
    message: str
    hint: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PipelineChanged(Event):
    """The definition of a query differs from that of its last start."""

    kind: ClassVar[str] = "pipeline_changed"
    query: str
    changes: tuple[str, ...]
    """What has changed, in words."""
    details: tuple[Mapping[str, Any], ...] = ()
    """The same with values: `what`, `before` and `after`."""


@dataclass(frozen=True, kw_only=True)
class EventsDropped(Event):
    """A consumer of events has missed some: its queue was full, or it could not write or send them."""

    kind: ClassVar[str] = "events_dropped"
    consumer: str
    dropped: int
    """How many events it has missed since the last such event."""


@dataclass(frozen=True, kw_only=True)
class QueryTerminated(Event):
    """A query has terminated: it finished, was stopped, or failed with a problem."""

    kind: ClassVar[str] = "query_terminated"
    query: str
    status: QueryStatus
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class QuerySummary:
    """The summary of a query in a run; row counts are unknown for a continuous query."""

    status: str
    rows_in: int | None
    rows_out: int | None
    sources: Mapping[str, Mapping[str, int]]
    expectations: Mapping[str, Mapping[str, Any]]
    late_rows: Mapping[str, int]
    batch: int | None
    """The newest batch or epoch."""
    idle_inputs: tuple[Mapping[str, Any], ...]
    problem: Problem | None
    restarts: int = 0
    """How often the query was restarted."""

    def to_json(self) -> dict[str, Any]:
        return {each.name: as_json(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class RunFinished(Event):
    """All queries have terminated."""

    kind: ClassVar[str] = "run_finished"
    run_id: str
    exit_code: int
    queries: Mapping[str, QuerySummary]


@dataclass(frozen=True, kw_only=True)
class SinkStarted(Event):
    """A batch run starts to write the rows of a sink."""

    kind: ClassVar[str] = "sink_started"
    sink: str


@dataclass(frozen=True, kw_only=True)
class SinkFinished(Event):
    """A batch run has written a sink; `rows` is None if only the sink knows the number."""

    kind: ClassVar[str] = "sink_finished"
    sink: str
    path: str
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class BatchRunFinished(Event):
    """A batch run has written every sink: paths and rows by sink, bad rows by source, failed expectations
    by table."""

    kind: ClassVar[str] = "batch_run_finished"
    written: Mapping[str, str]
    rows: Mapping[str, int | None]
    sources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    expectations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Notice(Event):
    """A message to the user, with its code in the catalogue and its parameters."""

    kind: ClassVar[str] = "notice"
    message: str
    hint: str = ""
    """The fix, if something is wrong."""
    code: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the entry; values that are not plain are converted to strings."""

    @classmethod
    def of(cls, problem: Problem) -> Notice:
        """A problem or notice of the catalogue."""
        plain = (str, int, float, type(None))
        fields = {key: each if isinstance(each, plain) else str(each) for key, each in problem.params.items()}
        return cls(message=problem.message, hint=problem.hint, code=problem.code, fields=fields)

    @property
    def text(self) -> str:
        """The notice in one line; one with a hint also shows its code."""
        return f"{self.code} {self.message} {self.hint}" if self.hint else self.message


def of_pipeline(event: Event, pipeline: str) -> Event:
    """The event with the pipeline's name before each query, where several pipelines are shown together."""
    name = getattr(event, "query", "")
    if name:
        return replace(event, query=f"{pipeline}.{name}")  # type: ignore[call-arg]
    if isinstance(event, RunStarted):
        details = {f"{pipeline}.{each}": of for each, of in event.details.items()}
        queries = tuple(f"{pipeline}.{each}" for each in event.queries)
        return replace(event, queries=queries, details=details)
    if isinstance(event, RunFinished):
        return replace(event, queries={f"{pipeline}.{each}": of for each, of in event.queries.items()})
    return event
