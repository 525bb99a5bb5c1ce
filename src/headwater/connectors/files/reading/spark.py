"""What all ways of reading files share: schema, options, and the loading of one path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headwater.checkpoint import SINK_LOG
from headwater.connectors.context import Context
from headwater.connectors.files.options import FilesSink, FilesSource
from headwater.connectors.files.partition_folders import (
    Lister,
    common_base,
    is_hidden,
    is_left_to_spark,
    local_files,
)
from headwater.connectors.spark_options import plain
from headwater.errors import PipelineError
from headwater.errors.catalogue.connectors import FILES_NOT_INFERRED, FILES_STORED_SCHEMA
from headwater.errors.catalogue.files_source import FILES_LOG_UNREAD
from headwater.spec import Column
from headwater.spec.globs import is_pattern
from headwater.spec.paths import as_glob, in_project, is_uri

STORED_VERSION = 1
_GLOBS = "__globPaths__"
"""Spark's own word for whether paths may be patterns; its streams don't listen to it."""


def read(
    spark: SparkSession,
    reader: Callable[[], DataStreamReader | DataFrameReader],
    options: FilesSource,
    context: Context,
    limits: dict[str, str],
) -> DataFrame:
    settings = {**read_options(options), **limits, **plain(options)}
    schema = schema_of(spark, options, context)
    frames = [
        load_path(reader().format(options.format).schema(schema).options(**settings), path, context)
        for path in options.path
    ]
    return united(frames)


def united(frames: list[DataFrame]) -> DataFrame:
    united = frames[0]
    for frame in frames[1:]:
        united = united.unionByName(frame)
    return united


def load_path(reader: DataFrameReader | DataStreamReader, path: str, context: Context) -> DataFrame:
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


def schema_of(spark: SparkSession, options: FilesSource, context: Context) -> StructType | str:
    if options.columns:
        return options.columns.ddl
    if options.infer_schema:
        return _inferred(spark, options, context)
    return "value string"


def lister(spark: SparkSession, path: str) -> Lister:
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


def columns_of(schema: StructType | str) -> tuple[Column, ...]:
    """The columns as others see them; Spark can't read every type back from this text."""
    return tuple(Column(field.name, field.dataType.simpleString()) for field in struct_of(schema).fields)


def struct_of(schema: StructType | str) -> StructType:
    return schema if isinstance(schema, StructType) else cast(StructType, StructType.fromDDL(schema))


def _inferred(spark: SparkSession, options: FilesSource, context: Context) -> StructType:
    """The schema worked out at the first start; every later start reads the stored one."""
    stored = context.folder / "schemas" / f"{context.name}.json"
    if stored.exists():
        try:
            return StructType.fromJson(json.loads(stored.read_text(encoding="utf-8"))["schema"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise PipelineError(FILES_STORED_SCHEMA.at(context.place, file=str(stored))) from error
    reader = spark.read.format(options.format).options(**read_options(options), **plain(options))
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


def limits(options: FilesSource) -> dict[str, str]:
    limits = {
        "maxFilesPerTrigger": options.max_files_per_batch,
        "maxBytesPerTrigger": options.max_bytes_per_batch,
        "maxFileAge": f"{options.max_file_age.milliseconds}ms" if options.max_file_age else None,
        "latestFirst": "true" if options.latest_first else None,
        "fileNameOnly": "true" if options.file_name_only else None,
    }
    return {key: str(value) for key, value in limits.items() if value is not None}


def read_options(options: FilesSource) -> dict[str, str]:
    settings = {
        **format_options(options),
        "multiLine": "true" if options.multiline else None,
        "encoding": options.encoding,
        # Names in the first line that are not those of the schema stop the query; Spark's own default reads
        # the values by their places, whatever stands above them.
        "enforceSchema": "false" if options.header else None,
        # A row that does not fit its schema stops the query; Spark's own default turns it into nulls.
        "mode": "FAILFAST" if options.format in ("csv", "json", "xml") else None,
    }
    return {key: value for key, value in settings.items() if value is not None}


def format_options(options: FilesSource | FilesSink) -> dict[str, str | None]:
    return {
        "header": "true" if options.header else None,
        "sep": options.delimiter,
        "rowTag": options.row_tag,
        "timestampFormat": options.timestamp_format,
        "dateFormat": options.date_format,
    }
