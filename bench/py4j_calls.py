"""Calls from Python into the JVM while a query runs: Headwater's own against PySpark's listener.

Each call costs about a millisecond of the driver under load, and PySpark's listener makes hundreds per batch. The
count of a run with few batches is subtracted from that of a run with many, which leaves the calls per batch.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from bench.children import run_command
from bench.harness import HEADWATER, ROOT, SAME, Benchmark, Case, Sample, Variant
from bench.variants import settings

LISTENER = "Spark, same settings, PySpark's listener"
FEW, MANY = 5, 35
PIPELINE = """
name: calls
sources:
  lines: {connector: files, path: in, format: json, schema: {k: string}, max_files_per_batch: 1}
tables:
  counts: SELECT k, count(*) AS number FROM lines GROUP BY k
sinks:
  out: {reads: counts, connector: noop, mode: update, trigger: available now}
"""

TIMED = frozenset(
    {
        "streamingQuery",
        "queryExecutionThread",
        "isAlive",
        "lastProgress",
        "batchId",
        "durationMs",
        "containsKey",
        "release",
    }
)
"""Calls by time, not by batch: is the query alive, was an event lost, and objects that Python's collector frees."""


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """The calls into the JVM made by all threads inside, by method; `release` frees an object there."""
    calls, lock, original = Counter[str](), threading.Lock(), GatewayClient.send_command

    def send_command(client: GatewayClient, command: str, *args: Any, **kwargs: Any) -> Any:
        with lock:
            calls[_method(command)] += 1
        return original(client, command, *args, **kwargs)

    GatewayClient.send_command = send_command
    try:
        yield calls
    finally:
        GatewayClient.send_command = original


def _method(command: str) -> str:
    """What a command does; py4j writes one field per line: the kind, the object, the method."""
    kind, *fields = command.split("\n")
    return fields[1] if kind == "c" else {"m": "release"}.get(kind, f"command {kind}")


class Calls(Benchmark):
    """How often Python calls the JVM for one batch."""

    name = "py4j-calls"
    title = "Calls into the JVM per batch"
    description = (
        "A stateful query over small files. Calls by time (is the query alive, which objects are free?) are listed "
        "separately."
    )

    def cases(self, quick: bool) -> Iterable[Case]:
        many = FEW + 5 if quick else MANY
        ways = (HEADWATER, SAME, LISTENER)
        yield Case(
            "aggregation",
            "calls per batch",
            "lower",
            [Variant(way, _run(way, many)) for way in ways],
            LISTENER,
        )


def _run(way: str, many: int) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        chosen = settings(SAME)
        environ = {**os.environ, **(chosen.environ if way != HEADWATER else {}), "PYTHONPATH": str(ROOT)}
        found = []
        for batches in (FEW, many):
            place = folder / str(batches)
            place.mkdir()
            command = [sys.executable, "-m", "bench.py4j_calls", way, json.dumps(chosen.conf), str(batches)]
            found.append(
                Counter(json.loads(run_command(command, place, environ=environ).output.splitlines()[-1]))
            )
        by_method = {name: (found[1][name] - found[0][name]) / (many - FEW) for name in found[1]}
        timed = sum(rate for name, rate in by_method.items() if name in TIMED)
        shown = {name: round(rate, 2) for name, rate in by_method.items() if rate >= 0.05}
        return Sample(sum(by_method.values()) - timed, details={"by time": timed, **shown})

    return run


def main(way: str, conf: str, batches: int) -> None:
    """Run one variant in this directory, and print its calls by method."""
    Path("in").mkdir()
    for number in range(batches):
        Path("in", f"{number}.json").write_text('{"k": "a"}\n', encoding="utf-8")
    with counted_calls() as calls:
        if way == HEADWATER:
            import headwater as hw

            file = Path("calls.yml")
            file.write_text(PIPELINE, encoding="utf-8")
            run = hw.load(file).start()
            run.wait()
            run.raise_for_failure()
        else:
            _by_hand(json.loads(conf), listener=way == LISTENER)
    print(json.dumps(calls))


def _by_hand(conf: dict[str, str], *, listener: bool) -> None:
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if listener:
        spark.streams.addListener(_Listener())
    lines = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1).json("in")
    writer = lines.groupBy("k").count().writeStream.format("noop").outputMode("update")
    writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start().awaitTermination()
    spark.stop()


class _Listener(StreamingQueryListener):
    """What monitoring by hand looks like: the JSON of each batch."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        json.loads(event.progress.json)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Nothing to do."""


BENCHMARK = Calls()
if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
