"""The Yahoo streaming benchmark: views of ads, counted per campaign in windows of 10 seconds.

JSON events from Kafka → only views → join with the campaigns of the ads → counts per campaign and window → Kafka.
After each run, the counts in the output topic are compared with those of the generator.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from bench.children import JobFailed, JobRun, run_by_hand, run_headwater
from bench.harness import GUIDE, HEADWATER, SAME, Benchmark, Case, Sample, Target, Variant
from bench.variants import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CAMPAIGNS, ADS_PER_CAMPAIGN, PARTITIONS = 100, 10, 2
RATE = 20_000
"""Events per second of event time."""
WINDOW_MS = 10_000
FIRST_MS = 1_700_000_000_000
KINDS = ("view", "click", "purchase")
PLACES = ("banner", "modal", "sponsored-search", "mail", "mobile")
TOPIC = "ad-events"
SCHEMA = (
    "user_id string, page_id string, ad_id string, ad_type string, event_type string, event_time string, "
    "ip_address string"
)
ADS_SCHEMA = "ad_id string, campaign_id string"
WATERMARK = "10 seconds"
VIEWS = (
    "SELECT ad_id, timestamp_millis(CAST(event_time AS BIGINT)) AS event_time FROM ad_events "
    "WHERE event_type = 'view'"
)
COUNTS = (
    "SELECT campaign_id, unix_millis(window.start) AS window_start, count(*) AS views FROM views JOIN ads "
    "USING (ad_id) GROUP BY campaign_id, window(event_time, '10 seconds')"
)

Key = tuple[str, int]


@dataclass(frozen=True)
class Size:
    """How many events there are, how many a batch reads, and how many batches warm the JVM up."""

    events: int
    per_batch: int
    warm_up: int


FULL, QUICK = Size(1_600_000, 200_000, 2), Size(60_000, 20_000, 1)


@dataclass(frozen=True)
class Ads:
    """The ads and their campaigns, by number."""

    ids: list[str]
    campaigns: list[str]

    def write(self, path: Path) -> None:
        """As CSV: the id of an ad and of its campaign."""
        rows = (f"{ad},{self.campaigns[number // ADS_PER_CAMPAIGN]}\n" for number, ad in enumerate(self.ids))
        path.write_text("".join(rows), encoding="utf-8")


def make_ads(random: np.random.Generator) -> Ads:
    """Ten ads for each campaign."""
    return Ads(_uuids(CAMPAIGNS * ADS_PER_CAMPAIGN, random), _uuids(CAMPAIGNS, random))


def make_events(size: Size, ads: Ads, random: np.random.Generator) -> tuple[list[str], Counter[Key]]:
    """The events as JSON, in order of time, and the number of views of each campaign and window."""
    count = size.events
    ad, kind = random.integers(len(ads.ids), size=count), random.integers(len(KINDS), size=count)
    times = FIRST_MS + np.arange(count) * 1000 // RATE
    users, pages = pa.array(_uuids(100, random)), pa.array(_uuids(100, random))
    columns = {
        "user_id": users.take(pa.array(random.integers(100, size=count))),
        "page_id": pages.take(pa.array(random.integers(100, size=count))),
        "ad_id": pa.array(ads.ids).take(pa.array(ad)),
        "ad_type": pa.array(PLACES).take(pa.array(random.integers(len(PLACES), size=count))),
        "event_type": pa.array(KINDS).take(pa.array(kind)),
        "event_time": pa.array(times).cast(pa.string()),
    }
    parts = [part for name, values in columns.items() for part in (f'"{name}":"', values, '",')]
    lines = pc.binary_join_element_wise("{", *parts, '"ip_address":"1.2.3.4"}', "").to_pylist()
    viewed = kind == KINDS.index("view")
    keys = zip(
        (ad[viewed] // ADS_PER_CAMPAIGN).tolist(),
        (times[viewed] // WINDOW_MS * WINDOW_MS).tolist(),
        strict=True,
    )
    return lines, Counter((ads.campaigns[campaign], start) for campaign, start in keys)


def _uuids(count: int, random: np.random.Generator) -> list[str]:
    return [str(uuid.UUID(bytes=random.bytes(16))) for _ in range(count)]


def start(
    spark: SparkSession, folder: Path, servers: str, ads: str, output: str, per_batch: int
) -> StreamingQuery:
    """The job of the hand-written variants, for `bench.by_hand`."""
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )
    decoded = raw.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS event").select("event.*")
    decoded.createOrReplaceTempView("ad_events")
    spark.sql(VIEWS).withWatermark("event_time", WATERMARK).createOrReplaceTempView("views")
    spark.read.schema(ADS_SCHEMA).csv(ads).createOrReplaceTempView("ads")
    return (
        spark.sql(COUNTS)
        .selectExpr("to_json(struct(*)) AS value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", output)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )


def pipeline(servers: str, ads: str, output: str, per_batch: int) -> str:
    """The same job as a pipeline file; JSON is YAML."""
    kafka = {"connector": "kafka", "bootstrap_servers": servers}
    events = {"topic": TOPIC, "start": "earliest", "format": "json", "schema": SCHEMA}
    return json.dumps(
        {
            "name": "yahoo",
            "sources": {
                "ad_events": kafka | events | {"max_rows_per_batch": per_batch},
                "ads": {
                    "connector": "files",
                    "path": ads,
                    "format": "csv",
                    "schema": ADS_SCHEMA,
                    "static": True,
                },
            },
            "tables": {
                "views": {"sql": VIEWS, "watermark": {"column": "event_time", "delay": WATERMARK}},
                "counts": COUNTS,
            },
            "sinks": {
                "out": kafka
                | {"reads": "counts", "topic": output, "value": "json"}
                | {"mode": "update", "trigger": "available now"}
            },
        },
        indent=2,
    )


def sample(run: JobRun, size: Size) -> Sample:
    """Events per second of the batches after the warm-up."""
    if run.rows != size.events:
        raise JobFailed(f"{run.rows} events were read, expected {size.events}")
    last, usage = max(run.commits), run.usage_at(size.warm_up - 1)
    # A commit that the parent has not seen would move the start of the measured time.
    cpu = run.commits[last].cpu - usage[1].cpu if usage[0] == size.warm_up - 1 else None
    details = {"run s": run.seconds, "run CPU s": run.cpu_seconds, "peak MB": run.peak_bytes / 1e6}
    return Sample(run.rows_per_second(size.warm_up - 1), cpu, details)


class Yahoo(Benchmark):
    """The benchmark, with its broker and its campaigns."""

    name = "yahoo"
    title = "Yahoo streaming benchmark"
    description = (
        f"views of ads per campaign in 10-second windows, from Kafka to Kafka; {FULL.per_batch:,} events per batch, "
        "without the two batches that warm the JVM up"
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        """A broker while the cases run."""
        from headwater.dev import Broker

        with (
            tempfile.TemporaryDirectory(prefix="headwater-yahoo-") as folder,
            Broker(Path(folder, "broker")) as broker,
        ):
            self._ads, self._servers = Path(folder, "ads.csv"), broker.servers
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        size, random = QUICK if quick else FULL, np.random.default_rng(0)
        ads = make_ads(random)
        ads.write(self._ads)
        events, counts = make_events(size, ads, random)
        _produce(self._servers, events)
        variants = [
            Variant(HEADWATER, self._checked(self._run_headwater, size, counts)),
            Variant(SAME, self._checked(self._by_hand(SAME), size, counts)),
            Variant(GUIDE, self._checked(self._by_hand(GUIDE), size, counts)),
        ]
        note = "by hand, `from_json` turns a malformed event into nulls; Headwater fails on it"
        targets = [Target(HEADWATER, SAME, 0.99, "at least")]
        yield Case("ad views per campaign", "events/s", "higher", variants, targets=targets, note=note)

    def _checked(
        self, run: Callable[[Path, str, Size], JobRun], size: Size, counts: Counter[Key]
    ) -> Callable[[Path], Sample]:
        def measured(folder: Path) -> Sample:
            from headwater.dev.topics import create_topic, delete_topic

            output = f"counts-{folder.name}"
            create_topic(self._servers, output, PARTITIONS)
            try:
                done = run(folder, output, size)
                compare(read_counts(self._servers, output), counts)
            finally:
                delete_topic(self._servers, output)
            return sample(done, size)

        return measured

    def _run_headwater(self, folder: Path, output: str, size: Size) -> JobRun:
        return run_headwater(pipeline(self._servers, str(self._ads), output, size.per_batch), folder)

    def _by_hand(self, variant: str) -> Callable[[Path, str, Size], JobRun]:
        def run(folder: Path, output: str, size: Size) -> JobRun:
            parameters = {
                "servers": self._servers,
                "ads": str(self._ads),
                "output": output,
                "per_batch": size.per_batch,
            }
            return run_by_hand("bench.yahoo:start", folder, settings(variant, kafka=True), parameters)

        return run


def compare(found: Counter[Key], counts: Counter[Key]) -> None:
    """Raise if the counts in the output topic are not those of the generator."""
    if found != counts:
        wrong = [key for key in found | counts if found[key] != counts[key]]
        key = wrong[0]
        raise JobFailed(f"{len(wrong)} counts are wrong, such as {key}: {found[key]}, expected {counts[key]}")


def read_counts(servers: str, topic: str) -> Counter[Key]:
    """The last count of each campaign and window; counts only grow."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    counts: Counter[Key] = Counter()
    try:
        parts = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        left = sum(consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts)
        consumer.assign(parts)
        while left:
            messages = consumer.consume(min(left, 10_000), timeout=30)
            if not messages:
                raise JobFailed(f"{left} messages of {topic} did not arrive")
            for message in messages:
                if message.error():
                    raise JobFailed(str(message.error()))
                row = json.loads(message.value() or b"")
                key = (row["campaign_id"], row["window_start"])
                counts[key] = max(counts[key], row["views"])
            left -= len(messages)
    finally:
        consumer.close()
    return counts


def _produce(servers: str, events: Iterable[str]) -> None:
    from confluent_kafka import Producer

    from headwater.dev.topics import create_topic

    create_topic(servers, TOPIC, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 500_000, "acks": 1}
    )
    for number, event in enumerate(events):
        # Both partitions stay equally far, so that no event is late.
        while True:
            try:
                producer.produce(TOPIC, event.encode(), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(120):
        raise JobFailed(f"{left} events were not delivered")


BENCHMARK = Yahoo()
