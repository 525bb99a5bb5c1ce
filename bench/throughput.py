"""Full speed: large batches from files through windows to files, and JSON messages from Kafka to files or topics."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.json  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json, window
from pyspark.sql.streaming.query import StreamingQuery

from bench.children import JobRun, run_by_hand, run_headwater
from bench.harness import (
    DEFAULTS,
    GUIDE,
    HEADWATER,
    SAME,
    Benchmark,
    Case,
    CaseResult,
    Outcome,
    Sample,
    Target,
    Variant,
    geometric_mean,
)
from bench.variants import settings
from headwater.dev import Broker
from headwater.dev.topics import create_topic, delete_topic

NULLS = "Spark, same settings, malformed messages become nulls"
QUARANTINE = "Headwater, bad_rows: quarantine"
KEYS, PARTITIONS = 100, 2
MINUTES_PER_FILE, DELAY_MINUTES = 10, 10
SCHEMA = "id bigint, k bigint, at timestamp, amount double"
MESSAGE = "id bigint, page string, at timestamp, cost double, tags array<string>"
MALFORMED_EVERY = 333

FILES = """\
name: throughput
sources:
  events:
    connector: files
    path: {path}
    format: {format}
    schema: {schema}
    max_files_per_batch: 1
    watermark: {{column: at, delay: {delay} minutes}}
tables:
  result: |
    SELECT window.start AS at, k, count(*) AS number, sum(amount) AS amount
    FROM events GROUP BY window(at, '1 minute'), k
sinks:
  out: {{reads: result, connector: files, path: out, format: parquet, trigger: available now}}
"""
KAFKA = """\
name: throughput
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
class Load:
    """The input of a run: its batches, the rows in each, and how many batches come before those that are measured."""

    batches: int
    rows: int
    warm_up: int

    @property
    def total(self) -> int:
        return self.batches * self.rows


@dataclass(frozen=True)
class Size:
    """How much a run reads."""

    files: Load
    messages: Load


# In the first batches, Java compiles the code of the query, and of all that a start has run.
FULL = Size(Load(12, 300_000, 4), Load(12, 200_000, 4))
QUICK = Size(Load(3, 3_000, 1), Load(3, 2_000, 1))
QUICK_VARIANTS = (HEADWATER, SAME)


def from_files(path: Path, form: str) -> str:
    """The pipeline file for the files of a directory."""
    return FILES.format(path=path, format=form, schema=json.dumps(SCHEMA), delay=DELAY_MINUTES)


# The queries by hand.


def windows(spark: SparkSession, folder: Path, data: str, form: str) -> StreamingQuery:
    """Files to one-minute windows to Parquet files."""
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).format(form).load(data)
    grouped = events.withWatermark("at", f"{DELAY_MINUTES} minutes").groupBy(window("at", "1 minute"), "k")
    counted = grouped.agg({"*": "count", "amount": "sum"})
    result = counted.select(
        col("window.start").alias("at"),
        "k",
        col("count(1)").alias("number"),
        col("sum(amount)").alias("amount"),
    )
    return _to_parquet(result, folder)


def messages(
    spark: SparkSession, folder: Path, servers: str, topic: str, per_batch: int, dropping: bool
) -> StreamingQuery:
    """JSON messages to Parquet files, or to a topic if one is given. Without `dropping`, a malformed message becomes
    a row of nulls."""
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )
    rows = decoded(raw, dropping=dropping)
    if not topic:
        return _to_parquet(rows, folder)
    writer = rows.select(to_json(struct("*")).alias("value")).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def decoded(raw: DataFrame, *, dropping: bool) -> DataFrame:
    """The columns of JSON messages."""
    text = col("value").cast("string")
    if not dropping:
        return raw.select(from_json(text, MESSAGE).alias("row")).select("row.*")
    row = from_json(text, f"{MESSAGE}, _corrupt string", {"columnNameOfCorruptRecord": "_corrupt"})
    good = raw.select(row.alias("row")).where("row IS NOT NULL AND row._corrupt IS NULL")
    return good.select("row.*").drop("_corrupt")


def _to_parquet(rows: DataFrame, folder: Path) -> StreamingQuery:
    writer = rows.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


# Input.


