"""The interface of connectors: a source, a sink or both, and optional capabilities.

`Source` and `Sink` define what every connector provides, with defaults: a small one overrides three or four
members. Optional capabilities are the protocols below: a connector has one if its class has the methods, and
other code checks it with `isinstance`. No code checks for a connector by name.

PySpark is imported only for types, because loading a pipeline loads every connector. A connector that needs
more of PySpark than its session imports it in a separate module, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from headwater.checkpoint import Read
from headwater.connectors.contract import (
    OWN,
    Context,
    QueryCheckpoint,
    RowPlace,
    RunTask,
    StaticRows,
    ValidatedRows,
)
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
    """The part of a connector that needs PySpark: a module that is imported on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


@dataclass(frozen=True)
class LongTasks:
    """How a source supports long-running tasks: those of `continuous` and `real time`."""

    without: tuple[str, ...] = ()
    """Keys that have no effect then, and are an error."""


class Source(Generic[R]):
    """The source side of a connector; `options` and `replayable` have no default."""

    options: type[R]
    """The model of its keys."""
    replayable: bool
    """After a crash, a batch can be re-read with the same rows."""
    batch: bool = True
    """Existing data can be read as a batch (`static: true`, `run --batch`)."""
    stream_keys: tuple[str, ...] = ()
    """Keys that have no effect on a static source, and are an error there."""
    batch_keys: tuple[str, ...] = ()
    """Keys that apply only to `run --batch` and static sources, not to streams."""
    first_start_keys: tuple[str, ...] = ()
    """Keys that apply only to the first start, without a checkpoint."""
    fixed_options: tuple[str, ...] = ()
    """Spark options whose values cannot change while a checkpoint is kept."""
    static_copies: bool = False
    """The driver copies local files of a static source into the run directory (`static/<source>`), where the
    executors read them; executors read other local paths directly."""
    made_while_running: bool = False
    """Rows arrive only while a query reads: a run that reads available data and stops finds none."""
    continuous: LongTasks | None = None
    """Its support for `trigger: continuous …`; None if it does not support it."""
    real_time: LongTasks | None = None
    """Its support for `trigger: real time …`; None if it does not support it."""
    same_offsets: bool = False
    """A query can resume with a different kind of trigger or number of partitions, because all of them store
    offsets in the same format."""

    def places(self, options: R) -> tuple[str, ...]:
        """The absolute paths or addresses that it reads; if they change, an old checkpoint is incompatible."""
        return ()

    def columns(self, options: R) -> Schema | None:
        """All columns of its rows, derived from the options; None if only Spark knows them."""
        return None

    def functions(self, options: R) -> tuple[FunctionRef, ...]:
        """The user's functions and classes that it uses."""
        return ()

    def jars(self, options: R) -> tuple[str, ...]:
        """The jars that it needs: names in the table of `headwater.jars`, or paths of its own jars."""
        return ()

    def spark_settings(self, options: R) -> Mapping[str, str]:
        """Settings that Spark accepts only before its JVM starts, such as extensions and catalogs."""
        return {}

    def problems(self, source: SourceSpec) -> Iterable[Problem]:
        """Problems with the declaration of the source."""
        return ()

    def can_resume(self, offset: object) -> bool:
        """Whether a start can resume from this offset of a checkpoint, in the format in which Spark stores it."""
        return True

    def skipping_keys(self, options: R) -> tuple[str, ...]:
        """The keys that may cause it to never read some of the data."""
        return ()

    def waiting(self, options: R) -> Waiting | None:
        """The backlog at its paths, found quickly and without Spark; None if that is not possible."""
        return None

    def ignored(self, options: R) -> tuple[str, ...]:
        """The directories at its paths that it does not read, found quickly and without Spark."""
        return ()

    def slots(self, options: R, cores: int) -> int:
        """How many long-running tasks it needs at the same time, one per partition; 0 if unknown."""
        return 0

    def read_stream(self, spark: SparkSession, options: R, context: Context) -> DataFrame:
        """Read the rows as a stream; for a source that validates rows, without the validation columns."""
        return _as_read(self, spark, options, replace(context, batch=False))

    def read_batch(self, spark: SparkSession, options: R, context: Context) -> DataFrame:
        """Read all existing rows; called only if `batch` is true."""
        return _as_read(self, spark, options, replace(context, batch=True))


