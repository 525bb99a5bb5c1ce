"""Inspects and stops a running query through Spark's `StreamExecution`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import Catalog, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from headwater.events.idle import InputMark, QueryInputs
from headwater.spark.callbacks import StepClock
from headwater.spark.plans import output_mode
from headwater.spark.private import (
    JavaObject,
    accept_calls,
    call_private,
    class_name,
    items_of,
    java_frame,
    java_session,
    jvm_of,
    pairs_of,
    private_field,
    private_member,
    scala_map,
    scala_object,
    session_state,
    texts_of,
)
from headwater.spark.session import java_schema
from headwater.spec import Mode

# The batch of a thread.

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"
"""Spark runs the jobs of each start of a query in a group of their own."""


@dataclass(frozen=True)
class ThreadQuery:
    """The query whose batch runs on this thread of the JVM."""

    query_id: str
    run_id: str
    """Differs from start to start."""
    batch_id: str


def thread_query(context: SparkContext) -> ThreadQuery | None:
    """The query of this thread; None outside of a batch."""
    found = [context.getLocalProperty(key) for key in (_QUERY_ID, _RUN_ID, _BATCH_ID)]
    if found[0] is None:
        return None
    query, run, batch = (each or "" for each in found)
    return ThreadQuery(query, run, batch)


# The settings of PySpark writers, read from their Java objects, which always have them.

_FILES = "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"


@dataclass(frozen=True)
class Target:
    """Where a query writes: a table of Spark's, and the options of the write."""

    table: JavaObject
    options: JavaObject


@dataclass(frozen=True)
class StreamWrite:
    """The settings of a DataStreamWriter, in Spark's terms."""

    format: str
    mode: str
    trigger: str
    options: Mapping[str, str]
    partitioned_by: tuple[str, ...]


def stream_write(writer: DataStreamWriter) -> StreamWrite:
    """The private fields of a DataStreamWriter; neither Scala nor PySpark has public access to them."""
    java = writer._jwrite
    partitioned = private_field(java, "partitioningColumns")
    return StreamWrite(
        format=str(private_field(java, "source")),
        mode=str(private_field(java, "outputMode").toString()).lower(),
        trigger=str(private_field(java, "trigger").toString()),
        options=pairs_of(private_field(java, "extraOptions")),
        partitioned_by=tuple(map(str, items_of(partitioned.get()))) if partitioned.isDefined() else (),
    )


def option_of(writer: DataFrameWriter, name: str) -> str | None:
    """An option of a DataFrameWriter (its private `extraOptions`)."""
    value = private_field(writer._jwrite, "extraOptions").get(name)
    return str(value.get()) if value.isDefined() else None


def writer_frame(writer: object) -> DataFrame:
    """`_df` of a writer of any kind: the DataFrame that it writes."""
    frame: DataFrame = getattr(writer, "_df")  # noqa: B009 - the classes of writers share no base
    return frame


def writer_session(writer: DataStreamWriter) -> SparkSession:
    """`DataStreamWriter._spark`."""
    session: SparkSession = writer._spark
    return session


def catalog_session(catalog: Catalog) -> SparkSession:
    """`Catalog._sparkSession`."""
    return catalog._sparkSession


def set_real_time(writer: DataStreamWriter, milliseconds: int) -> None:
    """Set the real-time trigger, for which PySpark 4.1 has no words: it is there on the JVM alone."""
    triggers = jvm_of(writer_session(writer)).org.apache.spark.sql.streaming.Trigger
    writer._jwrite = writer._jwrite.trigger(triggers.RealTime(milliseconds))


def target_of(spark: SparkSession, writer: DataStreamWriter) -> Target:
    """The table that a writer would write to, made as Spark makes it at the start of a query.

    Spark's writer can't be given a clock; so it is asked for its sink, and the query is started without it.
    """
    declared = writer._jwrite
    options = private_field(declared, "extraOptions")
    function = private_field(declared, "foreachBatchWriter")
    if function is not None:
        encoder = private_field(declared, "ds").exprEnc()
        sinks = jvm_of(spark).org.apache.spark.sql.execution.streaming.sources
        return Target(sinks.ForeachBatchSink(function, encoder), options)
    columns = private_field(declared, "ds").schema()
    found = _modern(spark, str(private_field(declared, "source")), options, columns)
    classic = call_private(spark, declared, "createV1Sink", options) if found is None else found
    return Target(classic, options)


