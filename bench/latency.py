"""Latency from event to row, from Kafka to Kafka, by trigger and rate.

The client writes the time of sending into each event. The job decodes the JSON, filters, computes a column, and
writes JSON to another topic. The client reads it and compares the time with its clock. Each variant starts once per
round: after a warm-up, it is measured at one rate after the other.

Every engine commits its offsets every 5 seconds, except in micro-batches (after each) and in Bytewax (never). The
engines, the broker and the client share one machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.query import StreamingQuery

from bench.children import JobFailed, tree, usage
from bench.harness import GUIDE, HEADWATER, ROOT, SAME, Benchmark, Case, Sample, Target, Unavailable, Variant
from bench.latency_client import Client, percentile
from bench.peers.environments import SCRIPTS, PeerUnavailableError, class_path, peers, ready
from bench.variants import CORES, settings
from headwater.dev import Broker
from headwater.dev.topics import create_topic, delete_topic

RATES = (100, 1000)
PARTITIONS = 2
START_SECONDS = 120.0
STOP_SECONDS = 30.0
LIMIT_MS = 5.0
KAFKA_ALONE = "Kafka alone"
DEFAULT, PACED, CONTINUOUS = "default", "every 100 milliseconds", "continuous 5 seconds"
REAL_TIME, RARE_COMMITS = "real time 5 seconds", "real time 5 minutes"
TRIGGERS = (DEFAULT, PACED, CONTINUOUS, REAL_TIME, RARE_COMMITS)
"""The triggers, as pipelines name them."""
PIPELINE = """
name: latency
sources:
  events:
    connector: kafka
    bootstrap_servers: "{servers}"
    topic: {incoming}
    start: earliest
    format: json
    schema: {{id: bigint, sent: bigint, price: double}}
tables:
  doubled: SELECT id, sent, price * 2 AS doubled FROM events WHERE price >= 0
sinks:
  out:
    reads: doubled
    connector: kafka
    bootstrap_servers: "{servers}"
    topic: {outgoing}
    value: json
    mode: {mode}
    {trigger}
