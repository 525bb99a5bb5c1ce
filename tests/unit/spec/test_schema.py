"""Schemas in every form in which they are written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.spec import Column, Schema
from headwater.spec.schema import SIMPLE, canonical_type, parse_columns, quoted

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
        ({}, "has no columns"),
        (3, "a mapping of columns to types"),
        (None, "a mapping of columns to types"),
        (["id int"], "a mapping of columns to types"),
        ({"id": None}, "`id` has no type"),
        ({"id": {}}, "`id` has no type"),
        ({"id": ["int", "int"]}, "`id` has no type"),
        ({"id": "int, b int"}, "expected one type, got"),
        ({"id": {"a": 3}}, "`a` has no type"),
        ({"id": "int", "ID": "int"}, "two columns named"),
        ("id int, ID string", "two columns named"),
        ("id", "is missing a type"),
        ("", "is missing a column name"),
        (",", "is missing a column name"),
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


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("INT", "int"),
        ("integer", "int"),
        ("long", "bigint"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("decimal", "decimal(10,0)"),
        ("dec(5)", "decimal(5,0)"),
        ("numeric( 10 , 2 )", "decimal(10,2)"),
        ("varchar(10)", "varchar(10)"),
        ("char(1)", "char(1)"),
        ("array<LONG>", "array<bigint>"),
        ("map<string, array<int>>", "map<string,array<int>>"),
        ("struct<a: int, b string>", "struct<a:int,b:string>"),
        ("struct<`a b`: int not null>", "struct<`a b`:int not null>"),
        ("array<struct<a: map<string, int>>>", "array<struct<a:map<string,int>>>"),
        ("variant", "variant"),
        ("interval", "interval"),
        ("INTERVAL Day TO Second", "interval day to second"),
        ("array<interval year>", "array<interval year>"),
        ("interval year to month", "interval year to month"),
        ("string collate unicode_ci", "string collate UNICODE_CI"),
        ("STRING COLLATE en_USA", "string collate en_USA"),
        ("string collate utf8_binary", "string"),
        ("struct<a: int comment 'x', ünit string>", "struct<a:int,`ünit`:string>"),
    ],
)
def test_a_type_has_one_spelling(written: str, canonical: str) -> None:
    assert canonical_type(written) == canonical
    assert canonical_type(canonical) == canonical


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "is missing a type"),
        ("integr", "did you mean `integer`"),
        ("text", "use one of array, bigint"),
        ("varchar", "is missing a length"),
        ("decimal(1,2,3)", "too many numbers"),
        ("decimal(x)", "expected a number, got"),
        ("array", "is missing a `<`"),
        ("array<int", "is missing a `>`"),
        ("map<string>", "is missing a `,`"),
        ("struct<>", "is missing a column name"),
        ("struct<a>", "is missing a type"),
        ("int int", "has an unexpected"),
        ("int;", "unexpected `;`"),
        ("interval day to day", "cannot go from day to day"),
        ("interval month to year", "cannot go from month to year"),
        ("interval day to month", "cannot go from day to month"),
        ("string collate", "is missing the name of a collation"),
        ("struct<a: int comment>", "is missing a quoted string after COMMENT"),
        ("struct<a: int comment x>", "is missing a quoted string after COMMENT"),
        ("struct<'a': int>", "is missing a column name before `'a'`"),
        ("struct<a: int comment 'x>", "unexpected `'`"),
    ],
)
def test_what_is_no_type_is_told(written: str, says: str) -> None:
    with pytest.raises(ValueError) as error:
        canonical_type(written)
    assert says in str(error.value)


def test_columns_of_a_ddl_text() -> None:
    assert parse_columns("a int, `b c` string not null, d: array<int>") == [
        ("a", "int", True),
        ("b c", "string", False),
        ("d", "array<int>", True),
    ]


def test_comments_are_stepped_over() -> None:
    text = """id int COMMENT 'it''s, not' , b string not null comment "a \\" b", comment string"""
    assert parse_columns(text) == [
        ("id", "int", True),
        ("b", "string", False),
        ("comment", "string", True),
    ]


@pytest.mark.parametrize(
    ("name", "ddl"),
    [
        ("a_1", "a_1"),
        ("ü1", "`ü1`"),
        ("straße", "`straße`"),
        ("a b", "`a b`"),
        ("1a", "`1a`"),
        ("a`b", "`a``b`"),
    ],
)
def test_a_name_is_quoted_where_it_must_be(name: str, ddl: str) -> None:
    assert quoted(name) == ddl
    assert parse_columns(f"{ddl} int") == [(name, "int", True)]


LEAVES = st.sampled_from(sorted(SIMPLE)) | st.just("decimal(3,1)")
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(LEAVES, inner).map(lambda kv: f"map<{kv[0]},{kv[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: f"struct<{','.join(f'f{i}: {t}' for i, t in enumerate(ts))}>"
        ),
    ),
)


@given(TYPES)
def test_every_type_that_is_written_is_read(written: str) -> None:
    canonical = canonical_type(written)
    assert canonical_type(canonical) == canonical
