"""The Kafka sink on a real broker, read back by a client that is not Spark."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from string import Template

import pytest

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.dev import Broker
from headwater.dev.topics import create_topic
from headwater.errors import PipelineError
from headwater.events import Event, QueryRestarting
from headwater.runtime import RunOptions
from headwater.runtime.handles import Run
from tests.messages import Record, consume, last_per_key
from tests.pipelines import batches, feed, put, run_until_idle, run_while, wait_for, write

ROWS = [
    {
        "ad": "a1",
        "cost": 1.5,
        "at": "2026-01-01T10:00:00.123456Z",
        "topic": "nowhere",
        "part": 0,
        "shop": "n",
    },
    {"ad": "a2", "cost": 2.0, "at": "2026-01-01T10:00:01Z", "topic": "nowhere", "part": 1, "shop": "s"},
    {"topic": "nowhere", "part": 1, "shop": "s"},
]
SOURCE = """
name: sinks
sources:
  rows:
    connector: files
    path: in/
    format: json
    schema: {ad: string, cost: double, at: timestamp, topic: string, part: int, shop: string}
"""
SHAPES = """
tables:
  spread: SELECT ad, concat('$spread', shop) AS target FROM rows
  plain: |
    SELECT ad AS key, CAST(cost AS string) AS value, '$plain' AS topic, 0 AS partition, 1 AS more FROM rows
  tagged: |
    SELECT encode(ad, 'utf-8') AS b, array(struct('shop' AS key, CAST(shop AS binary) AS value)) AS h
    FROM rows
sinks:
  json:
    reads: rows
    connector: kafka
    bootstrap_servers: $servers
    topic: $json
    key: ad
    value: json
    columns: [ad, cost, at]
    headers: {shop: shop, who: AD}
    partition: part
    compression: lz4
    linger: 5 ms
    options: {kafka.client.id: shaped, kafka.batch.size: 20000}
  avro:
    reads: rows
    connector: kafka
    bootstrap_servers: $servers
    topic: $avro
    key: [ad, part]
    value: avro
    columns: [ad, cost, part]
    schema_file: ad.avsc
    schema_id: 7
  spread: {reads: spread, connector: kafka, bootstrap_servers: "$servers", topic_column: target, value: json}
  plain: {reads: plain, connector: kafka, bootstrap_servers: "$servers"}
  tagged: {reads: tagged, connector: kafka, bootstrap_servers: "$servers", topic: $tagged, value: b, headers: h}
"""
DEEP = """
{"type": "record", "name": "Deep", "fields": [{"name": "both", "type": {"type": "map", "values": "int"}}]}
"""
AVSC = """
{"type": "record", "name": "Ad", "fields": [
  {"name": "ad", "type": ["null", "string"], "doc": "it's an \\"ad\\""},
  {"name": "cost", "type": ["null", "double"]}, {"name": "part", "type": "int"}
]}
"""


def pipeline(folder: Path, text: str, **values: str) -> Path:
    return write(folder, Template(text).substitute(values))


def seen(records: list[Record]) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter((record.key, record.value) for record in records)


@pytest.mark.feature("D3.1")
@pytest.mark.feature("D3.2", part="fan-out by topic column")
def test_messages_are_made_from_columns(
    tmp_path: Path, broker: Broker, make_topic: Callable[..., str], context: object
) -> None:
    topics = {name: make_topic(2, prefix=name) for name in ("json", "avro", "plain", "tagged", "spread")}
    for shop in ("n", "s"):
        create_topic(broker.servers, f"{topics['spread']}{shop}", 1, {})
    feed(tmp_path / "in", "1", ROWS)
    (tmp_path / "ad.avsc").write_text(AVSC, encoding="utf-8")
    file = pipeline(tmp_path, SOURCE + SHAPES, servers=broker.servers, **topics)
    assert run_until_idle(file).exit_code == 0

    found = {record.key: record for record in consume(broker.servers, topics["json"])}
    assert found[b"a1"].json == {"ad": "a1", "cost": 1.5, "at": "2026-01-01T10:00:00.123456Z"}
    assert found[b"a1"].headers == (("shop", b"n"), ("who", b"a1"))
    assert found[None].headers == (("shop", b"s"), ("who", None))
    assert found[None].json == {}
    assert {key: record.partition for key, record in found.items()} == {b"a1": 0, b"a2": 1, None: 1}

    avro = {record.key: record.value for record in consume(broker.servers, topics["avro"])}
    wire = b"\x00" + struct.pack(">i", 7)
    assert avro == {
        b'{"ad":"a1","part":0}': wire + b"\x02\x04a1\x02" + struct.pack("<d", 1.5) + b"\x00",
        b'{"ad":"a2","part":1}': wire + b"\x02\x04a2\x02" + struct.pack("<d", 2.0) + b"\x02",
        b'{"part":1}': wire + b"\x00\x00\x02",
    }

    spread = {shop: consume(broker.servers, f"{topics['spread']}{shop}") for shop in ("n", "s")}
    assert [record.json["ad"] for record in spread["n"]] == ["a1"]
    assert Counter(record.json.get("ad") for record in spread["s"]) == {"a2": 1, None: 1}

    plain = consume(broker.servers, topics["plain"])
    assert seen(plain) == {(b"a1", b"1.5"): 1, (b"a2", b"2.0"): 1, (None, None): 1}
    assert {record.partition for record in plain} == {0}

    tagged = consume(broker.servers, topics["tagged"])
    assert Counter((record.value, record.headers) for record in tagged) == {
        (b"a1", (("shop", b"n"),)): 1,
        (b"a2", (("shop", b"s"),)): 1,
        (None, (("shop", b"s"),)): 1,
    }


REFUSED = """
tables:
  odd: SELECT cost, struct(ad, shop) AS both, CAST(part AS bigint) AS part, array(ad) AS h FROM rows
