"""A query's plan reduced to what its stateful operators store: without sources and unused columns.

Only Spark's optimizer decides which aggregates and columns reach the state. Most of its rules also rewrite
expressions according to filters, so only those run here that move filters and prune columns.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.engine.plan_record import inner_node
from headwater.plan.operators import Column, Node, Term
from headwater.plan.state_layout import REPLAYED
from headwater.spark.plans import (
    WATERMARK,
    analysis_rule,
    analyzed,
    inlined,
    leaf_like,
    optimizer_rule,
    read_by,
    stream_names,
    with_children,
)
from headwater.spark.private import JavaObject, identity_of, items_of, kind_of

_KEYS = {
    "Aggregate": "groupingExpressions",
    "Deduplicate": "keys",
    "DeduplicateWithinWatermark": "keys",
    "FlatMapGroupsInPandasWithState": "groupingAttributes",
    "TransformWithStateInPySpark": "leftAttributes",
}
_NOT_NULL = re.compile(r"isnotnull\([^()]*#(\d+)[^()]*\)")
_BETWEEN = "\x01"
_MOST_ROUNDS = 100
# Rules that decide what is stored: `count_if` is a count, and a literal is not a key.
_REPLACING = (
    "ReplaceExpressions",
    "ReplaceDistinctWithAggregate",
    "RemoveLiteralFromGroupExpressions",
    "RemoveRepetitionFromGroupExpressions",
)
# Expressions whose JSON is incomplete, such as options or a list of patterns; their text is complete.
_LOSSY = frozenset(
    {
        "CsvToStructs", "JsonToStructs", "Like", "LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny",
        "StructsToCsv", "StructsToJson", "StructsToXml", "XmlToStructs",
    }
)  # fmt: skip
_COMPUTED = {"Aggregate": ("groupingExpressions", "aggregateExpressions"), "Project": ("projectList",)}
_IDENTIFIER = re.compile(r"\w+")
_EXPRESSION_ID = re.compile(r"#\d+L?(?:-T\d+ms)?")
_DIGITS = 8


@dataclass(frozen=True)
class StatePlan:
    """The reduced plan, and the columns of the sources by Spark's numbers: `orders.amount`."""

    root: Node
    columns: Mapping[int, str]


def state_plan(
    frame: DataFrame, sources: Iterable[tuple[str, DataFrame]], replayed: Mapping[str, DataFrame]
) -> StatePlan:
    """The plan of a streaming DataFrame as far as it affects its state.

    It is cut off at the `sources`; one that is read in several forms is given with each. `replayed` are the
    streams of replayed rows.
    """
    spark = frame.sparkSession
    cut = _Cut.of(spark, sources, frozenset(stream_names(replayed)))
    plan = _reduced(spark, cut.without_sources(inlined(spark, analyzed(frame))))
    flat: list[dict[str, Any]] = json.loads(plan.toJSON())
    return StatePlan(_with_types(plan, inner_node(iter(flat))), cut.columns)


@dataclass(frozen=True)
class _Root:
    """The top of a source's own plan; its watermark stays in the query."""

    name: str
    top: JavaObject
    number: int
    kind: str


@dataclass
class _Cut:
    """Replaces each source with a leaf that has the same columns."""

    spark: SparkSession
    roots: list[_Root]
    replayed: frozenset[int]
    """What the streams of replayed rows read, by the JVM's numbers."""
    columns: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, spark: SparkSession, sources: Iterable[tuple[str, DataFrame]], replayed: frozenset[int]
    ) -> _Cut:
        identity = identity_of(spark)
        roots = []
        for name, source in sources:
            top = analyzed(source)
            top = top.children().apply(0) if kind_of(top) == WATERMARK else top
            roots.append(_Root(name, top, identity(top), kind_of(top)))
        return cls(spark, roots, replayed)

    def without_sources(self, plan: JavaObject) -> JavaObject:
        number, kind = identity_of(self.spark)(plan), kind_of(plan)
        for root in self.roots:
            if root.number == number or (root.kind == kind and self._same(plan, root.top)):
                return self._leaf(root.name, plan)
        children = items_of(plan.children())
        if self.replayed and not children and identity_of(self.spark)(read_by(plan)) in self.replayed:
            return self._leaf(REPLAYED, plan)
        cut = [self.without_sources(child) for child in children]
        return with_children(self.spark, plan, cut) if children else plan

    def _same(self, plan: JavaObject, root: JavaObject) -> bool:
        """Whether a part of a plan is a source's copy in a self-join: the same nodes, renumbered."""
        identity = identity_of(self.spark)
        if kind_of(plan) != kind_of(root):
            return False
        parts, others = items_of(plan.children()), items_of(root.children())
        if not parts and not others:
            return identity(read_by(plan)) == identity(read_by(root))
        return len(parts) == len(others) and all(map(self._same, parts, others))

    def _leaf(self, name: str, plan: JavaObject) -> JavaObject:
        columns = {int(each.exprId().id()): str(each.name()) for each in items_of(plan.output())}
        for number, column in columns.items():
            self.columns[number] = f"{name}.{column if _IDENTIFIER.fullmatch(column) else f'`{column}`'}"
        return leaf_like(self.spark, plan)


