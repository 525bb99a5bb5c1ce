"""The files connector: the capabilities of its source and sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.checkpoint import LocalStore, Read, SinkLog
from headwater.connectors.connector import BatchWriter, Connector, Failure, LazyModule, Sink, Source
from headwater.connectors.contract import (
    Context,
    NoScratch,
    QueryCheckpoint,
    RowPlace,
    RunTask,
    Scratch,
    StaticRows,
)
from headwater.connectors.files import bad_rows as bad
from headwater.connectors.files import errors
from headwater.connectors.files.folders import KEYS, ignored_at, is_left_to_spark, may_add_columns, waiting_at
from headwater.connectors.files.options import CHOOSING, VALIDITY_KEYS, FilesSink, FilesSource
from headwater.connectors.files.sink_folder import listed, named_outside
from headwater.errors import Problem
from headwater.spec import CleanUp, Delivery, Schema, SinkSpec, SourceSpec, Waiting
from headwater.spec.paths import is_uri
from headwater.values import BadRows, Refresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from headwater.connectors.files import batches, rows, sink, source
    from headwater.connectors.files import frozen as freezing
else:
    batches, freezing, rows, sink, source = (
        LazyModule(f"headwater.connectors.files.{name}")
        for name in ("batches", "frozen", "rows", "sink", "source")
    )


# What the guards of the source raise; their texts are also in the plan, which Spark quotes.
_GUARDS = (errors.PARTITION_DIR_UNEXPECTED, errors.PARTITION_VALUE_INVALID, errors.FILES_NAME_UNSUPPORTED)
_GUARDED = {entry.code: entry for entry in _GUARDS}
_WRONG_FILE = re.compile(rf"\[USER_RAISED_EXCEPTION\] ({'|'.join(_GUARDED)}) (\S+) (\S+)")


class FilesReader(Source[FilesSource]):
    """Reads files as a stream, as a batch, or as a static table that can be refreshed."""

    options = FilesSource
    replayable = True
    static_copies = True
    stream_keys = (
        "max_files_per_batch",
        "max_bytes_per_batch",
        "latest_first",
        "max_file_age",
        "file_name_only",
    )
    # Files in directories that a query ignores count as read for it.
    fixed_options = ("recursiveFileLookup", "basePath")
    validity_keys = VALIDITY_KEYS

    def places(self, options: FilesSource) -> tuple[str, ...]:
        return options.path

    def columns(self, options: FilesSource) -> Schema | None:
        """The declared columns; Spark adds those that it finds in directory names."""
        if options.infer_schema or may_add_columns(options.path, options.options):
            return None
        return options.columns or Schema.of("value string")

    def jars(self, options: FilesSource) -> tuple[str, ...]:
        return ("avro",) if options.format == "avro" else ()

    def problems(self, source: SourceSpec) -> Iterable[Problem]:
        return bad.refusals(source)

    def skipping_keys(self, options: FilesSource) -> tuple[str, ...]:
        keys = [key for key in ("max_file_age", "file_name_only") if getattr(options, key)]
        return (*keys, *(option for option in options.options if option.lower() in CHOOSING))

    def waiting(self, options: FilesSource) -> Waiting | None:
        if self.skipping_keys(options):
            return None
        return waiting_at(options.globs, {key: getattr(options, key) for key in KEYS}, options.options)

    def ignored(self, options: FilesSource) -> tuple[str, ...]:
        return () if is_left_to_spark(options.options) else ignored_at(options.globs)

    def clean_up(self, options: FilesSource) -> CleanUp | None:
        return CleanUp(options.archive_dir) if options.clean_up else None

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem | None:
        wrong = _WRONG_FILE.search(failure.message)
        if wrong is None:
            return None
        return _GUARDED[wrong[1]].at(sink.position, sink=sink.name, source=wrong[2], path=wrong[3])

    def validates(self, options: FilesSource, bad_rows: BadRows) -> bool:
        return bad.validates(options, bad_rows)

    def read_stream(self, spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
        return source.SourceFiles(spark, options, context).stream()

    def read_batch(self, spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
        return source.SourceFiles(spark, options, context).batch()

    def read_static(
        self, spark: SparkSession, options: FilesSource, context: Context, refresh: Refresh, *, cache: bool
    ) -> tuple[DataFrame, tuple[StaticRows, ...]]:
        return source.SourceFiles(spark, options, context).static(refresh, cache=cache)

    def read_validated(
        self,
        spark: SparkSession,
        options: FilesSource,
        context: Context,
        *,
        max_row_bytes: int | None,
        replayed: Callable[[], DataFrame] | None,
    ) -> DataFrame:
        return rows.ValidatedFiles(spark, options, context, max_row_bytes).rows(replayed)

    def run_tasks(
        self,
        spark: SparkSession,
        options: FilesSource,
        context: Context,
        queries: Sequence[QueryCheckpoint],
    ) -> Iterable[RunTask]:
        return rows.run_tasks(spark, options, context, queries)

    def has_read(self, read: Read, row: RowPlace) -> bool:
        return row.file in read.files

    def frozen(self, options: FilesSource, directory: Path, batches: int) -> FilesSource:
        return freezing.frozen(options, directory, batches)

    def of_files(self, options: FilesSource, paths: tuple[str, ...]) -> FilesSource:
        return options.model_copy(update={"path": paths})


class FilesWriter(Sink[FilesSink]):
    """Writes with Spark's file sink, which lists the committed files in `_spark_metadata`."""

    options = FilesSink
    modes = frozenset({"append"})
    delivery = Delivery.IDEMPOTENT
    stores = True
    computes_once = True
    fixed_keys = ("path", "format", "partition_by")
    rejections = (
        errors.PARTITION_COLUMN_NOT_FOUND,
        errors.PARTITION_COLUMNS_ONLY,
        errors.FILES_TEXT_COLUMNS_INVALID,
        errors.FILES_CSV_TYPE_UNSUPPORTED,
    )

    def places(self, options: FilesSink) -> tuple[str, ...]:
        return (options.path,)

    def jars(self, options: FilesSink) -> tuple[str, ...]:
        return ("avro",) if options.format == "avro" else ()

    def problems(self, sink: SinkSpec, columns: Mapping[str, str]) -> Iterable[Problem]:
        return column_problems(sink, columns)

    def write_stream(
        self, writer: DataStreamWriter, options: FilesSink, context: Context
    ) -> DataStreamWriter:
        return sink.write_stream(writer, options)

    def write_batch(self, rows: DataFrame, options: FilesSink, context: Context) -> None:
        sink.write_batch(rows, options)

    def outgoing(self, rows: DataFrame, options: FilesSink, context: Context) -> DataFrame:
        """The rows, after a check that the directory has the form of this sink: of a group, or of its own query."""
        batches.check_directory(rows, options, context)
        return rows

    def ungrouped_keys(self, options: FilesSink) -> Mapping[str, str]:
        why = "a group writes one directory for each batch, without Spark's log"
        return {key: why for key in ("manifest", "compaction") if getattr(options, key)}

    def delivers_batches(self, options: FilesSink) -> Delivery:
        return self.delivery

    def batch_writer(self, options: FilesSink, context: Context) -> BatchWriter:
        return batches.batch_writer(options, context)

    def read_back(self, spark: SparkSession, options: FilesSink, written: StructType) -> DataFrame:
        return sink.read_back(spark, options, written)

    def run_tasks(
        self, spark: SparkSession, options: FilesSink, context: Context, queries: Sequence[QueryCheckpoint]
    ) -> Iterable[RunTask]:
        # An obsolete manifest is removed, so only remote file systems need no task.
        mine = (each for each in queries if each.query == context.name and not is_uri(options.path))
        return [sink.upkeep(spark, options, context, each.checkpoint) for each in mine]

    def stored_schema(
        self, spark: SparkSession, options: FilesSink, written: StructType
    ) -> StructType | None:
        return sink.stored_schema(spark, options, written)

    def stored_batch(self, spark: SparkSession, options: FilesSink) -> int | None:
        return sink.stored_batch(spark, options)

    def stored_elsewhere(self, options: FilesSink) -> str | None:
        return None if is_uri(options.path) else named_outside(Path(options.path))

    def plain_options(self, format: str, partitioned_by: tuple[str, ...]) -> FilesSink:
        return FilesSink.model_construct(path="", format=format, partition_by=partitioned_by)

    def quarantine_options(self, directory: Path) -> FilesSink:
        return FilesSink(path=str(directory), format="parquet")

    def quarantine_files(self, folder: Path) -> Iterator[Path]:
        files = SinkLog(LocalStore(folder)).files()
        return iter([folder / name for name, _ in listed(folder, files)])

    def scratch(self, options: FilesSink, scratch: Scratch) -> FilesSink:
        if is_uri(options.path):
            raise NoScratch(f"{options.path} is on another file system, and scratch copies are local files")
        return options.model_copy(update={"path": str(scratch.directory)})

    def discard(self, options: FilesSink, context: Context) -> None:
        """All of it is in the directory."""

    def forget_batch(self, spark: SparkSession, options: FilesSink, batch: int) -> None:
        sink.forget_batch(spark, options, batch)


