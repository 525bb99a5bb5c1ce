"""Which steps of a recorded plan take each row by itself, as queries without batches need it."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.plan.operators import Expression
from headwater.plan.tree import Node

_ROW_BY_ROW = frozenset(
    {
        "DeserializeToObject", "Filter", "MapElements", "MapPartitions", "Project", "SerializeFromObject",
        "SubqueryAlias", "TypedFilter", "View",
    }
)  # fmt: skip
"""What Spark's checker for continuous queries lets pass, besides sources."""

_PARTS = frozenset({"CTERelationDef", "CTERelationRef", "LocalLimit"})
"""Nodes that never come alone: what they belong to is listed."""

_NAMES = {
    "Aggregate": "GROUP BY",
    "CollectMetrics": "observe",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "SELECT DISTINCT",
    "EventTimeWatermark": "watermark",
    "Except": "EXCEPT",
    "Expand": "UNPIVOT",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "Generate": "explode",
    "GlobalLimit": "LIMIT",
    "Intersect": "INTERSECT",
    "Join": "JOIN",
    "MapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
    "PythonMapInArrow": "mapInArrow",
    "RebalancePartitions": "REBALANCE",
    "Repartition": "repartition",
    "RepartitionByExpression": "repartition",
    "ResolvedHint": "hint",
    "Sort": "ORDER BY",
    "TransformWithStateInPySpark": "transformWithState",
    "Union": "UNION",
    "Window": "OVER",
    "WithCTE": "WITH",
}

_CLOCK = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}


def beyond_rows(root: Node) -> tuple[Expression, ...]:
    """The steps on the way of a stream that do more than that, from the sources up, each once."""
    found = (
        Expression(_name_of(node), node.table, node.line, node.column)
        for node in _upwards(root)
        if node.kind not in _ROW_BY_ROW | _PARTS and not node.stream and _reads_stream(node)
    )
    return tuple(dict.fromkeys(found))


def clock_reads(root: Node) -> tuple[Expression, ...]:
    """Where a step of a stream asks for the current time or date, each once."""
    found = (
        Expression(_CLOCK[term.kind], node.table, node.line, node.column)
        for node in _upwards(root)
        if _reads_stream(node)
        for terms in node.terms.values()
        for top in terms
        for term in top.walk()
        if term.kind in _CLOCK
    )
    return tuple(dict.fromkeys(found))


def _name_of(node: Node) -> str:
    """A step as users call it."""
    made = node.terms.get("projections", ())
    if node.kind == "Expand" and any(each.kind == "CreateNamedStruct" for each in made):
        return "sliding window"
    return _NAMES.get(node.kind, node.kind)


def _upwards(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield from _upwards(child)
    yield node


def _reads_stream(node: Node) -> bool:
    """Whether rows of a stream reach it; where a table is named by WITH, that is not followed."""
    return any(each.stream or each.kind == "CTERelationRef" for each in node.walk())
