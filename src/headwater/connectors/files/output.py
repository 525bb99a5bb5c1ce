"""Spark's file sink: writing, reading back, and what its own log says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from headwater.checkpoint import SINK_LOG
from headwater.connectors.contract import Context, Task
from headwater.connectors.files.compaction import Compactor, Rewriter
from headwater.connectors.files.options import FilesSink
from headwater.connectors.files.reading import (
    NO_GLOB,
    format_options,
)
from headwater.connectors.files.sink_folder import newest, removable
from headwater.connectors.files.sink_tasks import FilesUpkeep
from headwater.connectors.options import plain
from headwater.spark.hadoop import file_system

_SMALL = re.compile(r"\b(?:small|tiny)int\b(?!:)")


def write_stream(writer: DataStreamWriter, options: FilesSink) -> DataStreamWriter:
    """Spark's file sink, which lists the committed files in `_spark_metadata`."""
    writer = writer.format(options.format).option("path", options.path)
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    return writer.options(**_write_options(options))


def write_batch(rows: DataFrame, options: FilesSink) -> None:
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


def stored_schema(spark: SparkSession, options: FilesSink, written: StructType) -> StructType | None:
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


def stored_batch(spark: SparkSession, options: FilesSink) -> int | None:
    """The newest batch in the sink's own log; Spark passes over this one and all before it."""
    return newest(_log_files(spark, options)[1])


def forget_batch(spark: SparkSession, options: FilesSink, batch: int) -> None:
    """Take the newest batch out of the sink's own log: its files are seen no more, and it can come again."""
    system, files = _log_files(spark, options)
    for name in removable(files, batch):
        system.delete(files[name], False)


def _log_files(spark: SparkSession, options: FilesSink) -> tuple[Any, dict[str, Any]]:
    """The file system of the sink's own log, and its files by name."""
    system, folder = file_system(spark, options.path, SINK_LOG)
    paths = [status.getPath() for status in system.listStatus(folder)] if system.exists(folder) else []
    return system, {str(path.getName()): path for path in paths}


def _write_options(options: FilesSink) -> dict[str, str]:
    settings = {**format_options(options), "compression": options.compression}
    return {**{key: value for key, value in settings.items() if value is not None}, **plain(options)}