def column_problems(sink: SinkSpec, columns: Mapping[str, str]) -> Iterator[Problem]:
    """Problems that Spark would report only when it writes the first batch."""
    options = sink.options
    assert isinstance(options, FilesSink), "a files sink has its own options"
    partitioned = {column.lower() for column in options.partition_by}
    known = {name.lower() for name in columns}
    for column in options.partition_by:
        if column.lower() not in known:
            yield errors.PARTITION_COLUMN_NOT_FOUND.at(
                sink.at("partition_by"), name=sink.name, column=column, known=", ".join(columns)
            )
    rest = {name: type_ for name, type_ in columns.items() if name.lower() not in partitioned}
    if not rest:
        yield errors.PARTITION_COLUMNS_ONLY.at(sink.at("partition_by"), name=sink.name)
    if options.format == "text" and list(rest.values()) != ["string"]:
        shown = ", ".join(f"{name} {type_}" for name, type_ in rest.items())
        yield errors.FILES_TEXT_COLUMNS_INVALID.at(sink.at("format"), name=sink.name, columns=shown)
    for name, type_ in rest.items() if options.format == "csv" else ():
        if type_.startswith(("struct<", "array<", "map<")) or type_ == "binary":
            yield errors.FILES_CSV_TYPE_UNSUPPORTED.at(
                sink.at("format"), name=sink.name, column=name, type=type_
            )


CONNECTOR = Connector(
    "files",
    "Reads and writes files in directories: Avro, CSV, JSON, ORC, Parquet, text, XML.",
    source=FilesReader(),
    sink=FilesWriter(),
    spark_formats=("avro", "csv", "json", "orc", "parquet", "text", "xml", "com.databricks.spark.csv"),
    errors=errors.ENTRIES,
)
