"""Where the rows of a scripted query go: captured in the JVM, or into the sink as it was declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

_FILES = "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"


@dataclass(frozen=True)
class Target:
    """Where a query writes: a table of Spark's, and the options of the write."""

    table: Any
    options: Any


def capturing(spark: SparkSession) -> Target:
    """Spark's memory sink, which keeps the rows of every batch in the driver."""
    jvm: Any = spark._jvm
    table = jvm.org.apache.spark.sql.execution.streaming.sources.MemorySink()
    return Target(table, jvm.PythonUtils.toScalaMap({}))


def target_of(spark: SparkSession, writer: DataStreamWriter) -> Target:
    """The table that a writer would write to, made as Spark makes it at the start of a query.

    Spark's writer can't be given a clock; so it is asked for its sink, and the query is started without it.
    """
    jvm: Any = spark._jvm
    declared: Any = writer._jwrite
    options = _private(declared, "extraOptions")
    function = _private(declared, "foreachBatchWriter")
    if function is not None:
        encoder = _private(declared, "ds").exprEnc()
        sinks = jvm.org.apache.spark.sql.execution.streaming.sources
        return Target(sinks.ForeachBatchSink(function, encoder), options)
    found = _modern(spark, str(_private(declared, "source")), options, _private(declared, "ds").schema())
    return Target(_classic(spark, declared, options) if found is None else found, options)


def _modern(spark: SparkSession, name: str, options: Any, columns: Any) -> Any:
    """The table of a data source of the second kind, if it takes streams."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSourceV2(
        name, session.sessionState().conf()
    )
    gateway: Any = spark.sparkContext._gateway
    # Spark has files as a data source of the second kind, too, and does not use it for streams.
    if not found.isDefined() or is_instance_of(gateway, found.get(), _FILES):
        return None
    sources = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils
    plain = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(
        jvm.scala.jdk.javaapi.CollectionConverters.asJava(options)
    )
    # A source that takes any columns is told those of the query.
    told = jvm.scala.Option.apply(columns if found.get().supportsExternalMetadata() else None)
    return sources.getTableFromProvider(found.get(), plain, told)


def _classic(spark: SparkSession, declared: Any, options: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    kinds, values = gateway.new_array(gateway.jvm.Class, 1), gateway.new_array(gateway.jvm.Object, 1)
    kinds[0], values[0] = options.getClass(), options
    method = declared.getClass().getDeclaredMethod("createV1Sink", kinds)
    method.setAccessible(True)
    return method.invoke(declared, values)


def _private(thing: Any, name: str) -> Any:
    field = thing.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(thing)