def _modern(spark: SparkSession, name: str, options: JavaObject, columns: JavaObject) -> JavaObject | None:
    """The table of a data source of the second kind, if it takes streams."""
    jvm = jvm_of(spark)
    datasources = jvm.org.apache.spark.sql.execution.datasources
    found = datasources.DataSource.lookupDataSourceV2(name, session_state(spark).conf())
    # Spark has files as a data source of the second kind, too, and does not use it for streams.
    if not found.isDefined() or is_instance_of(spark.sparkContext._gateway, found.get(), _FILES):
        return None
    plain = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(
        jvm.scala.jdk.javaapi.CollectionConverters.asJava(options)
    )
    # A source that accepts any columns gets those of the query.
    told = jvm.scala.Option.apply(columns if found.get().supportsExternalMetadata() else None)
    return datasources.v2.DataSourceV2Utils.getTableFromProvider(found.get(), plain, told)


_START = re.compile(r"\.startQuery\(([^)]*)\)")
_WITH_SINK_NAME = 13


@dataclass(frozen=True)
class UnreadFiles:
    """Files that wait for later batches of one source."""

    path: str
    files: int
    at_most: int | None
    """How many a batch takes; None where it is bounded in another way."""


def execution_of(handle: StreamingQuery) -> JavaObject:
    """`StreamExecution`, inside the handle's `_jsq`."""
    return handle._jsq.streamingQuery()


def active_queries(spark: SparkSession) -> list[StreamingQuery]:
    """The queries of a session that have not terminated."""
    return spark.streams.active


def active_query(spark: SparkSession, query_id: str) -> StreamingQuery | None:
    """One of them (`StreamingQueryManager._jsqm`); PySpark's own `get` fails if there is none."""
    found = spark.streams._jsqm.get(query_id)
    return StreamingQuery(found) if found is not None else None


@dataclass(frozen=True)
class QuerySettings:
    """How a query was started, in Spark's terms."""

    sink: str
    """The class of its sink."""
    mode: str
    trigger: str
    checkpoint: str


def query_settings(handle: StreamingQuery) -> QuerySettings:
    """The settings of a running query, from its `StreamExecution`."""
    execution = execution_of(handle)
    return QuerySettings(
        sink=class_name(execution.sink()).rstrip("$"),
        mode=str(execution.outputMode().toString()).lower(),
        trigger=str(execution.trigger().toString()),
        checkpoint=str(execution.resolvedCheckpointRoot()),
    )


def thread_lives(handle: StreamingQuery) -> bool:
    """Whether the query's thread still works (`queryExecutionThread`)."""
    return bool(execution_of(handle).queryExecutionThread().isAlive())


def processes_data(handle: StreamingQuery) -> bool:
    """Whether the query has found data and works on its batch. A poll without data is a trigger as well."""
    status = handle._jsq.status()
    return bool(status.isTriggerActive() and status.isDataAvailable())


def last_plan(handle: StreamingQuery) -> str:
    """The plan of the last batch as text (`explainInternal`)."""
    return str(handle._jsq.explainInternal(False))


def last_progress(handle: StreamingQuery) -> JavaObject | None:
    """The newest progress, with its JSON as Spark writes it; PySpark's own is rebuilt field by field."""
    return handle._jsq.lastProgress()


def recent_progress(handle: StreamingQuery) -> list[JavaObject]:
    """The progress that Spark still has, the newest first."""
    return list(reversed(handle._jsq.recentProgress()))


def newest_commit(handle: StreamingQuery) -> int | None:
    """The number of the newest batch or epoch that is committed (`commitLog`)."""
    newest = execution_of(handle).commitLog().getLatestBatchId()
    return int(newest.get()) if newest.isDefined() else None


def end_after_batch(spark: SparkSession, handle: StreamingQuery) -> None:
    """Set the state that the execution loop asks for between two batches (`TERMINATED`); it ends there."""
    states = jvm_of(spark).org.apache.spark.sql.execution.streaming.runtime
    execution_of(handle).state().set(scala_object(states, "TERMINATED"))


@dataclass(frozen=True)
class LimitedFiles:
    """A file source of a running query whose batches have a limit."""

    path: str
    at_most: int | None
    """How many files a batch reads; None if it is limited in another way."""
    _source: JavaObject
    _unread: JavaObject

    def unread(self) -> UnreadFiles:
        """What it has seen and left for later batches (the private `unreadFiles`)."""
        files = self._unread.get(self._source)
        return UnreadFiles(self.path, files.size() if files else 0, self.at_most)


def limited_files(handle: StreamingQuery) -> tuple[LimitedFiles, ...]:
    """The file sources of a query that have a limit; they stay the same while it runs."""
    found = map(_limited, items_of(execution_of(handle).logicalPlan().collectLeaves()))
    return tuple(each for each in found if each)


