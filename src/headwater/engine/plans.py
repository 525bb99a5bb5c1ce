"""What a query reads in the user's names: its sources in Spark's order, and the sources of each watermark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from headwater.engine.project_code import driver_path
from headwater.errors import PipelineError
from headwater.errors.catalogue.pipelines import SQL_NOT_A_QUERY
from headwater.events.idle import InputMark, QueryInputs
from headwater.plan import Reference
from headwater.plan.tree import Clash, JoinReach, SideReach
from headwater.spec import TableSpec

_STREAMS = ("StreamingRelation", "StreamingRelationV2")
# A source's frame is asked for every query that may read it, and never changes.
_READ_BY: WeakKeyDictionary[DataFrame, tuple[int, ...]] = WeakKeyDictionary()


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
    watermarks = {str(node.nodeId()): plan.names_below(node) for node in plan.marks}
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
    marks: tuple[Any, ...]
    """The nodes that carry a watermark."""
    parts: Mapping[int, Any]
    """What `WITH` names, by Spark's number for it."""

    @classmethod
    def of(cls, frame: DataFrame, sources: Mapping[str, DataFrame]) -> _Plan:
        root, jvm = analysed(frame), frame.sparkSession._jvm
        nodes = [(kind_of(node), node) for node in nodes_of(root)]
        marks = tuple(node for kind, node in nodes if kind == "EventTimeWatermark")
        parts = {int(node.id()): node for kind, node in nodes if kind == "CTERelationDef"}
        return cls(root, jvm, stream_names(frame, sources), marks, parts)

    def names_below(self, node: Any) -> tuple[str, ...]:
        """The names of all streams whose rows pass a node, each once."""
        found: dict[str, None] = {}
        for each in items_of(node.collectLeaves()):
            kind = kind_of(each)
            if kind in _STREAMS:
                found[self.name_of(each)] = None
            elif kind == "CTERelationRef":
                found |= dict.fromkeys(self.names_below(self.parts[int(each.cteId())]))
        return tuple(found)

    def name_of(self, leaf: Any) -> str:
        return stream_name(self.jvm, leaf, self.names)


def stream_names(frame: DataFrame, sources: Mapping[str, DataFrame]) -> dict[int, str]:
    """The names of streams by the identity of what they read."""
    jvm = frame.sparkSession._jvm
    names: dict[int, str] = {}
    for name, source in sources.items():
        if source not in _READ_BY:
            _READ_BY[source] = tuple(_identity(jvm, leaf) for leaf in streams_below(analysed(source)))
        names |= dict.fromkeys(_READ_BY[source], name)
    return names


def streams_below(node: Any) -> Iterator[Any]:
    """The streams at the end of a part of a plan, in its order."""
    return (leaf for leaf in items_of(node.collectLeaves()) if kind_of(leaf) in _STREAMS)


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
    """The name of the class of a node, which is a case class: one question where the class takes two."""
    return str(node.productPrefix())


# What only Spark's optimised plan tells: how long joins keep rows, and which event times come together.

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


# Which tables a SQL text reads, told by Spark's own parser.

_ACTING = ("Call", "InsertIntoDir", "UnresolvedExecuteImmediate")
"""What acts, too, and is neither a command nor a statement for Spark's parser."""
_AROUND_STATEMENTS = ("UnresolvedWith", "Union")
"""What may stand around a statement: `WITH … INSERT`, and `FROM … INSERT … INSERT …`, which is a union."""


def parsed_references(spark: SparkSession, table: TableSpec) -> tuple[Reference, ...]:
    """The tables that a SQL table reads by name. A statement that is no query is refused, never run."""
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(table.sql or "")
    kind = plan.nodeName()
    if _is_command(spark, plan):
        raise PipelineError(SQL_NOT_A_QUERY.at(table.position, name=table.name, kind=kind))
    found: dict[str, Reference] = {}
    _walk(plan, frozenset(), found)
    return tuple(sorted(found.values(), key=Reference.place))


def _is_command(spark: SparkSession, plan: Any) -> bool:
    """Commands and statements would act as soon as the text is handed to Spark."""
    name = plan.nodeName()
    if name in _ACTING:
        return True
    if name in _AROUND_STATEMENTS:
        return any(_is_command(spark, child) for child in items_of(plan.children()))
    jvm: Any = spark._jvm
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    is_instance = jvm.py4j.reflection.TypeUtil.isInstanceOf
    kinds = (logical.Command, logical.ParsedStatement)
    return any(is_instance(kind._java_lang_class, plan) for kind in kinds)


def _walk(plan: Any, hidden: frozenset[str], found: dict[str, Reference]) -> None:
    """Collect the names below a plan; `hidden` are the names of WITH clauses in scope."""
    name = plan.nodeName()
    if name == "UnresolvedRelation":
        parts = items_of(plan.multipartIdentifier())
        if len(parts) == 1 and parts[0].lower() not in hidden:
            line, column = _origin(plan)
            reference = Reference(parts[0], line, column)
            known = found.setdefault(parts[0].lower(), reference)
            found[parts[0].lower()] = min(known, reference, key=Reference.place)
        return
    if name == "RelationTimeTravel":
        _walk(plan.relation(), hidden, found)
        return
    if name == "UnresolvedWith":
        for relation in items_of(plan.cteRelations()):
            own = {str(relation._1()).lower()}
            _walk(relation._2(), hidden | own if plan.allowRecursion() else hidden, found)
            hidden |= own
    for child in items_of(plan.children()):
        _walk(child, hidden, found)
    for subquery in items_of(plan.subqueries()):
        _walk(subquery, hidden, found)


def _origin(plan: Any) -> tuple[int, int]:
    origin = plan.origin()
    line, column = origin.line(), origin.startPosition()
    return (line.get() if line.isDefined() else 1), (column.get() + 1 if column.isDefined() else 1)


# The processors of `transformWithState` in a plan.

_PROCESSOR = "TransformWithStateInPySpark"


def let_processors_find_their_modules(frame: DataFrame) -> None:
    """Add the shipped modules to the search path of every processor in the plan.

    Spark asks a processor for its state variables in a Python process on the driver, to which it hands none
    of the files that executors get. Its search path comes from the environment the function was made with.
    """
    for node in nodes_of(analysed(frame)):
        if kind_of(node) == _PROCESSOR:
            variables = node.functionExpr().func().envVars()
            known = str(variables.get("PYTHONPATH") or "").split(os.pathsep)
            path = dict.fromkeys(each for each in (*known, *driver_path()) if each)
            variables.put("PYTHONPATH", os.pathsep.join(path))