def write_files(folder: Path, load: Load) -> None:
    """The same events as JSON and as Parquet, one file per batch; each file covers ten minutes."""
    rows = load.rows
    for form in ("json", "parquet"):
        (folder / form).mkdir(parents=True)
    for number in range(load.batches):
        file = folder / "json" / f"{number:03}.json"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(event(number, row, rows) for row in range(rows))
        table = pyarrow.json.read_json(file)
        times = table.column("at").cast(pa.timestamp("us", "UTC"))
        table = table.set_column(table.schema.get_field_index("at"), "at", times)
        pyarrow.parquet.write_table(table, folder / "parquet" / f"{number:03}.parquet")
        for written in (file, folder / "parquet" / f"{number:03}.parquet"):
            # Spark reads the oldest file first.
            os.utime(written, (1_700_000_000 + number,) * 2)


def event(number: int, row: int, rows: int) -> str:
    """One line. The times of a file advance evenly, and every key occurs in every minute."""
    second = row * MINUTES_PER_FILE * 60 // rows + number * MINUTES_PER_FILE * 60
    at = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    return f'{{"id": {number * rows + row}, "k": {row % KEYS}, "at": "{at}", "amount": {row / 8}}}\n'


def closed_windows(load: Load) -> int:
    """The windows that the watermark has closed after the last file: those that end up to its last event."""
    last_minute = load.batches * MINUTES_PER_FILE - 1
    return (last_minute - DELAY_MINUTES) * KEYS


def produce(servers: str, number: int) -> None:
    """Send the messages; one of 333 is malformed."""
    create_topic(servers, "clicks", PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    for each in range(number):
        text = (
            "nonsense"
            if each % MALFORMED_EVERY == 0
            else f'{{"id": {each}, "page": "/p/{each % 97}", "at": "2026-01-01T00:00:00Z", '
            f'"cost": {each / 7}, "tags": ["a", "b"]}}'
        )
        producer.produce("clicks", text.encode(), partition=each % PARTITIONS)
        producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} messages were not delivered")


