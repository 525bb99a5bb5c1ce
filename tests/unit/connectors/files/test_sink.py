"""What a sink's folder is taken to hold."""

from __future__ import annotations

import json
from pathlib import Path
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
from headwater.connectors.files.sink import stored_batch, stored_schema


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


def test_one_file_shows_the_schema_of_a_sink_with_many(tmp_path: Path) -> None:
    """Reading the directory would read the whole log, at each start."""
    log, made = tmp_path / "_spark_metadata", {"isDir": False, "modificationTime": 1, "action": "add"}
    log.mkdir()
    files = [
        {"path": f"file://{tmp_path}/day=1/{number}.parquet", "size": int(number != 4), **made}
        for number in range(6)
    ]
    (log / "9.compact").write_text("\n".join(["v1", *map(json.dumps, files[:3])]))
    (log / "10").write_text("\n".join(["v1", *map(json.dumps, files[3:])]))
    (tmp_path / "day=1").mkdir()
    # The last file was deleted, and the one before is empty.
    for number in range(5):
        (tmp_path / f"day=1/{number}.parquet").touch()

    loaded, given = list[str](), dict[str, str]()

    def load(path: str) -> SimpleNamespace:
        loaded.append(path)
        return SimpleNamespace(schema=READ)

    reader = SimpleNamespace(load=load)
    reader.options = lambda **options: reader

    def option(key: str, value: str) -> SimpleNamespace:
        given[key] = value
        return reader

    reader.option = option
    spark: Any = SimpleNamespace(read=SimpleNamespace(format=lambda name: reader))
    sink = FilesSink.model_validate({"path": str(tmp_path), "format": "parquet", "partition_by": "day"})
    assert stored_schema(spark, sink, WRITTEN) == StructType([*READ.fields, WRITTEN["day"]])
    assert loaded == [str(tmp_path / "day=1/3.parquet")]
    assert given == {"basePath": str(tmp_path)}


def test_the_newest_batch_of_a_local_sink_needs_no_calls_into_the_jvm(tmp_path: Path) -> None:
    sink = FilesSink.model_validate({"path": str(tmp_path), "format": "json"})
    no_spark: Any = None
    assert stored_batch(no_spark, sink) is None
    (tmp_path / "_spark_metadata").mkdir()
    for name in ("9.compact", ".9.compact.crc", "10", "11"):
        (tmp_path / "_spark_metadata" / name).touch()
    assert stored_batch(no_spark, sink) == 11
