"""What a connector is: a source, a sink or both, and the abilities that some of them have.

`Source` and `Sink` hold what every connector of the kind answers, with defaults: small ones override three
or four members. What only some can do is a protocol below; a connector has the ability when its class has
the methods, and other code asks with `isinstance`. Nobody asks for a connector by name.

PySpark is imported for types alone, since loading a pipeline loads every connector. A connector that needs
more of it than the session that it is given imports that in a module of its own, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from headwater.checkpoint import Read
from headwater.connectors.contract import OWN, Context, QueryCheckpoint, RowPlace, RunTask, StaticRows
from headwater.errors import Entry, Problem
from headwater.spec import (
    CleanUp,
    Delivery,
    FunctionRef,
    Method,
    Schema,
    SinkOptions,
    SinkSpec,
    SourceOptions,
    SourceSpec,
    Waiting,
)
from headwater.values import BadRows, Refresh, Secret

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

R = TypeVar("R", bound=SourceOptions)
W = TypeVar("W", bound=SinkOptions)
ALL_MODES = frozenset({"append", "update", "complete"})


class LazyModule:
    """The half of a connector that needs PySpark: a module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


@dataclass(frozen=True)
class LongTasks:
    """How a source feeds tasks that don't end: those of `continuous` and `real time`."""

    without: tuple[str, ...] = ()
    """The keys that do nothing then, with which it is refused."""


class Source(Generic[R]):
    """What a connector can do as a source; `options` and `replayable` have no default."""

    options: type[R]
    """The model of its keys."""
    replayable: bool
    """A batch can be read again with the same rows after a crash."""
    batch: bool = True
    """What it holds now can be read as a finished data set (`static: true`, `run --batch`)."""
    stream_keys: tuple[str, ...] = ()
    """Keys that do nothing for a static source, which is refused with them."""
    batch_keys: tuple[str, ...] = ()
    """Keys that do nothing for a stream, and count under `run --batch` and for a static source."""
    first_start_keys: tuple[str, ...] = ()
    """Keys that count only where no checkpoint says how far was read."""
    fixed_options: tuple[str, ...] = ()
    """Options of Spark whose values can't change while a checkpoint is kept."""
    static_copies: bool = False
    """The driver copies local files of a static source into the run folder (`static/<source>`), where the
    executors read them; other local places the executors read themselves."""
    made_while_running: bool = False
    """Its rows come only while a query reads: a start that takes what is there and ends finds none."""
    continuous: LongTasks | None = None
    """How it feeds `trigger: continuous …`; None where it can't."""
    real_time: LongTasks | None = None
    """How it feeds `trigger: real time …`; None where it can't."""
    same_offsets: bool = False
    """A checkpoint goes on under every kind of trigger and with another number of partitions: its offsets
    are written the same way in all."""

    def places(self, options: R) -> tuple[str, ...]:
        """The absolute paths or addresses it reads; a change of them does not fit an old checkpoint."""
        return ()

    def columns(self, options: R) -> Schema | None:
        """All columns of its rows, told from the options alone; None where only Spark can tell."""
        return None

    def functions(self, options: R) -> tuple[FunctionRef, ...]:
        """The user's functions and classes that it uses."""
        return ()

    def jars(self, options: R) -> tuple[str, ...]:
        """What Spark lacks for it: names of the table in `headwater.jars`, or paths of jars of its own."""
        return ()

    def spark_settings(self, options: R) -> Mapping[str, str]:
        """Settings that Spark takes only before its JVM starts, such as extensions and catalogs."""
        return {}

    def problems(self, source: SourceSpec) -> Iterable[Problem]:
        """What the source, as it was declared, can't be held to."""
        return ()

    def can_resume(self, offset: object) -> bool:
        """Whether a start can go on from this offset of a checkpoint, given as Spark stores it."""
        return True

    def skipping_keys(self, options: R) -> tuple[str, ...]:
        """The keys by which it may leave some of what lies at its places unread for ever."""
        return ()

    def waiting(self, options: R) -> Waiting | None:
        """What lies at its places now, told quickly and without Spark; None where that can't be."""
        return None

    def ignored(self, options: R) -> tuple[str, ...]:
        """The directories at its places that it does not read, found quickly and without Spark."""
        return ()

    def slots(self, options: R, cores: int) -> int:
        """How many tasks that don't end it needs at once, one for each partition; 0 where it can't tell."""
        return 0

    def read_stream(self, spark: SparkSession, options: R, context: Context) -> DataFrame:
        """Rows as they come; those of a source that validates them, as far as they can be read."""
        return _as_read(self, spark, options, replace(context, batch=False))

    def read_batch(self, spark: SparkSession, options: R, context: Context) -> DataFrame:
        """All rows that are there now, where `batch` says that it can."""
        return _as_read(self, spark, options, replace(context, batch=True))


