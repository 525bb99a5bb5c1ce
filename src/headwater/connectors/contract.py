"""What the engine passes to a connector, and what the connector returns: context, tasks, validated rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headwater.checkpoint import Checkpoint, LocalStore, Read, committed
from headwater.errors import HeadwaterError, Place, Problem
from headwater.run_directory import SourceDirectory
from headwater.spec import FunctionRef, Mode
from headwater.spec.paths import plain_path
from headwater.values import BadRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class BatchContext:
    """Which batch of which query a sink writes, and in which run."""

    query: str
    """The name of the sink, which is also that of its query outside of a group."""
    query_id: str
    """Spark's ID of the query, the same after each restart."""
    batch_id: int
    epoch: int
    """The number of the run in its run directory, which only increases. A run that was paused and has lost its
    lock has a smaller number than the run that took over, so a store that records the highest number can reject
    its writes."""


@dataclass(frozen=True)
class Context:
    """The name and location of a source or sink, its run directory, and access to the user's functions.

    Validation of a pipeline writes nothing; use `keep` to write something at the start.
    """

    name: str
    place: Place | None
    root: Path
    """The project root."""
    directory: SourceDirectory
    """Its part of the run directory."""
    load: Callable[[FunctionRef], Callable[..., Any]]
    keep: Callable[[Path, str], None]
    """Store a text in the run directory; it is written only if the run starts."""
    at: Callable[..., Place | None]
    """The location of the value of a key, such as `at("path")`, for errors."""
    batch: bool
    """Whether this is a batch run (`run --batch`)."""
    bad_rows: BadRows = BadRows.FAIL
    """What happens to bad rows of a source."""
    starts: bool = False
    """A run is about to start, so directories can be created in the run directory; otherwise they cannot."""
    ends_when_idle: bool = False
    """The run stops when no data is left to read, so no row may wait for later ones."""
    resumes: bool = False
    """Every query that reads the source resumes from its checkpoint, so keys for the first start do not apply.
    Set only for sources with such keys."""
    metadata: bool = False
    """Some table uses `_metadata`: rows of files have an extra column that contains it."""
    checkpoint: Path | None = None
    """The checkpoint of the query of a sink."""
    epoch: int = 0
    """The number of the run that is about to start; 0 if none is."""
    pipeline: str = ""
    """The name of the pipeline."""
    mode: Mode | None = None
    """The output mode of a sink."""
    group: str = ""
    """The group of a sink; empty if the sink has its own query."""
    test: bool = False
    """A test of the pipeline: it needs no servers, so none is asked."""

    def of_batch(self, batch_id: int) -> BatchContext:
        """The context of a batch; call it while the batch is written."""
        query_id = Checkpoint(LocalStore(self.checkpoint)).query_id if self.checkpoint else None
        if query_id is None:
            raise ValueError(f"{self.name} is not a sink with a started query")
        return BatchContext(self.name, query_id, batch_id, self.epoch)


class Unreadable(Exception):
    """A static source could not be read; the message says why, without a final period."""


class StaticRows(Protocol):
    """The state of a static source during a run, besides its DataFrame."""

    def start(self) -> None:
        """The run starts: load the existing data; Unreadable if that fails."""

    def again(self, query: str) -> None:
        """A batch of the query with this ID failed because a file disappeared, and is retried."""

    def outdated(self, query: str) -> bool:
        """Whether the data changed while the last batch of this query read it."""

    def news(self) -> str | None:
        """What changed during the run and is read in its new form; reported once."""

    def trouble(self, query: str) -> str | None:
        """Why the source could not be read for a batch of this query; None if it could."""

    def close(self) -> None:
        """The run has finished."""


# Background work of a run: tasks, and when a run calls them.


@dataclass(frozen=True)
class Tick:
    """One call of the tasks of a run, and what has happened since the last one."""

    committed: frozenset[str]
    """Queries that may have committed a batch since the last tick; all at the first tick and the last."""
    last: bool = False
    """Every query has terminated, and the locks are released after this tick."""
    healthy: bool = True
    """No query has failed and no immediate stop was requested, so there is time for optional work."""
    patience: float = 0.0
    """How many seconds the last tick of a healthy run can wait."""
    progress: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """Spark's progress of each batch that was committed since the last tick, by query."""


