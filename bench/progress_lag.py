"""How far progress events lag behind commits on a busy machine.

Processes that only use CPU keep the cores busy. Meanwhile a query runs small batches with an aggregation, one after
another. For each batch, the benchmark compares the time at which Spark wrote `commits/N` with the time at which the
event for batch N reached Python: in Headwater, and in PySpark's own listener, which builds a Python object of every
field of the event.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from os import scandir
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from bench.children import is_progress, run_by_hand, run_headwater
from bench.harness import HEADWATER, SAME, Benchmark, Case, Sample, Target, Variant
from bench.variants import settings

BURNERS, SECONDS, QUICK_SECONDS = 4, 30, 15
LISTENER = f"{SAME}, PySpark's listener"
PIPELINE = """
name: lag
sources:
  ticks: {connector: rate_per_batch, rows_per_batch: 100}
tables:
  counts: SELECT value % 10 AS k, count(*) AS number FROM ticks GROUP BY value % 10
sinks:
  out: {reads: counts, connector: noop, mode: update}
"""


class Listener(StreamingQueryListener):
    """Notes when the event of each batch arrived."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([event.progress.batchId, time.time()]) + "\n")

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        pass


def by_hand(spark: SparkSession, folder: Path, seconds: float) -> StreamingQuery:
    """The query with PySpark's listener; stops after some seconds."""
    spark.streams.addListener(Listener(folder / "events.json"))
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    writer = ticks.groupBy((ticks.value % 10).alias("k")).count().writeStream.format("noop")
    query = writer.outputMode("update").option("checkpointLocation", str(folder / "checkpoint")).start()
    stop = threading.Timer(seconds, query.stop)
    stop.daemon = True
    stop.start()
    return query


class Commits(threading.Thread):
    """The commit time of each batch. Polls continuously, because Spark deletes old files of the log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._over = threading.Event()
        self.at: dict[int, float] = {}

    def run(self) -> None:
        while not self._over.wait(0.05):
            self._look()

    def stop(self) -> None:
        self._over.set()
        self.join()
        self._look()

    def _look(self) -> None:
        if not self._folder.is_dir():
            return
        for entry in scandir(self._folder):
            if entry.name.isdigit() and int(entry.name) not in self.at:
                with suppress(FileNotFoundError):
                    self.at[int(entry.name)] = entry.stat().st_mtime


@contextmanager
def busy() -> Iterator[None]:
    """Keep the cores busy."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def sample(commits: Mapping[int, float], events: Mapping[int, float]) -> Sample:
    """The worst lag. A batch without an event has the lag from its commit to the last event."""
    last = max(events.values())
    lags = [events.get(batch, last) - at for batch, at in commits.items() if at <= last]
    details = {"median": statistics.median(lags), "batches": len(lags)}
    return Sample(max(lags), details=details)


class ProgressLag(Benchmark):
    """The lag of events behind commits."""

    name = "progress-lag"
    title = "Lag of progress events"
    description = (
        f"Small batches while {BURNERS} other processes keep the cores busy, {SECONDS} seconds per round. "
        "The value is the longest time from a commit to its event in Python."
    )

    def cases(self, quick: bool) -> Iterable[Case]:
        seconds = QUICK_SECONDS if quick else SECONDS
        yield Case(
            "commit to event",
            "s",
            "lower",
            [Variant(HEADWATER, _headwater(seconds)), Variant(LISTENER, _by_hand(seconds))],
            baseline=LISTENER,
            targets=[Target(HEADWATER, None, 2.0, "at most")],
        )


def _headwater(seconds: int) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        commits = Commits(folder / ".headwater" / "checkpoints" / "out" / "commits")
        commits.start()
        with busy():
            done = run_headwater(PIPELINE, folder, "--for", f"{seconds}s")
        commits.stop()
        events = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
        arrived = {
            int(each["progress"]["batchId"]): datetime.fromisoformat(each["at"]).timestamp()
            for each in events
            if is_progress(each)
        }
        return sample(commits.at, arrived)

    return run


def _by_hand(seconds: int) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        commits = Commits(folder / "checkpoint" / "commits")
        commits.start()
        with busy():
            run_by_hand("bench.progress_lag:by_hand", folder, settings(SAME), {"seconds": seconds})
        commits.stop()
        lines = (folder / "events.json").read_text(encoding="utf-8").splitlines()
        return sample(commits.at, {int(batch): at for batch, at in map(json.loads, lines)})

    return run


BENCHMARK = ProgressLag()
