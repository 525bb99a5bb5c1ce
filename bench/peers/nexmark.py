"""Nexmark from Kafka: Headwater, Spark, PyFlink, Quix Streams and Bytewax read the same topic.

Each engine uses all cores: Spark and Flink as threads, the Python peers as one process per core. The topic has as
many partitions. Its messages have the person as key (the bidder of a bid, the seller of an auction), so the events
of a person are in order. PyFlink runs all queries but q13; the Python peers run q0, q1, q2 and q11 in their own API.

The time does not include the start of an engine. Spark and Flink first process the events of a warm-up. The rows of
every peer are compared with plain Python on a small topic before it is measured.
"""

from __future__ import annotations

import json
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.query import StreamingQuery

from bench.children import JobFailed, JobRun, run_by_hand, run_command, run_headwater
from bench.harness import HEADWATER, SAME, Benchmark, Case, Sample, Unavailable, Variant
from bench.nexmark.generator import RATE, SCHEMA, lines, write_side_input
from bench.nexmark.jobs import SIDE_INPUT_SCHEMA, pipeline, started
from bench.nexmark.queries import QUERIES, Query
from bench.peers.environments import SCRIPTS, PeerUnavailableError, class_path, free_ports, peers, ready
from bench.peers.verify import Differs, check, small_events
from bench.variants import CORES, settings
from headwater.dev import Broker
from headwater.dev.topics import create_topic

EVENTS, WARM_UP, SMALL = "events", "warm_up", "small"
PEER_QUERIES = {
    "flink": ("q0", "q1", "q2", "q3", "q5", "q7", "q8", "q11"),
    "quix": ("q0", "q1", "q2", "q11"),
    "bytewax": ("q0", "q1", "q2", "q11"),
}
VOLATILE = ("q12",)
"""Queries whose rows depend on the time of the run; at the end of its input, Flink drops the last window."""
NOTES = {
    "flink": "commits every 5 s; its time includes the deployment of the job",
    "quix": "one process per core; commits every 5 s",
    "bytewax": "one process per core; does not commit",
}


@dataclass(frozen=True)
class Size:
    """How many events a batch of Spark has, how many batches there are, and how many of them are the warm-up."""

    batch: int
    batches: int
    warm_up: int

    @property
    def events(self) -> int:
        return self.batch * self.batches


FULL, QUICK = Size(100_000, 10, 2), Size(10_000, 4, 1)


def fill(servers: str, topic: str, events: Iterable[str]) -> None:
    """Create a topic with events, by the person that acts."""
    create_topic(servers, topic, CORES)
    given = {"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    producer = Producer(given)
    for text in events:
        key = person_of(json.loads(text))
        while True:
            try:
                producer.produce(
                    topic, text.encode(), key.encode(), partition=zlib.crc32(key.encode()) % CORES
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        raise JobFailed(f"{left} events were not delivered to {topic}")


def person_of(event: dict[str, dict[str, object]]) -> str:
    """The person that acts in an event."""
    kind, field = next(
        each for each in (("bid", "bidder"), ("auction", "seller"), ("person", "id")) if each[0] in event
    )
    return str(event[kind][field])


# Spark and Headwater. The queries are those of the Nexmark benchmark; only the source differs.


def start_by_hand(
    spark: SparkSession, folder: Path, name: str, servers: str, batch: int, side_input: str
) -> StreamingQuery:
    """The hand-written query, for `bench.by_hand`."""

    def events() -> DataFrame:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", EVENTS)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", batch)
            .load()
        )
        return stream.select(from_json(col("value").cast("string"), SCHEMA).alias("row")).select("row.*")

    query = QUERIES[name]
    if query.side_input:
        spark.read.schema(SIDE_INPUT_SCHEMA).csv(side_input).createOrReplaceTempView("side_input")
    for table in query.tables:
        if "FROM events" in table.sql:
            events().createOrReplaceTempView("events")
        frame = spark.sql(table.sql)
        if table.watermark:
            frame = frame.withWatermark(table.watermark, table.delay)
        frame.createOrReplaceTempView(table.name)
    return started(frame.writeStream, query, folder)


def kafka_pipeline(query: Query, servers: str, batch: int, side_input: Path) -> str:
    """The pipeline of the query, with the topic as source."""
    declared = json.loads(pipeline(query, Path(), side_input))
    declared["sources"]["events"] = {
        "connector": "kafka",
        "bootstrap_servers": servers,
        "topic": EVENTS,
        "start": "earliest",
        "format": "json",
        "schema": SCHEMA,
        "max_rows_per_batch": batch,
    }
    return json.dumps(declared, indent=2)