def _as_read(source: object, spark: SparkSession, options: SourceOptions, context: Context) -> DataFrame:
    if not isinstance(source, ValidatesRows):
        raise NotImplementedError(f"{type(source).__name__} must implement read_stream and read_batch")
    rows = source.read_validated(spark, options, context, max_row_bytes=None, replayed=None)
    return rows.parsed.selectExpr(*rows.columns) if isinstance(rows, ValidatedRows) else rows.drop(*OWN)


class Sink(Generic[W]):
    """The sink side of a connector; `options`, `modes` and `delivery` have no default."""

    options: type[W]
    """The model of its keys."""
    modes: frozenset[str]
    """The output modes that it supports."""
    delivery: Delivery
    """How it handles a retried batch."""
    raised_by: str = ""
    """What would improve the delivery guarantee, in words."""
    batch: bool = True
    """It supports batch runs."""
    stores: bool = False
    """Its output is persistent, so `run --batch` needs `--output-dir` to not mix with the stream."""
    appends: bool = False
    """It only appends: several sinks can share a target, complete mode writes the whole result with each
    batch, and `run --batch` writes to the same target with `--append`."""
    writes_in_place: bool = False
    """`run --batch` writes to the same target as the stream: an upsert or a replacement as it is, and an append
    with `--append`."""
    fixed_keys: tuple[str, ...] = ()
    """Keys whose values cannot change while the checkpoint is kept."""
    on_driver: bool = False
    """Only the driver writes, so the executors of a cluster do not need access to a local path."""
    passes: tuple[str, ...] = ()
    """The positional arguments of its functions."""
    methods: tuple[Method, ...] = ()
    """The methods that it calls on objects of its classes, which it creates without arguments."""
    continuous: bool = False
    """It supports rows from long-running tasks (`trigger: continuous …`)."""
    real_time: bool = False
    """The same for `trigger: real time …`."""
    by_writer: bool = False
    """Spark's stream writer implements it: it is not a data source, and does not support partitioning."""
    temporary_checkpoint: bool = False
    """For a plain query without a checkpoint location, Spark creates a temporary one."""
    rejections: tuple[Entry, ...] = ()
    """The entries that `problems` can return, for the reference of checks."""
    in_process: bool = False
    """Its rows exist only in this process: each start is from scratch, and only this process can query them."""
    fences: bool = False
    """It rejects the batches of a run with a smaller epoch than another run has written with."""
    computes_once: bool = False
    """Spark itself computes each batch, exactly once, as for its file sink and not for `foreachBatch`. Headwater then
    takes the number of rows from the metrics of Spark's operators, where these have it."""

    def places(self, options: W) -> tuple[str, ...]:
        """The paths or addresses that it writes to; two sinks with the same one are an error."""
        return ()

    def functions(self, options: W) -> tuple[FunctionRef, ...]:
        """The user's functions and classes that it uses."""
        return ()

    def jars(self, options: W) -> tuple[str, ...]:
        """The jars that it needs: names in the table of `headwater.jars`, or paths of its own jars."""
        return ()

    def spark_settings(self, options: W) -> Mapping[str, str]:
        """Settings that Spark accepts only before its JVM starts, such as extensions and catalogs."""
        return {}

    def problems(self, sink: SinkSpec, columns: Mapping[str, str]) -> Iterable[Problem]:
        """Problems of the sink with rows of these columns, by name and type."""
        return ()

    def plain_options(self, format: str, partitioned_by: tuple[str, ...]) -> W | None:
        """Options for a plain PySpark query, for `problems`; None if there are none."""
        return None

    def delivers(self, options: W) -> Delivery:
        """How a sink with these options handles a retried batch."""
        return self.delivery

    def feeds(self, options: W, source: SourceOptions) -> bool:
        """Whether a source with these options reads what the sink writes, beyond comparing `places`; such a
        pipeline is a loop, and an error."""
        return False

    def spark_counts_rows(self, options: W) -> bool:
        """Whether Spark's progress has the number of rows written; otherwise Headwater counts them.

        Spark counts for data sources of its second version, and not for files and `foreachBatch`.
        """
        return False

    def outgoing(self, rows: DataFrame, options: W, context: Context) -> DataFrame:
        """The rows as it writes them, if it transforms them."""
        return rows

    def write_stream(self, writer: DataStreamWriter, options: W, context: Context) -> DataStreamWriter:
        """Configure the writer of a query, and return it."""
        raise NotImplementedError

    def write_batch(self, rows: DataFrame, options: W, context: Context) -> None:
        """Write all rows once; called only if `batch` is true."""
        raise NotImplementedError


