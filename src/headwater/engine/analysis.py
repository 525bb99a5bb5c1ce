"""What Spark says to a sink's query before it starts: its streaming checker, its planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from headwater.connectors import sink_side
from headwater.engine.build import SPARK_ERRORS, Builder, spark_module
from headwater.engine.translate import planning_problem, streaming_problem
from headwater.errors import Problem
from headwater.errors.catalogue.running import SINK_MODE, STATIC_SINK
from headwater.spec import Mode, SinkSpec


def sink_problems(builder: Builder, sink: SinkSpec, frame: DataFrame) -> Iterator[Problem]:
    """Everything that would keep this sink's query from starting, or kill it in its first batch."""
    spark = builder.spark
    side = sink_side(sink.connector)
    if not frame.isStreaming:
        yield STATIC_SINK.at(sink.position, sink=sink.name, reads=sink.reads)
        return
    if sink.mode.value not in side.modes:
        modes = ", ".join(mode.value for mode in Mode if mode.value in side.modes)
        yield SINK_MODE.at(
            sink.position, sink=sink.name, mode=sink.mode.value, connector=sink.connector, modes=modes
        )
        return
    refused = _refused_by_checker(spark, sink, frame)
    if refused:
        yield refused
        return
    refuse = getattr(spark_module(sink.connector), "refuse_rows", None)
    if refuse:
        yield from refuse(frame.schema, sink.options, builder.context(sink))
    try:
        physical_plan(spark, frame)
    except SPARK_ERRORS as error:
        yield planning_problem(error, sink)


def held_schema(spark: SparkSession, sink: SinkSpec, frame: DataFrame) -> dict[str, str]:
    """What the sink's place holds already, where its connector can tell."""
    held = getattr(spark_module(sink.connector), "held_schema", None)
    schema = held(spark, sink.options, frame.schema) if held else None
    return {field.name: field.dataType.simpleString() for field in schema.fields} if schema else {}


def physical_plan(spark: SparkSession, frame: DataFrame) -> str:
    """Spark's plan as text; a streaming query is planned as its first batch would be."""
    jvm: Any = spark._jvm
    mode = jvm.org.apache.spark.sql.execution.ExplainMode.fromString("simple")
    # A DataFrame made by `spark.sql` holds its unresolved text, which Spark does not see to be a stream; a
    # filter that the optimizer takes out again makes it start from the analysed plan.
    analysed = frame.filter(lit(True))
    return str(analysed._jdf.queryExecution().explainString(mode))


def _refused_by_checker(spark: SparkSession, sink: SinkSpec, frame: DataFrame) -> Problem | None:
    """The verdict of Spark's UnsupportedOperationChecker, which otherwise speaks only at the start."""
    jvm: Any = spark._jvm
    checker = getattr(
        getattr(jvm.org.apache.spark.sql.catalyst.analysis, "UnsupportedOperationChecker$"), "MODULE$"
    )
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = {Mode.APPEND: modes.Append, Mode.UPDATE: modes.Update, Mode.COMPLETE: modes.Complete}[sink.mode]()
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
    except SPARK_ERRORS as error:
        return streaming_problem(error, sink)
    return None
