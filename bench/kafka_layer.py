"""Compares Headwater on Kafka with hand-written PySpark: the same work, in one JVM, taking turns.

    make bench-kafka                      (ARGS=9 for nine rounds)
    python bench/kafka_layer.py [ROUNDS] [MESSAGES]

Each variant decodes JSON messages from a real broker and writes them to Parquet files or to another topic:

- hand-written: `from_json` with a corrupt-record column, a filter that drops malformed rows, and Spark's sinks
- hand-written, shortest: `from_json` only; a malformed message silently becomes a row of nulls
- Headwater with `bad_rows: drop`
- Headwater with `bad_rows: quarantine`, which runs a second query over the same messages

Every query processes all messages with `available now`.

The hand-written queries use the same session settings as Headwater (`query_settings`): shuffle partitions, state
store and changelog, file manager of checkpoints, time zone, watermark policy, and no filter pushdown into parsers.
Headwater does more work: it counts rows, and it detects messages that contain several objects or are not UTF-8.

The script compares the time in Spark's batches, as reported by Spark, and the total time of the query. In each
round, every variant must have read every message.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json

from headwater.dev import Broker
from headwater.dev.topics import create_topic
from headwater.engine.pipeline_file import load
from headwater.engine.session import artifacts_of, jar_store, query_settings
from headwater.events import Event, QueryProgress
from headwater.runtime import RunOptions, start

ROUNDS, MESSAGES, PARTITIONS, CORES = 5, 400_000, 2, 2
PER_BATCH = 100_000
TARGET = 0.97
SCHEMA = "id bigint, page string, at timestamp, cost double, tags array<string>"
PIPELINE = """
name: layer
sources:
  clicks:
    connector: kafka
    bootstrap_servers: {servers}
    topic: clicks
    start: earliest
    format: json
    schema: {schema}
    bad_rows: {bad_rows}
    max_rows_per_batch: {per_batch}
sinks:
  out: {{reads: clicks, {sink}, trigger: available now}}
"""


@dataclass(frozen=True)
class Done:
    """The result of one variant in a round."""

    batches: float
    whole: float
    rows: int
    """Number of input rows, as reported by Spark."""


@dataclass
class Measured:
    """Seconds of each round: in Spark's batches, and in total."""

    batches: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def add(self, done: Done) -> None:
        self.batches.append(done.batches)
        self.whole.append(done.whole)


Work = Callable[[Path], Done]


def produce(servers: str, messages: int) -> None:
    """Send the messages; 0.3 percent of them are malformed."""
    create_topic(servers, "clicks", PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    for number in range(messages):
        row = {
            "id": number,
            "page": f"/p/{number % 97}",
            "at": "2026-01-01T00:00:00Z",
            "cost": number / 7,
            "tags": ["a", "b"],
        }
        text = "nonsense" if number % 333 == 0 else json.dumps(row)
        producer.produce("clicks", text.encode(), partition=number % PARTITIONS)
        producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} messages were not delivered")


