"""A stream whose rows are put in by hand, on Spark's own MemoryStream."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.class_path import active
from headwater.errors import PipelineError
from headwater.errors.catalogue.testing import TEST_STATE, TEST_STATE_PART
from headwater.scripted.values import plain
from headwater.spark.errors import sentence_of
from headwater.values import scrub

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


# Where the rows of a scripted query go: captured in the JVM, or into the sink as it was declared.

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


# The rows that a query keeps between batches, read from its checkpoint by Spark.

_SIDES = ("left", "right")
_JOIN = "symmetricHashJoin"
_OPTIONS = re.compile(r"\s+(?:for|with) StateSourceOptions|StateSourceOptions")


def state_rows(
    spark: SparkSession, sink: str, checkpoint: Path, part: str | None, operators: Sequence[str]
) -> DataFrame:
    """The state after the last committed batch; `operators` are those of the query, in Spark's order.

    A part is an operator by its number, a side of a join, a variable of transformWithState, or a number and
    one of these: `1 left`.
    """
    words = str(part).split() if part is not None else []
    _refuse_ambiguous(sink, words, operators)
    # Spark loads what it needs for reading state when somebody first asks for its queries.
    _ = spark.streams.active
    reader = spark.read.format("statestore")
    for word in words:
        key = "joinSide" if word in _SIDES else "operatorId" if word.isdigit() else "stateVarName"
        reader = reader.option(key, word)
    try:
        with active(spark):
            return reader.load(str(checkpoint)).drop("partition_id").localCheckpoint()
    except SPARK_ERRORS as error:
        # What follows are options of Spark's reader, which no test sets.
        says = _OPTIONS.split(scrub(sentence_of(error)))[0].rstrip(". ")
        raise PipelineError(TEST_STATE.at(None, name=sink, says=says)) from error


def _refuse_ambiguous(sink: str, words: Sequence[str], operators: Sequence[str]) -> None:
    """Where a query keeps several kinds of state, a part has to be named, and one that is there."""
    numbers = [int(word) for word in words if word.isdigit()]
    number = numbers[0] if numbers else 0
    sided = any(word in _SIDES for word in words)
    known = number < len(operators) and sided == (operators[number] == _JOIN)
    if (numbers or len(operators) == 1) and known:
        return
    parts = [
        f"{number} {side}".strip()
        for number, name in enumerate(operators)
        for side in (_SIDES if name == _JOIN else ("",))
    ]
    listed = ", ".join(f"{number} ({name})" for number, name in enumerate(operators)) or "none"
    first = f'"{parts[0]}"' if parts else '"0"'
    raise PipelineError(TEST_STATE_PART.at(None, name=sink, parts=listed, first=first))
