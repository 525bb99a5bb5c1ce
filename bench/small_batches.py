"""Small batches: 1,000 JSON rows in one file per batch, through the usual kinds of queries, and 100 Kafka messages."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.query import StreamingQuery

from bench.children import JobRun, run_by_hand, run_headwater
from bench.harness import (
    DEFAULTS,
    GUIDE,
    HEADWATER,
    SAME,
    STOCK_FILES,
    Benchmark,
    Case,
    Sample,
    Target,
    Variant,
)
from bench.variants import settings
from headwater.dev import Broker
from headwater.dev.topics import create_topic

ROWS, KEYS = 1_000, 100
MESSAGES, PARTITIONS = 100, 2
"""The messages of a batch, and the partitions of their topic."""
SCHEMA = "id bigint, k bigint, at timestamp, amount double"
WATERMARK = "10 minutes"
SOURCE = """\
  {name}:
    connector: files
    path: {path}
    format: json
    schema: {schema}
    max_files_per_batch: 1
    watermark: {{column: at, delay: {watermark}}}
"""
FROM_KAFKA = """\
  {name}:
    connector: kafka
    bootstrap_servers: "{servers}"
    topic: {topic}
    start: earliest
    format: json
    schema: {schema}
    max_rows_per_batch: {messages}
"""
NEARBY = "a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES"
JOINED = f"SELECT a.id, a.amount, b.amount AS paid FROM events a JOIN others b ON {NEARBY}"


@dataclass(frozen=True)
class Span:
    """Batches by number, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"batches {self.first}–{self.last}"


@dataclass(frozen=True)
class Size:
    """How many batches a run has, and which of them are compared."""

    batches: int
    warm: Span
    early: Span
    first: Span
    """The batches that a very slow variant also reaches."""


FULL = Size(110, Span(60, 109), Span(20, 59), Span(2, 3))
SHORT = Size(40, Span(20, 39), Span(10, 19), Span(2, 3))
"""For workloads without a target."""
QUICK = Size(12, Span(6, 11), Span(4, 8), Span(2, 3))


@dataclass(frozen=True)
class Workload:
    """One query, by hand and as the tables and the sink of a pipeline."""

    name: str
    tables: str
    sink: str
    shuffles: bool = True
    sources: tuple[str, ...] = ("events",)
    targets: Sequence[Target] = ()
    kafka: bool = False

    @property
    def job(self) -> str:
        return f"{__name__}:{'_'.join(re.findall('[a-z]+', self.name.lower()))}"


TARGETS = (
    Target(HEADWATER, SAME, 1.05, "at most"),
    Target(HEADWATER, STOCK_FILES, 0.85, "at most"),
    Target(GUIDE, HEADWATER, 2.0, "at least"),
)
KAFKA_TARGETS = (Target(HEADWATER, SAME, 1.1, "at most"),)
WORKLOADS = (
    Workload(
        "stateless → parquet",
        "  result: SELECT id, k, amount * 2 AS amount FROM events WHERE k <> 7\n",
        "connector: files, path: out, format: parquet",
        shuffles=False,
        targets=TARGETS,
    ),
    Workload(
        "aggregation",
        "  result: SELECT k, count(*) AS number, sum(amount) AS amount FROM events GROUP BY k\n",
        "connector: noop, mode: update",
        targets=TARGETS,
    ),
    Workload(
        "Kafka → noop",
        "  result: SELECT id, k, amount * 2 AS amount FROM events\n",
        "connector: noop",
        shuffles=False,
        targets=KAFKA_TARGETS,
        kafka=True,
    ),
    Workload("stream–stream join", f"  result: {JOINED}\n", "connector: noop", sources=("events", "others")),
    Workload(
        "deduplication",
        "  result: {reads: events, deduplicate: [id], within: watermark}\n",
        "connector: noop",
    ),
)


def pipeline(workload: Workload, given: Mapping[str, str]) -> str:
    """The pipeline file of a workload; `given` is its input, as the query by hand gets it."""
    stateless = not workload.shuffles
    more = {"schema": json.dumps(SCHEMA), "watermark": WATERMARK, "messages": MESSAGES}
    sources = "".join(
        FROM_KAFKA.format(name=name, **given, **more)
        if workload.kafka
        else SOURCE.format(name=name, path=Path(given["data"], name), **more)
        for name in workload.sources
    )
    if stateless or workload.name == "aggregation":
        sources = "".join(line for line in sources.splitlines(True) if "watermark" not in line)
    tables = f"tables:\n{workload.tables}"
    sink = f"sinks:\n  out: {{reads: result, {workload.sink}, trigger: available now}}\n"
    return f"name: small\nsources:\n{sources}{tables}{sink}"


# The same queries by hand.


def _events(spark: SparkSession, data: str, name: str = "events") -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(Path(data, name)))


def _start(rows: DataFrame, folder: Path, sink: str = "noop", mode: str = "append") -> StreamingQuery:
    writer = rows.writeStream.format(sink).outputMode(mode).trigger(availableNow=True)
    if sink == "parquet":
        writer = writer.option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def stateless_parquet(spark: SparkSession, folder: Path, data: str) -> StreamingQuery:
    """Projection and filter into Parquet files."""
    rows = _events(spark, data).where("k <> 7").selectExpr("id", "k", "amount * 2 AS amount")
    return _start(rows, folder, "parquet")


def aggregation(spark: SparkSession, folder: Path, data: str) -> StreamingQuery:
    """Count and sum by key."""
    grouped = _events(spark, data).groupBy("k")
    return _start(grouped.agg({"*": "count", "amount": "sum"}), folder, mode="update")


