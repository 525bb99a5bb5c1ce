"""A Nexmark query as a job: with plain PySpark, and as a pipeline of Headwater."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.nexmark.generator import SCHEMA
from bench.nexmark.queries import QUERIES, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SIDE_INPUT_SCHEMA = "key bigint, value string"


def result(spark: SparkSession, query: Query, events: Path, side_input: Path) -> DataFrame:
    """The result of a query as a streaming DataFrame, by hand. Each table that reads the events reads them itself."""
    if query.side_input:
        spark.read.schema(SIDE_INPUT_SCHEMA).csv(str(side_input)).createOrReplaceTempView("side_input")
    for table in query.tables:
        if "FROM events" in table.sql:
            stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(events))
            stream.createOrReplaceTempView("events")
        frame = spark.sql(table.sql)
        if table.watermark:
            frame = frame.withWatermark(table.watermark, table.delay)
        frame.createOrReplaceTempView(table.name)
    return frame


def started(
    writer: DataStreamWriter, query: Query, folder: Path, each: Callable[[DataFrame, int], None] | None = None
) -> StreamingQuery:
    """Start the query on all events; `each` gets the rows of each batch instead of the sink."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).outputMode(query.mode)
    if each is not None:
        writer = writer.foreachBatch(each)
    elif query.partition_by:
        writer = writer.format("csv").option("path", str(folder / "out")).partitionBy(*query.partition_by)
    else:
        writer = writer.format("noop")
    return writer.trigger(availableNow=True).start()


def start(spark: SparkSession, folder: Path, name: str, events: str, side_input: str) -> StreamingQuery:
    """The job of the hand-written variants, for `bench.by_hand`."""
    query = QUERIES[name]
    return started(result(spark, query, Path(events), Path(side_input)).writeStream, query, folder)


def pipeline(query: Query, events: Path, side_input: Path, function: str = "") -> str:
    """The query as a pipeline file; `function` gets the rows of each batch instead of the sink. JSON is YAML."""
    sources: dict[str, Mapping[str, Any]] = {
        "events": {
            "connector": "files",
            "path": str(events),
            "format": "json",
            "schema": SCHEMA,
            "max_files_per_batch": 1,
        }
    }
    if query.side_input:
        sources["side_input"] = {
            "connector": "files",
            "path": str(side_input),
            "format": "csv",
            "schema": SIDE_INPUT_SCHEMA,
            "static": True,
        }
    tables = {
        table.name: {"sql": table.sql}
        | ({"watermark": {"column": table.watermark, "delay": table.delay}} if table.watermark else {})
        for table in query.tables
    }
    sink: dict[str, Any] = {"connector": "noop"}
    if function:
        sink = {"connector": "foreach_batch", "function": function}
    elif query.partition_by:
        sink = {
            "connector": "files",
            "path": "out",
            "format": "csv",
            "partition_by": list(query.partition_by),
        }
    sink |= {"reads": query.result, "mode": query.mode, "trigger": "available now"}
    return json.dumps(
        {"name": query.name, "sources": sources, "tables": tables, "sinks": {"out": sink}}, indent=2
    )
