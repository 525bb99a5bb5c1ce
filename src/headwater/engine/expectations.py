"""Expectations: every row of a table is judged and counted; those that fail go their declared way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_

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

from headwater.connectors.json_text.spark import more_follows
from headwater.connectors.json_text.times import TIMES
from headwater.connectors.judged import ROW_TYPE, Reason
from headwater.errors import Entry
from headwater.errors.catalogue.expectations import EXPECTATION_FAILED
from headwater.errors.catalogue.quarantine import FED_AGAIN_UNREADABLE
from headwater.events.expectations import ALL_ROWS
from headwater.plan.quarantine import sets_aside
from headwater.spec import Expectation, TableSpec
from headwater.values import Otherwise

_FAILED = "__hw_failed_"
_UNREAD = "__hw_unread"
"""Of a row that was fed again: its text, if that can't be read."""
_LONGEST_ROW = 2_000
"""How much of a row goes into the failure; the problem shows less, after secrets are taken out."""


def with_fed_rows(rows: DataFrame, again: DataFrame) -> DataFrame:
    """The rows of a table, and those that were set aside and are fed again."""
    text = col("row")["value"].cast("string")
    wanted = [StructField(field.name, field.dataType) for field in rows.schema.fields]
    schema = StructType([*wanted, StructField(_UNREAD, StringType())])
    read = from_json(text, schema, {**TIMES, "columnNameOfCorruptRecord": _UNREAD})
    columns = [_nullable_as(field, col("read")[field.name]) for field in rows.schema.fields]
    fed = again.select(text.alias("text"), read.alias("read")).select(*columns, _unread(rows).alias(_UNREAD))
    return rows.withColumn(_UNREAD, lit(None).cast("string")).union(fed)


def _unread(rows: DataFrame) -> Column:
    """The text of a fed row if it is not one object with all that a row of the table needs; else null."""
    read, text = col("read"), coalesce(col("text"), lit(""))
    needed = (read[field.name].isNull() for field in rows.schema.fields if not field.nullable)
    # Spark puts another letter in the place of bytes that are none.
    other = ~is_valid_utf8(text) | read.isNull() | read[_UNREAD].isNotNull() | more_follows(text, {})
    return when(reduce(or_, needed, other), text)


_NEVER_SEEN: dict[str, object] = {
    "tinyint": 0,
    "smallint": 0,
    "int": 0,
    "bigint": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "binary": b"",
    "boolean": False,
    "date": date(1970, 1, 1),
    "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
}


def _nullable_as(field: StructField, read: Column) -> Column:
    """A column of a fed row that may be null only if that of the table may.

    Spark keeps with the state whether a column may be null, and refuses a query in which a key suddenly may.
    The values that stand in for null here are those of rows that can't be read, and never go on.
    """
    of_type = field.dataType.simpleString()
    if field.nullable or of_type not in _NEVER_SEEN:
        return read.alias(field.name)
    return coalesce(read, lit(_NEVER_SEEN[of_type]).cast(field.dataType)).alias(field.name)


def judged_rows(rows: DataFrame, table: TableSpec) -> DataFrame:
    """The rows with a verdict on each expectation; a condition that is null counts as failed."""
    readable = col(_UNREAD).isNull() if _UNREAD in rows.columns else lit(True)
    failed = {
        f"{_FAILED}{place}": readable & ~coalesce(expr(each.check), lit(False))
        for place, each in enumerate(table.expect)
    }
    return rows.select("*", *(column.alias(name) for name, column in failed.items()))


def expected_rows(judged: DataFrame, table: TableSpec, counted: str | Observation | None) -> DataFrame:
    """The rows that go on; all are counted before, under a name or for an observation."""
    if counted is not None:
        judged = judged.observe(counted, *_counts(judged, table))
    # The strongest wins: a row that fails the query is neither set aside nor dropped.
    goes_on = ~_any_failed(table, Otherwise.DROP, Otherwise.QUARANTINE)
    for failed, each in reversed(list(_failed(table, Otherwise.FAIL))):
        goes_on = when(failed, _failure(judged, table, each)).otherwise(goes_on)
    if _UNREAD in judged.columns:
        # Where nothing takes them they fail the query: nobody would ever hear of them otherwise.
        lost = lit(False) if sets_aside(table) else _unreadable(table)
        goes_on = when(col(_UNREAD).isNotNull(), lost).otherwise(goes_on)
    if _UNREAD in judged.columns or any(each.otherwise is not Otherwise.WARN for each in table.expect):
        judged = judged.where(goes_on)
    return judged.drop(*_own(judged))