def sample(run: JobRun, size: Size) -> Sample:
    """Events per second of the batches after the warm-up; the batch that only closes windows counts as time."""
    run.between(0, size.batches - 1)
    seconds = sum(batch.ms for batch in run.batches if batch.number >= size.warm_up) / 1000
    _, before = run.usage_at(size.warm_up - 1)
    cpu = run.commits[max(run.commits)].cpu - before.cpu
    return Sample((size.events - size.warm_up * size.batch) / seconds, cpu, {"run s": run.seconds})


class NexmarkPeers(Benchmark):
    """The benchmark."""

    name = "nexmark-peers"
    title = "Nexmark with other engines"
    description = (
        "Queries over an online auction: events per second from Kafka, excluding engine startup. CPU: seconds "
        "of the engine for the measured events, without the broker."
    )

    def __init__(self) -> None:
        self._folder, self._servers, self._size = Path(), "", FULL

    @contextmanager
    def environment(self) -> Iterator[None]:
        """A broker. The processes of a peer join their group together, so that each gets its partitions once."""
        delay = {"group.initial.rebalance.delay.ms": "3000"}
        with (
            tempfile.TemporaryDirectory(prefix="headwater-bench-") as scratch,
            Broker(Path(scratch, "broker"), properties=delay) as broker,
        ):
            self._folder, self._servers = Path(scratch), broker.servers
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        self._size = size = QUICK if quick else FULL
        fill(self._servers, SMALL, small_events())
        fill(self._servers, WARM_UP, lines(size.batch * size.warm_up, 1, RATE))
        # Spark's warm-up is a part of the events; the others have a topic for it, and read only the rest.
        fill(self._servers, EVENTS, lines(size.events, 0, RATE))
        write_side_input(self._folder / "side_input.csv")
        for name in ("q1", "q11") if quick else PEER_QUERIES["flink"]:
            yield self._case(QUERIES[name])

    def _case(self, query: Query) -> Case:
        variants = [
            Variant(HEADWATER, self._headwater(query)),
            Variant(SAME, self._by_hand(query)),
            *(
                Variant(peers()[key].title, self._peer(key, query.name), note=NOTES[key])
                for key, names in PEER_QUERIES.items()
                if query.name in names
            ),
        ]
        return Case(query.name, "events/s", "higher", variants, note=query.title)

    def _headwater(self, query: Query) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            side_input = self._folder / "side_input.csv"
            text = kafka_pipeline(query, self._servers, self._size.batch, side_input)
            return sample(run_headwater(text, folder), self._size)

        return run

    def _by_hand(self, query: Query) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            parameters = {
                "name": query.name,
                "servers": self._servers,
                "batch": self._size.batch,
                "side_input": str(self._folder / "side_input.csv"),
            }
            job = f"{__name__}:{start_by_hand.__name__}"
            return sample(run_by_hand(job, folder, settings(SAME, kafka=True), parameters), self._size)

        return run

    def _peer(self, key: str, query: str) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            if query not in VOLATILE:
                self._verify(key, query)
            done, printed = run_peer(key, query, folder, self._servers, EVENTS)
            events = self._size.events
            if printed.get("events", events) != events:
                raise JobFailed(f"{key}, {query}: {printed['events']} events were read, expected {events}")
            details = {"run s": done.seconds}
            if "late" in printed:
                details["late"] = printed["late"]
            return Sample(events / printed["seconds"], printed["cpu"], details)

        return run

    @cache  # noqa: B019  the benchmark lives as long as the process
    def _verify(self, key: str, query: str) -> None:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as scratch:
            folder = Path(scratch)
            run_peer(key, query, folder, self._servers, SMALL, rows=folder)
            try:
                number = check(QUERIES[query], folder / f"{query}.json", closes=key != "quix")
            except Differs as error:
                raise JobFailed(f"{key}: {error}") from error
        print(f"  {query}: {number:,} rows of {peers()[key].title} are those of plain Python", flush=True)


def run_peer(
    key: str, query: str, folder: Path, servers: str, topic: str, rows: Path | None = None
) -> tuple[JobRun, dict[str, float]]:
    """Run a query of a peer over a topic. Returns what it printed; with `rows`, its rows are files there."""
    try:
        peer = ready(key)
    except PeerUnavailableError as error:
        raise Unavailable(str(error)) from error
    given = {
        "query": query,
        "servers": servers,
        "topic": topic,
        "warm_up_topic": WARM_UP,
        "group": uuid.uuid4().hex[:8],
        "addresses": ";".join(f"127.0.0.1:{port}" for port in free_ports(CORES)),
        "jars": class_path(peer),
        "cores": str(CORES),
        "folder": str(folder),
        **({"rows": str(rows)} if rows else {}),
    }
    command = [str(peer.python), str(SCRIPTS / f"{key}_nexmark.py"), json.dumps(given)]
    done = run_command(command, folder, environ=peer.environ())
    printed = [line for line in done.output.splitlines() if line.startswith('{"')]
    return done, json.loads(printed[-1]) if printed else {}


BENCHMARK = NexmarkPeers()
