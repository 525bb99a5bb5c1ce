"""The rows of a query as plain JSON."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import monotonically_increasing_id, octet_length, spark_partition_id, struct, when
from pyspark.sql.functions import sum as sum_of
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    FractionalType,
    MapType,
    NullType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

# Python has no values for some of them.
_INTERVALS = (CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType)
_SHORT = (BooleanType, DateType, NullType, NumericType, TimestampNTZType, TimestampType)
_SHORT_BYTES = 50
"""The types whose values have at most this number of bytes as text."""
Converter = Callable[[Any], Any]


@dataclass(frozen=True)
class SqlResult:
    """The rows of a query, with values of JSON."""

    columns: tuple[tuple[str, str], ...]
    """The name and the Spark type of each column."""
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    """Whether the query has more rows."""

    def to_json(self) -> dict[str, Any]:
        """The form that a client receives."""
        return {
            "columns": [{"name": name, "type": type_} for name, type_ in self.columns],
            "rows": [list(row) for row in self.rows],
            "truncated": self.truncated,
        }


def first_rows(frame: DataFrame, count: int, max_bytes: int) -> SqlResult | None:
    """The first rows of a DataFrame; None if they have more bytes than that as JSON."""
    fields = frame.schema.fields
    # Columns of a query can have the same name.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(fields))))
    shown = (
        numbered[name].cast("string") if isinstance(field.dataType, _INTERVALS) else numbered[name]
        for name, field in zip(numbered.columns, fields, strict=True)
    )
    collected = within(numbered.select(*shown), count + 1, max_bytes).collect()
    converters = [_converter(field.dataType) for field in fields]
    rows, size = list[tuple[Any, ...]](), 0
    for (row,) in collected[:count]:
        if row is None:
            return None
        rows.append(tuple(convert(value) for convert, value in zip(converters, row, strict=True)))
        size += len(json.dumps(rows[-1], ensure_ascii=False).encode())
        if size > max_bytes:
            return None
    columns = tuple((field.name, field.dataType.simpleString()) for field in fields)
    return SqlResult(columns, tuple(rows), len(collected) > count)


def within(frame: DataFrame, count: int, max_bytes: int) -> DataFrame:
    """The first rows as one column; null from the row on at which their text has more bytes than that.

    The executors omit the others. Otherwise, a few huge values would fill the memory of the driver.
    """
    rows, fields = frame.limit(count), frame.schema.fields
    row = struct(*rows.columns)
    are_short = all(isinstance(field.dataType, _SHORT) for field in fields)
    if are_short and count * len(fields) * _SHORT_BYTES <= max_bytes:
        # No need for the window below, which takes longer than many queries.
        return rows.select(row.alias("row"))
    sized = rows.select(
        row.alias("row"),
        octet_length(row.cast("string")).alias("bytes"),
        # A limit has one partition.
        spark_partition_id().alias("part"),
        monotonically_increasing_id().alias("number"),
    )
    fits = sized.withColumn("row", when(sized.bytes <= max_bytes, sized.row))
    before = Window.partitionBy("part").orderBy("number").rowsBetween(Window.unboundedPreceding, 0)
    return fits.select(when(sum_of("bytes").over(before) <= max_bytes, fits.row).alias("row"))


def _converter(type_: DataType) -> Converter:
    """What makes JSON of the values of a type, which can be null."""
    convert = _of_values(type_)
    return lambda value: None if value is None else convert(value)


def _of_values(type_: DataType) -> Converter:
    match type_:
        case ArrayType():
            item = _converter(type_.elementType)
            return lambda value: [item(each) for each in value]
        case MapType():
            key, item = _converter(type_.keyType), _converter(type_.valueType)
            return lambda value: {_text(key(name)): item(each) for name, each in value.items()}
        case StructType():
            parts = [(field.name, _converter(field.dataType)) for field in type_.fields]
            return lambda value: {
                name: convert(each) for (name, convert), each in zip(parts, value, strict=True)
            }
        case DecimalType():
            return lambda value: format(value, "f")
        case FractionalType():
            return lambda value: value if math.isfinite(value) else _named(value)
        case BinaryType():
            return lambda value: b64encode(value).decode()
        case TimestampType():
            return lambda value: value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case DateType() | TimestampNTZType():
            return lambda value: value.isoformat()
        case VariantType():
            return lambda value: json.loads(value.toJson())
    return lambda value: value if isinstance(value, str | int) else str(value)


def _named(number: float) -> str:
    """A number that JSON does not have, as Spark's JSON writes it."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _text(key: Any) -> str:
    """The key of a map; JSON has only texts there."""
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)