@dataclass(frozen=True)
class QueryCheckpoint:
    """A query of the run: its checkpoint and its sources."""

    query: str
    checkpoint: Path
    places: tuple[str, ...] = ()
    """The path of each source, in the order of Spark's plan: globs, with literal special characters escaped;
    empty for a source that does not read files."""
    sources: tuple[str, ...] = ()
    """The names of its sources, in the same order."""
    sources_before: tuple[str, ...] = ()
    """The names of the sources in its checkpoint, which this start may change: those of the previous start, or of this
    one if it creates the checkpoint. Empty if they are unknown, or if restarts discard the checkpoint."""
    most_partitions: int | None = None
    """The maximum number of partitions of the source that the query has cores for, if it needs a core for each;
    None if any number works."""

    def files_read(self, place: str) -> frozenset[str]:
        """The files that every stream of a path has in a committed batch, as far as known.

        A query can read a path several times, and each stream of it has its own progress.
        """
        before = self.sources_before
        known = [number for number, name in enumerate(self.sources) if name in before]
        streams = [number for number, each in enumerate(self.places) if plain_path(each) == place]
        unchanged = [self.sources[number] for number in known] == list(before)
        if not unchanged or not streams or not set(streams) <= set(known) or not self.checkpoint.is_dir():
            return frozenset()
        # Streams of one source are different ones here, so each has its position as its name.
        read = committed(Checkpoint(LocalStore(self.checkpoint)), [str(number) for number in known]) or {}
        return frozenset.intersection(*(read.get(str(each), Read()).files for each in streams))


class StopQueries(HeadwaterError):
    """Queries that must stop, each with the reason."""

    def __init__(self, queries: Mapping[str, Problem]) -> None:
        super().__init__(*queries.values())
        self.queries = queries


@dataclass(frozen=True)
class Pending:
    """What a task has not yet passed to the queries; a run that stops when idle waits for it."""

    found: int = 0
    """How often something new was passed to the queries so far."""
    undecided: bool = False
    """Something exists that was not passed to them yet."""
    blocked_by: Problem | None = None
    """What blocks it for longer than a run waits at its end."""


class Counter(Protocol):
    """Receives the progress of a long operation."""

    def count(self, done: int, total: int | None = None) -> None: ...


class RunStart(Protocol):
    """A run that is about to start its queries."""

    def notify(self, problem: Problem) -> None:
        """Notify the user."""

    def phase(self, name: str, text: str) -> AbstractContextManager[Counter]:
        """A phase that may take long; the user sees it after some seconds."""

    def check_cancelled(self) -> None:
        """Called during long operations; raises if the start is canceled."""


class RunTask:
    """Background work of a run; all methods are optional.

    `tick` runs on a thread that the tasks of a run share, one after another, while queries start, process batches
    and terminate. A long one delays the other tasks and the end of the run, but no query. `pending` may be called
    on another thread meanwhile. A task must be correct after a kill at any point.
    """

    def prepare(self, start: RunStart) -> None:
        """Called once, first of all: prepare the existing input for the first batch."""

    def before_start(self, query: str, backup: Path) -> Iterable[Problem]:
        """Called before a query starts; returns notices. It can change the checkpoint, with a copy in `backup`.

        CheckpointError if the query must not start.
        """
        return ()

    def tick(self, tick: Tick) -> Iterable[Problem] | None:
        """Do the work that is due; returns notices.

        Raise an error of the catalogue on failure: it is reported once and logged, the run continues, and the
        next committed batch retries. `StopQueries` stops the queries that it names.
        """
        return None

    def pending(self) -> Pending:
        """Check for input that the queries have not received yet."""
        return Pending()

    def close(self) -> None:
        """The run has finished, or could not start."""


# Proofs (`headwater prove`): scratch copies of sinks, and what their stores show.


@dataclass(frozen=True)
class Scratch:
    """Where a sink writes during a proof."""

    directory: Path
    """An empty local directory of its own, which is removed afterwards."""
    name: str
    """A unique name for a table or a topic: lower-case letters, digits and underscores."""


class NoScratch(Exception):
    """A sink cannot write anywhere else; the message says why and what to do, without a final period."""


@dataclass(frozen=True)
class Snapshot:
    """What readers of a sink see at one moment."""

    rows: tuple[tuple[Any, ...], ...]
    batch: int | None = None
    """The newest batch in the rows; None before the first one."""


class HoldLost(Exception):
    """The lock that lets the commits of a sink wait was lost, for example with its connection."""


class Held(Protocol):
    """The commits of a sink wait."""

    def waiting(self) -> bool | None:
        """Whether a commit waits now; None if the store does not show it."""

    def disconnect(self) -> int:
        """Terminate the connections that wait; returns their number."""