def _limited(leaf: JavaObject) -> LimitedFiles | None:
    if class_name(leaf) != "StreamingExecutionRelation":
        return None
    source = leaf.source()
    if class_name(source) != "FileStreamSource":
        return None
    limit = source.getDefaultReadLimit()
    kind = class_name(limit)
    if kind == "ReadAllAvailable":
        return None
    path = str(source.toString()).removeprefix("FileStreamSource[").removesuffix("]").removeprefix("file:")
    at_most = int(limit.maxFiles()) if kind == "ReadMaxFiles" else None
    return LimitedFiles(path, at_most, source, private_member(source, "unreadFiles"))


def marks_of(handle: StreamingQuery, inputs: QueryInputs) -> tuple[tuple[InputMark, ...], datetime | None]:
    """How far each watermark of a running query has come, and the watermark that its next batch will use.

    Spark's progress has only the whole; its `watermarkTracker` is asked for the parts. It is made with the
    first batch.
    """
    tracker = execution_of(handle).watermarkTracker()
    if tracker is None:
        return (), None
    # The parts come first: should a batch end in between, the whole is the newer one, and nothing seems held.
    reached = dict(_reached(tracker.watermarkMap()))
    marks = tuple(InputMark(names, reached.get(node)) for node, names in inputs.watermarks.items())
    return marks, moment(int(tracker.currentWatermark()))


def _reached(parts: JavaObject) -> Iterator[tuple[str, datetime | None]]:
    each = parts.iterator()
    while each.hasNext():
        pair = each.next()
        yield str(pair._1()), moment(int(pair._2().get())) if pair._2().isDefined() else None


def moment(milliseconds: int) -> datetime | None:
    """A watermark; Spark has 1970 where there is none yet."""
    return datetime.fromtimestamp(milliseconds / 1_000, UTC) if milliseconds else None


def start_with_clock(
    frame: DataFrame, name: str, checkpoint: Path, sink: Target, mode: Mode, clock: StepClock
) -> StreamingQuery:
    """Start a query with a clock of our own (`StreamingQueryManager.startQuery`, private to Spark)."""
    spark = frame.sparkSession
    accept_calls(spark)
    jvm = jvm_of(spark)
    option = jvm.scala.Option
    manager = session_state(spark).streamingQueryManager()
    # Since 4.2 a sink can also have a name, by which Spark distinguishes the sinks of one checkpoint.
    sink_name = () if _start_arguments(spark, manager) < _WITH_SINK_NAME else (option.empty(),)
    query = manager.startQuery(
        option.apply(name),
        *sink_name,
        option.apply(str(checkpoint)),
        java_frame(frame),
        sink.options,
        sink.table,
        output_mode(spark, mode),
        False,  # no temporary checkpoint instead of this one
        True,  # resume from the checkpoint
        jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(1),
        clock,
        option.empty(),
        option.empty(),
    )
    return StreamingQuery(query)


def _start_arguments(spark: SparkSession, manager: JavaObject) -> int:
    """How many arguments `startQuery` takes; 0 if there is no such method."""
    methods = texts_of(spark, manager.getClass().getDeclaredMethods())
    found = (_START.search(method) for method in methods)
    return max((each[1].count(",") + 1 for each in found if each), default=0)


# Spark's own stream and sink in memory, with which Spark tests itself.


class MemoryStream:
    """`MemoryStream`: a stream whose rows are put in by hand; its offset is the number of additions."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        jvm = jvm_of(spark)
        encoder = jvm.org.apache.spark.sql.Encoders.row(java_schema(spark, schema))
        streams = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream
        # One partition: the rows of a batch reach Python code in the order in which they were written.
        self._stream = streams.apply(java_session(spark), 1, encoder)
        self._sequences = jvm.PythonUtils
        self.frame = DataFrame(self._stream.toDF(), spark)

    def add(self, rows: DataFrame) -> None:
        """Rows for the next batch."""
        self._stream.addData(self._sequences.toSeq(java_frame(rows).collectAsList()))


def memory_sink(spark: SparkSession) -> Target:
    """`MemorySink`, which keeps the rows of every batch in the driver."""
    sinks = jvm_of(spark).org.apache.spark.sql.execution.streaming.sources
    return Target(sinks.MemorySink(), scala_map(spark, {}))


def latest_rows(spark: SparkSession, sink: JavaObject, batch: int, schema: StructType) -> DataFrame | None:
    """The rows that a `MemorySink` got with a batch; None if there are none, or if that is not its newest."""
    latest = sink.latestBatchId()
    if not latest.isDefined() or int(latest.get()) != batch:
        return None
    held = sink.latestBatchData()
    # Most batches without data have no rows; each look into the JVM costs more than the batch.
    if held.isEmpty():
        return None
    as_list = jvm_of(spark).scala.jdk.javaapi.CollectionConverters.asJava(held)
    # Spark keeps `not null` on results of aggregates; rows read back need no such promise.
    columns = java_schema(spark, schema.toNullable())
    return DataFrame(java_session(spark).createDataFrame(as_list, columns), spark)
