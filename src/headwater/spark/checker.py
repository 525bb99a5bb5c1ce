"""Spark's streaming checker and its planner, asked before a query starts."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from headwater.spark.plans import analysed, optimised
from headwater.spark.private import JavaObject, java_frame, jvm_of, scala_object
from headwater.spec import Mode


def check_streaming(spark: SparkSession, frame: DataFrame, mode: Mode) -> None:
    """Let `UnsupportedOperationChecker` and the planner judge a query; they raise what they have against it.

    The checker looks at the analysed plan. Some of what dies later shows in the optimised one: a `WITH` is
    put in its place there, and EXCEPT becomes an aggregation. The rest the planner says.
    """
    checker, asked = _checker(spark), output_mode(spark, mode)
    plan = analysed(frame)
    checker.checkForStreaming(plan, asked)
    checker.checkForStreaming(optimised(spark, plan), asked)
    physical_plan(spark, frame)


def check_continuous(spark: SparkSession, frame: DataFrame, mode: Mode) -> None:
    """Let `UnsupportedOperationChecker` judge a query that is to run continuously."""
    _checker(spark).checkForContinuous(analysed(frame), output_mode(spark, mode))


def check_batch(spark: SparkSession, frame: DataFrame) -> None:
    """Let `UnsupportedOperationChecker` and the planner judge a query that is to run once, over all rows."""
    planned = java_frame(frame).queryExecution()
    _checker(spark).checkForBatch(planned.analyzed())
    planned.sparkPlan()


def physical_plan(spark: SparkSession, frame: DataFrame) -> str:
    """Spark's plan as text (`ExplainMode`); a streaming query is planned as its first batch would be."""
    mode = jvm_of(spark).org.apache.spark.sql.execution.ExplainMode.fromString("simple")
    # A DataFrame made by `spark.sql` holds its unresolved text, which Spark does not see to be a stream; a
    # filter that the optimizer takes out again makes it start from the analysed plan.
    return str(java_frame(frame.filter(lit(True))).queryExecution().explainString(mode))


def output_mode(spark: SparkSession, mode: Mode) -> JavaObject:
    """A mode as Spark's JVM has it."""
    modes = jvm_of(spark).org.apache.spark.sql.streaming.OutputMode
    return {Mode.APPEND: modes.Append, Mode.UPDATE: modes.Update, Mode.COMPLETE: modes.Complete}[mode]()


def _checker(spark: SparkSession) -> JavaObject:
    analysis = jvm_of(spark).org.apache.spark.sql.catalyst.analysis
    return scala_object(analysis, "UnsupportedOperationChecker")
