"""The kinds of events; each has a timestamp and a JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from headwater.errors import Problem

# What a batch counts besides its rows in and out: bad rows by source, late rows by operator.

SOURCE_COUNTS = "headwater.rows."
"""The prefix of the metric that counts a source's rows."""
READ, BAD = "read", "bad"


@dataclass(frozen=True)
class SourceCounts:
    """The rows of one source; every row is good or bad."""

    read: int = 0
    bad: int = 0

    @property
    def good(self) -> int:
        return self.read - self.bad

    def __add__(self, other: SourceCounts) -> SourceCounts:
        return SourceCounts(self.read + other.read, self.bad + other.bad)

    def to_json(self) -> dict[str, int]:
        return {"read": self.read, "good": self.good, "bad": self.bad}


def source_counts(progress: Mapping[str, Any]) -> dict[str, SourceCounts]:
    """The rows of each source that detects bad rows, by its name."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(SOURCE_COUNTS): SourceCounts(int(counts[READ]), int(counts[BAD]))
        for name, counts in observed.items()
        if name.startswith(SOURCE_COUNTS)
    }


_WORDS = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within watermark",
    "symmetricHashJoin": "join",
    "flatMapGroupsWithState": "state",
    "applyInPandasWithState": "state",
    "transformWithStateExec": "state",
    "transformWithStateInPandasExec": "state",
    "transformWithStateInPySparkExec": "state",
}
"""Spark's names of stateful operators, in the terms of the docs."""


def late_rows(progress: Mapping[str, Any]) -> dict[str, int]:
    """The rows that each stateful operator dropped because they arrived behind the watermark.

    Several operators of one kind are numbered, starting at the source. An aggregation drops rows after it has
    combined the rows of one group, so it counts fewer rows than arrived.
    """
    operators = list(reversed(progress.get("stateOperators") or ()))
    names = [_WORDS.get(str(name := each.get("operatorName")), str(name)) for each in operators]
    found: dict[str, int] = {}
    for number, (name, operator) in enumerate(zip(names, operators, strict=True)):
        place = names[: number + 1].count(name)
        label = f"{name} {place}" if names.count(name) > 1 else name
        found[label] = int(operator.get("numRowsDroppedByWatermark") or 0)
    return found


# What a batch counts for the expectations of its tables.

TABLE_COUNTS = "headwater.expect."
"""The prefix of the metric that counts a table's rows."""
ALL_ROWS = "all rows"
"""The count of all rows; an expectation cannot have a name with a space."""


@dataclass(frozen=True)
class TableCounts:
    """The rows of one table that were checked, and how many of them failed each expectation."""

    rows: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: TableCounts) -> TableCounts:
        names = dict.fromkeys((*self.failed, *other.failed))
        failed = {name: self.failed.get(name, 0) + other.failed.get(name, 0) for name in names}
        return TableCounts(self.rows + other.rows, failed)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "failed": dict(self.failed)}


def counts_of(observed: Mapping[str, Any]) -> TableCounts:
    """Counts as Spark returns them."""
    failed = {name: int(rows or 0) for name, rows in observed.items() if name != ALL_ROWS}
    return TableCounts(int(observed[ALL_ROWS] or 0), failed)


def table_counts(progress: Mapping[str, Any]) -> dict[str, TableCounts]:
    """The counts of a batch, by table name."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(TABLE_COUNTS): counts_of(counts)
        for name, counts in observed.items()
        if name.startswith(TABLE_COUNTS)
    }


VERSION = 1


class QueryStatus(StrEnum):
    """The status of a query."""

    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
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
        return {each.name: _as_json(getattr(self, each.name)) for each in fields(self)}


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(each) for each in value]
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
class RunStarted(Event):
    """The run has started; its queries are about to start."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    pipeline: str
    queries: tuple[str, ...]
    run_dir: str
    spark_version: str


@dataclass(frozen=True, kw_only=True)
class QueryStarted(Event):
    """A query has started. Its ID stays the same across restarts; its run ID is new each time."""

    kind: ClassVar[str] = "query_started"
    query: str
    id: str
    run_id: str


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
        return {**super()._fields(), **_as_json(counts), "late_rows": self.late_rows}

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
class InputsIdle(Event):
    """The inputs that block the watermark of a query have changed; none if it advances again."""

    kind: ClassVar[str] = "inputs_idle"
    query: str
    idle_inputs: tuple[Mapping[str, Any], ...]


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

    def to_json(self) -> dict[str, Any]:
        return {each.name: _as_json(getattr(self, each.name)) for each in fields(self)}


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
