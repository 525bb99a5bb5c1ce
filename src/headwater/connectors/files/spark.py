"""Files on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os.path import commonpath
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from headwater.checkpoint import SINK_LOG
from headwater.connectors.contract import Context, Reader, StaticRows, Task
from headwater.connectors.files.admission import Admissions, Finished, place_of
from headwater.connectors.files.bad_rows import admits
from headwater.connectors.files.clean_up import FinishedFiles
from headwater.connectors.files.compaction import Compactor, Rewriter
from headwater.connectors.files.folders import is_left_to_spark
from headwater.connectors.files.opening import PlannedFiles
from headwater.connectors.files.options import FilesSink, FilesSource
from headwater.connectors.files.reading import (
    NO_GLOB,
    columns_of,
    decoded,
    file_of_row,
    folders_of,
    format_options,
    limits,
    lister,
    load_deep,
    load_path,
    read,
    read_options,
    schema_of,
    struct_of,
    united,
)
from headwater.connectors.files.sink_folder import named_outside, newest, removable
from headwater.connectors.files.sink_tasks import FilesUpkeep
from headwater.connectors.files.static import StaticFiles
from headwater.connectors.files.validated import JudgedFiles
from headwater.connectors.options import plain
from headwater.spec import CleanUp
from headwater.spec.paths import as_glob, fixed_folder, in_project, is_pattern, is_uri
from headwater.values import Refresh

_SMALL = re.compile(r"\b(?:small|tiny)int\b(?!:)")


def read_stream(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """New files as they appear."""
    if is_left_to_spark(options.options):
        return read(spark, lambda: spark.readStream, options, context)
    schema = struct_of(schema_of(spark, options, context))
    columns, settings = columns_of(schema), {**read_options(options), **plain(options)}

    def followed(path: str) -> DataFrame:
        folders = folders_of(path, options, columns, context, lister(spark, path))
        inside = StructType([schema[column.name] for column in folders.inside])
        reader = spark.readStream.format(options.format).schema(inside)
        reader = reader.options(**{**limits(options, path, context), **settings})
        rows = decoded(load_deep(reader, path, folders, context), options, context.name)
        return rows.where(folders.guard).selectExpr(*folders.selected, *file_of_row(context))

    return united([followed(path) for path in options.path])


def read_batch(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """The files that are there now."""
    if is_left_to_spark(options.options):
        return read(spark, lambda: spark.read, options, context)
    schema = schema_of(spark, options, context)
    columns, settings = columns_of(schema), {**read_options(options), **plain(options)}

    def held(path: str) -> DataFrame:
        folders = folders_of(path, options, columns, context, lister(spark, path))
        reader = spark.read.format(options.format).schema(schema).options(**settings)
        # Spark finds no key=value columns of what a pattern stands for by itself.
        reader = reader.option("basePath", folders.base) if folders.keys else reader
        rows = decoded(load_path(reader, path, context), options, context.name)
        return rows.selectExpr(*(f"`{column.name}`" for column in columns), *file_of_row(context))

    return united([held(path) for path in options.path])


def read_judged(
    spark: SparkSession,
    options: FilesSource,
    context: Context,
    *,
    max_row_bytes: int | None,
    again: Callable[[], DataFrame] | None,
) -> DataFrame:
    """The rows of all paths, each with a verdict; `again` reads rows that were set aside."""
    schema = struct_of(schema_of(spark, options, context))
    return JudgedFiles(spark, options, context, schema, max_row_bytes).rows(again)


def admission(spark: SparkSession, options: FilesSource, context: Context, finished: Finished) -> Admissions:
    """The task that opens new files before a batch takes them; `finished` are those that all have read."""
    schema = struct_of(schema_of(spark, options, context))
    return JudgedFiles(spark, options, context, schema, None).admission(finished)


def watch(spark: SparkSession, options: FilesSource, context: Context, readers: list[Reader]) -> PlannedFiles:
    """Makes batches fit that were planned when bad files were treated otherwise."""
    admitted = admits(options, context.bad_rows)
    return PlannedFiles(context, len(options.path), readers, admitted=admitted)


def read_static(
    spark: SparkSession, options: FilesSource, context: Context, refresh: Refresh, *, cache: bool
) -> tuple[DataFrame, tuple[StaticRows, ...]]:
    """The files that are there when a batch starts, as far as `refresh` says so."""
    given = {**read_options(options), **plain(options)}
    schema = schema_of(spark, options, context)
    columns = columns_of(schema)

    def table(number: int, path: str) -> StaticFiles:
        settings = given
        if not is_left_to_spark(options.options):
            folders = folders_of(path, options, columns, context, lister(spark, path))
            settings = {**given, "basePath": folders.base} if folders.keys else given

        def load(more: Mapping[str, str], fixed: StructType | None) -> DataFrame:
            reader = spark.read.format(options.format).schema(fixed or schema)
            return load_path(reader.options(**{**settings, **more}), path, context)

        return StaticFiles(
            spark,
            load,
            settings,
            context.folder / "static" / context.name / str(number),
            refresh=refresh,
            cache=cache,
            empty_if_missing=is_pattern(in_project(path, context.root)),
        )

    tables = [table(number, path) for number, path in enumerate(options.path)]
    frames = [each.rows for each in tables]
    if not is_left_to_spark(options.options):
        frames = [frame.select(*(f"`{column.name}`" for column in columns)) for frame in frames]
    place = f"'{context.name}'"
    return united([decoded(frame, options, context.name, place) for frame in frames]), tuple(tables)


def clean_up(options: FilesSource, context: Context, readers: Iterable[Reader]) -> Task:
    """What becomes of finished files, in view of every query that reads files."""
    folder = commonpath(fixed_folder(path, context.root) for path in options.path)
    places = [as_glob(path, context.root) for path in options.path]
    readers = [replace(each, places=tuple(place_of(place) for place in each.places)) for each in readers]
    deep = is_left_to_spark(options.options)
    return FinishedFiles(context.name, CleanUp(options.archive_to), Path(folder), places, readers, deep=deep)


def write_stream(writer: DataStreamWriter, options: FilesSink, context: Context) -> DataStreamWriter:
    """Spark's file sink, which lists the committed files in `_spark_metadata`."""
    writer = writer.format(options.format).option("path", options.path)
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    return writer.options(**_write_options(options))