def rows_set_aside(judged: DataFrame, table: TableSpec) -> DataFrame:
    """The rows that go into the quarantine, as it keeps them."""
    chosen = _any_failed(table, Otherwise.QUARANTINE) & ~_any_failed(table, Otherwise.FAIL)
    names = [when(failed, lit(each.name)) for failed, each in _failed(table, *Otherwise)]
    reason, detail, text = lit(Reason.EXPECTATION.value), concat_ws(", ", *names), _as_json(judged)
    if _UNREAD in judged.columns:
        unread = col(_UNREAD).isNotNull()
        chosen, text = chosen | unread, coalesce(col(_UNREAD), text)
        reason = when(unread, lit(Reason.MALFORMED.value)).otherwise(reason)
        detail = when(unread, lit("it was fed again and is not one object of a whole row")).otherwise(detail)
    return judged.where(chosen).select(
        lit(table.name).alias("source"),
        reason.alias("reason"),
        detail.alias("detail"),
        current_timestamp().alias("set_aside_at"),
        _kept(text.cast("binary")).alias("row"),
    )


def _counts(judged: DataFrame, table: TableSpec) -> Iterator[Column]:
    rows = count_if(col(_UNREAD).isNull()) if _UNREAD in judged.columns else count(lit(1))
    yield rows.alias(ALL_ROWS)
    for failed, each in _failed(table, *Otherwise):
        yield count_if(failed).alias(each.name)


def _failed(table: TableSpec, *kinds: Otherwise) -> Iterator[tuple[Column, Expectation]]:
    """The verdict on each expectation of some kinds."""
    for place, each in enumerate(table.expect):
        if each.otherwise in kinds:
            yield col(f"{_FAILED}{place}"), each


def _any_failed(table: TableSpec, *kinds: Otherwise) -> Column:
    return reduce(or_, (failed for failed, _ in _failed(table, *kinds)), lit(False))


def _failure(judged: DataFrame, table: TableSpec, each: Expectation) -> Column:
    """Ends the query with a row; the parts of the text stand apart by tabs, for who translates it."""
    return _ended(EXPECTATION_FAILED, _as_json(judged), table.name, each.name)


def _unreadable(table: TableSpec) -> Column:
    """Ends the query with a text that was fed again."""
    # It is the user's own, and may hold what the parts stand apart by.
    return _ended(FED_AGAIN_UNREADABLE, regexp_replace(col(_UNREAD), r"[\t\r\n]+", " "), table.name)


def _ended(entry: Entry, row: Column, *about: str) -> Column:
    text = concat_ws("\t", lit(entry.code), *map(lit, about), substring(row, 1, _LONGEST_ROW))
    return raise_error(text).cast("boolean")


def _as_json(judged: DataFrame) -> Column:
    own = _own(judged)
    columns = [col(f"`{name.replace('`', '``')}`") for name in judged.columns if name not in own]
    return to_json(struct(*columns), {**TIMES, "ignoreNullFields": "false"})


def _kept(value: Column) -> Column:
    """A row of a table as a quarantine keeps it: it has no place, only its text."""
    whole = DataType.fromDDL(ROW_TYPE)
    assert isinstance(whole, StructType), "a row is a struct"
    fields = [value if field.name == "value" else lit(None).cast(field.dataType) for field in whole.fields]
    return struct(*(each.alias(field.name) for each, field in zip(fields, whole.fields, strict=True)))


def _own(judged: DataFrame) -> list[str]:
    return [name for name in judged.columns if name == _UNREAD or name.startswith(_FAILED)]
