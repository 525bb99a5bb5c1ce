"""How many rows each batch of a query passes to its sink, from the metrics of Spark's own operators.

Spark does not report the number for its file sink. `observe` counts the rows once more, which costs a tenth of
a small batch. Spark's operators have counted them already; a class in Headwater's jar looks the number up.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.local_files import has_jar
from headwater.spark.plans import analyzed
from headwater.spark.private import JavaObject, items_of, java_session, jvm_of, kind_of

_QUEUE = "streams"
_WAIT_MILLISECONDS = 2_000
_KEEP_OR_COUNT = frozenset(
    {"Project", "SubqueryAlias", "View", "Filter", "EventTimeWatermark", "CollectMetrics"}
)
"""Logical operators that keep every row, or whose physical operators count them."""
_COUNT = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "StreamingRelation",
        "StreamingRelationV2",
    }
)
"""Logical operators whose physical operators count the rows that they produce."""


class OutputRows:
    """The numbers of a JVM's queries, from `open` to `close`."""

    def __init__(self, spark: SparkSession) -> None:
        self._counter: JavaObject = jvm_of(spark).headwater.queries.OutputRows()
        self._bus: JavaObject = java_session(spark).sparkContext().listenerBus()
        self.is_open = False
        """False also if this Spark does not report metrics in this way."""

    def open(self) -> None:
        """Receive the metrics of each batch: in the queue of streaming events, and so before its progress."""
        with suppress(Py4JError):
            self._bus.addToQueue(self._counter, _QUEUE)
            self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._bus.removeListener(self._counter)

    def of(self, run_id: str, batch: int, *, wait: bool = True) -> int | None:
        """The rows of a batch that has ended; None if Spark did not report its metrics.

        They may arrive shortly after Spark's own report of the batch, for which this waits.
        """
        if not self.is_open:
            return None
        found = int(self._counter.of(run_id, batch, _WAIT_MILLISECONDS if wait else 0))
        return found if found >= 0 else None


def output_rows(spark: SparkSession) -> OutputRows | None:
    """The numbers of a session; None if the JVM does not have the jar."""
    return OutputRows(spark) if has_jar(jvm_of(spark)) else None


def are_counted(frame: DataFrame) -> bool:
    """Whether Spark's operators count the rows of this DataFrame; for others, such as `explode`, use `observe`.

    Spark plans a query with a subquery in a different way (adaptively), which hides the counts.
    """
    node = analyzed(frame)
    patterns = jvm_of(frame.sparkSession).org.apache.spark.sql.catalyst.trees.TreePattern
    if node.containsPattern(patterns.PLAN_EXPRESSION()):
        return False
    return _is_counted(node, patterns)


def _is_counted(node: JavaObject, patterns: JavaObject) -> bool:
    while kind_of(node) in _KEEP_OR_COUNT:
        (node,) = items_of(node.children())
    if kind_of(node) == "Union":
        return all(_is_counted(each, patterns) for each in items_of(node.children()))
    if kind_of(node) == "GlobalLimit":
        # With an order or, in the other output modes, an aggregation, Spark uses an operator without a count.
        return not any(node.containsPattern(each) for each in (patterns.SORT(), patterns.AGGREGATE()))
    if kind_of(node) == "Join":
        # Spark plans a join with static rows adaptively, which hides the counts.
        return all(bool(each.isStreaming()) for each in items_of(node.children()))
    return kind_of(node) in _COUNT
