"""Files on Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from os.path import commonpath
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark.sql.types import StructField, StructType

from headwater.checkpoint import SINK_LOG
from headwater.connectors.context import Context, StaticRows
from headwater.connectors.files.clean_up import FinishedFiles
from headwater.connectors.files.compactor import Compactor
from headwater.connectors.files.options import FilesSink, FilesSource
from headwater.connectors.files.partition_folders import (
    Lister,
    common_base,
    is_hidden,
    is_left_to_spark,
    local_files,
)
from headwater.connectors.files.rewriting import Rewriter
from headwater.connectors.files.sink_folder import named_outside
from headwater.connectors.files.sink_log import newest, removable
from headwater.connectors.files.source_folders import folders_of
from headwater.connectors.files.static.spark import StaticFiles
from headwater.connectors.files.upkeep import FilesUpkeep
from headwater.connectors.spark_options import plain
from headwater.connectors.upkeep import Reader, Task
from headwater.errors import PipelineError
from headwater.errors.catalogue.connectors import (
    FILES_NOT_INFERRED,
    FILES_STORED_SCHEMA,
)
from headwater.errors.catalogue.files_source import FILES_LOG_UNREAD
from headwater.spec import CleanUp, Column
from headwater.spec.globs import is_pattern
from headwater.spec.paths import as_glob, fixed_folder, in_project, is_uri
from headwater.values import Refresh

STORED_VERSION = 1
_SMALL = re.compile(r"\b(?:small|tiny)int\b(?!:)")
_GLOBS = "__globPaths__"
"""Spark's own word for whether paths may be patterns; its streams don't listen to it."""


def read_stream(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """New files as they appear."""
    if is_left_to_spark(options.options):
        return _read(spark, lambda: spark.readStream, options, context, _limits(options))
    schema = _struct(_schema(spark, options, context))
    columns, settings = _columns(schema), {**_read_options(options), **_limits(options), **plain(options)}

    def followed(path: str) -> DataFrame:
        folders = folders_of(path, options, columns, context, _lister(spark, path))
        inside = StructType([schema[column.name] for column in folders.inside])
        reader = spark.readStream.format(options.format).schema(inside).options(**settings)
        if folders.is_deep:
            reader = reader.option("recursiveFileLookup", "true")
        rows = _load(reader, path, context)
        return rows.where(folders.guard).selectExpr(*folders.selected)

    return _united([followed(path) for path in options.path])


def read_batch(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """The files that are there now."""
    if is_left_to_spark(options.options):
        return _read(spark, lambda: spark.read, options, context, {})
    schema = _schema(spark, options, context)
    columns, settings = _columns(schema), {**_read_options(options), **plain(options)}

    def held(path: str) -> DataFrame:
        folders = folders_of(path, options, columns, context, _lister(spark, path))
        reader = spark.read.format(options.format).schema(schema).options(**settings)
        # Spark finds no key=value columns of what a pattern stands for by itself.
        reader = reader.option("basePath", folders.base) if folders.keys else reader
        return _load(reader, path, context).select(*(f"`{column.name}`" for column in columns))

    return _united([held(path) for path in options.path])


def read_static(
    spark: SparkSession, options: FilesSource, context: Context, refresh: Refresh, *, cache: bool
) -> tuple[DataFrame, tuple[StaticRows, ...]]:
    """The files that are there when a batch starts, as far as `refresh` says so."""
    given = {**_read_options(options), **plain(options)}
    schema = _schema(spark, options, context)
    columns = _columns(schema)

    def table(number: int, path: str) -> StaticFiles:
        settings = given
        if not is_left_to_spark(options.options):
            folders = folders_of(path, options, columns, context, _lister(spark, path))
            settings = {**given, "basePath": folders.base} if folders.keys else given

        def load(more: Mapping[str, str], fixed: StructType | None) -> DataFrame:
            reader = spark.read.format(options.format).schema(fixed or schema)
            return _load(reader.options(**{**settings, **more}), path, context)

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
    return _united(frames), tuple(tables)


def clean_up(options: FilesSource, context: Context, readers: Iterable[Reader]) -> Task:
    """What becomes of finished files, in view of every query that reads files."""
    folder = commonpath(fixed_folder(path, context.root) for path in options.path)
    places = [as_glob(path, context.root) for path in options.path]
    return FinishedFiles(context.name, CleanUp(options.archive_to), Path(folder), places, readers)


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
        .options(**_write_options(options))
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
        schema = spark.read.format(options.format).load(options.path).schema
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


def _read(
    spark: SparkSession,
    reader: Callable[[], DataStreamReader | DataFrameReader],
    options: FilesSource,
    context: Context,
    limits: dict[str, str],
) -> DataFrame:
    settings = {**_read_options(options), **limits, **plain(options)}
    schema = _schema(spark, options, context)
    frames = [
        _load(reader().format(options.format).schema(schema).options(**settings), path, context)
        for path in options.path
    ]
    return _united(frames)


def _united(frames: list[DataFrame]) -> DataFrame:
    united = frames[0]
    for frame in frames[1:]:
        united = united.unionByName(frame)
    return united


def _load(reader: DataFrameReader | DataStreamReader, path: str, context: Context) -> DataFrame:
    """Load one path. What the user wrote may be a glob; the folder that the project lies in never is."""
    spelled = as_glob(path, context.root)
    if spelled == path or is_pattern(in_project(path, context.root)):
        return reader.load(spelled)
    # Spark takes any path with a backslash for a glob: it finds no key=value columns there by itself, and it
    # does not look for the list of files that its own file sink keeps.
    if isinstance(reader, DataFrameReader):
        return reader.option(_GLOBS, "false").load(path)
    if (Path(path) / SINK_LOG).exists():
        raise PipelineError(FILES_LOG_UNREAD.at(context.at("path"), name=context.name, path=path))
    return reader.load(spelled)


def _schema(spark: SparkSession, options: FilesSource, context: Context) -> StructType | str:
    if options.columns:
        return options.columns.ddl
    if options.infer_schema:
        return _inferred(spark, options, context)
    return "value string"


def _lister(spark: SparkSession, path: str) -> Lister:
    return partial(_remote_files, spark) if is_uri(path) else local_files


def _remote_files(spark: SparkSession, pattern: str) -> Iterator[tuple[str, str]]:
    """What Spark would list on another file system: one file of each folder."""
    java: Any = spark._jvm
    path = java.org.apache.hadoop.fs.Path(pattern)
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    for start in system.globStatus(path) or ():
        waiting = [start]
        while waiting:
            status = waiting.pop()
            if status.isFile():
                yield str(start.getPath()), str(status.getPath())
                continue
            below = [each for each in system.listStatus(status.getPath()) if not _is_hidden(each)]
            waiting += [each for each in below if each.isDirectory()]
            waiting += [each for each in below if each.isFile()][:1]


def _is_hidden(status: Any) -> bool:
    return is_hidden(str(status.getPath().getName()))


def _columns(schema: StructType | str) -> tuple[Column, ...]:
    """The columns as others see them; Spark can't read every type back from this text."""
    return tuple(Column(field.name, field.dataType.simpleString()) for field in _struct(schema).fields)


