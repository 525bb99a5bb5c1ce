"""What Spark's optimised plan tells of joins and event times, and its parser of the tables in a SQL text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.errors import PipelineError
from headwater.errors.catalogue.pipelines import SQL_NOT_A_QUERY
from headwater.plan import Reference
from headwater.plan.tree import Clash, JoinReach, SideReach
from headwater.spark.plans import JoinState, is_command, nodes_of, parsed, stream_name, streams_below
from headwater.spark.private import JavaObject, items_of, kind_of
from headwater.spec import TableSpec

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


def join_reaches(spark: SparkSession, plan: JavaObject, names: Mapping[int, str]) -> tuple[JoinReach, ...]:
    """The joins of two streams in an optimised plan, from the top; `names` are those of the streams.

    A range in a WHERE clause gets into the join's condition only there, and BETWEEN is taken apart.
    """
    return tuple(_reach(spark, node, names) for node in nodes_of(plan) if _of_streams(node))


def clashes_in(plan: JavaObject) -> tuple[Clash, ...]:
    """The operators of an optimised plan, from the top, to which several columns with a watermark come."""
    found = ((kind_of(node), _marked(node)) for node in nodes_of(plan) if node.isStreaming())
    return tuple(Clash(kind, columns) for kind, columns in found if len(columns) > 1)


def _marked(node: JavaObject) -> tuple[str, ...]:
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


def _of_streams(node: JavaObject) -> bool:
    return kind_of(node) == "Join" and node.left().isStreaming() and node.right().isStreaming()


def _reach(spark: SparkSession, join: JavaObject, names: Mapping[int, str]) -> JoinReach:
    state = JoinState(spark, join)
    in_keys = state.in_keys

    def side(mine: JavaObject, other: JavaObject) -> SideReach:
        streams = tuple(sorted({stream_name(spark, leaf, names) for leaf in streams_below(mine)}))
        if in_keys:
            return SideReach(True, 0, streams)
        found = state.watermark(mine, other, _NOW)
        if found is None or not _has_watermark(mine):
            return SideReach(False, 0, streams)
        behind = _NOW - found
        # A bound that includes its end is a millisecond further away.
        return SideReach(True, behind - 1 if behind % 10 == 1 else behind, streams)

    return JoinReach(side(join.left(), join.right()), side(join.right(), join.left()), in_keys)


def _has_watermark(plan: JavaObject) -> bool:
    return f'"{_DELAY_KEY}"' in str(plan.schema().json())


# Which tables a SQL text reads, told by Spark's own parser.

_ACTING = ("Call", "InsertIntoDir", "UnresolvedExecuteImmediate")
"""What acts, too, and is neither a command nor a statement for Spark's parser."""
_AROUND_STATEMENTS = ("UnresolvedWith", "Union")
"""What may stand around a statement: `WITH … INSERT`, and `FROM … INSERT … INSERT …`, which is a union."""


def parsed_references(spark: SparkSession, table: TableSpec) -> tuple[Reference, ...]:
    """The tables that a SQL table reads by name. A statement that is no query is refused, never run."""
    plan = parsed(spark, table.sql or "")
    kind = plan.nodeName()
    if _acts(spark, plan):
        raise PipelineError(SQL_NOT_A_QUERY.at(table.position, name=table.name, kind=kind))
    found: dict[str, Reference] = {}
    _walk(plan, frozenset(), found)
    return tuple(sorted(found.values(), key=Reference.place))


def _acts(spark: SparkSession, plan: JavaObject) -> bool:
    """Commands and statements would act as soon as the text is handed to Spark."""
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


def _origin(plan: JavaObject) -> tuple[int, int]:
    origin = plan.origin()
    line, column = origin.line(), origin.startPosition()
    return (line.get() if line.isDefined() else 1), (column.get() + 1 if column.isDefined() else 1)
