"""What happens to validated rows: all are counted; bad ones fail, or are dropped, kept or quarantined."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql.functions import (
    coalesce,
    col,
    concat_ws,
    count,
    count_if,
    current_timestamp,
    expr,
    from_json,
    is_valid_utf8,
    lit,
    raise_error,
    regexp_replace,
    struct,
    substring,
    to_json,
    when,
)
from pyspark.sql.types import DataType, StringType, StructField, StructType

from headwater.connectors.contract import (
    KEPT_REASON,
    KEPT_TEXT,
    ROW_TYPE,
    Reason,
    ValidatedRows,
)
from headwater.connectors.decoding.formats import more_follows
from headwater.connectors.options import TIMES
from headwater.errors import Entry, Problem
from headwater.errors.catalogue.pipelines import (
    EXPECTATION_FAILED,
    EXPECTATION_INVALID,
    EXPECTATION_NONDETERMINISTIC,
    EXPECTATION_NOT_BOOLEAN,
    EXPECTATION_NOT_PER_ROW,
    EXPECTATION_SYNTAX,
)
from headwater.errors.catalogue.running import BAD_ROW, REPLAYED_ROWS_INVALID
from headwater.events.counts import ALL_ROWS, BAD, READ
from headwater.plan.predicates import column_problem, condition_problem, unknown_column
from headwater.plan.quarantine import quarantines_rows
from headwater.spark.errors import condition_of, parameters_of, place_in_sql, sentence_of
from headwater.spark.plans import analyzed, empty_like
from headwater.spark.private import items_of, kind_of
from headwater.spec import Expectation, SourceSpec, TableSpec
from headwater.values import BadRows, OnViolation


def apply_bad_rows(rows: ValidatedRows, source: SourceSpec, counted: str | Observation | None) -> DataFrame:
    """The rows that are passed on, by what the source does with bad ones; all are counted before."""
    parsed, columns = rows.parsed, rows.columns
    if counted is not None:
        bad = expr(f"count(IF({rows.bad}, 1, NULL))").alias(BAD)
        parsed = parsed.observe(counted, count(lit(1)).alias(READ), bad)
    match source.bad_rows:
        case BadRows.FAIL:
            parsed = parsed.where(f"CASE WHEN {rows.bad} THEN {_bad_row_failure(rows, source)} ELSE true END")
        case BadRows.DROP | BadRows.QUARANTINE:
            parsed = parsed.where(f"NOT ({rows.bad})")
        case BadRows.KEEP:
            kept = f"make_valid_utf8(CAST({rows.row}.value AS string))"
            columns = (
                *columns,
                f"CASE WHEN {rows.bad} THEN {rows.lazily(rows.reason)} END AS {KEPT_REASON}",
                f"CASE WHEN {rows.bad} THEN {kept} END AS {KEPT_TEXT}",
            )
    return parsed.selectExpr(*columns)


def quarantined_bad_rows(rows: ValidatedRows, source: SourceSpec) -> DataFrame:
    """The bad rows, as the quarantine stores them."""
    why = rows.lazily(f"named_struct('reason', {rows.reason}, 'detail', {rows.detail})")
    return rows.parsed.where(rows.bad).selectExpr(
        f"'{source.name}' AS source",
        f"{why}.reason AS reason",
        f"{why}.detail AS detail",
        "current_timestamp() AS quarantined_at",
        f"{rows.row} AS row",
    )


def _bad_row_failure(rows: ValidatedRows, source: SourceSpec) -> str:
    """Fails the query; the parts of the text are separated by tabs, for parsing."""

    def plain(sql: str) -> str:
        # It contains a value from the user's data, which may contain the separator.
        return rf"regexp_replace({sql}, '[\\t\\r\\n]+', ' ')"

    why = f"concat_ws(', ', {rows.reason}, {plain(rows.detail)})"
    parts = f"'{BAD_ROW.code}', '{source.name}', {why}, {plain(rows.place)}"
    failure = rows.lazily(f"concat_ws('\\t', {parts})")
    return f"CAST(raise_error({failure}) AS boolean)"


# Expectations: every row of a table is checked and counted; failed rows are handled as declared.

_FAILED = "__hw_failed_"
_UNREAD = "__hw_unread"
"""The text of a replayed row, if it cannot be parsed."""
_LONGEST_ROW = 2_000
"""How much of a row goes into the failure; the problem shows less, after secrets are removed."""


def with_replayed_rows(rows: DataFrame, replayed: DataFrame) -> DataFrame:
    """The rows of a table, and the quarantined rows that are replayed."""
    text = col("row")["value"].cast("string")
    wanted = [StructField(field.name, field.dataType) for field in rows.schema.fields]
    schema = StructType([*wanted, StructField(_UNREAD, StringType())])
    read = from_json(text, schema, {**TIMES, "columnNameOfCorruptRecord": _UNREAD})
    columns = [_nullable_as(field, col("read")[field.name]) for field in rows.schema.fields]
    replayed = replayed.select(text.alias("text"), read.alias("read"))
    replayed = replayed.select(*columns, _unread(rows).alias(_UNREAD))
    return rows.withColumn(_UNREAD, lit(None).cast("string")).union(replayed)


def _unread(rows: DataFrame) -> Column:
    """The text of a replayed row that is not one object with all required columns, else null."""
    read, text = col("read"), coalesce(col("text"), lit(""))
    needed = (read[field.name].isNull() for field in rows.schema.fields if not field.nullable)
    # Spark replaces invalid bytes with a different character.
    other = ~is_valid_utf8(text) | read.isNull() | read[_UNREAD].isNotNull() | more_follows(text, {})
    return when(reduce(or_, needed, other), text)


_NEVER_SEEN: dict[str, object] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), 0),
    **dict.fromkeys(("float", "double"), 0.0),
    "string": "",
    "binary": b"",
    "boolean": False,
    "date": date(1970, 1, 1),
    "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
}


def _nullable_as(field: StructField, read: Column) -> Column:
    """A column of a replayed row that is nullable only if that of the table is.

    Spark stores with the state whether a column is nullable, and rejects a query in which a key becomes
    nullable. The values that replace null here are those of invalid rows, and are never passed on.
    """
    of_type = field.dataType.simpleString()
    if field.nullable or of_type not in _NEVER_SEEN:
        return read.alias(field.name)
    return coalesce(read, lit(_NEVER_SEEN[of_type]).cast(field.dataType)).alias(field.name)


def validated_rows(rows: DataFrame, table: TableSpec) -> DataFrame:
    """The rows with the result of each expectation; a condition that is null counts as failed."""
    readable = col(_UNREAD).isNull() if _UNREAD in rows.columns else lit(True)
    failed = {
        f"{_FAILED}{place}": readable & ~coalesce(expr(each.condition), lit(False))
        for place, each in enumerate(table.expect)
    }
    return rows.select("*", *(column.alias(name) for name, column in failed.items()))


def expected_rows(validated: DataFrame, table: TableSpec, counted: str | Observation | None) -> DataFrame:
    """The rows that are passed on; all are counted before, under a name or for an observation."""
    if counted is not None:
        validated = validated.observe(counted, *_counts(validated, table))
    # The strongest wins: a row that fails the query is neither quarantined nor dropped.
    passes = ~_any_failed(table, OnViolation.DROP, OnViolation.QUARANTINE)
    for failed, each in reversed(list(_failed(table, OnViolation.FAIL))):
        failure = _ended(EXPECTATION_FAILED, _as_json(validated), table.name, each.name)
        passes = when(failed, failure).otherwise(passes)
    if _UNREAD in validated.columns:
        # Without a quarantine, they fail the query: they would go unnoticed otherwise. The text comes from
        # the user's data, and may contain the separator of a failure's parts.
        text = regexp_replace(col(_UNREAD), r"[\t\r\n]+", " ")
        lost = lit(False) if quarantines_rows(table) else _ended(REPLAYED_ROWS_INVALID, text, table.name)
        passes = when(col(_UNREAD).isNotNull(), lost).otherwise(passes)
    if _UNREAD in validated.columns or any(
        each.on_violation is not OnViolation.WARN for each in table.expect
    ):
        validated = validated.where(passes)
    return validated.drop(*_own(validated))


def quarantined_violations(validated: DataFrame, table: TableSpec) -> DataFrame:
    """The rows that go into the quarantine, as it stores them."""
    chosen = _any_failed(table, OnViolation.QUARANTINE) & ~_any_failed(table, OnViolation.FAIL)
    names = [when(failed, lit(each.name)) for failed, each in _failed(table, *OnViolation)]
    reason, detail, text = lit(Reason.EXPECTATION.value), concat_ws(", ", *names), _as_json(validated)
    if _UNREAD in validated.columns:
        unread = col(_UNREAD).isNotNull()
        chosen, text = chosen | unread, coalesce(col(_UNREAD), text)
        reason = when(unread, lit(Reason.MALFORMED.value)).otherwise(reason)
        detail = when(unread, lit("a replayed row that is not a complete JSON object")).otherwise(detail)
    return validated.where(chosen).select(
        lit(table.name).alias("source"),
        reason.alias("reason"),
        detail.alias("detail"),
        current_timestamp().alias("quarantined_at"),
        _kept(text.cast("binary")).alias("row"),
    )


def _counts(validated: DataFrame, table: TableSpec) -> Iterator[Column]:
    rows = count_if(col(_UNREAD).isNull()) if _UNREAD in validated.columns else count(lit(1))
    yield rows.alias(ALL_ROWS)
    for failed, each in _failed(table, *OnViolation):
        yield count_if(failed).alias(each.name)


def _failed(table: TableSpec, *kinds: OnViolation) -> Iterator[tuple[Column, Expectation]]:
    """The result of each expectation of some kinds."""
    for place, each in enumerate(table.expect):
        if each.on_violation in kinds:
            yield col(f"{_FAILED}{place}"), each


def _any_failed(table: TableSpec, *kinds: OnViolation) -> Column:
    return reduce(or_, (failed for failed, _ in _failed(table, *kinds)), lit(False))


def _ended(entry: Entry, row: Column, *about: str) -> Column:
    """Fails the query with a row; the parts of the text are separated by tabs, for parsing."""
    text = concat_ws("\t", lit(entry.code), *map(lit, about), substring(row, 1, _LONGEST_ROW))
    return raise_error(text).cast("boolean")


def _as_json(validated: DataFrame) -> Column:
    own = _own(validated)
    columns = [col(f"`{name.replace('`', '``')}`") for name in validated.columns if name not in own]
    return to_json(struct(*columns), {**TIMES, "ignoreNullFields": "false"})


def _kept(value: Column) -> Column:
    """A row of a table as a quarantine stores it: it has no location, only its text."""
    whole = DataType.fromDDL(ROW_TYPE)
    assert isinstance(whole, StructType), "a row is a struct"
    fields = [value if field.name == "value" else lit(None).cast(field.dataType) for field in whole.fields]
    return struct(*(each.alias(field.name) for each, field in zip(fields, whole.fields, strict=True)))


def _own(validated: DataFrame) -> list[str]:
    return [name for name in validated.columns if name == _UNREAD or name.startswith(_FAILED)]


# Spark's errors for the conditions of expectations, found with an empty table with the same columns.

_AGGREGATE, _MAKES_ROWS, _SUBQUERY = "an aggregate function", "a generator function", "a subquery"
_NOT_OF_A_ROW = {"Aggregate": _AGGREGATE, "Generate": _MAKES_ROWS, "Window": "a window function"}
_SAID_OF_ROWS = {
    "MISSING_GROUP_BY": _AGGREGATE,
    "MISSING_AGGREGATION": _AGGREGATE,
    "UNSUPPORTED_GENERATOR": _MAKES_ROWS,
    "INVALID_SUBQUERY_EXPRESSION": _SUBQUERY,
}


def expectation_problems(rows: DataFrame, table: TableSpec) -> list[Problem]:
    """Everything that keeps the expectations of a table from being evaluated."""
    empty = empty_like(rows)
    found = (_problem(empty, table, each) for each in table.expect)
    return [problem for problem in found if problem]


def _problem(empty: DataFrame, table: TableSpec, each: Expectation) -> Problem | None:
    known = condition_problem(table, each) or column_problem(table, each, empty.columns)
    if known:
        return known
    try:
        found = empty.select(expr(each.condition))
    except PySparkException as error:
        return _refused(error, empty, table, each)
    named = {"table": table.name, "expectation": each.name}
    what = next(_looks_beyond(analyzed(found)), None)
    if what:
        return EXPECTATION_NOT_PER_ROW.at(each.at(), **named, what=what)
    types = [field.dataType.simpleString() for field in found.schema.fields]
    if types != ["boolean"]:
        shown = f"`{types[0]}`" if len(types) == 1 else "several columns"
        return EXPECTATION_NOT_BOOLEAN.at(each.at(), **named, type=shown)
    part = next(_uncertain(analyzed(found).expressions()), None)
    return EXPECTATION_NONDETERMINISTIC.at(each.at(), **named, part=part) if part else None


def _refused(error: PySparkException, empty: DataFrame, table: TableSpec, each: Expectation) -> Problem:
    condition, spot = condition_of(error), place_in_sql(error, each.condition)
    named = {"table": table.name, "expectation": each.name}
    if condition.startswith("UNRESOLVED_COLUMN"):
        column = parameters_of(error).get("objectName", "").replace("`", "")
        return unknown_column(table, each, column, empty.columns, spot)
    what = _SAID_OF_ROWS.get(condition.partition(".")[0])
    if what:
        return EXPECTATION_NOT_PER_ROW.at(each.at(), **named, what=what)
    entry = EXPECTATION_SYNTAX if condition.startswith("PARSE_") else EXPECTATION_INVALID
    return entry.at(each.at(spot), **named, says=sentence_of(error))


def _looks_beyond(plan: Any) -> Iterator[str]:
    """The parts of a condition that need more than one row."""
    if plan.subqueries().size():
        yield _SUBQUERY
    while plan.children().size():
        if kind_of(plan) in _NOT_OF_A_ROW:
            yield _NOT_OF_A_ROW[kind_of(plan)]
        plan = plan.children().apply(0)


def _uncertain(expressions: Any) -> Iterator[str]:
    """The innermost expressions that Spark considers nondeterministic."""
    for each in items_of(expressions):
        if not each.deterministic():
            yield from _uncertain(each.children())
            yield str(each.sql())