# Validated rows: what `read_validated` of a source returns, and what its quarantine stores.
#
# A validated row has the declared columns and three more. REASON is null for a good row; for a bad row, it is
# one of the reasons below, DETAIL explains it, and the declared columns contain what could be parsed. ROW is
# the original row. Only the quarantine computes it, so it must stay a separate column.

REASON = "__hw_reason"
DETAIL = "__hw_detail"
ROW = "__hw_row"
OWN = (REASON, DETAIL, ROW)

METADATA = "__hw_metadata"
"""The file metadata of a row; SQL tables use it as `_metadata`."""

# The columns that `bad_rows: keep` adds.
KEPT_REASON = "_bad_reason"
KEPT_TEXT = "_bad_text"

_ROW_FIELDS = {
    "file": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestamp_type": "int",
    "headers": "array<struct<key: string, value: binary>>",
    "key": "binary",
    "value": "binary",
}
ROW_TYPE = f"struct<{', '.join(f'{name}: {type_}' for name, type_ in _ROW_FIELDS.items())}>"
"""The location of a row (a file, or an offset in a partition of a topic or another log) and its bytes, which
are null for an unreadable file."""


def row_sql(**fields: str) -> str:
    """ROW as SQL, with an expression for each field that a source has; other fields are null."""
    named = (f"'{name}', CAST({fields.get(name, 'NULL')} AS {type_})" for name, type_ in _ROW_FIELDS.items())
    return f"named_struct({', '.join(named)})"


def row_place(row: str) -> str:
    """The location of a row in words, as SQL."""
    return f"coalesce({row}.file, concat_ws(' ', {row}.topic, 'partition', {row}.partition, 'offset', {row}.offset))"


class RowPlace(Protocol):
    """The location of a row, as in ROW."""

    @property
    def file(self) -> str | None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def offset(self) -> int | None: ...


def place_in_words(row: RowPlace) -> str:
    """The same as `row_place` in Python; empty for a row of a table."""
    if row.topic is not None:
        return f"{row.topic} partition {row.partition} offset {row.offset}"
    return row.file or ""


@dataclass(frozen=True)
class ValidatedRows:
    """Validated rows of which nothing is computed before it is used: SQL over rows that are parsed once.

    `read_validated` may return this instead of a DataFrame with the columns REASON, DETAIL and ROW. Reasons and
    details are then computed only for bad rows, and not even planned where bad rows are dropped.
    """

    parsed: DataFrame
    columns: tuple[str, ...]
    """The declared columns, each with its name (`x.a AS a`)."""
    bad: str
    """Whether a row is bad; never null."""
    reason: str
    """Used only for bad rows."""
    detail: str
    """Used only for bad rows."""
    row: str
    place: str
    """The location of a row in words."""
    lazily: Callable[[str], str] = str
    """An expression with the same value as an expression over reason, detail and place, for what only bad rows need:
    it may keep that expression out of the plan, which Spark compiles for each batch."""

    @classmethod
    def of(cls, frame: DataFrame) -> ValidatedRows:
        """The rows of a DataFrame with the columns REASON, DETAIL and ROW."""
        columns = (f"`{name.replace('`', '``')}`" for name in frame.columns if name not in OWN)
        return cls(frame, tuple(columns), f"{REASON} IS NOT NULL", REASON, DETAIL, ROW, row_place(ROW))

    @property
    def frame(self) -> DataFrame:
        """A DataFrame with the declared columns, REASON, DETAIL and ROW."""
        # The row is last, so that Spark prunes its columns if it is not used.
        why = {REASON: self.reason, DETAIL: self.detail}
        own = (f"CASE WHEN {self.bad} THEN {self.lazily(sql)} END AS {name}" for name, sql in why.items())
        return self.parsed.selectExpr(*self.columns, *own, f"{self.row} AS {ROW}")


QUARANTINE_COLUMNS = f"source string, reason string, detail string, quarantined_at timestamp, row {ROW_TYPE}"
"""The columns of a quarantine; in the quarantine of a table, `row.value` is the row as JSON."""


class Reason(StrEnum):
    """Why a row is bad."""

    MALFORMED = "malformed"
    TYPE_MISMATCH = "type_mismatch"
    MISSING_VALUE = "missing_value"
    TOO_LARGE = "too_large"
    UNKNOWN_SCHEMA = "unknown_schema_id"
    UNREADABLE_FILE = "unreadable_file"
    WRONG_PARTITION_DIR = "wrong_partition_dir"
    EXPECTATION = "expectation"
