"""The kinds of events; each knows when it happened and turns into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from headwater.errors import Problem

# What a batch counted besides its rows in and out: bad rows by source, late rows by operator.

SOURCE_COUNTS = "headwater.rows."
"""The name under which a source's rows are counted, before the source's own."""
READ, BAD = "read", "bad"


@dataclass(frozen=True)
class SourceCounts:
    """The rows of one source: all that were read are good or bad."""

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
    """The rows of each source that tells good ones from bad ones, by its name."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(SOURCE_COUNTS): SourceCounts(int(counts[READ]), int(counts[BAD]))
        for name, counts in observed.items()
        if name.startswith(SOURCE_COUNTS)
    }


_WORDS = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "dedupe": "distinct",
    "dedupeWithinWatermark": "distinct within watermark",
    "symmetricHashJoin": "join",
    "flatMapGroupsWithState": "state",
    "applyInPandasWithState": "state",
    "transformWithStateExec": "state",
    "transformWithStateInPandasExec": "state",
    "transformWithStateInPySparkExec": "state",
}
"""Spark's names for stateful operators, in the words of the docs."""


def late_rows(progress: Mapping[str, Any]) -> dict[str, int]:
    """The rows that each stateful operator dropped because they came behind the watermark.

    Several operators of one kind are numbered from the source on. An aggregation drops
    after it has put rows of one group together, so it counts fewer than came.
    """
    operators = list(reversed(progress.get("stateOperators") or ()))
    names = [_WORDS.get(str(name := each.get("operatorName")), str(name)) for each in operators]
    found: dict[str, int] = {}
    for number, (name, operator) in enumerate(zip(names, operators, strict=True)):
        place = names[: number + 1].count(name)
        label = f"{name} {place}" if names.count(name) > 1 else name
        found[label] = int(operator.get("numRowsDroppedByWatermark") or 0)
    return found


# What a batch counted of the expectations of its tables.

TABLE_COUNTS = "headwater.expect."
"""The name under which the rows of a table are judged, before the table's own."""
ALL_ROWS = "all rows"
"""The count of all; no expectation can have a name with a space."""


@dataclass(frozen=True)
class TableCounts:
    """The rows of one table that were judged, and how many of them failed each expectation."""

    rows: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: TableCounts) -> TableCounts:
        names = dict.fromkeys((*self.failed, *other.failed))
        failed = {name: self.failed.get(name, 0) + other.failed.get(name, 0) for name in names}
        return TableCounts(self.rows + other.rows, failed)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "failed": dict(self.failed)}


def counts_of(observed: Mapping[str, Any]) -> TableCounts:
    """Counts as Spark gives them."""
    failed = {name: int(rows or 0) for name, rows in observed.items() if name != ALL_ROWS}
    return TableCounts(int(observed[ALL_ROWS] or 0), failed)


def table_counts(progress: Mapping[str, Any]) -> dict[str, TableCounts]:
    """What a batch counted, by the name of the table."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(TABLE_COUNTS): counts_of(counts)
        for name, counts in observed.items()
        if name.startswith(TABLE_COUNTS)
    }


VERSION = 1


class QueryStatus(StrEnum):
    """Where a query stands."""

    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


def now() -> str:
    """The time as events and Spark write it."""
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
    """Whoever is told what happens."""

    def __call__(self, event: Event, /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SparkStarting(Event):
    """Spark is about to start, which takes some seconds; after it the pipeline is checked."""

    kind: ClassVar[str] = "spark_starting"


@dataclass(frozen=True, kw_only=True)
class StartPhase(Event):
    """The start is still busy with one of its phases; emitted only for a phase that takes some seconds."""

    kind: ClassVar[str] = "start_phase"
    phase: str
    text: str
    seconds: int
    """How long the phase has taken so far."""
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, kw_only=True)
class Found(Event):
    """The check before the start found something, given in its form as JSON."""

    kind: ClassVar[str] = "finding"
    finding: Mapping[str, Any]

    def _fields(self) -> dict[str, Any]:
        return {"at": self.at, **self.finding}


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """The run began; its queries are about to start."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    pipeline: str
    queries: tuple[str, ...]
    folder: str
    spark_version: str