def topic_size(servers: str, topic: str) -> int:
    """The number of messages in a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "size"})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in range(PARTITIONS)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)


def files_size(folder: Path) -> int:
    """The number of rows in Parquet files."""
    return sum(pyarrow.parquet.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


# Measurement.


def sample(run: JobRun, load: Load, written: int, expected: int) -> Sample:
    """The rate after the warm-up; every row must have been read and the right number written."""
    if run.rows != load.total or written != expected:
        raise RuntimeError(
            f"{run.rows} rows were read, expected {load.total}; {written} were written, expected {expected}"
        )
    full = [batch for batch in run.batches if batch.rows]
    before, measured = full[load.warm_up - 1].number, full[load.warm_up :]
    used = run.usage_at(full[-1].number)[1].cpu - run.usage_at(before)[1].cpu
    details = {
        "CPU µs per row": 1e6 * used / sum(batch.rows for batch in measured),
        "after the first batch": run.rows_per_second(after=full[0].number),
    }
    return Sample(run.rows_per_second(after=before), used, details)


class Throughput(Benchmark):
    """Rows per second of large batches."""

    name = "throughput"
    title = "Throughput"
    description = (
        f"{FULL.files.batches} batches of {FULL.files.rows:,} rows in a file, or {FULL.messages.batches} batches of "
        f"{FULL.messages.rows:,} Kafka messages. The value is the rate in Spark's batches after a warm-up of "
        f"{FULL.messages.warm_up} batches. CPU: seconds of all processes in these batches."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with (
            tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder,
            Broker(Path(folder, "broker")) as broker,
        ):
            self.input, self.servers = Path(folder), broker.servers
            self.topics = 0
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        size = QUICK if quick else FULL
        write_files(self.input, size.files)
        for form in ("json", "parquet"):
            variants = [
                each for each in self._from_files(form, size) if not quick or each.name in QUICK_VARIANTS
            ]
            name = {"json": "JSON", "parquet": "Parquet"}[form]
            yield Case(f"{name} files → windows → Parquet", "rows/s", "higher", variants)
        produce(self.servers, size.messages.total)
        target = Target(HEADWATER, NULLS, 0.90, "at least")
        note = (
            "Headwater uses `bad_rows: drop`. Hand-written Spark drops malformed messages with a corrupt-record column "
            "and a filter, for which Spark parses each message twice. `bad_rows: quarantine` runs a second query over "
            "every message; its rate is that of the first query."
        )
        for sink in ("parquet", "kafka"):
            name = {"kafka": "Kafka", "parquet": "Parquet"}[sink]
            variants = [
                each
                for each in self._from_kafka(sink == "kafka", size)
                if not quick or each.name in QUICK_VARIANTS or sink == "parquet"
            ]
            yield Case(f"Kafka → {name}", "rows/s", "higher", variants, targets=[target], note=note)

    def outcomes(self, results: Sequence[CaseResult]) -> Iterable[Outcome]:
        from_files = [result for result in results if "files" in result.name]
        everything = "all cases (by hand, Spark parses Kafka messages twice to drop malformed ones)"
        for name, cases in (("files", from_files), (everything, results)):
            mean = geometric_mean(cases, HEADWATER, SAME)
            yield Outcome(f"{name}, geometric mean: {HEADWATER} / {SAME}", mean, 0.99, "at least")

    def _from_files(self, form: str, size: Size) -> Iterator[Variant]:
        path, load = self.input / form, size.files

        def headwater(folder: Path) -> Sample:
            done = run_headwater(from_files(path, form), folder)
            return sample(done, load, files_size(folder / "out"), closed_windows(load))

        def by_hand(name: str) -> Callable[[Path], Sample]:
            def run(folder: Path) -> Sample:
                job = f"{__name__}:windows"
                done = run_by_hand(job, folder, settings(name), {"data": str(path), "form": form})
                return sample(done, load, files_size(folder / "out"), closed_windows(load))

            return run

        yield Variant(HEADWATER, headwater)
        yield Variant(SAME, by_hand(SAME))
        yield Variant(GUIDE, by_hand(GUIDE))
        yield Variant(DEFAULTS, by_hand(DEFAULTS), rounds=1, note="200 shuffle partitions")

    def _from_kafka(self, to_kafka: bool, size: Size) -> Iterator[Variant]:
        yield Variant(HEADWATER, self._headwater_on_kafka(to_kafka, size, "drop"))
        if not to_kafka:
            yield Variant(QUARANTINE, self._headwater_on_kafka(to_kafka, size, "quarantine"), rounds=2)
        yield Variant(SAME, self._by_hand_on_kafka(to_kafka, size, SAME, dropping=True))
        yield Variant(NULLS, self._by_hand_on_kafka(to_kafka, size, SAME, dropping=False))
        for name in (GUIDE, DEFAULTS) if not to_kafka else ():
            yield Variant(name, self._by_hand_on_kafka(to_kafka, size, name, dropping=True), rounds=2)

    def _headwater_on_kafka(self, to_kafka: bool, size: Size, bad_rows: str) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            topic = self._new_topic() if to_kafka else ""
            sink = "connector: files, path: out, format: parquet"
            if to_kafka:
                sink = f"connector: kafka, bootstrap_servers: '{self.servers}', topic: {topic}, value: json"
            text = KAFKA.format(
                servers=self.servers,
                schema=json.dumps(MESSAGE),
                bad_rows=bad_rows,
                per_batch=size.messages.rows,
                sink=sink,
            )
            return self._kafka_sample(run_headwater(text, folder), folder, topic, size, dropping=True)

        return run

    def _by_hand_on_kafka(
        self, to_kafka: bool, size: Size, name: str, *, dropping: bool
    ) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            topic = self._new_topic() if to_kafka else ""
            parameters = {
                "servers": self.servers,
                "topic": topic,
                "per_batch": size.messages.rows,
                "dropping": dropping,
            }
            done = run_by_hand(f"{__name__}:messages", folder, settings(name, kafka=True), parameters)
            return self._kafka_sample(done, folder, topic, size, dropping=dropping)

        return run

    def _kafka_sample(self, done: JobRun, folder: Path, topic: str, size: Size, *, dropping: bool) -> Sample:
        total = size.messages.total
        malformed = len(range(0, total, MALFORMED_EVERY))
        written = topic_size(self.servers, topic) if topic else files_size(folder / "out")
        if topic:
            delete_topic(self.servers, topic)
        return sample(done, size.messages, written, total - malformed if dropping else total)

    def _new_topic(self) -> str:
        self.topics += 1
        topic = f"copied-{self.topics}"
        create_topic(self.servers, topic, PARTITIONS)
        return topic


BENCHMARK = Throughput()
