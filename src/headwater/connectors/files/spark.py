"""Files on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from glob import has_magic
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from headwater.connectors.context import Context
from headwater.connectors.files.options import FilesSink, FilesSource
from headwater.connectors.files.sink_log import LOG, removable
from headwater.connectors.spark_options import plain
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.connectors import (
    FILES_CSV_COLUMN,
    FILES_NO_COLUMNS,
    FILES_NOT_INFERRED,
    FILES_PARTITION_COLUMN,
    FILES_STORED_SCHEMA,
    FILES_TEXT_COLUMN,
)
from headwater.spec.paths import as_glob

STORED_VERSION = 1


def read_stream(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """New files as they appear."""
    return _read(spark, lambda: spark.readStream, options, context, _limits(options))


def read_batch(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """The files that are there now."""
    return _read(spark, lambda: spark.read, options, context, {})


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


def refuse_rows(schema: StructType, options: FilesSink, context: Context) -> Iterator[Problem]:
    """What Spark would only find out while it writes the first batch."""
    names = {field.name.lower() for field in schema.fields}
    for column in options.partition_by:
        if column.lower() not in names:
            known = ", ".join(schema.names)
            yield FILES_PARTITION_COLUMN.at(context.place, name=context.name, column=column, known=known)
    partitioned = {column.lower() for column in options.partition_by}
    rest = [field for field in schema.fields if field.name.lower() not in partitioned]
    if not rest:
        yield FILES_NO_COLUMNS.at(context.place, name=context.name)
    if options.format == "text" and [field.dataType for field in rest] != [StringType()]:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rest)
        yield FILES_TEXT_COLUMN.at(context.place, name=context.name, columns=columns)
    if options.format == "csv":
        for field in rest:
            if isinstance(field.dataType, StructType | ArrayType | MapType | BinaryType):
                type_ = field.dataType.simpleString()
                yield FILES_CSV_COLUMN.at(context.place, name=context.name, column=field.name, type=type_)


def held_schema(spark: SparkSession, options: FilesSink, written: StructType) -> StructType | None:
    """The schema of the files that are there; only parquet and orc files carry one.

    The types of partition columns stand in no file: they are taken to be those that will be written.
    """
    if options.format not in ("parquet", "orc"):
        return None
    try:
        schema = spark.read.format(options.format).load(options.path).schema
    except AnalysisException:
        return None
    partitioned = {column.lower() for column in options.partition_by}
    inside = [field for field in schema.fields if field.name.lower() not in partitioned]
    return StructType(inside + [field for field in written.fields if field.name.lower() in partitioned])


def forget_batch(spark: SparkSession, options: FilesSink, batch: int) -> None:
    """Take the newest batch out of the sink's own log: its files are seen no more, and it can come again."""
    java: Any = spark._jvm
    path = java.org.apache.hadoop.fs.Path
    folder = path(options.path, LOG)
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if files.exists(folder):
        names = {status.getPath().getName() for status in files.listStatus(folder)}
        for name in removable(names, batch):
            files.delete(path(folder, name), False)


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
        _load(reader().format(options.format).schema(schema).options(**settings), path, context.root)
        for path in options.path
    ]
    united = frames[0]
    for frame in frames[1:]:
        united = united.unionByName(frame)
    return united


def _load(reader: Any, path: str, root: Path) -> DataFrame:
    """Load one path. What the user wrote may be a glob; the folder that the project lies in never is."""
    spelled = as_glob(path, root)
    if spelled != path and not has_magic(path.removeprefix(str(root))):
        # Spark takes any path with a backslash for a glob, and then finds no key=value columns by itself.
        reader = reader.option("basePath", path)
    frame: DataFrame = reader.load(spelled)
    return frame


def _schema(spark: SparkSession, options: FilesSource, context: Context) -> StructType | str:
    if options.columns:
        return options.columns.ddl
    if options.infer_schema:
        return _inferred(spark, options, context)
    return "value string"


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