@dataclass(frozen=True, kw_only=True)
class QueryStarted(Event):
    """A query started. Its id stays the same over restarts, its run id is new each time."""

    kind: ClassVar[str] = "query_started"
    query: str
    id: str
    run_id: str


@dataclass(frozen=True, kw_only=True)
class QueryProgress(Event):
    """A batch was committed; `progress` holds every field that Spark reports."""

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
        """Whether any source went on, even over files without a row."""
        return any(
            source.get("startOffset") != source.get("endOffset") for source in self.progress["sources"]
        )

    @property
    def watermark(self) -> str | None:
        found = (self.progress.get("eventTime") or {}).get("watermark")
        # Spark shows the beginning of time where no watermark has been reached yet.
        return str(found) if found and not str(found).startswith("1970-01-01T00:00:00.000") else None

    @property
    def source_counts(self) -> dict[str, SourceCounts]:
        """Good and bad rows of each source that tells them apart, by its name."""
        return source_counts(self.progress)

    @property
    def late_rows(self) -> dict[str, int]:
        """The rows that came behind the watermark and were dropped, by operator."""
        return late_rows(self.progress)

    @property
    def table_counts(self) -> dict[str, TableCounts]:
        """The rows of each table with expectations, and how many of them failed each, by its name."""
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
    """A continuous query has noted how far it has read. Of its rows Spark tells nothing."""

    kind: ClassVar[str] = "epoch_committed"
    query: str
    epoch: int


@dataclass(frozen=True, kw_only=True)
class QueryIdle(Event):
    """A query looked for data and found none."""

    kind: ClassVar[str] = "query_idle"
    query: str
    begun: str = ""
    """When the look began, by Spark's word; the event may come much later."""


@dataclass(frozen=True, kw_only=True)
class QueryWaits(Event):
    """The inputs for which the watermark of a query waits are others than before; none, if it goes on."""

    kind: ClassVar[str] = "query_waits"
    query: str
    waits_for: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class QueryEnded(Event):
    """A query ended: finished by itself, stopped, or failed with a problem."""

    kind: ClassVar[str] = "query_ended"
    query: str
    status: QueryStatus
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class QuerySummary:
    """What a query did in a run; of a continuous one no rows are known."""

    status: str
    rows_in: int | None
    rows_out: int | None
    sources: Mapping[str, Mapping[str, int]]
    expectations: Mapping[str, Mapping[str, Any]]
    late_rows: Mapping[str, int]
    batch: int | None
    """The newest batch or epoch."""
    waits_for: tuple[Mapping[str, Any], ...]
    problem: Problem | None

    def to_json(self) -> dict[str, Any]:
        return {each.name: _as_json(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """All queries have ended."""

    kind: ClassVar[str] = "run_ended"
    run_id: str
    exit_code: int
    queries: Mapping[str, QuerySummary]


@dataclass(frozen=True, kw_only=True)
class SinkBegun(Event):
    """A batch run begins to write the rows of a sink."""

    kind: ClassVar[str] = "sink_begun"
    sink: str


@dataclass(frozen=True, kw_only=True)
class SinkWritten(Event):
    """A batch run has written a sink; `rows` is None where only the sink knows how many it took."""

    kind: ClassVar[str] = "sink_written"
    sink: str
    place: str
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class BatchEnded(Event):
    """A batch run has written every sink: places and rows by sink, bad rows by source, failed expectations
    by table."""

    kind: ClassVar[str] = "batch_ended"
    written: Mapping[str, str]
    rows: Mapping[str, int | None]
    sources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    expectations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Notice(Event):
    """Something the user should know, with its code in the catalogue and what it is about."""

    kind: ClassVar[str] = "said"
    text: str
    code: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the entry; what is no plain value is written as text."""

    @classmethod
    def of(cls, problem: Problem, *, with_code: bool = False) -> Notice:
        """A problem or a notice of the catalogue; those that come between batches show their code, too."""
        text = f"{problem.sentence} {problem.remedy}".rstrip()
        plain = (str, int, float, type(None))
        fields = {key: each if isinstance(each, plain) else str(each) for key, each in problem.params.items()}
        return cls(text=f"{problem.code} {text}" if with_code else text, code=problem.code, fields=fields)