"""


def start_by_hand(
    spark: SparkSession, folder: Path, servers: str, incoming: str, outgoing: str, trigger: str
) -> StreamingQuery:
    """The query with plain PySpark."""
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", incoming)
        .option("startingOffsets", "earliest")
        .load()
        .select(from_json(col("value").cast("string"), "id bigint, sent bigint, price double").alias("row"))
        .select("row.*")
    )
    rows = events.where("price >= 0").selectExpr("to_json(struct(id, sent, price * 2 AS doubled)) AS value")
    writer = (
        rows.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", outgoing)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    if trigger == PACED:
        writer = writer.trigger(processingTime="100 milliseconds")
    elif trigger == CONTINUOUS:
        writer = writer.trigger(continuous="5 seconds")
    elif trigger in (REAL_TIME, RARE_COMMITS):
        writer = writer.outputMode("update")
        # PySpark 4.1 has no such trigger; the JVM has.
        triggers = spark._jvm.org.apache.spark.sql.streaming.Trigger  # type: ignore[union-attr]
        writer._jwrite = writer._jwrite.trigger(triggers.RealTime(trigger.removeprefix("real time ")))
    return writer.start()


# The commands of the variants.


@dataclass(frozen=True)
class Topics:
    """The broker, and the topics of one run."""

    servers: str
    incoming: str
    outgoing: str

    def as_dict(self) -> dict[str, str]:
        return {"servers": self.servers, "incoming": self.incoming, "outgoing": self.outgoing}


@dataclass(frozen=True)
class Command:
    """A command that runs until it is stopped."""

    arguments: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


Job = Callable[[Path, Topics], Command]


def headwater_job(trigger: str) -> Job:
    """The pipeline, with `headwater run`."""

    def command(folder: Path, topics: Topics) -> Command:
        file = folder / "pipeline.yml"
        mode = "update" if trigger in (REAL_TIME, RARE_COMMITS) else "append"
        written = "" if trigger == DEFAULT else f"trigger: {trigger}"
        file.write_text(PIPELINE.format(mode=mode, trigger=written, **topics.as_dict()), encoding="utf-8")
        return Command([str(Path(sys.executable).parent / "headwater"), "run", "--json", str(file)])

    return command


def spark_job(trigger: str, variant: str) -> Job:
    """The hand-written query, with the settings of a variant."""

    def command(folder: Path, topics: Topics) -> Command:
        chosen, file = settings(variant, kafka=True), folder / "job.json"
        description = {
            "job": f"{__name__}:{start_by_hand.__name__}",
            "conf": chosen.conf,
            "progress": str(folder / "progress.json"),
            "parameters": {**topics.as_dict(), "trigger": trigger},
        }
        file.write_text(json.dumps(description), encoding="utf-8")
        environ = {**os.environ, **chosen.environ, "PYTHONPATH": str(ROOT)}
        return Command([sys.executable, "-m", "bench.by_hand", str(file)], environ)

    return command


def peer_job(key: str) -> Job:
    """The job of a peer, in its environment."""

    def command(folder: Path, topics: Topics) -> Command:
        try:
            peer = ready(key)
        except PeerUnavailableError as error:
            raise Unavailable(str(error)) from error
        given = {
            **topics.as_dict(),
            "folder": str(folder),
            "cores": str(CORES),
            "jars": class_path(peer),
        }
        script = SCRIPTS / f"{key}_latency.py"
        return Command([str(peer.python), str(script), json.dumps(given)], peer.environ())

    return command


# One start of a variant.


@contextmanager
def running(command: Command, folder: Path) -> Iterator[tuple[int, Callable[[], None]]]:
    """A process until the end of the block: its ID, and a function that raises JobFailed if it has ended."""
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command.arguments,
            cwd=folder,
            env=command.environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def check() -> None:
        if process.poll() is not None:
            text = output.read_text(encoding="utf-8", errors="replace")
            raise JobFailed(f"{command.arguments[0]}: ended with code {process.returncode}:\n{text[-5000:]}")

    try:
        yield process.pid, check
    finally:
        started = tree(process.pid)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # A JVM can outlive the Python process that started it.
        _kill(started[1:])


def _kill(processes: Iterable[int]) -> None:
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@contextmanager
def new_topics(servers: str, *, loop: bool = False) -> Iterator[Topics]:
    """Topics of one run; with `loop`, the events themselves are the rows."""
    name = uuid.uuid4().hex[:8]
    outgoing = f"in-{name}" if loop else f"out-{name}"
    names = list(dict.fromkeys([f"in-{name}", outgoing]))
    for each in names:
        create_topic(servers, each, PARTITIONS)
    try:
        yield Topics(servers, f"in-{name}", outgoing)
    finally:
        for each in names:
            delete_topic(servers, each)


def measure_rates(
    client: Client, check: Callable[[], None], cpu: Callable[[], float | None], *, quick: bool
) -> dict[int, Sample]:
    """Warm up, then measure one rate after the other."""
    seconds, warm_up = (5.0, 3.0) if quick else (12.0, 5.0)
    client.first_row(RATES[0], check, START_SECONDS)
    samples = {}
    for rate in RATES:
        client.latencies(client.send(rate, warm_up), check)
        before = cpu()
        found = client.latencies(client.send(rate, seconds), check)
        after = cpu()
        used = None if before is None or after is None else after - before
        details = {"p99": percentile(found, 99), "max": max(found), "rows": float(len(found))}
        samples[rate] = Sample(percentile(found, 50), used, details)
    return samples


class SharedRuns:
    """The samples of a variant: one start gives one for each rate, and they are used in the same order."""

    def __init__(self, measure: Callable[[Path], Mapping[int, Sample]]) -> None:
        self._measure = measure
        self._samples: dict[int, deque[Sample]] = {rate: deque() for rate in RATES}

    def sample(self, rate: int, folder: Path) -> Sample:
        """The next sample of a rate; starts the variant if there is none."""
        if not self._samples[rate]:
            for each, sample in self._measure(folder).items():
                self._samples[each].append(sample)
        return self._samples[rate].popleft()


class Latency(Benchmark):
    """The benchmark."""

    name = "latency"
    title = "Latency from event to row"
    description = (
        "Kafka to Kafka, 2 partitions, JSON; median in ms by trigger, at 100 and 1,000 events per second. CPU: "
        "seconds of the engine while measuring (12 s)."
    )

    def __init__(self) -> None:
        self._servers = ""

    @contextmanager
    def environment(self) -> Iterator[None]:
        """A broker."""
        with (
            tempfile.TemporaryDirectory(prefix="headwater-bench-") as scratch,
            Broker(Path(scratch, "broker")) as broker,
        ):
            self._servers = broker.servers
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        """A case for each trigger and rate."""
        for trigger in TRIGGERS:
            starts = {name: SharedRuns(self._measured(job, quick)) for name, job in _jobs(trigger).items()}
            real_time = trigger in (REAL_TIME, RARE_COMMITS)
            targets = [Target(HEADWATER, None, LIMIT_MS, "at most")] if real_time else []
            for rate in RATES:
                yield Case(
                    f"{trigger}, {rate:,} events/s",
                    "ms",
                    "lower",
                    [_variant(name, each, rate) for name, each in starts.items()],
                    targets=targets,
                    note=_NOTES.get(trigger, ""),
                )

    def _measured(self, job: Job | None, quick: bool) -> Callable[[Path], Mapping[int, Sample]]:
        def measure(folder: Path) -> Mapping[int, Sample]:
            with new_topics(self._servers, loop=job is None) as topics:
                if job is None:
                    with Client(**topics.as_dict()) as client:
                        return measure_rates(client, lambda: None, lambda: None, quick=quick)
                with (
                    running(job(folder, topics), folder) as (pid, check),
                    Client(**topics.as_dict()) as client,
                ):
                    began = time.monotonic()
                    return measure_rates(client, check, lambda: usage(pid, began).cpu, quick=quick)

        return measure


_GUIDES = "The settings of the guides concern state and shuffles, so they have no part here."
_NOTES = {
    CONTINUOUS: _GUIDES,
    REAL_TIME: (
        f"{_GUIDES} At each commit Spark ends the batch and starts another, and rows wait. The peers process each "
        f"event as it arrives. {KAFKA_ALONE}: the client reads the events themselves."
    ),
    RARE_COMMITS: "Spark does not commit while measuring.",
}


def _jobs(trigger: str) -> dict[str, Job | None]:
    """The jobs of a case, by variant; None: no job, the client reads its own events."""
    jobs: dict[str, Job | None] = {HEADWATER: headwater_job(trigger), SAME: spark_job(trigger, SAME)}
    if trigger == DEFAULT:
        jobs[GUIDE] = spark_job(trigger, GUIDE)
    if trigger == REAL_TIME:
        jobs |= {peer.title: peer_job(key) for key, peer in peers().items()}
        jobs[KAFKA_ALONE] = None
    return jobs


def _variant(name: str, starts: SharedRuns, rate: int) -> Variant:
    return Variant(name, lambda folder: starts.sample(rate, folder))


BENCHMARK = Latency()
