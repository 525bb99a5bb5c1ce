"""Spark's analyzed plan, read once into plain data.

The plan's own JSON has the structure and the expressions in a single call, but neither watermarks nor the
columns that carry them; those are read node by node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.engine.state_variables import state_variables
from headwater.errors import PipelineError
from headwater.errors.catalogue.pipelines import SQL_NOT_A_QUERY
from headwater.plan import Reference
from headwater.plan.operators import (
    Clash,
    Column,
    JoinReach,
    Node,
    PlanRecord,
    SideReach,
    Term,
    UnstableExpression,
)
from headwater.spark.plans import (
    JoinState,
    analyzed,
    delay_of,
    equal_in,
    is_command,
    nodes_of,
    optimized,
    parsed,
    read_by,
    stream_name,
    stream_names,
    streams_below,
)
from headwater.spark.private import JavaObject, identity_of, items_of, kind_of
from headwater.spec import TableSpec

# Joins and event times from Spark's optimized plan, and the tables in a SQL text from its parser.

# A watermark that py4j passes as a long; the result is compared with it.
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


def _with_optimized(
    spark: SparkSession, root: Node, plan: JavaObject, names: Mapping[int, str]
) -> PlanRecord:
    """A plan with its stream-stream joins and the operators that receive several watermarks, from the top.

    A range in a WHERE clause becomes part of a join's condition only in the optimizer, which also splits
    BETWEEN.
    """
    nodes = [(kind_of(node), node) for node in nodes_of(optimized(spark, plan)) if node.isStreaming()]
    joins = [node for kind, node in nodes if kind == "Join"]
    of_streams = [node for node in joins if node.left().isStreaming() and node.right().isStreaming()]
    marked = ((kind, _marked(kind, node)) for kind, node in nodes)
    clashes = tuple(Clash(kind, columns) for kind, columns in marked if len(columns) > 1)
    return PlanRecord(root, tuple(_reach(spark, join, names) for join in of_streams), clashes)


def _marked(kind: str, node: JavaObject) -> tuple[str, ...]:
    """The columns with a watermark by which an operator would have to clear its state."""
    if kind == "Aggregate":
        given = node.groupingExpressions()
    elif kind in _KEEPING:
        given = node.children().apply(0).output()
    else:
        return ()
    written = str(given.mkString(_BETWEEN)).split(_BETWEEN)
    return tuple(dict.fromkeys(found[1] for found in map(_MARK.match, written) if found))


def _reach(spark: SparkSession, join: JavaObject, names: Mapping[int, str]) -> JoinReach:
    state = JoinState(spark, join)
    in_keys = state.in_keys

    def side(mine: JavaObject, other: JavaObject) -> SideReach:
        streams = tuple(sorted({stream_name(spark, leaf, names) for leaf in streams_below(mine)}))
        if in_keys:
            return SideReach(True, 0, streams)
        found = state.watermark(mine, other, _NOW)
        if found is None or f'"{_DELAY_KEY}"' not in str(mine.schema().json()):
            return SideReach(False, 0, streams)
        behind = _NOW - found
        # An inclusive bound is one millisecond further away.
        return SideReach(True, behind - 1 if behind % 10 == 1 else behind, streams)

    return JoinReach(side(join.left(), join.right()), side(join.right(), join.left()), in_keys)


# The tables that a SQL text reads, from Spark's own parser.

_ACTING = ("Call", "InsertIntoDir", "UnresolvedExecuteImmediate")
"""These also have side effects, but are neither commands nor statements for Spark's parser."""
_AROUND_STATEMENTS = ("UnresolvedWith", "Union")
"""What can enclose a statement: `WITH … INSERT`, and `FROM … INSERT … INSERT …`, which is a union."""


