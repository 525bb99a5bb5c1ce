"""Files on Spark."""

from __future__ import annotations

import json
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark.sql.types import StructType

from headwater.connectors.context import Context
from headwater.connectors.files.options import FilesSink, FilesSource
from headwater.connectors.spark_options import plain
from headwater.errors import PipelineError
from headwater.errors.catalogue.connectors import FILES_NOT_INFERRED

STORED_VERSION = 1


def read_stream(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """New files as they appear."""
    return _read(spark, spark.readStream, options, context, _limits(options))


def read_batch(spark: SparkSession, options: FilesSource, context: Context) -> DataFrame:
    """The files that are there now."""
    return _read(spark, spark.read, options, context, {})


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


def _read(
    spark: SparkSession,
    reader: DataStreamReader | DataFrameReader,
    options: FilesSource,
    context: Context,
    limits: dict[str, str],
) -> DataFrame:
    settings = {**_read_options(options), **limits, **plain(options)}
    schema = _schema(spark, options, context)
    frames = [
        _load(reader.format(options.format).schema(schema).options(**settings), path) for path in options.path
    ]
    united = frames[0]
    for frame in frames[1:]:
        united = united.unionByName(frame)
    return united


def _load(reader: Any, path: str) -> DataFrame:
    frame: DataFrame = reader.load(path)
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
        return StructType.fromJson(json.loads(stored.read_text(encoding="utf-8"))["schema"])
    reader = spark.read.format(options.format).options(**_read_options(options), **plain(options))
    if options.format == "csv":
        reader = reader.option("inferSchema", "true")
    try:
        schema = reader.load(list(options.path)).schema
    except AnalysisException as error:
        paths = ", ".join(options.path)
        raise PipelineError(FILES_NOT_INFERRED.at(context.place, name=context.name, paths=paths)) from error
    if context.keep:
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(
            json.dumps({"version": STORED_VERSION, "schema": schema.jsonValue()}), encoding="utf-8"
        )
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
