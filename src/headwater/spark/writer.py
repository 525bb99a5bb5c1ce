"""What PySpark's writers were told, read off their Java half: whoever set it, it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from py4j.java_gateway import is_instance_of
from pyspark.sql import Catalog, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark.private import (
    JavaObject,
    call_private,
    items_of,
    jvm_of,
    pairs_of,
    private_field,
    session_state,
)

_FILES = "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"


@dataclass(frozen=True)
class Target:
    """Where a query writes: a table of Spark's, and the options of the write."""

    table: JavaObject
    options: JavaObject


@dataclass(frozen=True)
class StreamWrite:
    """What a DataStreamWriter was told, in Spark's words."""

    format: str
    mode: str
    trigger: str
    options: Mapping[str, str]
    partitioned_by: tuple[str, ...]


def stream_write(writer: DataStreamWriter) -> StreamWrite:
    """The private fields of a DataStreamWriter; nothing of Scala or PySpark tells what it was told."""
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
    # A source that takes any columns is told those of the query.
    told = jvm.scala.Option.apply(columns if found.get().supportsExternalMetadata() else None)
    return datasources.v2.DataSourceV2Utils.getTableFromProvider(found.get(), plain, told)
