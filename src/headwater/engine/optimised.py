"""What only Spark's optimised plan tells: how long joins keep rows, and which event times come together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from headwater.engine.inputs import kind_of, nodes_of, stream_name, streams_below
from headwater.plan.tree import Clash, JoinReach, SideReach

# A watermark that py4j passes as a long; what comes back is told from it.
_NOW = 1_000_000_000_000
_DELAY_KEY = "spark.watermarkDelayMs"
_MARK = re.compile(r"(.+#\d+)-T\d+ms$")
_BETWEEN = "\x01"
_KEEPING = (
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "FlatMapGroupsInPandasWithState",
    "TransformWithStateInPySpark",
)


def join_reaches(spark: SparkSession, plan: Any, names: Mapping[int, str]) -> tuple[JoinReach, ...]:
    """The joins of two streams in an optimised plan, from the top; `names` are those of the streams.

    A range in a WHERE clause gets into the join's condition only there, and BETWEEN is taken apart.
    """
    return tuple(_reach(spark, node, names) for node in nodes_of(plan) if _of_streams(node))


def optimised(spark: SparkSession, plan: Any) -> Any:
    """The plan as Spark will run it, but for the sources."""
    return spark._jsparkSession.sessionState().optimizer().execute(plan)


def clashes_in(plan: Any) -> tuple[Clash, ...]:
    """The operators of an optimised plan, from the top, to which several columns with a watermark come."""
    found = ((kind_of(node), _marked(node)) for node in nodes_of(plan) if node.isStreaming())
    return tuple(Clash(kind, columns) for kind, columns in found if len(columns) > 1)


def _marked(node: Any) -> tuple[str, ...]:
    """The columns with a watermark by which an operator would have to clear what it keeps."""
    kind = kind_of(node)
    if kind == "Aggregate":
        given = node.groupingExpressions()
    elif kind in _KEEPING:
        given = node.children().apply(0).output()
    else:
        return ()
    written = str(given.mkString(_BETWEEN)).split(_BETWEEN)
    return tuple(dict.fromkeys(found[1] for found in map(_MARK.match, written) if found))


def _of_streams(node: Any) -> bool:
    return kind_of(node) == "Join" and node.left().isStreaming() and node.right().isStreaming()


def _reach(spark: SparkSession, join: Any, names: Mapping[int, str]) -> JoinReach:
    jvm: Any = spark._jvm
    helper = scala_object(jvm.org.apache.spark.sql.catalyst.analysis, "StreamingJoinHelper")
    in_keys = bool(helper.isWatermarkInJoinKeys(join))
    now = scala_object(jvm.scala, "Some").apply(_NOW)

    def side(mine: Any, other: Any) -> SideReach:
        streams = tuple(sorted({stream_name(spark._jvm, leaf, names) for leaf in streams_below(mine)}))
        if in_keys:
            return SideReach(True, 0, streams)
        found = helper.getStateValueWatermark(mine.outputSet(), other.outputSet(), join.condition(), now)
        if not found.isDefined() or not _has_watermark(mine):
            return SideReach(False, 0, streams)
        behind = _NOW - int(found.get())
        # A bound that includes its end is a millisecond further away.
        return SideReach(True, behind - 1 if behind % 10 == 1 else behind, streams)

    return JoinReach(side(join.left(), join.right()), side(join.right(), join.left()), in_keys)


def equal_in(spark: SparkSession, join: Any) -> tuple[str, ...]:
    """What a join has equal on both sides, as SQL."""
    jvm: Any = spark._jvm
    found = scala_object(jvm.org.apache.spark.sql.catalyst.planning, "ExtractEquiJoinKeys").unapply(join)
    if not found.isDefined():
        return ()
    left, right = found.get()._2(), found.get()._3()
    return tuple(f"{left.apply(each).sql()} = {right.apply(each).sql()}" for each in range(left.size()))


def _has_watermark(plan: Any) -> bool:
    return f'"{_DELAY_KEY}"' in str(plan.schema().json())


def scala_object(package: Any, name: str) -> Any:
    """The one instance of a Scala object, such as a rule of the optimizer."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