def parsed_references(spark: SparkSession, table: TableSpec) -> tuple[Reference, ...]:
    """The tables that a SQL table reads by name. A statement that is not a query is rejected, never run."""
    plan = parsed(spark, table.sql or "")
    kind = plan.nodeName()
    if _acts(spark, plan):
        raise PipelineError(SQL_NOT_A_QUERY.at(table.position, name=table.name, kind=kind))
    found: dict[str, Reference] = {}
    _walk(plan, frozenset(), found)
    return tuple(sorted(found.values(), key=Reference.place))


def _acts(spark: SparkSession, plan: JavaObject) -> bool:
    """Commands and statements would take effect as soon as Spark gets the text."""
    name = plan.nodeName()
    if name in _ACTING:
        return True
    if name in _AROUND_STATEMENTS:
        return any(_acts(spark, child) for child in items_of(plan.children()))
    return is_command(spark, plan)


def _walk(plan: JavaObject, hidden: frozenset[str], found: dict[str, Reference]) -> None:
    """Collect the names below a plan; `hidden` are the names of WITH clauses in scope."""
    name = plan.nodeName()
    if name == "UnresolvedRelation":
        parts = items_of(plan.multipartIdentifier())
        if len(parts) == 1 and parts[0].lower() not in hidden:
            line, column = _origin(plan)
            reference = Reference(parts[0], line or 1, column or 1)
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


_ATTRIBUTE = re.compile(r"#(\d+)L?(?:-T(-?\d+)ms)?$")

# Fields of these nodes that a message quotes, as SQL text from Spark.
_AS_SQL = {
    "Aggregate": ("groupingExpressions", "aggregateExpressions"),
    "Join": ("condition",),
    "EventTimeWatermark": ("eventTime",),
}
# Nodes whose input columns are needed.
_READS_COLUMNS = frozenset(
    {
        "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "Join", "EventTimeWatermark",
        "FlatMapGroupsInArrow", "FlatMapGroupsInPandas", "FlatMapGroupsInPandasWithState", "GlobalLimit",
        "LocalLimit", "TransformWithStateInPySpark",
    }
)  # fmt: skip
_STATES = ("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark")
_SCALARS = (str, int, float, bool)
_CHILDREN = ("child", "left", "right", "aggregateFunction", "plan")


@dataclass
class Owners:
    """Which source or table contributed a node to a plan: the first one whose plan contains it."""

    spark: SparkSession | None
    names: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, frames: Mapping[str, DataFrame]) -> Owners:
        """From the DataFrames in the order in which they were built."""
        owners = cls(next(iter(frames.values())).sparkSession if frames else None)
        for name, frame in frames.items():
            owners._add(name, analyzed(frame), identity_of(frame.sparkSession))
        return owners

    def name_of(self, node: JavaObject) -> str:
        """The owner of a node; empty if no declared source or table contributed it."""
        return self.names.get(identity_of(self.spark)(node), "") if self.spark else ""

    def _add(self, name: str, node: JavaObject, identity: Callable[[JavaObject], int]) -> None:
        number = identity(node)
        if number in self.names:
            return
        self.names[number] = name
        for child in items_of(node.children()):
            self._add(name, child, identity)


def record_of(frame: DataFrame, sources: Mapping[str, DataFrame], owners: Owners) -> PlanRecord:
    """The plan of a streaming DataFrame; `sources` give the streams in it their names."""
    plan = analyzed(frame)
    flat = iter(json.loads(plan.toJSON()))
    walk = _Walk(frame.sparkSession, owners, stream_names(sources))
    root = walk.node(plan, flat)
    if not any(map(_tells_more_optimized, root.walk())):
        return PlanRecord(root)
    return _with_optimized(frame.sparkSession, root, plan, walk.streams)


def _tells_more_optimized(node: Node) -> bool:
    """Whether a node is a join, or receives several columns with a watermark."""
    marked = {each.id for child in node.children for each in child.columns if each.delay_ms >= 0}
    return node.kind == "Join" or len(marked) > 1


