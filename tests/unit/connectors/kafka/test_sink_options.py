"""The keys of the Kafka sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.connectors.kafka import KafkaSink
from headwater.connectors.kafka.connector import KafkaWriter
from headwater.connectors.kafka.sink_options import producer_settings
from headwater.spec import Delivery

SERVERS = "localhost:9092"


def read(root: Path = Path("/project"), **written: Any) -> KafkaSink:
    return KafkaSink.model_validate({"bootstrap_servers": SERVERS, **written}, context={"root": root})


def refusal(root: Path = Path("/project"), **written: Any) -> str:
    with pytest.raises(ValidationError) as error:
        read(root, **written)
    return error.value.errors()[0]["msg"]


def test_typed_keys_speak_to_the_producer() -> None:
    sink = read(topic="t", compression="zstd", acks=1, linger="20 ms")
    assert producer_settings(sink) == {
        "kafka.compression.type": "zstd",
        "kafka.acks": "1",
        "kafka.linger.ms": "20",
    }
    assert producer_settings(read(topic="t", acks=-1)) == {"kafka.acks": "all"}


@pytest.mark.parametrize(
    ("written", "delivery"),
    [
        ({}, Delivery.DUPLICATES),
        ({"dedup_headers": True}, Delivery.MARKED),
        ({"acks": 0}, Delivery.UNCONFIRMED),
        ({"acks": "1", "dedup_headers": True}, Delivery.UNCONFIRMED),
    ],
)
def test_the_keys_choose_the_delivery(written: dict[str, Any], delivery: Delivery) -> None:
    assert KafkaWriter().delivers(read(topic="t", **written)) is delivery


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"columns": ["a"]}, "`columns` requires `value: json` or `value: avro`"),
        ({"columns": ["a"], "value": "a"}, "`columns` requires `value: json` or `value: avro`"),
        ({"schema_id": 1, "value": "json"}, "`schema_id` requires `value: avro`"),
        ({"schema_id": 1, "value": "avro"}, "`schema_id` requires `schema_file`"),
        ({"key": []}, "`key` is an empty list"),
        (
            {"options": {"kafka.acks": "1"}},
            "`kafka.acks` under `options` is not supported; set the key `acks`",
        ),
        ({"options": {"topic": "x"}}, "`topic` under `options` is not supported; set the key `topic`"),
        ({"value": "avro", "schema_file": "none.avsc"}, "schema file /project/none.avsc not found"),
    ],
)
def test_keys_that_would_do_nothing_are_refused(written: dict[str, Any], says: str) -> None:
    assert says in refusal(topic="t", **written)


@pytest.mark.parametrize("text", ["{", '"string"', '{"type": "enum"}', '{"type": "record", "name": "A"}'])
def test_a_schema_file_holds_a_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.avsc").write_text(text, encoding="utf-8")
    assert f"schema file {tmp_path / 'a.avsc'} " in refusal(
        tmp_path, topic="t", value="avro", schema_file="a.avsc"
    )


def test_a_topic_is_a_place_and_a_column_of_topics_none() -> None:
    assert KafkaWriter().places(read(topic="t")) == (f"t at {SERVERS}",)
    assert KafkaWriter().places(read(topic_column="t")) == ()
    assert KafkaWriter().jars(read(topic="t")) == ("kafka",)
    assert KafkaWriter().jars(read(topic="t", value="avro")) == ("kafka", "avro")
