"""Schemas in every form in which they are written."""

from __future__ import annotations

import json

import pytest

from headwater.spec import Column, Schema

COLUMNS = (Column("id", "int"), Column("at", "timestamp"), Column("deep", "struct<a:int,b:array<string>>"))


def test_every_form_gives_one_schema() -> None:
    mapping = Schema.of({"id": "integer", "at": "TIMESTAMP", "deep": {"a": "int", "b": ["string"]}})
    ddl = Schema.of("id int, at timestamp, deep struct<a: int, b: array<string>>")
    array = {"type": "array", "elementType": "string", "containsNull": True}
    fields = [{"name": "a", "type": "integer"}, {"name": "b", "type": array}]
    spark = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
            {"name": "at", "type": "timestamp"},
            {"name": "deep", "type": {"type": "struct", "fields": fields}},
        ],
    }
    assert mapping == ddl == Schema.of_spark_json(json.dumps(spark)) == Schema(COLUMNS)
    assert Schema.of(mapping) is mapping
    assert Schema.of(mapping.ddl) == mapping


def test_maps_and_nulls() -> None:
    map_type = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    spark = {"fields": [{"name": "m", "type": map_type, "nullable": False}]}
    assert Schema.of_spark_json(json.dumps(spark)) == Schema((Column("m", "map<string,bigint>", False),))
    assert Schema.of({"m": "map<string, long> not null"}).ddl == "m map<string,bigint> not null"


def test_names_and_quotes() -> None:
    schema = Schema.of({"a b": "int", "c": "string not null"})
    assert (schema.names, schema.ddl) == (("a b", "c"), "`a b` int, c string not null")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({}, "at least one column"),
        (3, "a mapping of columns to types"),
        (None, "a mapping of columns to types"),
        (["id int"], "a mapping of columns to types"),
        ({"id": None}, "`id` has no type"),
        ({"id": {}}, "`id` has no type"),
        ({"id": ["int", "int"]}, "`id` has no type"),
        ({"id": "int, b int"}, "one type is wanted"),
        ({"id": {"a": 3}}, "`a` has no type"),
        ({"id": "int", "ID": "int"}, "stands twice"),
        ("id int, ID string", "stands twice"),
        ("id", "lacks a type"),
        ("", "lacks a column name"),
        (",", "lacks a column name"),
    ],
)
def test_what_is_no_schema_is_told(declared: object, says: str) -> None:
    with pytest.raises(ValueError) as error:
        Schema.of(declared)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"fields": [{}]}', '{"fields": [{"name": "a", "type": {}}]}', '{"fields": 3}']
)
def test_what_is_no_schema_of_sparks_is_told(text: str) -> None:
    with pytest.raises(ValueError):
        Schema.of_spark_json(text)