sinks:
  none: {reads: rows, connector: kafka, bootstrap_servers: "$servers", topic: t}
  odd:
    reads: odd
    connector: kafka
    bootstrap_servers: $servers
    topic_column: cost
    key: cost
    value: both
    partition: part
    headers: h
  unknown: {reads: odd, connector: kafka, bootstrap_servers: "$servers", value: json, columns: [cots]}
  avro: {reads: odd, connector: kafka, bootstrap_servers: "$servers", topic: t, value: avro, schema_file: ad.avsc}
  deep:
    reads: odd
    connector: kafka
    bootstrap_servers: $servers
    topic: t
    value: avro
    columns: both
    schema_file: deep.avsc
"""


@pytest.mark.feature("D3.1", part="wrong columns are refused before start, each with what to write")
def test_wrong_columns_are_refused_before_start(tmp_path: Path, broker: Broker, context: object) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "ad.avsc").write_text(AVSC, encoding="utf-8")
    (tmp_path / "deep.avsc").write_text(DEEP, encoding="utf-8")
    file = pipeline(tmp_path, SOURCE + REFUSED, servers=broker.servers)
    with pytest.raises(PipelineError) as error:
        run_until_idle(file)
    found = Counter((each.code, each.params.get("cast") or "") for each in error.value.problems)
    assert found == {
        ("HW-KAFKA-VALUE-MISSING", "CAST(ad AS string) AS value"): 1,
        ("HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(cost AS string) AS cost"): 2,
        ("HW-KAFKA-COLUMN-TYPE-INVALID", "to_json(both) AS both"): 1,
        ("HW-KAFKA-COLUMN-TYPE-INVALID", "CAST(part AS int) AS part"): 1,
        ("HW-KAFKA-COLUMN-TYPE-INVALID", "array(struct('name' AS key, CAST(h AS binary) AS value)) AS h"): 1,
        ("HW-KAFKA-TOPIC-MISSING", ""): 1,
        ("HW-KAFKA-COLUMN-NOT-FOUND", ""): 1,
        ("HW-KAFKA-AVRO-FIELD-MISMATCH", ""): 5,
    }
    assert not list((tmp_path / ".headwater").rglob("offsets"))


COUNTS = """
name: counts
sources:
  lines: {connector: files, path: in/, format: text, max_files_per_batch: 1}
tables:
  counts: |
    SELECT word, count(*) AS n FROM (SELECT explode(split(value, ' ')) AS word FROM lines) GROUP BY word
sinks:
  counts:
    {reads: counts, connector: kafka, bootstrap_servers: "$servers", topic: $update, key: word, value: json,
     mode: update}
  wholes:
    {reads: counts, connector: kafka, bootstrap_servers: "$servers", topic: $complete, key: word, value: json,
     mode: complete}