def _reduced(spark: SparkSession, plan: JavaObject) -> JavaObject:
    for name in ("EliminateSubqueryAliases", "EliminateView"):
        plan = analysis_rule(spark, name).apply(plan)
    for name in _REPLACING:
        plan = optimizer_rule(spark, name).apply(plan)
    push, prune = optimizer_rule(spark, "PushDownPredicates"), optimizer_rule(spark, "ColumnPruning")
    for _ in range(_MOST_ROUNDS):
        following = prune.apply(push.apply(plan))
        if following.fastEquals(plan):
            break
        plan = following
    return plan


def _with_types(plan: JavaObject, node: Node) -> Node:
    """The nodes with the types of what they store."""
    if not node.children:
        return node
    parts = items_of(plan.children())
    children = tuple(_with_types(part, child) for part, child in zip(parts, node.children, strict=True))
    if not plan.isStreaming():
        return node
    if node.kind == "Join":
        columns = (tuple(_columns(part)) for part in parts)
        children = tuple(replace(child, columns=each) for child, each in zip(children, columns, strict=True))
    return replace(node, children=children, sql=dict(_types(plan, node)), terms=_whole(plan, node))


def _whole(plan: JavaObject, node: Node) -> dict[str, tuple[Term, ...]]:
    """The expressions of a node; those with incomplete JSON are distinguished by their text."""
    terms = dict(node.terms)
    for name in _COMPUTED.get(node.kind, ()):
        if any(each.kind in _LOSSY for top in terms.get(name, ()) for each in top.walk()):
            texts = [_EXPRESSION_ID.sub("", str(each.toString())) for each in items_of(getattr(plan, name)())]
            terms[name] = tuple(map(_marked, terms[name], texts))
    return terms


def _marked(term: Term, text: str) -> Term:
    digest = {"digest": hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]} if term.kind in _LOSSY else {}
    children = tuple(_marked(child, text) for child in term.children)
    return replace(term, details={**term.details, **digest}, children=children)


def _types(plan: JavaObject, node: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    if node.kind in _KEYS:
        keys = items_of(getattr(plan, _KEYS[node.kind])())
        yield "keyTypes", tuple(_type(key, bool(key.nullable())) for key in keys)
    if node.kind == "FlatMapGroupsInPandasWithState":
        yield "stateType", (str(plan.stateType().catalogString()),)
    if node.kind == "Aggregate":
        called = [each for top in items_of(plan.aggregateExpressions()) for each in _aggregates_in(top)]
        yield "bufferTypes", tuple(map(_buffer, called))


def _aggregates_in(expression: JavaObject) -> Iterator[JavaObject]:
    if kind_of(expression) == "AggregateExpression":
        yield expression
        return
    for child in items_of(expression.children()):
        yield from _aggregates_in(child)


def _buffer(aggregate: JavaObject) -> str:
    """The types of an aggregate's buffer; streams do not support Python aggregates."""
    function = aggregate.aggregateFunction()
    return "" if kind_of(function).startswith("Python") else str(function.aggBufferSchema().catalogString())


def _columns(side: JavaObject) -> Iterator[Column]:
    """The columns that a join stores for one side."""
    checked = set(_checked(side))
    for each in items_of(side.output()):
        number = int(each.exprId().id())
        yield Column(str(each.name()), number, _type(each, bool(each.nullable()) and number not in checked))


def _checked(side: JavaObject) -> Iterator[int]:
    """The columns that are never null because of a filter right below a join; Spark stores them as such.

    Filters move down to the sources, where they leave no trace; one on the event time stays above its
    watermark.
    """
    if kind_of(side) == "Project" and _hands_on(side, side.children().apply(0)):
        side = side.children().apply(0)
    if kind_of(side) == "Filter" and kind_of(side.children().apply(0)) != "LogicalRDD":
        yield from map(int, _NOT_NULL.findall(str(side.constraints().mkString(_BETWEEN))))


def _hands_on(project: JavaObject, child: JavaObject) -> bool:
    """Whether a projection changes nothing; Spark then removes it."""
    return str(project.projectList().mkString(_BETWEEN)) == str(child.output().mkString(_BETWEEN))


def _type(expression: JavaObject, nullable: bool) -> str:
    name = str(expression.dataType().catalogString())
    return name if nullable else f"{name} not null"
