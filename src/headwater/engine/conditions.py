"""What Spark has against the conditions of expectations, asked over an empty table with the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from headwater.checks.expectations import column_problem, condition_problem, unknown_column
from headwater.engine.inputs import analysed, kind_of
from headwater.engine.spark_errors import condition_of, parameters_of, place_in_sql, sentence_of
from headwater.errors import Problem
from headwater.errors.catalogue.expectations import (
    EXPECTATION_NOT_BOOLEAN,
    EXPECTATION_NOT_CERTAIN,
    EXPECTATION_NOT_OF_A_ROW,
    EXPECTATION_REFUSED,
    EXPECTATION_SYNTAX,
)
from headwater.spec import Expectation, TableSpec

_AGGREGATE, _MAKES_ROWS, _SUBQUERY = "an aggregate function", "a function that makes rows", "a subquery"
_NOT_OF_A_ROW = {"Aggregate": _AGGREGATE, "Generate": _MAKES_ROWS, "Window": "a window function"}
_SAID_OF_ROWS = {
    "MISSING_GROUP_BY": _AGGREGATE,
    "MISSING_AGGREGATION": _AGGREGATE,
    "UNSUPPORTED_GENERATOR": _MAKES_ROWS,
    "INVALID_SUBQUERY_EXPRESSION": _SUBQUERY,
}


def expectation_problems(rows: DataFrame, table: TableSpec) -> list[Problem]:
    """Everything that keeps the expectations of a table from being judged."""
    empty = _empty(rows)
    found = (_problem(empty, table, each) for each in table.expect)
    return [problem for problem in found if problem]


def _empty(rows: DataFrame) -> DataFrame:
    """No rows, with the same columns: its plan is nothing but them, so what a condition adds is seen."""
    jvm: Any = rows.sparkSession._jvm
    empty = rows.sparkSession._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), rows._jdf.schema())
    return DataFrame(empty, rows.sparkSession)


def _problem(empty: DataFrame, table: TableSpec, each: Expectation) -> Problem | None:
    known = condition_problem(table, each) or column_problem(table, each, empty.columns)
    if known:
        return known
    try:
        found = empty.select(expr(each.check))
    except PySparkException as error:
        return _refused(error, empty, table, each)
    named = {"table": table.name, "expectation": each.name}
    what = next(_looks_beyond(analysed(found)), None)
    if what:
        return EXPECTATION_NOT_OF_A_ROW.at(each.at(), **named, what=what)
    types = [field.dataType.simpleString() for field in found.schema.fields]
    if types != ["boolean"]:
        shown = f"`{types[0]}`" if len(types) == 1 else "several columns"
        return EXPECTATION_NOT_BOOLEAN.at(each.at(), **named, type=shown)
    part = next(_uncertain(analysed(found).expressions()), None)
    return EXPECTATION_NOT_CERTAIN.at(each.at(), **named, part=part) if part else None


def _refused(error: PySparkException, empty: DataFrame, table: TableSpec, each: Expectation) -> Problem:
    condition, spot = condition_of(error), place_in_sql(error, each.check)
    named = {"table": table.name, "expectation": each.name}
    if condition.startswith("UNRESOLVED_COLUMN"):
        column = parameters_of(error).get("objectName", "").replace("`", "")
        return unknown_column(table, each, column, empty.columns, spot)
    what = _SAID_OF_ROWS.get(condition.partition(".")[0])
    if what:
        return EXPECTATION_NOT_OF_A_ROW.at(each.at(), **named, what=what)
    entry = EXPECTATION_SYNTAX if condition.startswith("PARSE_") else EXPECTATION_REFUSED
    return entry.at(each.at(spot), **named, says=sentence_of(error))


def _looks_beyond(plan: Any) -> Iterator[str]:
    """What in a condition takes more than one row."""
    if plan.subqueries().size():
        yield _SUBQUERY
    while plan.children().size():
        if kind_of(plan) in _NOT_OF_A_ROW:
            yield _NOT_OF_A_ROW[kind_of(plan)]
        plan = plan.children().apply(0)


def _uncertain(expressions: Any) -> Iterator[str]:
    """The innermost expressions that Spark does not hold for deterministic."""
    for each in (expressions.apply(place) for place in range(expressions.size())):
        if not each.deterministic():
            yield from _uncertain(each.children())
            yield str(each.sql())