@runtime_checkable
class RefreshesStatic(Protocol):
    """A source whose static form can be refreshed while a query runs."""

    def read_static(
        self, spark: SparkSession, options: Any, context: Context, refresh: Refresh, *, cache: bool
    ) -> tuple[DataFrame, tuple[StaticRows, ...]]:
        """The DataFrame, and the objects that the run notifies of its start, retried batches and its end."""


@runtime_checkable
class ValidatesRows(Protocol):
    """A source that validates each row, and so supports `bad_rows`."""

    validity_keys: tuple[str, ...]
    """The fields or properties of its options that determine whether a row is valid."""

    def validates(self, options: Any, bad_rows: BadRows) -> bool:
        """Whether it validates rows with these options and this setting of `bad_rows`."""

    def read_validated(
        self,
        spark: SparkSession,
        options: Any,
        context: Context,
        *,
        max_row_bytes: int | None,
        replayed: Callable[[], DataFrame] | None,
    ) -> DataFrame | ValidatedRows:
        """The rows with the columns REASON, DETAIL and ROW, or with SQL for them, as a stream or as a batch.

        `replayed` reads the replayed rows of the quarantine; each call returns a separate stream.
        """

    def has_read(self, read: Read, row: RowPlace) -> bool:
        """Whether a query that has committed `read` of the source has read the row at its position."""


@runtime_checkable
class CleansUp(Protocol):
    """A source that archives or deletes processed input between batches."""

    def clean_up(self, options: Any) -> CleanUp | None:
        """What happens to processed input; None if it stays."""


@runtime_checkable
class CountsPartitions(Protocol):
    """A source whose server knows the number of partitions, and so of long-running tasks."""

    def partitions(self, spark: SparkSession, options: Any) -> int:
        """The current number of partitions."""


@runtime_checkable
class ForgetsBatches(Protocol):
    """A sink that skips a batch that it already has, until it forgets that batch."""

    def forget_batch(self, spark: SparkSession, options: Any, batch: int) -> None:
        """Forget the newest batch, so it can be written again."""


@runtime_checkable
class KnowsContents(Protocol):
    """A sink that knows what earlier runs wrote to its target."""

    def stored_batch(self, spark: SparkSession, options: Any) -> int | None:
        """The newest batch that it has; Spark skips this one and all before it."""

    def stored_elsewhere(self, options: Any) -> str | None:
        """A file outside of its directory that belongs to its output."""

    def stored_schema(self, spark: SparkSession, options: Any, written: StructType) -> StructType | None:
        """The schema of its output so far; `written` is what the query will write."""


@runtime_checkable
class ReadsBack(Protocol):
    """A sink whose rows can be read back: for queries while it runs, and for tests that keep it."""

    def read_back(self, spark: SparkSession, options: Any, written: StructType) -> DataFrame:
        """The rows that it has committed, as a batch with the columns `written`; none before the first batch."""


