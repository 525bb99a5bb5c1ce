"""What can be said about bytes that are to become columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from headwater.connectors.decoding import executors
from headwater.connectors.decoding.options import Decoded
from headwater.values import secret
from tests.encoded import BIRD, descriptor_file, maps, message


def options(root: Path = Path("/project"), **said: Any) -> Decoded:
    return TypeAdapter(Decoded).validate_python(said, context={"root": root})


def refusal(root: Path = Path("/project"), **said: Any) -> str:
    with pytest.raises(ValidationError) as error:
        options(root, **said)
    (only,) = error.value.errors()
    return str(only["msg"]).removeprefix("Value error, ")


@pytest.mark.parametrize(
    ("said", "columns"),
    [
        (
            {},
            "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
            "timestampType int, headers array<struct<key:string,value:binary>>",
        ),
        ({"schema": "a int not null"}, "a int"),
        ({"format": "text"}, "value string"),
        ({"format": "text", "column": "line", "metadata_columns": []}, "line string"),
        ({"format": "raw", "key": {}}, "key binary, value binary"),
        ({"format": "raw", "metadata_columns": ["topic"]}, "value binary, topic string"),
        ({"schema": "a int", "key": {"format": "text", "column": "ad_id"}}, "ad_id string, a int"),
        (
            {"schema": "a int", "key": {"schema": "id int"}, "metadata_columns": {"offset": "at"}},
            "key struct<id:int>, a int, at bigint",
        ),
    ],
)
def test_columns_are_known_without_spark(said: dict[str, Any], columns: str) -> None:
    assert options(**said).columns.ddl == columns


def test_columns_of_files_are_known_without_spark(tmp_path: Path) -> None:
    (tmp_path / "bird.avsc").write_text(json.dumps(BIRD))
    descriptor_file(tmp_path)
    avro = options(tmp_path, format="avro", schema_file="bird.avsc")
    assert avro.columns.ddl == "id bigint, kind string, weight decimal(6,2), seen timestamp"
    protobuf = options(tmp_path, format="protobuf", descriptor="birds.desc", message="field.Bird")
    assert protobuf.columns.names == ("id", "kind", "ringed", "seen", "photo", "notes", "state")


def test_the_keys_of_protobufs_maps_are_texts(tmp_path: Path) -> None:
    (tmp_path / "maps.desc").write_bytes(maps())
    said = options(tmp_path, format="protobuf", descriptor="maps.desc", message="field.Maps")
    assert said.columns.ddl == "by_name map<string,int>, by_number map<string,int>"
    data = message(maps(), "field.Maps", by_name={"a": 1}, by_number={5: 2})
    read = executors.protobuf(maps(), "field.Maps")(data)
    assert read == ('{"by_name": {"a": 1}, "by_number": {"5": 2}}', None, None)
    assert options(schema="a map<string,map<string collate UNICODE,int>>").columns.names == ("a",)


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"format": "json"}, "`format: json` requires the columns"),
        ({"format": "csv"}, "`format: csv` requires the columns"),
        ({"format": "text", "schema": "a int"}, "`schema` is not supported with format `text`"),
        ({"schema": "a int", "delimiter": ";"}, "`delimiter` is not supported with format `json`"),
        ({"format": "text", "tombstones": "keep"}, "`tombstones` is not supported with format `text`"),
        ({"schema": "a int", "column": "b"}, "`column` is not supported with format `json`"),
        ({"schema": "a int", "metadata_columns": {"offset": "A"}}, "duplicate column `A`"),
        ({"schema": "key int", "key": {}}, "duplicate column `key`"),
        ({"schema": "a int", "metadata_columns": ["ofset"]}, "did you mean `offset`?"),
        (
            {"format": "csv", "schema": "a array<int>"},
            "CSV does not support the type of column `a` (array<int>)",
        ),
        ({"schema": "a array<map<int,string>>"}, "map keys must be strings; use `map<string,…>`"),
        ({"format": "avro"}, "without `registry` requires `schema_file`"),
        ({"format": "avro", "registry": {"directory": "s"}}, "either `schema` or `schema_file`"),
        (
            {"format": "avro", "schema": "a int", "registry": {}},
            "exactly one of `url` and `directory` is required",
        ),
        ({"format": "avro", "schema": "a int", "registry": {"url": "http://u:p@h"}}, "`user` and `password`"),
        (
            {"format": "avro", "schema": "a int", "registry": {"url": "http://h", "user": "u"}},
            "require each other",
        ),
        (
            {
                "format": "avro",
                "schema": "a int",
                "registry": {"url": "http://h", "user": "u", "password": "p"},
            },
            "expected a secret; write ${secret:NAME}",
        ),
        ({"format": "protobuf", "message": "a.B"}, "requires `descriptor`"),
        (
            {"format": "protobuf", "message": "a.B", "descriptor": "x.desc"},
            "descriptor file /project/x.desc not found",
        ),
        ({"format": "avro", "schema_file": "x.avsc"}, "schema file /project/x.avsc not found"),
    ],
)
def test_what_would_do_nothing_or_is_not_enough_is_refused(said: dict[str, Any], part: str) -> None:
    assert part in refusal(**said)


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ("nothing", "is not valid JSON"),
        ('"long"', "expected a record"),
        ('{"type": "record", "name": "R", "fields": []}', "has no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}', "recursive type `R`"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": '
            '{"type": "array", "items": {"type": "record", "name": "N", "fields": []}}}]}',
            "record `N` has no fields",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": '
            '{"type": "fixed", "name": "F", "size": 0}}]}',
            "`F` has no bytes",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["int", "string"]}]}',
            "a union of several types",
        ),
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": "What"}]}', "unknown type `What`"),
        ('{"type": "record", "name": "R"}', "is not an Avro schema"),
    ],
)
def test_avro_schemas_that_columns_cant_have_are_refused(tmp_path: Path, schema: str, part: str) -> None:
    (tmp_path / "r.avsc").write_text(schema)
    assert part in refusal(tmp_path, format="avro", schema_file="r.avsc")


def test_a_message_that_is_not_in_the_descriptor_is_refused_with_the_nearest(tmp_path: Path) -> None:
    descriptor_file(tmp_path)
    said = {"format": "protobuf", "descriptor": "birds.desc"}
    assert "did you mean `field.Bird`?" in refusal(tmp_path, **said, message="field.Brid")
    (tmp_path / "birds.desc").write_bytes(b"\xff\xff")
    assert "is not a descriptor file" in refusal(tmp_path, **said, message="field.Bird")


def test_a_registry_shows_no_password() -> None:
    registry = {"url": "https://registry.example", "user": "reader", "password": secret("REGISTRY_PASSWORD")}
    said = options(format="avro", schema="a int", registry=registry)
    assert "password=***" in str(said.registry)
