"""Bytes to columns: what is read of each message, and the validity of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import count, count_if, expr, lit

from headwater.connectors.contract import DETAIL, OWN, REASON, ROW, Context
from headwater.connectors.decoding.decode import decoded
from headwater.connectors.decoding.options import Decoded, ask_again
from headwater.engine.rows import apply_bad_rows, quarantined_bad_rows
from headwater.errors import PipelineError
from headwater.run_directory import RunDirectory
from headwater.spark.evaluate_once import evaluated_once
from headwater.spec import SourceSpec
from headwater.values import BadRows, secret
from headwater.values.secrets import scrub
from tests.encoded import BIRD, avro, bird, descriptor_file, numbered
from tests.json_values import BAD_JSON, COLUMNS, GOOD_JSON, WRONG
from tests.schema_registry import PASSWORD, USER, schema_registry

MESSAGES = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
AT = datetime(2026, 11, 16, 12, 0)


Validity = tuple[dict[str, Any], str | None, str | None]


def rows_of(raw: DataFrame, options: Any, context: Any, max_row_bytes: int | None) -> DataFrame:
    """The decoded columns, and the reason, the detail and the original of each row."""
    return decoded(raw, options, context, max_row_bytes).frame


def context(tmp_path: Path) -> Context:
    return Context(
        name="messages",
        place=None,
        root=tmp_path,
        directory=RunDirectory(tmp_path).source("messages"),
        load=lambda ref: lambda: None,
        keep=lambda path, text: None,
        at=lambda *keys: None,
        batch=False,
    )


def options(**said: Any) -> Decoded:
    return TypeAdapter(Decoded).validate_python(said)


def messages(spark: SparkSession, pairs: Iterable[tuple[bytes | None, bytes | None]]) -> DataFrame:
    rows = [
        (key, value, "birds", 0, offset, AT, 0, [("trace", b"\x01")])
        for offset, (key, value) in enumerate(pairs)
    ]
    return spark.createDataFrame(rows, MESSAGES)


def validities(found: list[Row]) -> list[Validity]:
    """The columns that have a value, the reason and the detail, in the order of the messages."""
    rows = sorted(found, key=lambda row: row[ROW].offset)
    return [
        (
            {key: value for key, value in row.asDict(True).items() if key not in OWN and value is not None},
            row[REASON],
            row[DETAIL],
        )
        for row in rows
    ]


def test_a_json_value_becomes_columns_or_gets_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    values = [value for value, _ in GOOD_JSON] + [bad[0] for bad in BAD_JSON]
    raw = messages(spark, ((None, value) for value in values))
    found = rows_of(raw, options(format="json", schema=COLUMNS), context(tmp_path), None)
    expected = [(row, None, None) for _, row in GOOD_JSON] + [tuple(bad[1:]) for bad in BAD_JSON]
    rows = found.collect()
    assert validities(rows) == expected
    # The bytes are kept as they were, whatever is in them.
    assert {row[ROW].offset: bytes(row[ROW].value) for row in rows} == dict(enumerate(values))


def test_the_verdict_does_not_depend_on_what_is_selected(spark: SparkSession, tmp_path: Path) -> None:
    values = [b'{"a":1,"c":"x"}', b'{"a":2,"c":1}', b'{"a":3}}', b'{"a":4,"c":2}']
    raw = messages(spark, ((None, value) for value in values))
    found = rows_of(raw, options(schema="a int, c double"), context(tmp_path), None)
    counted = found.observe(
        "rows", count(lit(1)).alias("read"), count_if(expr(f"{REASON} IS NOT NULL")).alias("bad")
    )
    for frame in (found, counted):
        good = frame.where(f"{REASON} IS NULL").drop(*OWN).select("a")
        assert sorted(row.a for row in good.collect()) == [2, 4]
        assert frame.where(f"{REASON} IS NOT NULL").count() == 2
    plan = counted.where(f"{REASON} IS NULL").select("a")._jdf.queryExecution().executedPlan().toString()
    # Every text is read once; what few rows need is not in the plan.
    assert plan.count("from_json(") == 1
    assert "headers" not in plan.split("Scan")[0]


@pytest.mark.parametrize("bad_rows", BadRows)
@pytest.mark.parametrize("format", ["json", "csv"])
def test_the_plan_of_a_batch_contains_no_reasons(
    spark: SparkSession, tmp_path: Path, format: str, bad_rows: BadRows
) -> None:
    raw = messages(spark, [(None, b"{}")])
    rows = decoded(raw, options(format=format, schema="a int not null, c double"), context(tmp_path), 1_000)
    source = SourceSpec.model_construct(name="messages", bad_rows=bad_rows)
    frames = [apply_bad_rows(rows, source, "counted"), quarantined_bad_rows(rows, source)]
    for frame in map(evaluated_once, frames):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert f"from_{format}(" in plan
        assert "no value" not in plan
        assert "not valid UTF-8" not in plan


NO_LINE = "not a single line with 4 values"
DAY = date(2026, 1, 2)
CSV: list[tuple[bytes, dict[str, Any], str | None, str | None]] = [
    (b"1;heron;2.5;2026-01-02", {"id": 1, "kind": "heron", "w": 2.5, "on": DAY}, None, None),
    (b"2;;;\n", {"id": 2}, None, None),
    (b'3;"a;b";1;2026-01-02', {"id": 3, "kind": "a;b", "w": 1.0, "on": DAY}, None, None),
    (b'3;"a ""b"" c";1;2026-01-02', {"id": 3, "kind": 'a "b" c', "w": 1.0, "on": DAY}, None, None),
    (b'3;"a\nb";1;2026-01-02', {"id": 3, "kind": "a\nb", "w": 1.0, "on": DAY}, None, None),
    (b"4;-;1;2026-01-02", {"id": 4, "w": 1.0, "on": DAY}, None, None),
    (b"x;heron;2.5;2026-01-02", {"kind": "heron", "w": 2.5, "on": DAY}, WRONG, "id: x is not an int"),
    (b"5;heron;2.5;soon", {"id": 5, "kind": "heron", "w": 2.5}, WRONG, "on: soon is not a date"),
    (b"6;heron;2.5", {"id": 6, "kind": "heron", "w": 2.5}, "malformed", NO_LINE),
    (b"7;heron;2.5;2026-01-02;more", {"id": 7, "kind": "heron", "w": 2.5, "on": DAY}, "malformed", NO_LINE),
    (b";heron;2.5;2026-01-02", {"kind": "heron", "w": 2.5, "on": DAY}, "missing_value", "id: no value"),
    (b"", {}, "malformed", NO_LINE),
    (b"8;h\xff;1;2026-01-02", {}, "malformed", "not valid UTF-8"),
    (b"9;a;1;2026-01-02\n10;b;1;2026-01-02", {"id": 9, "kind": "a", "w": 1.0}, "malformed", NO_LINE),
]  # fmt: skip


def test_a_line_of_csv_becomes_columns_or_gets_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    raw = messages(spark, ((None, line[0]) for line in CSV))
    said = options(
        format="csv", schema="id int not null, kind string, w double, on date", delimiter=";", null_value="-"
    )
    found = validities(rows_of(raw, said, context(tmp_path), None).collect())
    assert found == [line[1:] for line in CSV]
    for delimiter, good, bad in ((";", b"a,b;2.5", b"k;2,50"), (",", b'"a,b",2.5', b'k,"2,50"')):
        priced = options(format="csv", schema="kind string, w decimal(10,2)", delimiter=delimiter)
        raw = messages(spark, ((None, line) for line in (good, bad)))
        assert validities(rows_of(raw, priced, context(tmp_path), None).collect()) == [
            ({"kind": "a,b", "w": Decimal("2.50")}, None, None),
            ({"kind": "k"}, WRONG, "w: 2,50 is not a decimal(10,2)"),
        ]


def test_keys_and_columns_of_kafka_are_kept_by_choice(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [
        (b'{"id":1}', b'{"a":1}'),
        (b'{"id":"x"}', b'{"a":2}'),
        (None, b'{"a":3}'),
        (b'{"id":4}', b'{"a":"x"}'),
        (b'{"id":5}', None),
        (b'{"id":6}', b'{"a":' + b" " * 90 + b"6}"),
        (b"{}", b'{"a":7}'),
    ]
    said = options(
        schema={"a": "int"},
        key={"schema": "id int not null", "column": "who"},
        metadata_columns={"offset": "at_offset", "headers": "marks"},
    )
    assert said.columns.ddl == (
        "who struct<id:int>, a int, at_offset bigint, marks array<struct<key:string,value:binary>>"
    )
    found = rows_of(messages(spark, pairs), said, context(tmp_path), 90)
    marks = [{"key": "trace", "value": b"\x01"}]
    rows = validities(found.collect())
    assert [(row.pop("at_offset"), row.pop("marks")) for row, _, _ in rows] == [(n, marks) for n in range(7)]
    assert rows == [
        ({"who": {"id": 1}, "a": 1}, None, None),
        ({"who": {"id": None}, "a": 2}, WRONG, 'key: id: "x" is not an int'),
        ({"a": 3}, "missing_value", "key: the message has no key"),
        ({"who": {"id": 4}}, WRONG, 'a: "x" is not an int'),
        ({"who": {"id": 5}}, "missing_value", "the message has no value"),
        ({"who": {"id": None}}, "too_large", "105 bytes, limit 90"),
        ({"who": {"id": None}, "a": 7}, "missing_value", "key: id: no value"),
    ]


def test_text_raw_and_tombstones(spark: SparkSession, tmp_path: Path) -> None:
    raw = messages(spark, [(b"k", "Zoë".encode()), (b"\xff", b"a\xffb"), (None, None)])
    said = options(format="text", column="line", key={"format": "text", "column": "ad_id"})
    assert validities(rows_of(raw, said, context(tmp_path), None).collect()) == [
        ({"ad_id": "k", "line": "Zoë"}, None, None),
        ({}, "malformed", "not valid UTF-8"),
        ({}, None, None),
    ]
    whole = rows_of(raw, options(), context(tmp_path), None)
    assert whole.drop(*OWN).schema == raw.schema
    by_offset = lambda row: row.offset  # noqa: E731
    assert sorted(whole.drop(*OWN).collect(), key=by_offset) == sorted(raw.collect(), key=by_offset)
    keyed = rows_of(raw, options(key={"format": "raw"}), context(tmp_path), None)
    assert validities(keyed.collect()) == [
        ({"key": b"k", "value": "Zoë".encode()}, None, None),
        ({"key": b"\xff", "value": b"a\xffb"}, None, None),
        ({}, None, None),
    ]
    gone = messages(spark, [(b"1", b'{"a":1}'), (b"1", None)])
    for tombstones, expected in (
        ("keep", [({"a": 1}, None, None), ({}, None, None)]),
        ("drop", [({"a": 1}, None, None)]),
    ):
        said = options(schema="a int not null", tombstones=tombstones)
        assert validities(rows_of(gone, said, context(tmp_path), None).collect()) == expected


def numbered_values(registry: Any) -> list[bytes]:
    """Messages of every kind, and in the registry the schemas of those that are known."""
    seen = datetime(2026, 5, 1, tzinfo=UTC)
    first = {"id": 1, "kind": "heron", "weight": Decimal("2.50"), "seen": seen}
    narrow = {"type": "record", "name": "Bird", "fields": [{"name": "id", "type": "int"},
              {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}  # fmt: skip
    other = {"type": "record", "name": "Bird", "fields": [{"name": "id", "type": "string"},
             {"name": "seen", "type": "long"}]}  # fmt: skip
    nest = {"type": "record", "name": "Nest", "namespace": "field",
            "fields": [{"name": "n", "type": "int"}]}  # fmt: skip
    id_, wrap = {"name": "id", "type": "long"}, {"type": "record", "name": "Wrap"}
    wrapped = {**wrap, "fields": [id_, {"name": "nest", "type": nest}]}
    refers = {**wrap, "fields": [id_, {"name": "nest", "type": "field.Nest"}]}
    registry.add(1, BIRD)
    registry.add(2, narrow)
    registry.add(3, other)
    registry.add(4, "syntax = …", schemaType="PROTOBUF")
    registry.add(5, refers, references=[{"name": "n", "subject": "nest", "version": 1}])
    registry.subjects["/subjects/nest/versions/1"] = {"schema": json.dumps(nest)}
    return [
        numbered(1, avro(BIRD, first)),
        numbered(2, avro(narrow, {"id": 2, "seen": seen})),
        numbered(9, avro(BIRD, first)),
        numbered(1, avro(BIRD, first)[:-2]),
        numbered(1, avro(BIRD, first) + b"!"),
        b"\x07nothing",
        b"",
        numbered(3, avro(other, {"id": "x", "seen": 5})),
        numbered(4, b"x"),
        numbered(5, avro(wrapped, {"id": 7, "nest": {"n": 1}})),
    ]


def test_avro_by_the_numbers_of_a_registry(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    with schema_registry() as registry:
        raw = messages(spark, ((None, value) for value in numbered_values(registry)))
        place = {"url": registry.url, "user": USER, "password": secret("REGISTRY_PASSWORD")}
        file = tmp_path / "bird.avsc"
        file.write_text(json.dumps(BIRD))
        by_name = options(
            format="avro",
            registry=place,
            schema="id bigint not null, kind string, seen timestamp, nest struct<n:int>",
        )
        by_file = options(format="avro", registry=place, schema_file=str(file))
        named = rows_of(raw, by_name, context(tmp_path), None)
        heron = {"id": 1, "kind": "heron", "seen": datetime(2026, 5, 1)}
        no_schema = ("malformed", "does not start with a schema ID")
        assert validities(named.collect()) == [
            (heron, None, None),
            ({"id": 2, "seen": datetime(2026, 5, 1)}, None, None),
            ({}, "unknown_schema_id", "9"),
            ({}, "malformed", "not a record of schema 1"),
            ({}, "malformed", "extra bytes after the record"),
            ({}, *no_schema),
            ({}, *no_schema),
            ({"seen": datetime(1970, 1, 1, 0, 0, 5)}, WRONG, 'id: "x" is not a bigint'),
            ({}, "malformed", "schema 4: type is PROTOBUF, expected AVRO"),
            ({"id": 7, "nest": {"n": 1}}, None, None),
        ]
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        assert not [each for each in (PASSWORD, login) if each in named._jdf.queryExecution().toString()]
        assert login not in scrub(f"Basic {login}")
        # A number that was unknown stays so for every query, until rows are replayed; nobody is asked.
        registry.add(9, BIRD)
        asked = len(registry.asked)
        assert (
            validities(rows_of(raw, by_file, context(tmp_path), None).collect())[2][1] == "unknown_schema_id"
        )
        assert "/schemas/ids/9" not in registry.asked[asked:]
        ask_again(RunDirectory(tmp_path).source("messages"))
        whole = validities(rows_of(raw, by_file, context(tmp_path), None).collect())
        assert whole[0] == ({**heron, "weight": Decimal("2.50")}, None, None)
        no_weight = "schema 2 does not match: No default value for field weight in field.Bird"
        assert whole[1] == ({}, WRONG, no_weight)
        assert whole[2] == whole[0]
        assert by_file.columns.ddl == "id bigint, kind string, weight decimal(6,2), seen timestamp"
        assert "/schemas/ids/9" in registry.asked[asked:]
        new = messages(spark, [(None, numbered(77, b"x"))])
        late = rows_of(new, by_name, context(tmp_path), None)
        registry.broken = True
        with pytest.raises(
            PySparkException, match=f"HW-REGISTRY-SCHEMA-UNAVAILABLE\t{registry.url}\tHTTP 503"
        ):
            late.collect()
        with pytest.raises(PipelineError) as refused:
            rows_of(raw, by_name, context(tmp_path), None)
        assert refused.value.problems[0].code == "HW-REGISTRY-UNREACHABLE"
    with pytest.raises(PipelineError) as down:
        rows_of(raw, by_name, context(tmp_path), None)
    assert down.value.problems[0].code == "HW-REGISTRY-UNREACHABLE"


def test_avro_of_one_schema(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bird.avsc").write_text(json.dumps(BIRD))
    record = avro(BIRD, {"id": 1, "kind": "owl", "weight": None, "seen": datetime(2026, 5, 1, tzinfo=UTC)})
    # A long of 1, a string of 1,900,000,000 bytes: Spark's own reader makes room for it first.
    huge = bytes.fromhex("0202" + "80ccfd930e") + b"abc"
    values = [record, record[:-1], record + b"!", huge, b"\xff" * 40, b""]
    said = options(format="avro", schema_file=str(tmp_path / "bird.avsc"))
    found = rows_of(messages(spark, ((None, value) for value in values)), said, context(tmp_path), None)
    no_record: Validity = ({}, "malformed", "not a record of the schema")
    assert validities(found.collect()) == [
        ({"id": 1, "kind": "owl", "seen": datetime(2026, 5, 1)}, None, None),
        no_record,
        ({}, "malformed", "extra bytes after the record"),
        *[no_record] * 3,
    ]


def test_avro_by_the_numbers_of_files(spark: SparkSession, tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    said = {"format": "avro", "schema": "id bigint", "registry": {"directory": str(schemas)}}
    seen = datetime(2026, 5, 1, tzinfo=UTC)
    record = {"id": 3, "kind": None, "weight": None, "seen": seen}
    raw = messages(spark, ((None, numbered(number, avro(BIRD, record))) for number in (1, 2)))
    with pytest.raises(PipelineError) as refused:
        rows_of(raw, options(**said), context(tmp_path), None)
    assert refused.value.problems[0].code == "HW-REGISTRY-DIR-NOT-FOUND"
    schemas.mkdir()
    (schemas / "1.avsc").write_text(json.dumps(BIRD))
    frame = rows_of(raw, options(**said), context(tmp_path), None)
    assert validities(frame.collect()) == [({"id": 3}, None, None), ({}, "unknown_schema_id", "2")]
    (schemas / "2.avsc").write_text(json.dumps(BIRD))
    assert validities(frame.collect()) == [({"id": 3}, None, None), ({}, "unknown_schema_id", "2")]
    ask_again(RunDirectory(tmp_path).source("messages"))
    assert validities(frame.collect()) == [({"id": 3}, None, None), ({"id": 3}, None, None)]


def test_protobuf_by_a_descriptor_file(spark: SparkSession, tmp_path: Path) -> None:
    said = options(format="protobuf", descriptor=str(descriptor_file(tmp_path)), message="field.Bird")
    assert said.columns.ddl == (
        "id bigint, kind string, ringed decimal(20,0), seen timestamp, photo binary, notes array<string>, "
        "state string"
    )
    full = bird(id=1, kind="heron", ringed=2**64 - 1, seen={"seconds": 5, "nanos": 1000}, photo=b"\0\1",
                notes=["a", "b"], state=1)  # fmt: skip
    zero = {"id": 0, "kind": "", "ringed": Decimal(0), "photo": b"", "notes": [], "state": "HERE"}
    raw = messages(
        spark, [(None, full), (None, b""), (None, full[:-1] + b"\xff\xff"), (None, b"\x12\x02\xff\xfe")]
    )
    assert validities(rows_of(raw, said, context(tmp_path), None).collect()) == [
        ({"id": 1, "kind": "heron", "ringed": Decimal(2**64 - 1), "photo": b"\0\1", "notes": ["a", "b"],
          "seen": datetime(1970, 1, 1, 0, 0, 5, 1), "state": "AWAY"}, None, None),
        (zero, None, None),
        ({}, "malformed", "not a message of type field.Bird"),
        ({}, "malformed", "not a message of type field.Bird"),
    ]  # fmt: skip
