"""Repeats in a topic after kill -9, and readers that follow the recipes of the guide."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.dev import Broker
from tests.messages import consume, fresh_topic, offsets
from tests.pipelines import feed, run_until_idle, with_jars, write
from tests.processes import headwater, jvm_of

GUIDE = Path(__file__).parents[2] / "docs" / "operate" / "kafka-exactly-once.md"
USERS, PAGES, EACH = 20, 50, 3
# A producer that sends little at a time is in the middle of its work for long enough to be killed there.
SLOW = """
    options:
      {kafka.batch.size: 100, kafka.buffer.memory: 40000, kafka.max.in.flight.requests.per.connection: 1}
"""
MARKS = ("headwater-query", "headwater-batch", "headwater-row")


def block(title: str) -> str:
    """A file of the guide."""
    found = re.search(
        rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```', GUIDE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None, title
    return found[1]


@pytest.fixture(scope="module")
def written(
    context: SparkContext, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Counter[str]]:
    """A topic whose writer was killed in the middle of a batch and started again, and what it should hold."""
    folder, topic = tmp_path_factory.mktemp("writer"), fresh_topic(broker.servers, 2)
    rows = [{"user": f"u{user}", "page": f"p{page}"} for user in range(USERS) for page in range(PAGES)] * EACH
    feed(folder / "clicks", "1", rows)
    write(folder, block("pipeline.yml").rstrip("\n") + SLOW)
    environment = {"KAFKA_BOOTSTRAP_SERVERS": broker.servers, "TOPIC": topic}

    def count() -> int:
        return sum(after - first for first, after in offsets(broker.servers, topic).values())

    with headwater(folder, "run", "pipeline.yml", **environment) as run:
        run.until(lambda: count() > 200)
        os.kill(jvm_of(folder, "clicks").pid, signal.SIGKILL)
        run.signal(signal.SIGKILL)
        run.wait()
    assert 0 < count() < len(rows), "it was not killed in the middle"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        assert run_until_idle(folder / "pipeline.yml").exit_code == 0
    return topic, Counter(json.dumps(row) for row in rows)


def test_without_the_recipe_there_are_repeats(broker: Broker, written: tuple[str, Counter[str]]) -> None:
    topic, right = written
    records = consume(broker.servers, topic)
    assert len(records) > right.total()
    names = Counter(tuple(dict(record.headers)[mark] for mark in MARKS) for record in records)
    assert len(names) == right.total()
    # Two attempts at most: the killed one and the whole one.
    assert set(names.values()) == {1, 2}
    numbers = Counter(str(row or b"").rpartition("-")[2] for _, _, row in names)
    assert set(numbers.values()) == {USERS * PAGES}
    assert len(numbers) == EACH


def _messages(servers: str, topic: str) -> Iterator[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
        ended = 0
        while ended < 2:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                ended += 1
            else:
                yield message
    finally:
        consumer.close()


@pytest.mark.feature("D3.2", part="a plain consumer sees each row once after a kill")
def test_a_plain_consumer_sees_each_row_once(broker: Broker, written: tuple[str, Counter[str]]) -> None:
    topic, right = written
    names: dict[str, Any] = {}
    exec(block("reader.py"), names)
    once = names["Deduplicator"]()
    found = Counter(
        json.dumps(json.loads(message.value()))
        for message in _messages(broker.servers, topic)
        if once.is_new(message)
    )
    assert found == right


@pytest.mark.feature("D3.2", part="Spark sees each row once after a kill")
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
def test_spark_sees_each_row_once(
    broker: Broker, written: tuple[str, Counter[str]], spark: SparkSession, tmp_path: Path, stream: bool
) -> None:
    topic, right = written
    with_jars(spark, "kafka")
    names: dict[str, Any] = {}
    exec(block("spark_reader.py"), names)
    rows = names["rows"](spark, broker.servers, topic, stream=stream)
    if stream:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        writer = rows.writeStream.format("memory").queryName("once").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
        rows = spark.table("once")
    found = Counter(json.dumps(json.loads(row.value)) for row in rows.select("value").collect())
    assert found == right


@pytest.mark.feature("D3.2", part="a pipeline sees each row once after a kill")
def test_a_pipeline_sees_each_row_once(
    broker: Broker,
    written: tuple[str, Counter[str]],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, right = written
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
    monkeypatch.setenv("TOPIC", topic)
    file = write(tmp_path, block("reader.yml"))
    assert run_until_idle(file).exit_code == 0
    found = spark.read.schema("user string, page string").json(str(tmp_path / "once")).collect()
    assert Counter(json.dumps(row.asDict()) for row in found) == right
