"""A stream whose rows are put in by hand, on Spark's own MemoryStream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.engine.connector_code import active
from headwater.engine.scripted.values import plain

Rows = Sequence[Mapping[str, Any]]


class ScriptedStream:
    """One streaming source of one query: what is added at once reaches the query in one batch.

    The offset that Spark stores is the number of additions, so a stream that is made anew for a restart and
    gets the same additions again goes on where the old one was.
    """

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._spark = spark
        self.schema = schema
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        encoder = jvm.org.apache.spark.sql.Encoders.row(session.parseDataType(schema.json()))
        streams = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream
        # One partition: the rows of a batch reach Python code in the order in which they were written.
        self._stream = streams.apply(session, 1, encoder)
        self.frame = DataFrame(self._stream.toDF(), spark)

    def add(self, rows: Rows) -> None:
        """Rows for the next batch; none at all leave no trace."""
        if rows:
            jvm: Any = self._spark._jvm
            held = frame_of(self._spark, rows, self.schema)._jdf.collectAsList()
            self._stream.addData(jvm.PythonUtils.toSeq(held))


def frame_of(spark: SparkSession, rows: Rows, schema: StructType) -> DataFrame:
    """A finished DataFrame of rows in the form of `scripted.values`, which stand in its plan."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=_arrow(schema))
    # Spark makes the session of a new DataFrame the active one; the user's own has to stay that.
    with active(spark):
        return spark.createDataFrame(table, schema)


def rows_of(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """The rows of a finished DataFrame, in the form of `scripted.values`."""
    fields = frame.schema.fields
    return tuple(
        {field.name: plain(row[field.name], field.dataType) for field in fields}
        for row in frame.toArrow().to_pylist()
    )


def rows_held(spark: SparkSession, held: Any, schema: StructType) -> tuple[dict[str, Any], ...]:
    """The same of rows that lie in the JVM."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    as_list = jvm.scala.jdk.javaapi.CollectionConverters.asJava(held)
    return rows_of(
        DataFrame(session.createDataFrame(as_list, session.parseDataType(_nullable(schema).json())), spark)
    )


def _arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timestamp_utc=True)


def _nullable(schema: StructType) -> StructType:
    """Spark keeps `not null` on results of aggregates; rows read back need no such promise."""
    return schema.toNullable()
