"""What becomes of a Kafka source when topics lose messages, go, grow or come again, and the broker dies."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from headwater.dev import Broker
from headwater.dev.topics import add_partitions, admin, create_topic, delete_topic
from headwater.errors import CheckpointError, QueryFailedError
from headwater.events import Event, Notice
from headwater.runtime.handles import Run
from tests.messages import consume, fresh_topic, produce
from tests.pipelines import batches, rows_of, run_until_idle, run_while, wait_for, write


def pipeline(servers: str, keys: str) -> str:
    return f"""
name: losses
sources:
  numbers:
    connector: kafka
    bootstrap_servers: {servers}
    schema: {{n: int}}
    {keys}
sinks:
  out: {{reads: numbers, connector: files, path: out, format: json}}
"""


def numbers(spark: SparkSession, folder: Path) -> Counter[int]:
    return Counter({row[0]: n for row, n in rows_of(spark, folder / "out", schema="n int").items()})


def sent(broker: Broker, topic: str, *values: int, partition: int = -1) -> None:
    produce(broker.servers, topic, [{"n": value} for value in values], partition=partition)


def cut(broker: Broker, topic: str, before: int, partition: int = 0) -> None:
    """Delete all messages before an offset, as retention does."""
    client = admin(broker.servers)
    for answer in client.delete_records([TopicPartition(topic, partition, before)]).values():
        answer.result(timeout=30)


def make_again(broker: Broker, topic: str) -> None:
    delete_topic(broker.servers, topic)
    create_topic(broker.servers, topic)


def said(events: list[Event], code: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.text.startswith(code)]


def read(events: list[Event]) -> int:
    return sum(each.rows_in for each in batches(events, "out"))


@pytest.mark.feature("B4.4")
def test_a_loss_fails_or_is_named(spark: SparkSession, tmp_path: Path, broker: Broker, topic: str) -> None:
    file = write(tmp_path, pipeline(broker.servers, f"topic: {topic}"))
    sent(broker, topic, *range(10))
    assert run_until_idle(file).exit_code == 0
    # Offsets 10 to 14 are deleted before they are read.
    sent(broker, topic, *range(10, 20))
    cut(broker, topic, 15)
    result = run_until_idle(file)
    problem: Any = result.queries["out"].problem
    assert (result.exit_code, problem.code) == (1, "HW-KAFKA-DATA-LOSS")
    assert (
        problem.params["says"]
        == f"partition 0 of `{topic}` from offset 10, in a batch that reads up to offset 19"
    )
    assert numbers(spark, tmp_path) == Counter(range(10))
    file.write_text(pipeline(broker.servers, f"topic: {topic}\n    on_data_loss: warn"))
    events: list[Event] = []
    assert run_until_idle(file, events).exit_code == 0
    (told,) = said(events, "HW-KAFKA-ROWS-DELETED")
    assert f"offsets 10 to 14 of partition 0 of `{topic}`" in told
    assert numbers(spark, tmp_path) == Counter([*range(10), *range(15, 20)])

    # And while it runs: after its first batch the query waits for more rows than come.
    waiting = f"topic: {topic}\n    on_data_loss: warn\n    min_rows_per_batch: 8\n    max_wait: 1 hour"
    file.write_text(pipeline(broker.servers, waiting))
    sent(broker, topic, *range(20, 25))
    events = []

    def lose(run: Run) -> None:
        wait_for(lambda: read(events) == 5, run)
        sent(broker, topic, *range(25, 30))
        cut(broker, topic, 28)
        wait_for(lambda: bool(said(events, "HW-KAFKA-ROWS-DELETED")), run)
        sent(broker, topic, *range(30, 35))
        wait_for(lambda: read(events) == 12, run)

    run_while(file, lose, events)
    (told,) = said(events, "HW-KAFKA-ROWS-DELETED")
    assert f"offsets 25 to 27 of partition 0 of `{topic}`" in told
    assert numbers(spark, tmp_path) == Counter([*range(10), *range(15, 25), *range(28, 35)])


@pytest.mark.feature("B4.4", part="a topic made again")
@pytest.mark.parametrize("on_data_loss", ["fail", pytest.param("warn", marks=pytest.mark.soak)])
def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str, on_data_loss: str
) -> None:
    keys = f"topic: {topic}\n    on_data_loss: {on_data_loss}"
    file = write(tmp_path, pipeline(broker.servers, keys))
    sent(broker, topic, *range(5))
    assert run_until_idle(file).exit_code == 0
    make_again(broker, topic)
    # It grows beyond the old offset: Spark would go on behind it, whatever it is told about losses.
    sent(broker, topic, *range(100, 108))
    with pytest.raises(CheckpointError) as refused:
        run_until_idle(file)
    assert [problem.code for problem in refused.value.problems] == ["HW-KAFKA-TOPIC-RECREATED"]
    assert refused.value.problems[0].params["topic"] == topic
    file.write_text(pipeline(broker.servers, f"{keys}\n    on_topic_recreated: earliest"))
    events: list[Event] = []
    assert run_until_idle(file, events).exit_code == 0
    (told,) = said(events, "HW-KAFKA-TOPIC-RESET")
    assert numbers(spark, tmp_path) == Counter([*range(5), *range(100, 108)])
    (backup,) = (tmp_path / ".headwater/backups/out").iterdir()
    assert str(backup) in told
    kept = (backup / "offsets/0").read_text().splitlines()
    assert json.loads(kept[2]) == {topic: {"0": 5}}
    # From then on it is the topic that is known.
    sent(broker, topic, 108)
    assert run_until_idle(file).exit_code == 0
    assert numbers(spark, tmp_path) == Counter([*range(5), *range(100, 109)])


@pytest.mark.feature("B4.4", part="a topic made again while a query runs")
def test_a_topic_made_again_under_a_running_query_stops_it(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    # A query of a topic by its name may end by itself when it is gone, before it is there again.
    keys = f"topic_pattern: '{topic}'\n    on_data_loss: warn"
    file = write(tmp_path, pipeline(broker.servers, keys))
    sent(broker, topic, *range(5))
    events: list[Event] = []

    def again(run: Run) -> None:
        wait_for(lambda: read(events) == 5, run)
        make_again(broker, topic)
        sent(broker, topic, *range(100, 108))
        assert run.wait(60)

    with pytest.raises(QueryFailedError) as failed:
        run_while(file, again, events)
    assert [problem.code for problem in failed.value.problems] == ["HW-KAFKA-TOPIC-RECREATED"]
    file.write_text(pipeline(broker.servers, f"{keys}\n    on_topic_recreated: earliest"))
    assert run_until_idle(file).exit_code == 0
    found = numbers(spark, tmp_path)
    # None is missing; what was read of the new topic before it was found out may be there twice.
    assert found.keys() == {*range(5), *range(100, 108)}
    assert all(count == 1 for value, count in found.items() if value < 100)
    assert all(count <= 2 for count in found.values())


@pytest.mark.feature("B4.4", part="a topic that is deleted")
@pytest.mark.parametrize("on_data_loss", ["fail", pytest.param("warn", marks=pytest.mark.soak)])
def test_a_topic_that_is_deleted_ends_the_query_by_name(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str, on_data_loss: str
) -> None:
    # Spark asks for a topic that is gone until its client gives up, after a minute unless told.
    impatient = "options: {kafka.default.api.timeout.ms: 5000, kafka.request.timeout.ms: 5000}"
    keys = f"topic: {topic}\n    on_data_loss: {on_data_loss}\n    {impatient}"
    file = write(tmp_path, pipeline(broker.servers, keys))
    sent(broker, topic, *range(5))
    events: list[Event] = []

    def delete(run: Run) -> None:
        wait_for(lambda: read(events) == 5, run)
        delete_topic(broker.servers, topic)
        assert run.wait(90)

    with pytest.raises(QueryFailedError) as failed:
        run_while(file, delete, events)
    assert [problem.code for problem in failed.value.problems] == ["HW-KAFKA-TOPIC-DELETED"]
    assert bool(said(events, "HW-KAFKA-TOPIC-LOST")) == (on_data_loss == "warn")
    assert numbers(spark, tmp_path) == Counter(range(5))


@pytest.mark.feature("B4.1", part="topics and partitions that come later")
def test_topics_and_partitions_that_come_later_are_read_from_their_start(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    first = fresh_topic(broker.servers, prefix="later")
    keys = f"topic_pattern: '{first}.*'\n    start: latest\n    options: {{kafka.metadata.max.age.ms: 1000}}"
    file = write(tmp_path, pipeline(broker.servers, keys))
    events: list[Event] = []

    def grow(run: Run) -> None:
        wait_for(lambda: bool(batches(events, "out")) or run.queries["out"].status.value == "idle", run)
        sent(broker, first, 1)
        wait_for(lambda: read(events) == 1, run)
        create_topic(broker.servers, f"{first}-b")
        sent(broker, f"{first}-b", 2, 3)
        add_partitions(broker.servers, first, 2)
        sent(broker, first, 4, 5, partition=1)
        wait_for(lambda: read(events) == 5, run)

    run_while(file, grow, events)
    assert numbers(spark, tmp_path) == Counter(range(1, 6))
    known = json.loads((tmp_path / ".headwater/kafka/out.json").read_text())
    assert set(known["sources"]["numbers"]) == {first, f"{first}-b"}


@pytest.mark.feature("B4.4", part="a broker that dies and comes back loses nothing")
def test_a_broker_that_is_killed_and_comes_back(
    spark: SparkSession, tmp_path: Path, mortal: Broker, topic: str
) -> None:
    """While a producer sends and batches run."""
    file = write(tmp_path, pipeline(mortal.servers, f"topic: {topic}"))
    events: list[Event] = []
    over, last = threading.Event(), 0

    def send() -> None:
        nonlocal last
        # It tries again until the broker has everything, and may so send a message twice.
        while not over.wait(0.05):
            produce(mortal.servers, topic, [{"n": last + each} for each in range(10)])
            last += 10

    def kill(run: Run) -> None:
        wait_for(lambda: read(events) > 100, run)
        mortal.kill()
        mortal.start()
        before = last
        wait_for(lambda: last > before, run)
        over.set()
        sender.join()
        wait_for(lambda: read(events) >= len(consume(mortal.servers, topic)), run)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        run_while(file, kill, events)
    finally:
        over.set()
        sender.join()
    found, held = numbers(spark, tmp_path), consume(mortal.servers, topic)
    assert found.keys() == set(range(last))
    # Each message once: what is there twice, the producer has sent twice.
    assert found == Counter(each.json["n"] for each in held)
    print(f"{last} numbers sent, {len(held) - last} of them twice")  # noqa: T201 - what a reader wants to know