def decoded(spark: SparkSession, servers: str, *, dropping: bool) -> DataFrame:
    """The hand-written query; without `dropping`, it does not handle malformed messages."""
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_BATCH)
        .load()
    )
    if not dropping:
        return raw.select(from_json(col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    options = {"columnNameOfCorruptRecord": "_corrupt"}
    row = from_json(col("value").cast("string"), f"{SCHEMA}, _corrupt string", options)
    return (
        raw.select(row.alias("row"))
        .where("row IS NOT NULL AND row._corrupt IS NULL")
        .select("row.*")
        .drop("_corrupt")
    )


def by_hand(spark: SparkSession, servers: str, topic: str, *, dropping: bool = True) -> Work:
    """The hand-written query, to files or, if given, to a topic."""

    def work(folder: Path) -> Done:
        began = time.monotonic()
        rows = decoded(spark, servers, dropping=dropping)
        if topic:
            rows = rows.select(to_json(struct("*")).alias("value"))
            writer = (
                rows.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", servers)
                .option("topic", topic)
            )
        else:
            writer = rows.writeStream.format("parquet").option("path", str(folder / "out"))
        query = (
            writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        )
        query.awaitTermination()
        whole = time.monotonic() - began
        progress = query.recentProgress
        rows = sum(each["numInputRows"] for each in progress)
        return Done(sum(each["batchDuration"] for each in progress) / 1000, whole, rows)

    return work


def declared(folder: Path, servers: str, bad_rows: str, sink: str) -> Path:
    """The pipeline file."""
    file = folder / "layer.yml"
    file.write_text(
        PIPELINE.format(
            servers=servers, schema=json.dumps(SCHEMA), bad_rows=bad_rows, per_batch=PER_BATCH, sink=sink
        )
    )
    return file


def with_settings_of_headwater(spark: SparkSession, servers: str, folder: Path) -> None:
    """Apply the settings of Headwater's queries to the session of the hand-written queries."""
    spec = load(declared(folder, servers, "drop", "connector: noop"))
    for setting in query_settings(spec, {}, CORES, {}):
        spark.conf.set(setting.key, setting.value)


def by_headwater(servers: str, topic: str, bad_rows: str) -> Work:
    """The same work as a pipeline."""
    sink = (
        f"connector: kafka, bootstrap_servers: '{servers}', topic: {topic}, value: json"
        if topic
        else "connector: files, path: out, format: parquet"
    )

    def work(folder: Path) -> Done:
        file = declared(folder, servers, bad_rows, sink)
        events: list[Event] = []
        began = time.monotonic()
        running, _ = start(load(file), RunOptions(), events.append, lambda line: None)
        running.wait()
        whole = time.monotonic() - began
        running.raise_for_failure()
        progress = [event for event in events if isinstance(event, QueryProgress) and event.query == "out"]
        rows = sum(event.rows_in for event in progress)
        return Done(sum(event.batch_ms for event in progress) / 1000, whole, rows)

    return work


def main() -> int:
    """Measure and print. The exit code is 1 if the target is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else MESSAGES
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as scratch,
        Broker(Path(scratch, "broker")) as broker,
    ):
        print(f"{messages:,} messages in {PARTITIONS} partitions, {rounds} rounds after a warm-up")
        produce(broker.servers, messages)
        create_topic(broker.servers, "copied", PARTITIONS)
        jars = ",".join(str(jar_store().take(artifact).path) for artifact in artifacts_of("kafka"))
        spark = (
            SparkSession.builder.master(f"local[{CORES}]")
            .config("spark.jars", jars)
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        with_settings_of_headwater(spark, broker.servers, Path(scratch))
        met = [
            measure(spark, broker.servers, topic, Path(scratch), rounds, messages) for topic in ("", "copied")
        ]
        spark.stop()
    return 0 if all(met) else 1


def measure(spark: SparkSession, servers: str, topic: str, scratch: Path, rounds: int, messages: int) -> bool:
    """Measure all variants with one kind of sink, taking turns."""
    ways: dict[str, Work] = {
        "PySpark": by_hand(spark, servers, topic),
        "PySpark, nulls kept": by_hand(spark, servers, topic, dropping=False),
        "bad_rows: drop": by_headwater(servers, topic, "drop"),
        "bad_rows: quarantine": by_headwater(servers, topic, "quarantine"),
    }
    times = {name: Measured() for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            folder = Path(tempfile.mkdtemp(dir=scratch))
            done = work(folder)
            if done.rows != messages:
                raise RuntimeError(f"{name}: {done.rows} messages were read, expected {messages}")
            if number:
                times[name].add(done)
    print(f"\nKafka → {'Kafka' if topic else 'parquet'}")
    hand = times["PySpark"]
    for name, each in times.items():
        ratio, whole = ratio_of(hand.batches, each.batches), ratio_of(hand.whole, each.whole)
        rate = messages / statistics.median(each.batches)
        print(f"  {name:22} {rate:10,.0f} rows/s   {ratio:.2f} of PySpark in batches, {whole:.2f} in total")
    return ratio_of(hand.batches, times["bad_rows: drop"].batches) >= TARGET


def ratio_of(hand: list[float], ours: list[float]) -> float:
    """The speed relative to PySpark in the same round; the median over the rounds."""
    return statistics.median(one / other for one, other in zip(hand, ours, strict=True))


if __name__ == "__main__":
    sys.exit(main())
