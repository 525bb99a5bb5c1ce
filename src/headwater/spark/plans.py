"""Spark's logical plans: taken from a DataFrame or a SQL text, traversed, and rebuilt."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import lit

from headwater.events.idle import QueryInputs
from headwater.spark.private import (
    JavaObject,
    identity_of,
    is_instance,
    items_of,
    java_frame,
    java_session,
    jvm_of,
    kind_of,
    scala_object,
    scala_sequence,
    session_state,
)
from headwater.spec import Mode

_STREAMS = ("StreamingRelation", "StreamingRelationV2")
_PROCESSOR = "TransformWithStateInPySpark"
WATERMARK = "EventTimeWatermark"
_READERS: WeakKeyDictionary[DataFrame, PlanReader] = WeakKeyDictionary()


def analyzed(frame: DataFrame) -> JavaObject:
    """The plan of a DataFrame, before Spark optimizes it (`queryExecution.analyzed`)."""
    return java_frame(frame).queryExecution().analyzed()


def optimized(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan as Spark will run it, but for the sources (`sessionState.optimizer`)."""
    return session_state(spark).optimizer().execute(plan)


def parsed(spark: SparkSession, text: str) -> JavaObject:
    """The plan of a text of SQL, as Spark's parser reads it (`sessionState.sqlParser`)."""
    return session_state(spark).sqlParser().parsePlan(text)


