"""The output of a `files` sink in a group: one directory for each batch, replaced if the batch is retried.

    _headwater/query-ID        an empty file that names the query that owns the directory
    _headwater/epoch-N         an empty file with the number of its newest run
    _headwater_staging/…       the batch in progress; readers ignore names that start with `_`
    batch=N/part-…             a complete batch

A batch is written to the staging directory and then renamed, so readers never see a part of it. They need no log. A
run that was suspended finds the number of the run that took over, and changes nothing.
"""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.checkpoint import SINK_LOG, Checkpoint, LocalStore
from headwater.connectors.connector import BatchWriter
from headwater.connectors.contract import BatchContext, Context
from headwater.connectors.files.errors import (
    FILES_BATCH_COLUMN,
    FILES_GROUP_CONFLICT,
    FILES_GROUP_FOREIGN,
    FILES_GROUP_SUPERSEDED,
)
from headwater.connectors.files.options import FilesSink
from headwater.connectors.files.sink_folder import KEPT
from headwater.connectors.files.source import NO_GLOB
from headwater.errors import PipelineError
from headwater.spark.private import file_system

BATCH = "batch"
_STAGING = "_headwater_staging"
_OWNER, _EPOCH = "query-", "epoch-"
_WITH_LOG, _IN_GROUP = "with its own query (`_spark_metadata`)", "of a group (`batch=N`)"


def check_directory(rows: DataFrame, options: FilesSink, context: Context) -> None:
    """PipelineError if the directory contains the output of the other form, or of another query."""
    if context.batch or context.test:
        return
    spark, place = rows.sparkSession, context.at("path")
    named = {"sink": context.name, "place": options.path}
    if not context.group:
        if _owner(spark, options) is not None:
            params = {**named, "there": _IN_GROUP, "here": "not in a group"}
            raise PipelineError(FILES_GROUP_CONFLICT.at(place, **params))
        return
    if column := next((each for each in rows.columns if each.lower() == BATCH), None):
        raise PipelineError(FILES_BATCH_COLUMN.at(place, sink=context.name, column=column))
    if SINK_LOG in _names(spark, options):
        params = {**named, "there": _WITH_LOG, "here": f"in group `{context.group}`"}
        raise PipelineError(FILES_GROUP_CONFLICT.at(place, **params))
    owner = _owner(spark, options)
    query = Checkpoint(LocalStore(context.checkpoint)).query_id if context.checkpoint else None
    if owner is not None and owner != query:
        raise PipelineError(FILES_GROUP_FOREIGN.at(place, **named, owner=owner))


def batch_writer(options: FilesSink, context: Context) -> BatchWriter:
    """Writes and replaces the directories of the batches, for one start of a query."""
    claimed = False

    def write(rows: DataFrame, batch_id: int) -> None:
        nonlocal claimed
        spark, batch = rows.sparkSession, context.of_batch(batch_id)
        _confirm(spark, options, context, batch.epoch)
        if not claimed:
            _claim(spark, options, batch)
            claimed = True
        staged = _stage(rows, options)
        _confirm(spark, options, context, batch.epoch)
        replace_batch(spark, options, batch_id, staged)

    return write


def read_back(spark: SparkSession, options: FilesSink, written: StructType) -> DataFrame:
    """The rows of all batches; none before the first one with rows."""
    if not any(name.startswith(f"{BATCH}=") for name in _names(spark, options)):
        return spark.createDataFrame([], written)
    reader = spark.read.format(options.format).schema(written)
    rows = reader.options(**options.spark_options(), **NO_GLOB).load(options.path)
    # Spark puts partition columns last, and adds that of the batches.
    return rows.select(*(rows[f"`{name.replace('`', '``')}`"] for name in written.names))


def _confirm(spark: SparkSession, options: FilesSink, context: Context, epoch: int) -> None:
    """PipelineError if a newer run writes the directory."""
    if any(each > epoch for each in _epochs(spark, options)):
        place = context.at("path")
        raise PipelineError(FILES_GROUP_SUPERSEDED.at(place, sink=context.name, place=options.path))


def _claim(spark: SparkSession, options: FilesSink, batch: BatchContext) -> None:
    """Record the owner of the directory and its run, and remove what an interrupted batch has left."""
    older = _epochs(spark, options) - {batch.epoch}
    for name in (f"{_OWNER}{batch.query_id}", f"{_EPOCH}{batch.epoch}"):
        system, record = file_system(spark, options.path, f"{KEPT}/{name}")
        system.create(record, True).close()
    for each in older:
        system, record = file_system(spark, options.path, f"{KEPT}/{_EPOCH}{each}")
        system.delete(record, False)
    system, staging = file_system(spark, options.path, _STAGING)
    system.delete(staging, True)


def _stage(rows: DataFrame, options: FilesSink) -> str:
    """Write a batch into a new directory of the staging; returns its name. A batch without rows has none."""
    name = f"{_STAGING}/{uuid.uuid4()}"
    system, staging = file_system(rows.sparkSession, options.path, name)
    if rows.isEmpty():
        system.mkdirs(staging.getParent())
        return ""
    writer = rows.write.format(options.format).mode("errorifexists").options(**options.spark_options())
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    writer.save(str(staging.toString()))
    return name


def replace_batch(spark: SparkSession, options: FilesSink, batch_id: int, staged: str) -> None:
    """Replace the directory of an earlier attempt; if that fails, the earlier one is still there."""
    system, target = file_system(spark, options.path, f"{BATCH}={batch_id}")
    _, earlier = file_system(spark, options.path, f"{_STAGING}/{uuid.uuid4()}")
    replaces = system.exists(target)
    if replaces and not system.rename(target, earlier):
        raise OSError(f"could not rename {target} to {earlier}")
    if staged:
        _, staging = file_system(spark, options.path, staged)
        renamed = False
        try:
            renamed = system.rename(staging, target)
        finally:
            if not renamed and replaces:
                system.rename(earlier, target)
        if not renamed:
            raise OSError(f"could not rename {staging} to {target}")
    if replaces:
        system.delete(earlier, True)


def _epochs(spark: SparkSession, options: FilesSink) -> set[int]:
    """The numbers of the runs that have claimed the directory; older ones are removed."""
    found = (name.removeprefix(_EPOCH) for name in _names(spark, options, KEPT) if name.startswith(_EPOCH))
    return {int(each) for each in found}


def _owner(spark: SparkSession, options: FilesSink) -> str | None:
    """The ID of the query that owns the directory, if it is recorded."""
    found = (name for name in _names(spark, options, KEPT) if name.startswith(_OWNER))
    return next((name.removeprefix(_OWNER) for name in found), None)


def _names(spark: SparkSession, options: FilesSink, *below: str) -> list[str]:
    """The names in the directory, or in one below it."""
    system, folder = file_system(spark, options.path, *below)
    found = system.listStatus(folder) if system.exists(folder) else ()
    return [str(each.getPath().getName()) for each in found]