"""


@pytest.mark.feature("D3.2")
def test_a_word_count_is_read_back_by_another_client(
    tmp_path: Path, broker: Broker, make_topic: Callable[..., str], context: object
) -> None:
    topics = {"update": make_topic(3), "complete": make_topic(1)}
    texts = ["the owl and the cat", "the sea", "owl owl"]
    for number, text in enumerate(texts):
        put(tmp_path / "in" / f"{number}.txt", text, at=number)
    file = pipeline(tmp_path, COUNTS, servers=broker.servers, **topics)

    checked = check(file)
    told = next(sink for sink in checked.sinks if sink.name == "counts").to_json()["guarantee"]
    assert told["level"] == "at-least-once"
    assert "`dedup_headers: true`" in next(each["raised_by"] for each in told["reasons"] if each["raised_by"])
    assert [each.sink for each in checked.findings if each.code == "HW-COMPLETE-TO-APPEND-SINK"] == ["wholes"]

    events: list[Event] = []
    assert run_until_idle(file, events).exit_code == 0
    words = Counter(word for text in texts for word in text.split())
    right = {word.encode(): {"word": word, "n": count} for word, count in words.items()}
    for topic in topics.values():
        last = last_per_key(consume(broker.servers, topic))
        assert {key: json.loads(value or b"") for key, value in last.items()} == right
    updates = Counter(record.key for record in consume(broker.servers, topics["update"]))
    assert updates == {b"the": 2, b"owl": 2, b"and": 1, b"cat": 1, b"sea": 1}
    wholes = Counter(record.key for record in consume(broker.servers, topics["complete"]))
    assert wholes == {b"the": 3, b"owl": 3, b"and": 3, b"cat": 3, b"sea": 2}

    with pytest.raises(PipelineError) as error:
        run_batch(file, RunOptions(), stdout=lambda line: None)
    assert [each.code for each in error.value.problems] == ["HW-BATCH-APPEND-REQUIRED"] * 2
    result = run_batch(file, RunOptions(), append=True, stdout=lambda line: None)
    assert result.written["wholes"] == f"{topics['complete']} at {broker.servers}"
    added = consume(broker.servers, topics["complete"])[14:]
    assert {record.key: record.json for record in added} == right


KILLED = """
name: killed
sources:
  rows: {connector: files, path: in/, format: json, schema: {n: int}}
sinks:
  copied:
    reads: rows
    connector: kafka
    bootstrap_servers: $servers
    topic: $topic
    value: json
    options: {$options}
"""
IMPATIENT = "kafka.delivery.timeout.ms: 1000, kafka.request.timeout.ms: 500, kafka.max.block.ms: 1000"


def planned(folder: Path) -> list[Path]:
    """The batches that were begun."""
    return list((folder / ".headwater" / "checkpoints" / "copied" / "offsets").glob("[0-9]*"))


def numbers(servers: str, topic: str) -> Counter[int]:
    return Counter(record.json["n"] for record in consume(servers, topic))


@pytest.mark.feature("D3.2", part="nothing is lost when the broker is killed")
def test_a_killed_broker_is_waited_for_or_outlived(
    tmp_path: Path, broker: Broker, topic: str, context: object
) -> None:
    file = pipeline(tmp_path, KILLED, servers=broker.servers, topic=topic, options="kafka.client.id: patient")
    feed(tmp_path / "in", "0", [{"n": n} for n in range(10)])

    def steer(run: Run) -> None:
        wait_for(lambda: len(batches(events, "copied")) == 1, run)
        broker.kill()
        feed(tmp_path / "in", "1", [{"n": n} for n in range(10, 20)])
        wait_for(lambda: len(planned(tmp_path)) == 2, run)
        broker.start()
        wait_for(lambda: len(batches(events, "copied")) == 2, run)

    def outlive(run: Run) -> None:
        wait_for(lambda: any(isinstance(each, QueryRestarting) for each in events), run)
        problem = next(each.problem for each in events if isinstance(each, QueryRestarting))
        assert problem.code in ("HW-KAFKA-WRITE-FAILED", "HW-KAFKA-SINK-TOPIC-NOT-FOUND"), problem.detail
        broker.start()
        wait_for(lambda: len(batches(events, "copied")) == 3, run)

    events: list[Event] = []
    try:
        run_while(file, steer, events)
        assert numbers(broker.servers, topic) == dict.fromkeys(range(20), 1)

        # One that is not waited for ends the query with its cause; a restart goes on where it was.
        file = pipeline(tmp_path, KILLED, servers=broker.servers, topic=topic, options=IMPATIENT)
        feed(tmp_path / "in", "2", [{"n": n} for n in range(20, 30)])
        broker.kill()
        run_while(file, outlive, events)
    finally:
        broker.start()
    assert numbers(broker.servers, topic) == dict.fromkeys(range(30), 1)