def _struct(schema: StructType | str) -> StructType:
    return schema if isinstance(schema, StructType) else cast(StructType, StructType.fromDDL(schema))


def _inferred(spark: SparkSession, options: FilesSource, context: Context) -> StructType:
    """The schema worked out at the first start; every later start reads the stored one."""
    stored = context.folder / "schemas" / f"{context.name}.json"
    if stored.exists():
        try:
            return StructType.fromJson(json.loads(stored.read_text(encoding="utf-8"))["schema"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise PipelineError(FILES_STORED_SCHEMA.at(context.place, file=str(stored))) from error
    reader = spark.read.format(options.format).options(**_read_options(options), **plain(options))
    if options.format == "csv":
        reader = reader.option("inferSchema", "true")
    base = common_base(options.path, context.root)
    if base and not is_left_to_spark(options.options):
        reader = reader.option("basePath", base)
    try:
        schema = reader.load([as_glob(path, context.root) for path in options.path]).schema
    except AnalysisException as error:
        paths = ", ".join(options.path)
        raise PipelineError(FILES_NOT_INFERRED.at(context.place, name=context.name, paths=paths)) from error
    context.keep(stored, json.dumps({"version": STORED_VERSION, "schema": schema.jsonValue()}) + "\n")
    return schema


def _limits(options: FilesSource) -> dict[str, str]:
    limits = {
        "maxFilesPerTrigger": options.max_files_per_batch,
        "maxBytesPerTrigger": options.max_bytes_per_batch,
        "maxFileAge": f"{options.max_file_age.milliseconds}ms" if options.max_file_age else None,
        "latestFirst": "true" if options.latest_first else None,
        "fileNameOnly": "true" if options.file_name_only else None,
    }
    return {key: str(value) for key, value in limits.items() if value is not None}


def _read_options(options: FilesSource) -> dict[str, str]:
    settings = {
        **_format_options(options),
        "multiLine": "true" if options.multiline else None,
        "encoding": options.encoding,
        # A row that does not fit its schema stops the query; Spark's own default turns it into nulls.
        "mode": "FAILFAST" if options.format in ("csv", "json", "xml") else None,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _write_options(options: FilesSink) -> dict[str, str]:
    settings = {**_format_options(options), "compression": options.compression}
    return {**{key: value for key, value in settings.items() if value is not None}, **plain(options)}


def _format_options(options: FilesSource | FilesSink) -> dict[str, str | None]:
    return {
        "header": "true" if options.header else None,
        "sep": options.delimiter,
        "rowTag": options.row_tag,
        "timestampFormat": options.timestamp_format,
        "dateFormat": options.date_format,
    }
