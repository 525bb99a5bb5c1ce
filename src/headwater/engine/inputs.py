"""What a query reads in the user's names: its sources in Spark's order, and the sources of each watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from pyspark.sql import DataFrame

from headwater.events.idle import InputMark, QueryInputs

_STREAMS = ("StreamingRelation", "StreamingRelationV2")


def inputs_of(frame: DataFrame, sources: Mapping[str, DataFrame]) -> QueryInputs:
    """The inputs of a query; `sources` are the DataFrames of the streams that it may read, by their names.

    A stream that a table's function opens by itself goes by Spark's name for it.
    """
    plan = _Plan.of(frame, sources)
    leaves: list[Any] = []
    for leaf in streams_below(plan.root):
        # What is equal shares one source when the query starts; what is joined with itself is not equal.
        if leaf not in leaves:
            leaves.append(leaf)
    marks = (node for node in nodes_of(plan.root) if kind_of(node) == "EventTimeWatermark")
    watermarks = {str(node.nodeId()): plan.names_below(node) for node in marks}
    return QueryInputs(tuple(plan.name_of(leaf) for leaf in leaves), watermarks)


def marks_of(execution: Any, inputs: QueryInputs) -> tuple[tuple[InputMark, ...], datetime | None]:
    """How far each watermark of a running query has come, and the watermark that its next batch will use.

    Spark's progress has only the whole; its tracker is asked for the parts. It is made with the first batch.
    """
    tracker = execution.watermarkTracker()
    if tracker is None:
        return (), None
    # The parts come first: should a batch end in between, the whole is the newer one, and nothing seems held.
    reached = dict(_reached(tracker.watermarkMap()))
    marks = tuple(InputMark(names, reached.get(node)) for node, names in inputs.watermarks.items())
    return marks, moment(int(tracker.currentWatermark()))


@dataclass(frozen=True)
class _Plan:
    """An analysed plan, with what its parts refer to."""

    root: Any
    jvm: Any
    names: Mapping[int, str]
    """The names of streams by the identity of what they read."""
    parts: Mapping[int, Any]
    """What `WITH` names, by Spark's number for it."""

    @classmethod
    def of(cls, frame: DataFrame, sources: Mapping[str, DataFrame]) -> _Plan:
        root, jvm = analysed(frame), frame.sparkSession._jvm
        parts = {int(node.id()): node for node in nodes_of(root) if kind_of(node) == "CTERelationDef"}
        return cls(root, jvm, stream_names(frame, sources), parts)

    def names_below(self, node: Any) -> tuple[str, ...]:
        """The names of all streams whose rows pass a node, each once."""
        found: dict[str, None] = {}
        for each in nodes_of(node):
            if kind_of(each) in _STREAMS:
                found[self.name_of(each)] = None
            elif kind_of(each) == "CTERelationRef":
                found |= dict.fromkeys(self.names_below(self.parts[int(each.cteId())]))
        return tuple(found)

    def name_of(self, leaf: Any) -> str:
        return stream_name(self.jvm, leaf, self.names)


def stream_names(frame: DataFrame, sources: Mapping[str, DataFrame]) -> dict[int, str]:
    """The names of streams by the identity of what they read."""
    jvm = frame.sparkSession._jvm
    return {
        _identity(jvm, leaf): name
        for name, source in sources.items()
        for leaf in nodes_of(analysed(source))
        if kind_of(leaf) in _STREAMS
    }


def streams_below(node: Any) -> Iterator[Any]:
    """The streams at the end of a part of a plan, in its order."""
    return (each for each in nodes_of(node) if kind_of(each) in _STREAMS)


def stream_name(jvm: Any, leaf: Any, names: Mapping[int, str]) -> str:
    """The user's name for a stream, or else Spark's."""
    return names.get(_identity(jvm, leaf)) or str(leaf.sourceName())


@cache
def identity_of(jvm: Any) -> Callable[[Any], int]:
    """The JVM's number for an object; looked up once, since py4j asks for each part of a name."""
    number = jvm.java.lang.System.identityHashCode
    return lambda thing: int(number(thing))


def _identity(jvm: Any, leaf: Any) -> int:
    """What stays the same when a stream gets new columns in a join, and differs for two that look alike."""
    reads = leaf.dataSource() if kind_of(leaf) == "StreamingRelation" else leaf.table()
    return identity_of(jvm)(reads)


def _reached(parts: Any) -> Iterator[tuple[str, datetime | None]]:
    each = parts.iterator()
    while each.hasNext():
        pair = each.next()
        yield str(pair._1()), moment(int(pair._2().get())) if pair._2().isDefined() else None


def moment(milliseconds: int) -> datetime | None:
    """A watermark; Spark has 1970 where there is none yet."""
    return datetime.fromtimestamp(milliseconds / 1_000, UTC) if milliseconds else None


def nodes_of(plan: Any) -> Iterator[Any]:
    """A plan and everything below it, from the top."""
    yield plan
    for child in items_of(plan.children()):
        yield from nodes_of(child)


def items_of(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def analysed(frame: DataFrame) -> Any:
    """The plan of a DataFrame, before Spark optimises it."""
    return frame._jdf.queryExecution().analyzed()


def kind_of(node: Any) -> str:
    """The name of a node's class."""
    return str(node.getClass().getSimpleName())