def _as_read(source: object, spark: SparkSession, options: SourceOptions, context: Context) -> DataFrame:
    if not isinstance(source, ValidatesRows):
        raise NotImplementedError(f"{type(source).__name__} has to say how it is read")
    return source.read_validated(spark, options, context, max_row_bytes=None, replayed=None).drop(*OWN)


class Sink(Generic[W]):
    """What a connector can do as a sink; `options`, `modes` and `delivery` have no default."""

    options: type[W]
    """The model of its keys."""
    modes: frozenset[str]
    """The output modes that it takes."""
    delivery: Delivery
    """What it does with a batch that comes a second time."""
    raised_by: str = ""
    """What would raise the delivery, in words."""
    batch: bool = True
    """It takes the rows of a batch run."""
    stores: bool = False
    """Rows stay where it writes, so `run --batch` must not write beside the stream without `--into`."""
    appends: bool = False
    """Whatever is written is added to what is there: several sinks may share a place, complete mode writes
    the whole result again and again, and `run --batch` writes to the place itself, with `--append`."""
    fixed_keys: tuple[str, ...] = ()
    """Keys whose values can't change while the checkpoint is kept."""
    on_driver: bool = False
    """The driver alone writes there, so that the executors of a cluster need not share a local place."""
    passes: tuple[str, ...] = ()
    """What its functions are called with, by place."""
    methods: tuple[Method, ...] = ()
    """What it calls on objects of its classes, which it makes without arguments."""
    continuous: bool = False
    """It takes rows one by one from tasks that don't end (`trigger: continuous …`)."""
    real_time: bool = False
    """The same for `trigger: real time …`."""
    by_writer: bool = False
    """Spark's writer of streams makes it itself: no data source has that name, and nothing is partitioned."""
    temporary_checkpoint: bool = False
    """Spark makes a checkpoint for a plain query that names none, in a folder for temporary files."""
    rejections: tuple[Entry, ...] = ()
    """What `problems` may say, for the reference of rules."""
    in_process: bool = False
    """Its rows live in this process alone: each start begins anew, and only this process can query them."""

    def places(self, options: W) -> tuple[str, ...]:
        """The places it writes; two sinks on one place are refused."""
        return ()

    def functions(self, options: W) -> tuple[FunctionRef, ...]:
        """The user's functions and classes that it uses."""
        return ()

    def jars(self, options: W) -> tuple[str, ...]:
        """What Spark lacks for it: names of the table in `headwater.jars`, or paths of jars of its own."""
        return ()

    def spark_settings(self, options: W) -> Mapping[str, str]:
        """Settings that Spark takes only before its JVM starts, such as extensions and catalogs."""
        return {}

    def problems(self, sink: SinkSpec, columns: Mapping[str, str]) -> Iterable[Problem]:
        """What the sink has against rows with these columns, by name and type."""
        return ()

    def plain_options(self, format: str, partitioned_by: tuple[str, ...]) -> W | None:
        """What stands for the options of a plain PySpark query, for `problems`; None where it has none."""
        return None

    def delivers(self, options: W) -> Delivery:
        """What a sink with these options does with a batch that comes a second time."""
        return self.delivery

    def feeds(self, options: W, source: SourceOptions) -> bool:
        """Whether a source with these options reads what the sink writes, besides what their places tell;
        such a pipeline feeds itself, and is refused."""
        return False

    def outgoing(self, rows: DataFrame, options: W, context: Context) -> DataFrame:
        """The rows as it writes them, where it makes others of them."""
        return rows

    def write_stream(self, writer: DataStreamWriter, options: W, context: Context) -> DataStreamWriter:
        """The writer of a query, which is started with what comes back."""
        raise NotImplementedError

    def write_batch(self, rows: DataFrame, options: W, context: Context) -> None:
        """Write all rows once, where `batch` says that it can."""
        raise NotImplementedError


@runtime_checkable
class RefreshesStatic(Protocol):
    """A source whose static form looks for changes while a query runs."""

    def read_static(
        self, spark: SparkSession, options: Any, context: Context, refresh: Refresh, *, cache: bool
    ) -> tuple[DataFrame, tuple[StaticRows, ...]]:
        """The DataFrame, and what the run tells of its start, of repeated batches and of its end."""


