"""What a connector gets from the engine, and what it gives back: context, tasks, validated rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from headwater.checkpoint import Checkpoint, LocalStore, Read, committed
from headwater.errors import HeadwaterError, Place, Problem
from headwater.run_directory import SourceDirectory
from headwater.spec import FunctionRef
from headwater.values import BadRows


@dataclass(frozen=True)
class BatchContext:
    """Which batch of which query a sink writes, and in which run."""

    query: str
    """The name of the query, which is that of its sink."""
    query_id: str
    """Spark's id of the query, the same after each restart."""
    batch_id: int
    epoch: int
    """The number of the run among those of its run directory, which only grows. A run that was paused and has
    lost its lock has a smaller one than the run that took over: a store that keeps the greatest can refuse
    what such a run writes."""


@dataclass(frozen=True)
class Context:
    """The declared thing's name and place, its run directory, and the way to the user's functions.

    Nothing is written while a pipeline is looked at; `keep` is the way to leave something for a start.
    """

    name: str
    place: Place | None
    root: Path
    """The project root."""
    directory: SourceDirectory
    """What the run directory has for it."""
    load: Callable[[FunctionRef], Callable[..., Any]]
    keep: Callable[[Path, str], None]
    """Leaves a text for the run directory; it is written only if the run really starts."""
    at: Callable[..., Place | None]
    """The place of the value of a key, such as `at("path")`; for errors."""
    batch: bool
    """Whether everything is read and written as finished data (`run --batch`)."""
    bad_rows: BadRows = BadRows.FAIL
    """What becomes of the rows of a source that can't be read."""
    starts: bool = False
    """A run is about to start, so that a folder in the run directory may be made; else nothing may."""
    ends_when_idle: bool = False
    """The run ends when nothing is left to read, so that no row may be held back for later ones."""
    goes_on: bool = False
    """Every query that reads the source goes on from its checkpoint: keys that count at a first start only
    count no more. It is told to sources that have such keys."""
    metadata: bool = False
    """Some table names `_metadata`: rows of files come with one more column, which holds it."""
    checkpoint: Path | None = None
    """That of a sink's query."""
    epoch: int = 0
    """The number of the run that is about to start; 0 where none is."""

    def of_batch(self, batch_id: int) -> BatchContext:
        """What a sink that runs knows of a batch; called while the batch is written."""
        query_id = Checkpoint(LocalStore(self.checkpoint)).query_id if self.checkpoint else None
        if query_id is None:
            raise ValueError(f"{self.name} is no sink whose query has started")
        return BatchContext(self.name, query_id, batch_id, self.epoch)


class Unreadable(Exception):
    """A static source can't be read now; the message says why, without a full stop."""


class StaticRows(Protocol):
    """What a run keeps of a static source besides its DataFrame."""

    def start(self) -> None:
        """The run starts: take in what is there now; Unreadable where that can't be."""

    def again(self, query: str) -> None:
        """A batch of the query with this id failed over a file that is gone, and will run again."""

    def outdated(self, query: str) -> bool:
        """Whether what the last batch of this query read was changed under it."""

    def news(self) -> str | None:
        """What was changed under the run and is read as it is now; told once."""

    def trouble(self, query: str) -> str | None:
        """Why the source could not be read for a batch of this query; None where it was not the reason."""

    def close(self) -> None:
        """The run is over."""


# Work beside the queries of a run: tasks, and when a run calls them.


@dataclass(frozen=True)
class Tick:
    """One turn of the run's loop, as its tasks see it."""

    committed: frozenset[str]
    """Queries that may have committed a batch since the last tick; all at the first tick and the last."""
    last: bool = False
    """Every query has ended, and the locks are given back after this tick."""
    healthy: bool = True
    """No query has failed, and nobody wants to wait no longer: there is time for what is not urgent."""
    patience: float = 0.0
    """For how many seconds the last tick of a healthy run may wait."""
    progress: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """What Spark said of each batch that was committed since the last tick, by query."""


@dataclass(frozen=True)
class QueryCheckpoint:
    """A query of the run: where its checkpoint is, and what its sources are."""

    query: str
    checkpoint: Path
    places: tuple[str, ...] = ()
    """The path of each source as Spark's plan has them, in its order: patterns, with a backslash before what
    is none; empty for a source that reads no files."""
    sources: tuple[str, ...] = ()
    """The names of its sources, in the same order."""
    sources_before: tuple[str, ...] = ()
    """Those of the start before this one."""
    most_partitions: int | None = None
    """Of the source that is looked after: a query that keeps a core for each has no cores for more; None
    for one that takes any number."""

    def files_read(self, source: str) -> frozenset[str]:
        """The files of a source that are in a committed batch of it, as far as that is known."""
        if not self.sources_before or not self.checkpoint.is_dir():
            return frozenset()
        read = committed(Checkpoint(LocalStore(self.checkpoint)), self.sources_before) or {}
        return read.get(source, Read()).files


