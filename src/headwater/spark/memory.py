"""Spark's own stream and sink in memory, with which Spark tests itself."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.spark.private import JavaObject, java_frame, java_session, jvm_of, scala_map
from headwater.spark.session import java_schema
from headwater.spark.writer import Target


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
