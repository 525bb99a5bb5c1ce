"""Which tables a SQL text reads, told by Spark's own parser."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headwater.engine.inputs import items_of
from headwater.errors import PipelineError
from headwater.errors.catalogue.pipelines import SQL_NOT_A_QUERY
from headwater.plan import Reference
from headwater.spec import TableSpec

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