def stream_stream_join(spark: SparkSession, folder: Path, data: str) -> StreamingQuery:
    """Inner join of two streams by key and time."""
    for name in ("events", "others"):
        _events(spark, data, name).withWatermark("at", WATERMARK).createOrReplaceTempView(name)
    return _start(spark.sql(JOINED), folder)


def deduplication(spark: SparkSession, folder: Path, data: str) -> StreamingQuery:
    """Deduplication by key within the watermark."""
    rows = _events(spark, data).withWatermark("at", WATERMARK)
    return _start(rows.dropDuplicatesWithinWatermark(["id"]), folder)


def kafka_noop(spark: SparkSession, folder: Path, servers: str, topic: str) -> StreamingQuery:
    """Projection of messages, of which malformed ones become nulls."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    raw = reader.option("maxOffsetsPerTrigger", MESSAGES).load()
    events = raw.select(from_json(col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    return _start(events.selectExpr("id", "k", "amount * 2 AS amount"), folder)


# Input and measurement.


def write_input(folder: Path, files: int) -> None:
    """The files of both streams. One file covers a minute; each row of the second stream has one in the first."""
    for number in range(files):
        for name in ("events", "others"):
            rows = (event(number, row, later=30 if name == "others" else 0) for row in range(ROWS))
            file = folder / name / f"{number:05}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            # Spark reads the oldest file first.
            os.utime(file, (1_700_000_000 + number,) * 2)


def send_input(servers: str, topic: str, batches: int) -> None:
    """A topic with the messages of all batches."""
    create_topic(servers, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(batches):
        for row in range(MESSAGES):
            producer.produce(topic, event(number, row), partition=row % PARTITIONS)
        producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} messages were not sent")


def event(number: int, row: int, later: int = 0) -> str:
    """One row of a batch, as JSON."""
    first = number * ROWS
    fields = {
        "id": first + row - (row % 10 == 9),
        "k": (first + row) * 7919 % KEYS,
        "at": f"2026-01-01T{number // 60:02}:{number % 60:02}:{(row % 30) + later:02}Z",
        "amount": row / 8,
    }
    return json.dumps(fields)


def sample(run: JobRun, size: Size, batches: int) -> Sample:
    """The warm batches, with the earlier ones as details; a short run has only the first ones."""
    full = sum(batch.rows > 0 for batch in run.batches)
    # Rows that the parser skips because of a filter are not counted, so the number of rows differs.
    if full != batches:
        raise RuntimeError(f"{full} batches had rows, expected {batches}")
    first = {str(size.first): run.median_ms(size.first.first, size.first.last)}
    if batches < size.batches:
        return Sample(first[str(size.first)], run.cpu_ms(size.first.first, size.first.last), first)
    early = size.early
    details = {
        str(early): run.median_ms(early.first, early.last),
        f"CPU, {early}": run.cpu_ms(early.first, early.last),
        **first,
    }
    warm = size.warm
    return Sample(run.median_ms(warm.first, warm.last), run.cpu_ms(warm.first, warm.last), details)


def tested(workload: Workload, variant: Variant) -> bool:
    """Whether a quick run includes a variant: all variants of one workload, the first two of the others."""
    return workload.name == "aggregation" or variant.name in (HEADWATER, SAME)


class SmallBatches(Benchmark):
    """Batches of 1,000 rows, and of 100 messages."""

    name = "small-batches"
    title = "Small batches"
    description = (
        f"{ROWS:,} JSON rows in one file per batch, or {MESSAGES} Kafka messages. The value is the median of "
        f"{FULL.warm}, or of {SHORT.warm} for workloads without a target."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder:
            self.input = Path(folder)
            with Broker(self.input / "broker") as broker:
                self.servers = broker.servers
                yield

    def cases(self, quick: bool) -> Iterable[Case]:
        for size in (QUICK,) if quick else (FULL, SHORT):
            write_input(Path(self._files(size.batches)["data"]), size.batches)
        first = (QUICK if quick else FULL).first.last + 1
        write_input(Path(self._files(first)["data"]), first)
        for workload in WORKLOADS:
            size = QUICK if quick else FULL if workload.targets else SHORT
            given = self._files(size.batches)
            if workload.kafka:
                given = {"servers": self.servers, "topic": "events"}
                send_input(**given, batches=size.batches)
            yield Case(
                workload.name,
                "ms per batch",
                "lower",
                [
                    each
                    for each in self._variants(workload, size, given)
                    if not quick or tested(workload, each)
                ],
                targets=workload.targets,
            )

    def _files(self, batches: int) -> dict[str, str]:
        return {"data": str(self.input / str(batches))}

    def _variants(self, workload: Workload, size: Size, given: Mapping[str, str]) -> Iterator[Variant]:
        def headwater(folder: Path) -> Sample:
            return sample(run_headwater(pipeline(workload, given), folder), size, size.batches)

        def by_hand(name: str, batches: int, given: Mapping[str, str]) -> Callable[[Path], Sample]:
            def run(folder: Path) -> Sample:
                done = run_by_hand(workload.job, folder, settings(name, kafka=workload.kafka), given)
                return sample(done, size, batches)

            return run

        yield Variant(HEADWATER, headwater)
        for name in (SAME, STOCK_FILES, GUIDE) if workload.targets else (SAME, GUIDE):
            yield Variant(name, by_hand(name, size.batches, given))
        if not workload.targets:
            return
        if workload.shuffles:
            # 200 partitions take seconds per batch.
            batches = size.first.last + 1
            slow = by_hand(DEFAULTS, batches, self._files(batches))
            note = f"200 shuffle partitions: only {batches} batches, compared on {size.first}"
            yield Variant(DEFAULTS, slow, rounds=1, compare_on=str(size.first), note=note)
        else:
            yield Variant(DEFAULTS, by_hand(DEFAULTS, size.batches, given), rounds=1)


BENCHMARK = SmallBatches()