class StopQueries(HeadwaterError):
    """Queries that must not go on, each with the reason."""

    def __init__(self, queries: Mapping[str, Problem]) -> None:
        super().__init__(*queries.values())
        self.queries = queries


@dataclass(frozen=True)
class Pending:
    """What a task has yet to hand to the queries; a run that ends when it is idle waits for it."""

    found: int = 0
    """How often something new was handed to the queries so far."""
    undecided: bool = False
    """Something is there that was not handed to them yet."""
    blocked_by: Problem | None = None
    """What has kept it from them, for longer than the end of a run may wait."""


class Counter(Protocol):
    """Hears how much of something that takes long is done."""

    def count(self, done: int, total: int | None = None) -> None: ...


class RunStart(Protocol):
    """A run that is about to start its queries."""

    def notify(self, problem: Problem) -> None:
        """Tell the user."""

    def phase(self, name: str, text: str) -> AbstractContextManager[Counter]:
        """Something that may take long; the user sees it after some seconds."""

    def go_on(self) -> None:
        """Called where it takes long: raises when the start is to end."""


class RunTask:
    """Work beside the queries of a run; what a task does not override does nothing.

    It runs in the run's own thread while queries may be in a batch, must not take long, and has to be right
    after a kill at any point of it.
    """

    def take_in(self, start: RunStart) -> None:
        """Once, before everything else: take in what is there for the first batch."""

    def before_start(self, query: str, backup: Path) -> Iterable[Problem]:
        """What is to be said before a query starts; its checkpoint may be changed, with a copy in `backup`.

        CheckpointError where it must not start.
        """
        return ()

    def tick(self, tick: Tick) -> Iterable[Problem] | None:
        """Do what is due; what the user should know.

        What goes wrong is raised as an error of the catalogue: it is said once and logged, the run goes on,
        and the next committed batch tries again. `StopQueries` stops the queries that it names.
        """
        return None

    def pending(self) -> Pending:
        """Look now whether there is something that the queries have not seen yet."""
        return Pending()

    def close(self) -> None:
        """The run is over, or could not start."""


# Validated rows: what a source's `read_validated` gives, and what its quarantine keeps.
#
# A validated row has the columns that the user declared and three more. REASON is null for a good row; for a
# bad one it is one of the reasons below, DETAIL says more, and the user's columns hold what could be read.
# ROW is the row as it came. Nobody computes it but the quarantine, so it must stay a column of its own.

REASON = "__hw_reason"
DETAIL = "__hw_detail"
ROW = "__hw_row"
OWN = (REASON, DETAIL, ROW)

METADATA = "__hw_metadata"
"""Where a row of a file came from; SQL tables see it as `_metadata`."""

# What `bad_rows: keep` leaves in the table.
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
"""Where a row stood (a file, or an offset in a partition of a topic or another log) and its bytes; a file
that can't be opened has none."""


def row_sql(**fields: str) -> str:
    """ROW as SQL, by an expression for each field that a source has; the others are null."""
    named = (f"'{name}', CAST({fields.get(name, 'NULL')} AS {type_})" for name, type_ in _ROW_FIELDS.items())
    return f"named_struct({', '.join(named)})"


ROW_PLACE = (
    f"coalesce({ROW}.file, concat_ws(' ', {ROW}.topic, 'partition', {ROW}.partition, 'offset', {ROW}.offset))"
)
"""The place of a row in words, as SQL."""


class RowPlace(Protocol):
    """Where a row stood, as ROW has it."""

    @property
    def file(self) -> str | None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def offset(self) -> int | None: ...


def place_in_words(row: RowPlace) -> str:
    """The same as ROW_PLACE; empty for a row of a table."""
    if row.topic is not None:
        return f"{row.topic} partition {row.partition} offset {row.offset}"
    return row.file or ""


QUARANTINE_COLUMNS = f"source string, reason string, detail string, set_aside_at timestamp, row {ROW_TYPE}"
"""The columns of a quarantine; of a table's, `row.value` is the row as JSON."""


class Reason(StrEnum):
    """Why a row is bad."""

    MALFORMED = "malformed"
    WRONG_TYPE = "wrong type"
    MISSING = "missing"
    TOO_LARGE = "too large"
    UNKNOWN_SCHEMA = "unknown schema id"
    UNREADABLE_FILE = "unreadable file"
    WRONG_FOLDER = "wrong folder"
    EXPECTATION = "expectation"