BatchWriter = Callable[["DataFrame", int], None]
"""Writes a batch, given its ID."""


@runtime_checkable
class WritesBatches(Protocol):
    """A sink that can be in a group: it also writes batches that Headwater has read and computed."""

    def ungrouped_keys(self, options: Any) -> Mapping[str, str]:
        """The given keys that it does not support in a group, each with the reason as a clause."""

    def delivers_batches(self, options: Any) -> Delivery:
        """How it handles a retried batch in a group."""

    def batch_writer(self, options: Any, context: Context) -> BatchWriter:
        """Writes the batches of one start of a query. The rows are cached: several actions compute them once."""


@runtime_checkable
class ReadsTable(Protocol):
    """A sink whose rows its own driver can read, outside of Spark: for queries while it runs."""

    def read_table(
        self, spark: SparkSession, sink: SinkSpec, written: StructType, max_bytes: int
    ) -> DataFrame | None:
        """The rows of its table now, with the columns `written`; None if they have more bytes than that.

        Spark must receive only the values: a view of the run shows them, so the plan must not contain secrets.
        """


@runtime_checkable
class HasRunTasks(Protocol):
    """A source or sink with background work: checking new input, clean-up, writing a manifest."""

    def run_tasks(
        self, spark: SparkSession, options: Any, context: Context, queries: Sequence[QueryCheckpoint]
    ) -> Iterable[RunTask]:
        """The tasks for a run of these queries; a sink finds its own query by name."""


@runtime_checkable
class KeepsQuarantine(Protocol):
    """A built-in sink that writes quarantines to the run directory."""

    def quarantine_options(self, directory: Path) -> SinkOptions:
        """The options of a sink that writes quarantined rows to a directory, as Parquet files."""

    def quarantine_files(self, folder: Path) -> Iterator[Path]:
        """The committed files of the directory, oldest first, found without Spark."""


@runtime_checkable
class ChecksCode(Protocol):
    """A sink that can check the user's code, or its server, before a start."""

    def code_problems(self, options: Any, context: Context) -> list[Problem]:
        """Problems with the code or the server."""


@dataclass(frozen=True)
class Failure:
    """Why a query failed, as Spark reports it."""

    message: str
    text: str
    """The message with all stack traces and causes."""


@runtime_checkable
class ExplainsFailures(Protocol):
    """A source or sink that can explain Spark's errors about it."""

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem | None:
        """The failure as a problem; None if something else caused it."""


@dataclass(frozen=True)
class Connector:
    """A registered connector: its name, a summary, and its two sides."""

    name: str
    summary: str
    source: Source[Any] | None = None
    sink: Sink[Any] | None = None
    spark_formats: tuple[str, ...] = ()
    """The Spark formats that it covers, to check plain PySpark programs."""
    errors: Mapping[str, Entry] = field(default_factory=dict)
    """Its errors and notices, by the constant of each entry."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of its two sides."""
        return tuple(type(side).__module__ for side in (self.source, self.sink) if side)

    @property
    def built_in(self) -> bool:
        """Whether it ships with Headwater."""
        return all(module.startswith("headwater.") for module in self.modules)


# Connectors in a Python declaration: each has a typed function next to its options, so editors complete its
# keys and mypy checks them; use `connector` for any other.

Options = Mapping[str, str | int | float | bool | Secret]


@dataclass(frozen=True)
class ConnectorCall:
    """A connector and its keys, not validated yet: that needs the directory of the pipeline."""

    connector: str
    keys: Mapping[str, Any] = field(default_factory=dict)


def connector(name: str, /, **keys: Any) -> ConnectorCall:
    """Declare a source or sink with any installed connector, by name and with its keys."""
    return ConnectorCall(name, {key: value for key, value in keys.items() if value is not None})
