"""What the Kafka sink makes of columns, and what it has against them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.kafka import KafkaSink
from headwater.connectors.kafka.message import HEADERS_TYPE, Message, literal, problems_of
from headwater.spec import SinkSpec
from headwater.values import parse_trigger

COLUMNS = {"ad": "string", "cost": "double", "raw": "binary", "both": "struct<a:int>", "part": "int"}


def message(rows: Mapping[str, str] = COLUMNS, **written: Any) -> Message:
    options = KafkaSink.model_validate(
        {"bootstrap_servers": "localhost:9092", "topic": "t", **written}, context={"root": Path("/project")}
    )
    return Message.of("out", options, rows)


def wrong(rows: Mapping[str, str] = COLUMNS, **written: Any) -> list[tuple[str, str, object]]:
    """Key, code and what to write, of everything that is wrong."""
    found = message(rows, **written).wrong
    return [
        (key, problem.code, problem.params.get("cast") or problem.params.get("hint"))
        for key, problem in found
    ]


def test_columns_of_sparks_own_names_are_taken_as_spark_does() -> None:
    columns = {"Key": "binary", "value": "string", "topic": "string", "partition": "int", "offset": "bigint"}
    assert message(columns, topic=None).parts == {
        "topic": "CAST(`topic` AS string)",
        "key": "`Key`",
        "value": "CAST(`value` AS string)",
        "partition": "`partition`",
    }
    # The key wins over the column.
    assert message(columns, topic="t").parts["topic"] == literal("t")
    assert message(columns, topic="t", topic_column="key").parts["topic"] == literal("t")


def test_with_a_value_only_what_is_named_is_taken() -> None:
    columns = {"key": "double", "partition": "string", "topic": "string", "value": "string"}
    assert set(message(columns, value="json").parts) == {"topic", "value"}
    assert wrong(columns, value="json", topic=None) == [("topic", "HW-KAFKA-TOPIC-MISSING", None)]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ({}, ("value", "HW-KAFKA-VALUE-MISSING", "CAST(ad AS string) AS value")),
        ({"value": "cost"}, ("value", "HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(cost AS string) AS cost")),
        ({"value": "both"}, ("value", "HW-KAFKA-COLUMN-TYPE-INVALID", "to_json(both) AS both")),
        (
            {"value": "ad", "key": "cost"},
            ("key", "HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(cost AS string) AS cost"),
        ),
        (
            {"value": "ad", "topic": None, "topic_column": "raw"},
            ("topic_column", "HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(raw AS string) AS raw"),
        ),
        (
            {"value": "ad", "partition": "cost"},
            ("partition", "HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(cost AS int) AS cost"),
        ),
        (
            {"value": "ad", "headers": "ad"},
            (
                "headers",
                "HW-KAFKA-COLUMN-TYPE-INVALID",
                "array(struct('name' AS key, CAST(ad AS binary) AS value)) AS ad",
            ),
        ),
        (
            {"value": "ad", "headers": {"c": "cost"}},
            ("headers", "HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(cost AS string) AS cost"),
        ),
        (
            {"value": "json", "columns": ["cots"]},
            ("columns", "HW-KAFKA-COLUMN-NOT-FOUND", "Did you mean `cost`?"),
        ),
        (
            {"value": "ad", "key": ["ad", "zz"]},
            ("key", "HW-KAFKA-COLUMN-NOT-FOUND", "Use one of its columns: ad, cost, raw, both, part."),
        ),
        ({"value": "add"}, ("value", "HW-KAFKA-COLUMN-NOT-FOUND", "Did you mean `ad`?")),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_write(
    written: dict[str, Any], found: tuple[str, str, str]
) -> None:
    assert wrong(**written) == [found]


def test_headers_of_text_are_cast_as_a_whole() -> None:
    columns = {"v": "string", "h": "array<struct<key:string,value:string>>"}
    assert wrong(columns, value="v", headers="h") == [
        ("headers", "HW-KAFKA-COLUMN-TYPE-INVALID", f"CAST(h AS {HEADERS_TYPE}) AS h")
    ]


def test_names_and_texts_can_hold_anything() -> None:
    topic = "a_topic.of-1"
    assert message({"a`b": "string"}, topic=topic, value="a`b").parts == {
        "topic": f"CAST(X'{topic.encode().hex()}' AS string)",
        "value": "CAST(`a``b` AS string)",
    }


def test_avro_names_and_fields_have_to_fit(tmp_path: Path) -> None:
    schema = tmp_path / "ad.avsc"
    schema.write_text(
        '{"type": "record", "name": "A", "fields": [{"name": "ad", "type": "string"}, {"name": "n", '
        '"type": ["null", "long"]}, {"name": "gone", "type": "int"}, {"name": "x", "type": {"type": "map", '
        '"values": "int"}}]}',
        encoding="utf-8",
    )
    columns = {"AD": "string", "n": "int", "x": "int", "more": "int"}
    assert wrong(columns, value="avro", schema_file=str(schema)) == [
        ("schema_file", "HW-KAFKA-AVRO-FIELD-MISMATCH", "Select it as `CAST(n AS bigint) AS n`."),
        ("schema_file", "HW-KAFKA-AVRO-FIELD-MISMATCH", "Add the column. Existing columns: AD, n, x, more."),
        (
            "schema_file",
            "HW-KAFKA-AVRO-FIELD-MISMATCH",
            "Add a field to the schema. Its fields are: ad, n, gone, x. Or exclude the column with `columns`.",
        ),
    ]
    assert wrong({"count(1)": "bigint"}, value="avro") == [("value", "HW-KAFKA-AVRO-NAME-INVALID", None)]


@pytest.mark.parametrize("trigger", ["continuous 1 second", "real time 5 seconds"])
def test_marks_need_batches(trigger: str) -> None:
    options = KafkaSink.model_validate(
        {"bootstrap_servers": "localhost:9092", "topic": "t", "value": "ad", "dedup_headers": True}
    )
    sink = SinkSpec(name="out", reads="r", connector="kafka", options=options, trigger=parse_trigger(trigger))
    assert [each.code for each in problems_of(sink, COLUMNS)] == ["HW-KAFKA-DEDUP-TRIGGER-UNSUPPORTED"]
    assert (
        list(problems_of(sink.model_copy(update={"trigger": parse_trigger("every 1 second")}), COLUMNS)) == []
    )