@runtime_checkable
class ValidatesRows(Protocol):
    """A source that says of each row whether it could be read, and so takes `bad_rows`."""

    validity_keys: tuple[str, ...]
    """The fields or properties of its options that decide whether a row can be read."""

    def validates(self, options: Any, bad_rows: BadRows) -> bool:
        """Whether it does so with these options and this choice for bad rows."""

    def read_validated(
        self,
        spark: SparkSession,
        options: Any,
        context: Context,
        *,
        max_row_bytes: int | None,
        replayed: Callable[[], DataFrame] | None,
    ) -> DataFrame:
        """The rows with the columns REASON, DETAIL and ROW, as a stream or as a batch.

        `replayed` reads rows of the quarantine that are replayed, at each call as a stream of its own.
        """

    def has_read(self, read: Read, row: RowPlace) -> bool:
        """Whether a query that has committed `read` of the source has met the row at its place."""


@runtime_checkable
class CleansUp(Protocol):
    """A source that archives or deletes finished input between batches."""

    def clean_up(self, options: Any) -> CleanUp | None:
        """What becomes of finished input; None where it stays."""


@runtime_checkable
class CountsPartitions(Protocol):
    """A source whose server knows how many partitions, and so tasks that don't end, there are."""

    def partitions(self, spark: SparkSession, options: Any) -> int:
        """How many there are now."""


@runtime_checkable
class ForgetsBatches(Protocol):
    """A sink that skips a batch which it has already, unless it is made to forget it."""

    def forget_batch(self, spark: SparkSession, options: Any, batch: int) -> None:
        """Let the newest batch come again."""


@runtime_checkable
class KnowsContents(Protocol):
    """A sink that can tell what earlier runs left at its place."""

    def stored_batch(self, spark: SparkSession, options: Any) -> int | None:
        """The newest batch that it has; Spark skips this one and all before it."""

    def stored_elsewhere(self, options: Any) -> str | None:
        """A file outside of its place that belongs to what it has."""

    def stored_schema(self, spark: SparkSession, options: Any, written: StructType) -> StructType | None:
        """The schema of what it has; `written` is what the query will write."""


@runtime_checkable
class ReadsBack(Protocol):
    """A sink whose rows can be read, for tests that keep it."""

    def read_back(self, spark: SparkSession, options: Any, written: StructType) -> DataFrame:
        """The rows that it has committed."""


@runtime_checkable
class HasRunTasks(Protocol):
    """A source or sink with work beside the queries: to open new input, to clean up, to write a manifest."""

    def run_tasks(
        self, spark: SparkSession, options: Any, context: Context, queries: Sequence[QueryCheckpoint]
    ) -> Iterable[RunTask]:
        """The tasks, for a run of these queries; a sink finds its own by its name."""


@runtime_checkable
class KeepsQuarantine(Protocol):
    """A sink of Headwater's own that quarantines are written with, into the run directory."""

    def quarantine_options(self, folder: Path) -> SinkOptions:
        """The options of a sink that writes the rows of a quarantine into a folder, as parquet files."""

    def quarantine_files(self, folder: Path) -> Iterator[Path]:
        """The files of the folder that are committed, oldest first, told without Spark."""


@runtime_checkable
class ChecksCode(Protocol):
    """A sink that can try the user's code before a start."""

    def code_problems(self, options: Any, context: Context) -> list[Problem]:
        """What is wrong with it."""


@dataclass(frozen=True)
class Failure:
    """Why a query failed, as Spark says it."""

    message: str
    text: str
    """The message with every stack and cause."""


@runtime_checkable
class ExplainsFailures(Protocol):
    """A source or sink that knows what Spark says when a query fails over it."""

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem | None:
        """The failure in our words; None where it is none of its own."""


@dataclass(frozen=True)
class Connector:
    """A connector as it is registered: its name, what it is for, and its two sides."""

    name: str
    summary: str
    source: Source[Any] | None = None
    sink: Sink[Any] | None = None
    spark_formats: tuple[str, ...] = ()
    """Spark's own names of what it reads or writes, by which it checks plain PySpark programs."""
    errors: Mapping[str, Entry] = field(default_factory=dict)
    """What can go wrong with it, by the constant of each entry."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of its two sides."""
        return tuple(type(side).__module__ for side in (self.source, self.sink) if side)

    @property
    def built_in(self) -> bool:
        """Whether it comes with Headwater."""
        return all(module.startswith("headwater.") for module in self.modules)


# Connectors in a Python declaration: each has a typed function beside its options, so that editors complete
# its keys and mypy checks them; `connector` names any other.

Options = Mapping[str, str | int | float | bool | Secret]


@dataclass(frozen=True)
class ConnectorCall:
    """A connector and its keys, not yet judged: that needs to know the pipeline's folder."""

    connector: str
    keys: Mapping[str, Any] = field(default_factory=dict)


def connector(name: str, /, **keys: Any) -> ConnectorCall:
    """Any installed connector by name, with the keys of its reference page."""
    return ConnectorCall(name, {key: value for key, value in keys.items() if value is not None})
