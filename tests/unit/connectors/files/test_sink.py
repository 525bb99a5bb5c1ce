"""What a sink's folder is taken to hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from headwater.connectors.files import FilesSink
from headwater.connectors.files.sink import stored_schema


def held(format: str, read: StructType, written: StructType) -> StructType | None:
    reader = SimpleNamespace(load=lambda path: SimpleNamespace(schema=read))
    reader.options = lambda **options: reader
    spark: Any = SimpleNamespace(read=SimpleNamespace(format=lambda name: reader))
    sink = FilesSink.model_validate({"path": "/out", "format": format, "partition_by": "day"})
    return stored_schema(spark, sink, written)


def struct(**columns: DataType) -> StructType:
    found = StructType()
    for name, type_ in columns.items():
        found.add(name, type_)
    return found


READ = struct(A=IntegerType(), b=ArrayType(struct(tinyint=IntegerType())), c=IntegerType(), d=IntegerType())
WRITTEN = struct(
    a=ShortType(), b=ArrayType(struct(tinyint=ByteType())), c=StringType(), d=LongType(), day=ShortType()
)


def test_an_avro_file_holds_small_integers_as_int() -> None:
    expected = struct(
        a=ShortType(),
        b=ArrayType(struct(tinyint=ByteType())),
        c=IntegerType(),
        d=IntegerType(),
        day=ShortType(),
    )
    assert held("avro", READ, WRITTEN) == expected


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_other_files_hold_what_they_say(format: str) -> None:
    assert held(format, READ, WRITTEN) == StructType([*READ.fields, WRITTEN["day"]])