def frame_of_plan(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """A DataFrame over a plan (`classic.Dataset.ofRows`)."""
    rows = jvm_of(spark).org.apache.spark.sql.classic.Dataset.ofRows(java_session(spark), plan)
    return ClassicDataFrame(rows, spark)


def empty_like(rows: DataFrame) -> DataFrame:
    """No rows, with the same columns: its plan is nothing but them (`createDataFrame` of the JVM)."""
    spark = rows.sparkSession
    no_rows = jvm_of(spark).java.util.ArrayList()
    empty = java_session(spark).createDataFrame(no_rows, java_frame(rows).schema())
    return DataFrame(empty, spark)


def is_command(spark: SparkSession, plan: JavaObject) -> bool:
    """Whether a parsed plan is a `Command` or a `ParsedStatement`, which acts when it is handed to Spark."""
    logical = jvm_of(spark).org.apache.spark.sql.catalyst.plans.logical
    return any(is_instance(spark, plan, kind) for kind in (logical.Command, logical.ParsedStatement))


# The walk through a plan.


def nodes_of(plan: JavaObject) -> Iterator[JavaObject]:
    """A plan and everything below it, from the top."""
    yield plan
    for child in items_of(plan.children()):
        yield from nodes_of(child)


def streams_below(node: JavaObject) -> Iterator[JavaObject]:
    """The streams at the end of a part of a plan, in its order."""
    return (leaf for leaf in items_of(node.collectLeaves()) if kind_of(leaf) in _STREAMS)


def read_by(leaf: JavaObject) -> JavaObject:
    """What a leaf reads, which stays the same object when a self-join gives its columns new numbers."""
    match kind_of(leaf):
        case "StreamingRelation":
            return leaf.dataSource()
        case "StreamingRelationV2" | "DataSourceV2Relation":
            return leaf.table()
        case "LogicalRelation":
            return leaf.relation()
        case "LogicalRDD":
            return leaf.rdd()
    return leaf


def stream_names(sources: Mapping[str, DataFrame]) -> dict[int, str]:
    """The names of streams by the identity of what they read."""
    return {number: name for name, source in sources.items() for number in PlanReader.of(source).stream_ids}


def stream_name(spark: SparkSession, leaf: JavaObject, names: Mapping[int, str]) -> str:
    """The user's name for a stream, or else Spark's."""
    return names.get(identity_of(spark)(read_by(leaf))) or str(leaf.sourceName())


@dataclass(frozen=True)
class PlanReader:
    """The analyzed plan of a DataFrame, walked once: each question to the JVM takes its time."""

    spark: SparkSession
    nodes: tuple[tuple[str, JavaObject], ...]
    """Every node and its kind, from the top."""

    @classmethod
    def of(cls, frame: DataFrame) -> PlanReader:
        """The reader of a DataFrame, whose plan never changes."""
        if frame not in _READERS:
            nodes = tuple((kind_of(node), node) for node in nodes_of(analyzed(frame)))
            _READERS[frame] = cls(frame.sparkSession, nodes)
        return _READERS[frame]

    def of_kind(self, *kinds: str) -> list[JavaObject]:
        """The nodes of some kinds."""
        return [node for kind, node in self.nodes if kind in kinds]

    @cached_property
    def leaves(self) -> list[JavaObject]:
        """What the plan reads: streams, files and tables.

        What is equal shares one source when the query starts; what is joined with itself is not equal.
        """
        found: list[JavaObject] = []
        for leaf in self.of_kind(*_STREAMS, "LogicalRelation", "DataSourceV2Relation"):
            if leaf not in found:
                found.append(leaf)
        return found

    @property
    def streams(self) -> list[JavaObject]:
        """The streams in the order of the plan, by which Spark numbers the sources of a checkpoint."""
        return [leaf for leaf in self.leaves if kind_of(leaf) in _STREAMS]

    @cached_property
    def stream_ids(self) -> tuple[int, ...]:
        """The identity of what each stream reads."""
        identity = identity_of(self.spark)
        return tuple(identity(read_by(leaf)) for leaf in self.of_kind(*_STREAMS))

    @property
    def paths(self) -> tuple[str, ...]:
        """The path of each stream as Spark has it; empty for what is no folder of files."""
        found = (
            leaf.dataSource().options().get("path") if kind_of(leaf) == _STREAMS[0] else None
            for leaf in self.streams
        )
        return tuple(str(path.get()) if path is not None and path.isDefined() else "" for path in found)

    def inputs(self, sources: Mapping[str, DataFrame]) -> QueryInputs:
        """What a query reads; `sources` are the DataFrames of the streams that it can read, by name.

        A stream that a table function opens directly has Spark's name.
        """
        names = stream_names(sources)
        marks = {str(node.nodeId()): self._names_below(node, names) for node in self.of_kind(WATERMARK)}
        streams = (stream_name(self.spark, each, names) for each in self.streams)
        return QueryInputs(tuple(streams), marks)

    def _names_below(self, node: JavaObject, names: Mapping[int, str]) -> tuple[str, ...]:
        """The names of all streams whose rows pass a node, each once."""
        found: dict[str, None] = {}
        for leaf in items_of(node.collectLeaves()):
            kind = kind_of(leaf)
            if kind in _STREAMS:
                found[stream_name(self.spark, leaf, names)] = None
            elif kind == "CTERelationRef":
                named = self._named_parts[int(leaf.cteId())]
                found |= dict.fromkeys(self._names_below(named, names))
        return tuple(found)

    @cached_property
    def _named_parts(self) -> dict[int, JavaObject]:
        """What `WITH` names, by Spark's number for it."""
        return {int(node.id()): node for node in self.of_kind("CTERelationDef")}


# What single nodes tell.


def delay_of(spark: SparkSession, watermark: JavaObject) -> int:
    """The delay of a watermark in milliseconds (`EventTimeWatermark.getDelayMs`)."""
    kind = jvm_of(spark).org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    return int(kind.getDelayMs(watermark.delay()))


def equal_in(spark: SparkSession, join: JavaObject) -> tuple[str, ...]:
    """What a join has equal on both sides, as SQL (`ExtractEquiJoinKeys`)."""
    planning = jvm_of(spark).org.apache.spark.sql.catalyst.planning
    found = scala_object(planning, "ExtractEquiJoinKeys").unapply(join)
    if not found.isDefined():
        return ()
    sides = zip(items_of(found.get()._2()), items_of(found.get()._3()), strict=True)
    return tuple(f"{left.sql()} = {right.sql()}" for left, right in sides)


@dataclass(frozen=True)
class JoinState:
    """`StreamingJoinHelper`, asked about one join of streams."""

    spark: SparkSession
    join: JavaObject

    @property
    def in_keys(self) -> bool:
        """Whether the keys of the join have a watermark."""
        return bool(self._helper().isWatermarkInJoinKeys(self.join))

    def watermark(self, mine: JavaObject, other: JavaObject, now: int) -> int | None:
        """How old rows of one side may get when both watermarks are `now`; None if they are kept for good."""
        at = scala_object(jvm_of(self.spark).scala, "Some").apply(now)
        found = self._helper().getStateValueWatermark(
            mine.outputSet(), other.outputSet(), self.join.condition(), at
        )
        return int(found.get()) if found.isDefined() else None

    def _helper(self) -> JavaObject:
        return scala_object(jvm_of(self.spark).org.apache.spark.sql.catalyst.analysis, "StreamingJoinHelper")


def processor_of(spark: SparkSession, operator: JavaObject) -> Any:
    """A copy of the processor of a `transformWithState`, from the bytes that Spark sends to its workers."""
    command = operator.functionExpr().func().command()
    sent = bytes(command.toArray(jvm_of(spark).scala.reflect.ClassTag.Byte()))
    function, _ = pickle.loads(sent)
    return function.__self__._stateful_processor


def extend_processor_paths(frame: DataFrame, folders: Iterable[str]) -> None:
    """Add folders to the Python path of every processor in a plan (`functionExpr.func.envVars`).

    Spark asks a processor for its state variables in a Python process on the driver, to which it hands none
    of the files that executors get. Its search path comes from the environment the function was made with.
    """
    for node in PlanReader.of(frame).of_kind(_PROCESSOR):
        variables = node.functionExpr().func().envVars()
        known = str(variables.get("PYTHONPATH") or "").split(os.pathsep)
        path = dict.fromkeys(each for each in (*known, *folders) if each)
        variables.put("PYTHONPATH", os.pathsep.join(path))


# Rebuilds a plan: without its sources, and with single rules of Spark's optimizer.


def with_children(spark: SparkSession, plan: JavaObject, children: Iterable[JavaObject]) -> JavaObject:
    """The same node above others."""
    return plan.withNewChildren(scala_sequence(spark, children))


def leaf_like(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """A leaf with the columns of a plan, and no rows (`LogicalRDD`)."""
    jvm = jvm_of(spark)
    none = scala_object(jvm.scala, "None")
    return jvm.org.apache.spark.sql.execution.LogicalRDD(
        plan.output(),
        None,
        jvm.org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(0),
        scala_sequence(spark, []),
        plan.isStreaming(),
        none,
        java_session(spark),
        none,
        none,
    )


def inlined(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan with `WITH` clauses where they are used (`InlineCTE`); one that is used twice is copied."""
    return jvm_of(spark).org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(plan)


def analysis_rule(spark: SparkSession, name: str) -> JavaObject:
    """A rule of `catalyst.analysis`, with an `apply` for plans."""
    return scala_object(jvm_of(spark).org.apache.spark.sql.catalyst.analysis, name)


def optimizer_rule(spark: SparkSession, name: str) -> JavaObject:
    """A rule of `catalyst.optimizer`, with an `apply` for plans."""
    return scala_object(jvm_of(spark).org.apache.spark.sql.catalyst.optimizer, name)


# Spark's streaming checker and its planner, asked before a query starts.


def check_streaming(spark: SparkSession, frame: DataFrame, mode: Mode) -> None:
    """Check a query with `UnsupportedOperationChecker` and the planner; they raise an error if they reject it.

    The checker inspects the analyzed plan. Some later failures appear only in the optimized plan, in which
    `WITH` is inlined and EXCEPT becomes an aggregation. The planner reports the rest.
    """
    checker, asked = _checker(spark), output_mode(spark, mode)
    plan = analyzed(frame)
    checker.checkForStreaming(plan, asked)
    checker.checkForStreaming(optimized(spark, plan), asked)
    physical_plan(spark, frame)


def check_continuous(spark: SparkSession, frame: DataFrame, mode: Mode) -> None:
    """Check a continuous query with `UnsupportedOperationChecker`."""
    _checker(spark).checkForContinuous(analyzed(frame), output_mode(spark, mode))


def check_batch(spark: SparkSession, frame: DataFrame) -> None:
    """Check a batch query with `UnsupportedOperationChecker` and the planner."""
    planned = java_frame(frame).queryExecution()
    _checker(spark).checkForBatch(planned.analyzed())
    planned.sparkPlan()


def physical_plan(spark: SparkSession, frame: DataFrame) -> str:
    """Spark's plan as text (`ExplainMode`); a streaming query is planned as its first batch would be."""
    mode = jvm_of(spark).org.apache.spark.sql.execution.ExplainMode.fromString("simple")
    # A DataFrame from `spark.sql` contains its unresolved text, which Spark does not recognize as a stream; a
    # filter that the optimizer removes makes it start from the analyzed plan.
    return str(java_frame(frame.filter(lit(True))).queryExecution().explainString(mode))


def output_mode(spark: SparkSession, mode: Mode) -> JavaObject:
    """A mode as Spark's JVM has it."""
    modes = jvm_of(spark).org.apache.spark.sql.streaming.OutputMode
    return {Mode.APPEND: modes.Append, Mode.UPDATE: modes.Update, Mode.COMPLETE: modes.Complete}[mode]()


def _checker(spark: SparkSession) -> JavaObject:
    analysis = jvm_of(spark).org.apache.spark.sql.catalyst.analysis
    return scala_object(analysis, "UnsupportedOperationChecker")