def write_batch(rows: DataFrame, options: FilesSink, context: Context) -> None:
    """All rows at once; what an earlier batch run wrote there is replaced."""
    writer = rows.write.format(options.format).mode("overwrite").options(**_write_options(options))
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    writer.save(options.path)


def read_back(spark: SparkSession, options: FilesSink, written: StructType) -> DataFrame:
    """The rows that the sink has committed, as readers through Spark see them."""
    if not Path(options.path).exists():
        return spark.createDataFrame([], written)
    return (
        spark.read.format(options.format)
        .schema(written)
        .options(**_write_options(options), **NO_GLOB)
        .load(options.path)
    )


def upkeep(
    spark: SparkSession, options: FilesSink, context: Context, *, checkpoint: Path, patience: float
) -> Task:
    """What follows each committed batch: the manifest, and the rewriting of small files."""
    compactor = None
    if options.compact_after:
        rewriter = Rewriter(spark, Path(options.path), options.format, _write_options(options))
        compactor = Compactor(context.name, rewriter, patience)
    return FilesUpkeep(context.name, options, checkpoint, compactor)


def held_schema(spark: SparkSession, options: FilesSink, written: StructType) -> StructType | None:
    """The schema of the files that are there; only avro, orc and parquet files carry one.

    The types of partition columns stand in no file: they are taken to be those that will be written.
    """
    if options.format not in ("avro", "orc", "parquet"):
        return None
    try:
        schema = spark.read.format(options.format).options(**NO_GLOB).load(options.path).schema
    except AnalysisException:
        return None
    partitioned = {column.lower() for column in options.partition_by}
    ours = {field.name.lower(): field for field in written.fields}
    inside = [
        ours[name] if name in ours and _same_in_avro(field, ours[name], options) else field
        for name, field in ((field.name.lower(), field) for field in schema.fields)
        if name not in partitioned
    ]
    return StructType(inside + [field for field in written.fields if field.name.lower() in partitioned])


def _same_in_avro(read: StructField, written: StructField, options: FilesSink) -> bool:
    """Whether an avro file holds the one as the other: avro has no integers smaller than int."""
    texts = {_SMALL.sub("int", field.dataType.simpleString()) for field in (read, written)}
    return options.format == "avro" and len(texts) == 1


def held_batch(spark: SparkSession, options: FilesSink) -> int | None:
    """The newest batch in the sink's own log; Spark passes over this one and all before it."""
    return newest(_log_files(spark, options)[1])


def held_outside(options: FilesSink) -> str | None:
    """A file elsewhere that the sink's own log names; told of local folders."""
    return None if is_uri(options.path) else named_outside(Path(options.path))


def forget_batch(spark: SparkSession, options: FilesSink, batch: int) -> None:
    """Take the newest batch out of the sink's own log: its files are seen no more, and it can come again."""
    system, files = _log_files(spark, options)
    for name in removable(files, batch):
        system.delete(files[name], False)


def _log_files(spark: SparkSession, options: FilesSink) -> tuple[Any, dict[str, Any]]:
    """The file system of the sink's own log, and its files by name."""
    java: Any = spark._jvm
    folder = java.org.apache.hadoop.fs.Path(options.path, SINK_LOG)
    system = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    paths = [status.getPath() for status in system.listStatus(folder)] if system.exists(folder) else []
    return system, {str(path.getName()): path for path in paths}


def _write_options(options: FilesSink) -> dict[str, str]:
    settings = {**format_options(options), "compression": options.compression}
    return {**{key: value for key, value in settings.items() if value is not None}, **plain(options)}
