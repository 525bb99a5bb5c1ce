"""What Spark says to a sink's query before it starts: its streaming checker, its planner."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import sink_side
from headwater.connectors.connector import ChecksCode
from headwater.engine.builder import SPARK_ERRORS, Builder, columns_in
from headwater.engine.translate import planning_problem, sql_problem
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.running import NO_BATCH_FORM, NOT_REPLAYABLE_TWICE, STATIC_SINK
from headwater.plan import Refusal
from headwater.plan.predicates import mode_problem, passing_sources
from headwater.spark.checker import check_batch, check_continuous, check_streaming, physical_plan
from headwater.spark.errors import condition_of, python_failure, sentence_of
from headwater.spark.plans import distinct_streams, leaves_of, stream_path
from headwater.spec import Mode, SinkSpec

_MOVING_JOIN = re.compile(r"SortMergeJoin|ShuffledHashJoin|BroadcastNestedLoopJoin|CartesianProduct")
_STREAM_ONLY = re.compile(r"(unsupported in|not supported with) batch")


def sink_problems(
    builder: Builder, sink: SinkSpec, frame: DataFrame, refused: Exception | None
) -> Iterator[Problem]:
    """What would keep this sink's query from starting, besides what the rules say of Spark's refusal."""
    if not frame.isStreaming:
        yield STATIC_SINK.at(sink.position, sink=sink.name, reads=sink.reads)
        return
    if refused and python_failure(refused, builder.spec.root):
        yield planning_problem(refused, sink, builder.spec.root)
    if refused or mode_problem(sink):
        return
    yield from column_problems(builder, sink, frame)
    yield from _read_twice(builder, sink, frame)


def column_problems(builder: Builder, sink: SinkSpec, frame: DataFrame) -> Iterator[Problem]:
    """What a sink has against the columns that it gets, and Spark against what the sink makes of them."""
    side = sink_side(sink.connector)
    refused = list(side.problems(sink, columns_in(frame)))
    yield from refused
    if refused:
        return
    try:
        side.outgoing(frame, sink.options, builder.context(sink))
    except PipelineError as error:
        yield from error.problems
    except SPARK_ERRORS as error:
        yield planning_problem(error, sink, builder.spec.root)


def _read_twice(builder: Builder, sink: SinkSpec, frame: DataFrame) -> Iterator[Problem]:
    """A join of a source with itself reads it twice, as two sources; a union does not."""
    for source in passing_sources(builder.spec):
        if source.name in builder.frames:
            own, read = leaves_of(builder.frames[source.name]), leaves_of(frame)
            count = max(sum(bool(leaf.sameResult(one)) for leaf in read) for one in own)
            if count > 1:
                yield NOT_REPLAYABLE_TWICE.at(
                    sink.position, sink=sink.name, name=source.name, connector=source.connector, count=count
                )


def code_problems(builder: Builder, sink: SinkSpec) -> list[Problem]:
    """What is wrong with the user's code in the hands of the sink's connector, where that can tell."""
    side = sink_side(sink.connector)
    if not isinstance(side, ChecksCode):
        return []
    return list(side.code_problems(sink.options, builder.context(sink)))


def streamed_paths(frame: DataFrame) -> tuple[str, ...]:
    """The path of each source of a query as Spark has it; empty for what is no folder of files.

    They stand in the order of the plan, by which Spark numbers the sources of a checkpoint.
    """
    return tuple(map(stream_path, distinct_streams(frame)))


def batch_problems(builder: Builder) -> Iterator[Problem]:
    """The tables that only a stream can compute; what reads such a table is not blamed as well."""
    blamed = set[str]()
    for table in (table for table in builder.spec.tables if table.name in builder.frames):
        try:
            check_batch(builder.spark, builder.frames[table.name])
        except SPARK_ERRORS as error:
            says = sentence_of(error)
            if not _STREAM_ONLY.search(says):
                yield sql_problem(error, table)
            elif says not in blamed:
                blamed.add(says)
                # Spark's sentence begins with the call that has no batch form.
                call = says.partition(" ")[0]
                yield NO_BATCH_FORM.at(table.position, what="The table", name=table.name, connector=call)


def refused_by_spark(spark: SparkSession, frame: DataFrame, mode: Mode) -> Exception | None:
    """What Spark has against a query and its mode: what it would say at the start, or in the first batch."""
    try:
        check_streaming(spark, frame, mode)
    except SPARK_ERRORS as error:
        return error
    return None


def refusal_of(spark: SparkSession, frame: DataFrame, mode: Mode) -> Refusal | None:
    """The same as plain data."""
    return as_refusal(refused_by_spark(spark, frame, mode))


def continuous_refusal_of(spark: SparkSession, frame: DataFrame, mode: Mode) -> Refusal | None:
    """What Spark has against running a query continuously, which takes much less than batches do."""
    try:
        check_continuous(spark, frame, mode)
    except SPARK_ERRORS as error:
        return as_refusal(error)
    return None


def real_time_refusal_of(spark: SparkSession, frame: DataFrame) -> Refusal | None:
    """The join in the physical plan that can't run in real time; one whose static side is broadcast can."""
    found = _MOVING_JOIN.search(physical_plan(spark, frame))
    return Refusal("", found[0]) if found else None


def trigger_refusal_of(spark: SparkSession, frame: DataFrame, mode: Mode, trigger: str) -> Refusal | None:
    """What Spark has against a query under its trigger, where it has nothing against the query alone."""
    if trigger.startswith("continuous "):
        return continuous_refusal_of(spark, frame, mode)
    return real_time_refusal_of(spark, frame) if trigger.startswith("real time ") else None


def as_refusal(error: Exception | None) -> Refusal | None:
    """A refusal of Spark's as plain data."""
    return Refusal(condition_of(error), sentence_of(error)) if error else None
