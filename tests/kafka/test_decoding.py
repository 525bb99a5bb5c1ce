"""Keys and values of a real topic as columns: every format, and a schema registry."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from string import Template
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.dev import Broker
from tests.encoded import BIRD, avro, bird, descriptor_file, numbered
from tests.messages import Message, fresh_topic, produce
from tests.pipelines import rows_of, run_until_idle, write
from tests.schema_registry import PASSWORD, USER, schema_registry

PIPELINE = Template("""
name: birds
sources:
  as_json:
    {connector: kafka, bootstrap_servers: '$servers', topic: $json, schema: {id: int not null, kind: string},
     key: {format: text, column: park}, bad_rows: keep}
  as_csv:
    {connector: kafka, bootstrap_servers: '$servers', topic: $csv, format: csv, schema: 'id int, kind string',
     delimiter: ';', metadata_columns: {offset: at, headers: marks}, bad_rows: keep}
  as_avro:
    {connector: kafka, bootstrap_servers: '$servers', topic: $avro, format: avro, schema_file: bird.avsc,
     bad_rows: keep}
  as_numbered:
    connector: kafka
    bootstrap_servers: $servers
    topic: $numbered
    format: avro
    schema: id bigint not null, kind string
    registry: {url: '$url', user: $user, password: "$${secret:REGISTRY_PASSWORD}"}
    key: {format: avro, schema: {id: bigint}, registry: {directory: schemas}, column: who}
    bad_rows: keep
  as_protobuf:
    {connector: kafka, bootstrap_servers: '$servers', topic: $protobuf, format: protobuf, descriptor: birds.desc,
     message: field.Bird, schema: 'id int, kind string, notes array<string>', bad_rows: keep}
  as_text:
    {connector: kafka, bootstrap_servers: '$servers', topic: $text, format: text, column: line, bad_rows: keep}
  as_raw: {connector: kafka, bootstrap_servers: '$servers', topic: $raw, key: {format: raw}}
tables:
  every: |
    SELECT 'json' AS format, to_json(struct(park, id, kind, _bad_reason)) AS row FROM as_json
    UNION ALL SELECT 'csv', to_json(struct(id, kind, at, marks, _bad_reason)) FROM as_csv
    UNION ALL SELECT 'avro', to_json(struct(id, kind, weight, _bad_reason)) FROM as_avro
    UNION ALL SELECT 'numbered', to_json(struct(who, id, kind, _bad_reason)) FROM as_numbered
    UNION ALL SELECT 'protobuf', to_json(struct(id, kind, notes, _bad_reason)) FROM as_protobuf
    UNION ALL SELECT 'text', to_json(struct(line, _bad_reason)) FROM as_text
    UNION ALL SELECT 'raw', to_json(struct(hex(key) AS key, hex(value) AS value)) FROM as_raw
sinks:
  every: {reads: every, connector: files, path: out, format: json}
""")
FORMATS = ("json", "csv", "avro", "numbered", "protobuf", "text", "raw")


@pytest.mark.feature("B5")
def test_every_format_becomes_columns(
    spark: SparkSession, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    topics = {name: fresh_topic(broker.servers, prefix=name) for name in FORMATS}
    heron = {"id": 1, "kind": "heron", "weight": Decimal("2.50"), "seen": datetime(2026, 5, 1, tzinfo=UTC)}
    record = avro(BIRD, heron)
    sent: dict[str, list[Message]] = {
        "json": [
            Message(b'{"id": 1, "kind": "heron"}', key=b"north"),
            Message(b'{"kind": "owl"}', key=b"south"),
        ],
        "csv": [Message(b"1;heron", headers=[("h", b"x")]), Message(b"owl;2")],
        "avro": [Message(record), Message(record[:-1]), Message(record + b"!")],
        "numbered": [
            Message(numbered(7, record), key=numbered(1, record)),
            Message(numbered(99, record), key=numbered(1, record)),
        ],
        "protobuf": [Message(bird(id=1, kind="heron", notes=["a"])), Message(b"\xff")],
        "text": [Message("héron".encode()), Message(b"\xff")],
        "raw": [Message(b"\xff\x00", key=b"\x01")],
    }
    for name, messages in sent.items():
        produce(broker.servers, topics[name], messages)
    (tmp_path / "schemas").mkdir()
    for name in ("bird.avsc", "schemas/1.avsc"):
        (tmp_path / name).write_text(json.dumps(BIRD))
    descriptor_file(tmp_path)
    with schema_registry() as registry:
        registry.add(7, BIRD)
        text = PIPELINE.substitute(topics, servers=broker.servers, url=registry.url, user=USER)
        file = write(tmp_path, text)
        assert run_until_idle(file).exit_code == 0
        found = rows_of(spark, tmp_path / "out", schema="format string, row string")
    assert found == Counter(
        {
            ("json", '{"park":"north","id":1,"kind":"heron"}'): 1,
            ("json", '{"park":"south","kind":"owl","_bad_reason":"missing_value"}'): 1,
            ("csv", '{"id":1,"kind":"heron","at":0,"marks":[{"key":"h","value":"eA=="}]}'): 1,
            ("csv", '{"kind":"2","at":1,"_bad_reason":"type_mismatch"}'): 1,
            ("avro", '{"id":1,"kind":"heron","weight":2.50}'): 1,
            ("avro", '{"_bad_reason":"malformed"}'): 2,
            ("numbered", '{"who":{"id":1},"id":1,"kind":"heron"}'): 1,
            ("numbered", '{"who":{"id":1},"_bad_reason":"unknown_schema_id"}'): 1,
            ("protobuf", '{"id":1,"kind":"heron","notes":["a"]}'): 1,
            ("protobuf", '{"_bad_reason":"malformed"}'): 1,
            ("text", '{"line":"héron"}'): 1,
            ("text", '{"_bad_reason":"malformed"}'): 1,
            ("raw", '{"key":"01","value":"FF00"}'): 1,
        }
    )


ONE = Template("""
name: one
sources:
  birds:
    connector: kafka
    bootstrap_servers: $servers
    topic: $topic
    format: avro
    schema: {id: bigint}
    registry: {url: '$url', user: $user, password: "$${secret:REGISTRY_PASSWORD}"}
    bad_rows: drop
sinks:
  birds: {reads: birds, connector: files, path: out, format: json}
""")


@pytest.mark.feature("B5", part="a registry that fails while a query runs")
def test_a_registry_that_fails_ends_the_query_and_no_row_is_lost(
    spark: SparkSession, tmp_path: Path, topic: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    record = avro(BIRD, {"id": 1, "kind": None, "weight": None, "seen": datetime(2026, 5, 1, tzinfo=UTC)})
    produce(broker.servers, topic, [numbered(8, record)])
    with schema_registry() as registry:
        file = write(
            tmp_path, ONE.substitute(servers=broker.servers, topic=topic, url=registry.url, user=USER)
        )
        registry.failing.add("/schemas/ids/8")
        failed = run_until_idle(file, restarts=False)
        problem: Any = failed.queries["birds"].problem
        assert (failed.exit_code, problem.code, problem.entry.retryable) == (
            1,
            "HW-REGISTRY-SCHEMA-UNAVAILABLE",
            True,
        )
        assert problem.params["reason"] == "HTTP 503 Service Unavailable"
        registry.failing.clear()
        registry.add(8, BIRD)
        assert run_until_idle(file).exit_code == 0
    assert rows_of(spark, tmp_path / "out", schema="id bigint") == Counter({(1,): 1})
    told = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in each for each in told)