@dataclass
class _Walk:
    """One pass through a plan and its JSON at the same time."""

    spark: SparkSession
    owners: Owners
    streams: Mapping[int, str]
    places: dict[str, list[int]] = field(default_factory=dict)
    """What each stream reads, in the order of the plan."""

    def node(self, plan: JavaObject, flat: Iterator[dict[str, Any]], *, columns: bool = False) -> Node:
        """A node and everything below; the JSON lists them in the same order, from the top."""
        said = next(flat)
        kind = said["class"].rpartition(".")[2]
        asks = kind in _READS_COLUMNS
        children = tuple(self.node(each, flat, columns=asks) for each in items_of(plan.children()))
        line, column = _origin(plan)
        stream, place = self._stream(kind, plan, said)
        return Node(
            kind=kind,
            children=children,
            terms=_terms_of(said),
            details=_details_of(said) | (_modes_of(plan) if kind in _STATES else {}) | place,
            sql=self._sql(kind, plan),
            columns=_columns_of(plan) if columns else (),
            changing=() if plan.deterministic() else tuple(_changing(plan)),
            variables=state_variables(self.spark, plan) if kind == "TransformWithStateInPySpark" else (),
            delay_ms=delay_of(self.spark, plan) if kind == "EventTimeWatermark" else -1,
            stream=stream,
            table=self.owners.name_of(plan),
            line=line,
            column=column,
        )

    def _sql(self, kind: str, plan: JavaObject) -> dict[str, tuple[str, ...]]:
        texts = {name: tuple(_sql_of(plan, name)) for name in _AS_SQL.get(kind, ())}
        if kind == "Join":
            texts["keys"] = equal_in(self.spark, plan)
        if kind == "Aggregate":
            grouped = items_of(plan.groupingExpressions())
            texts["groupingTypes"] = tuple(str(each.dataType().typeName()) for each in grouped)
        return texts

    def _stream(self, kind: str, plan: JavaObject, said: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """The name of a stream; and, if one stream reads several paths, which of them this is."""
        if kind not in ("StreamingRelation", "StreamingRelationV2"):
            return "", {}
        identity = identity_of(self.spark)(read_by(plan))
        name = self.streams.get(identity) or str(said.get("sourceName") or plan.sourceName())
        places = self.places.setdefault(name, [])
        if identity not in places:
            places.append(identity)
        number = places.index(identity)
        return name, {"place": str(number)} if number else {}


def _terms_of(said: Mapping[str, Any]) -> dict[str, tuple[Term, ...]]:
    """The fields of a node that contain expressions, one or several."""
    found = {name: tuple(_expressions(value)) for name, value in said.items() if isinstance(value, list)}
    return {name: terms for name, terms in found.items() if terms}


def _expressions(value: list[Any]) -> Iterator[Term]:
    """An expression is a list of nodes, from its top; a field has one, or a list (of lists) of them."""
    if value and isinstance(value[0], dict) and "class" in value[0]:
        yield _term(iter(value))
        return
    for each in value:
        if isinstance(each, list):
            yield from _expressions(each)


def _term(flat: Iterator[dict[str, Any]]) -> Term:
    said = next(flat)
    children = tuple(_term(flat) for _ in range(said["num-children"]))
    id_ = said.get("exprId") or {}
    plan = said.get("plan")
    type_ = said.get("dataType", "")
    value = said.get("value")
    return Term(
        kind=said["class"].rpartition(".")[2],
        name=str(said.get("name") or ""),
        id=int(id_.get("id", -1)) if isinstance(id_, dict) else -1,
        value="" if value is None else str(value),
        type=type_ if isinstance(type_, str) else str(type_.get("type", "")) if type_ else "",
        children=children,
        details=_details_of(said) | dict(_types_in(said)),
        plan=inner_node(iter(plan)) if isinstance(plan, list) and plan else None,
    )


def _types_in(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Complete types, if an expression depends on them: `CAST` and `from_json`."""
    for name, value in said.items():
        if isinstance(value, dict) and "type" in value and (name != "dataType" or "Cast" in said["class"]):
            yield "to" if name == "dataType" else name, json.dumps(value, sort_keys=True)


def inner_node(flat: Iterator[dict[str, Any]]) -> Node:
    """A plan as far as its JSON shows it, such as that of a subquery."""
    said = next(flat)
    kind = said["class"].rpartition(".")[2]
    children = tuple(inner_node(flat) for _ in range(said["num-children"]))
    stream = str(said.get("sourceName", kind)) if kind.startswith("StreamingRelation") else ""
    return Node(kind, children, _terms_of(said), _details_of(said), stream=stream)


_LEFT_OUT = frozenset(
    {
        "class", "num-children", "name", "value", "dataType", "nullable", "exprId", "timeZoneId", "nodeId",
        "qualifier", "sourceName",
    }
)  # fmt: skip


def _details_of(said: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a node besides its children: numbers, words, and Scala objects by their names."""
    found: dict[str, str] = {}
    for name, value in said.items():
        if name in _LEFT_OUT:
            continue
        if isinstance(value, dict) and set(value) == {"object"}:
            found[name] = value["object"].rpartition(".")[2].rpartition("$")[0].rpartition("$")[2]
        # A number may be the position of a child, which the order of the children already gives.
        elif isinstance(value, _SCALARS) and not (type(value) is int and name in _CHILDREN):
            found[name] = str(value)
    return found


def _modes_of(plan: JavaObject) -> dict[str, str]:
    """The output mode and the time mode of arbitrary state."""
    modes = {"outputMode": str(plan.outputMode())}
    if kind_of(plan) == "TransformWithStateInPySpark":
        modes["timeMode"] = str(plan.timeMode())
        modes["initialState"] = str(bool(plan.hasInitialState())).lower()
    return modes


def _sql_of(plan: JavaObject, name: str) -> Iterator[str]:
    value = getattr(plan, name)()
    if name == "condition":
        yield from (str(each.sql()) for each in ([value.get()] if value.isDefined() else []))
    elif name == "eventTime":
        yield str(value.sql())
    else:
        yield from (str(each.sql()) for each in items_of(value))


def _columns_of(plan: JavaObject) -> tuple[Column, ...]:
    """The output columns of a node. Only the text of an attribute has both its number and its delay."""
    written = str(plan.output().mkString(_BETWEEN)).split(_BETWEEN)
    schema: list[dict[str, Any]] = json.loads(plan.schema().json())["fields"]
    if not schema:
        return ()
    return tuple(_column(text, each) for text, each in zip(written, schema, strict=True))


def _column(text: str, said: Mapping[str, Any]) -> Column:
    found = _ATTRIBUTE.search(text)
    number, delay = (found[1], found[2]) if found else ("-1", None)
    type_ = said["type"] if isinstance(said["type"], str) else said["type"]["type"]
    return Column(said["name"], int(number), type_, int(delay) if delay is not None else -1)


def _changing(plan: JavaObject) -> Iterator[UnstableExpression]:
    """The innermost expressions of a node that Spark considers nondeterministic."""
    for expression in items_of(plan.expressions()):
        makes = (int(expression.exprId().id()),) if kind_of(expression) == "Alias" else ()
        yield from _changing_in(expression, makes)


def _changing_in(expression: JavaObject, makes: tuple[int, ...]) -> Iterator[UnstableExpression]:
    if expression.deterministic():
        return
    inner = [found for child in items_of(expression.children()) for found in _changing_in(child, makes)]
    if inner:
        yield from inner
        return
    yield UnstableExpression(str(expression.sql()), *_origin(expression), makes)


def _origin(node: JavaObject) -> tuple[int, int]:
    """Line and column (from 1) in the SQL text; zeros for what was not written as SQL."""
    origin = node.origin()
    line, column = origin.line(), origin.startPosition()
    if not line.isDefined():
        return 0, 0
    return int(line.get()), int(column.get()) + 1 if column.isDefined() else 1
