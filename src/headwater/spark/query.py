"""A running query, asked and ended through Spark's own object of its execution (`StreamExecution`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.events.idle import InputMark, QueryInputs
from headwater.spark.checker import output_mode
from headwater.spark.clock import StepClock
from headwater.spark.private import (
    JavaObject,
    accept_calls,
    class_name,
    items_of,
    java_frame,
    jvm_of,
    private_field,
    scala_object,
    session_state,
    texts_of,
)
from headwater.spark.writer import Target
from headwater.spec import Mode

_START = re.compile(r"\.startQuery\(([^)]*)\)")
_WITH_SINK_NAME = 13


@dataclass(frozen=True)
class Waiting:
    """Files that wait for later batches of one source."""

    path: str
    files: int
    at_most: int | None
    """How many a batch takes; None where it is bounded in another way."""


def execution_of(handle: StreamingQuery) -> JavaObject:
    """`StreamExecution`, inside of the handle's `_jsq`."""
    return handle._jsq.streamingQuery()


def thread_lives(handle: StreamingQuery) -> bool:
    """Whether the query's thread still works (`queryExecutionThread`)."""
    return bool(execution_of(handle).queryExecutionThread().isAlive())


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


def waiting_files(handle: StreamingQuery) -> tuple[Waiting, ...]:
    """The files that a query's sources have seen and left for later batches, where they have a limit."""
    found = map(_waiting, items_of(execution_of(handle).logicalPlan().collectLeaves()))
    return tuple(each for each in found if each)


def _waiting(leaf: JavaObject) -> Waiting | None:
    if class_name(leaf) != "StreamingExecutionRelation":
        return None
    source = leaf.source()
    if class_name(source) != "FileStreamSource":
        return None
    files, limit = private_field(source, "unreadFiles"), source.getDefaultReadLimit()
    by_files = class_name(limit) == "ReadMaxFiles"
    path = str(source.toString()).removeprefix("FileStreamSource[").removesuffix("]").removeprefix("file:")
    return Waiting(path, files.size() if files else 0, limit.maxFiles() if by_files else None)


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
    # Since 4.2 a sink may have a name, too, by which Spark would tell apart the sinks of one checkpoint.
    sink_name = () if _start_arguments(spark, manager) < _WITH_SINK_NAME else (option.empty(),)
    query = manager.startQuery(
        option.apply(name),
        *sink_name,
        option.apply(str(checkpoint)),
        java_frame(frame),
        sink.options,
        sink.table,
        output_mode(spark, mode),
        False,  # no temporary checkpoint in place of this one
        True,  # go on from the checkpoint
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
