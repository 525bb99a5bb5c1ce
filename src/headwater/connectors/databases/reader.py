"""Reads a table for `headwater sql`: on the driver, through the driver of the database, up to a number of bytes.

Spark receives only values, so no plan and no option contains an address or a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from itertools import islice
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import StructField, StructType

from headwater.connectors.databases import errors
from headwater.connectors.databases.database import (
    Busy,
    Database,
    Field,
    Rejected,
    Session,
    Table,
    Unavailable,
)
from headwater.connectors.options import TIMES
from headwater.errors import Problem, UsageError

_ROWS_AT_ONCE = 100
"""How many rows are in memory besides those that count for the limit."""
_OTHER_KEYS = re.compile(r"map<(?!string\b)")
"""A map that Spark cannot read from JSON."""


def read_table(
    spark: SparkSession, database: Database, written: StructType, max_bytes: int
) -> DataFrame | None:
    """The rows that the table has now, with the columns `written`; None if they have more bytes than that."""
    database.only_reads = True
    try:
        with database.connect() as session:
            place = database.locate(session)
            values = _values(database, session, place, database.describe(session, place), max_bytes)
    except (Unavailable, Busy, Rejected) as error:
        raise UsageError(_problem(database, error)) from error
    if values is None:
        return None
    texts = spark.createDataFrame(values)
    return texts.select(*(_typed(number, field) for number, field in enumerate(written.fields)))


def _values(
    database: Database, session: Session, place: tuple[str, str], found: Table | None, max_bytes: int
) -> pa.Table | None:
    """The columns c0, c1, … as texts, which Spark casts; binary values as they are."""
    fields = database.target.fields
    types = (pa.binary() if field.type == "binary" else pa.string() for field in fields)
    schema = pa.schema([(f"c{number}", type_) for number, type_ in enumerate(types)])
    batches, size = list[pa.RecordBatch](), 0
    for rows in _batches(database, session, place, found) if found else ():
        columns = [
            pa.array(map(_bytes if pa.types.is_binary(each.type) else _text, values), each.type)
            for each, values in zip(schema, zip(*rows, strict=True), strict=True)
        ]
        batches.append(pa.record_batch(columns, schema=schema))
        size += batches[-1].nbytes
        if size > max_bytes:
            return None
    return pa.Table.from_batches(batches, schema)


def _batches(
    database: Database, session: Session, place: tuple[str, str], found: Table
) -> Iterator[Sequence[tuple[Any, ...]]]:
    # Without `columns: add`, a table can lack some of the columns.
    values = (
        database.readable(field) if found.column(field.name) else f"NULL AS {database.quoted(field.name)}"
        for field in database.target.fields
    )
    with closing(
        database.scan(session, f"SELECT {', '.join(values)} FROM {database.qualified(place)}")
    ) as rows:
        while batch := list(islice(rows, _ROWS_AT_ONCE)):
            yield batch


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if value is None else bytes(value)


def _text(value: Any) -> str | None:
    """A value in the form that a cast of Spark accepts."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="replace")
    return str(value)


def _typed(number: int, field: StructField) -> Column:
    value, type_ = col(f"c{number}"), field.dataType.simpleString()
    if not Field(field.name, type_).is_nested:
        return value.cast(field.dataType).alias(field.name)
    if _OTHER_KEYS.search(type_):
        return value.alias(field.name)
    return from_json(value, field.dataType, dict(TIMES)).alias(field.name)  # type: ignore[arg-type]


def _problem(database: Database, error: Exception) -> Problem:
    target = database.target
    if isinstance(error, Rejected) and "says" not in error.params:
        return target.at(error.entry, **error.params)
    says = error.params["says"] if isinstance(error, Rejected) else str(error) or "another process uses it"
    return target.at(errors.DATABASE_READ_FAILED, database=database.title, says=says)
