"""Measures how far progress events lag behind commits on a busy machine.

    make bench-lag                        (ARGS=120 for 120 seconds for each listener)
    python bench/progress_lag.py [SECONDS]

Four processes that only use CPU keep the cores busy. Meanwhile a pipeline runs small batches with an
aggregation, one after another. For each batch, the script compares the time at which Spark wrote `commits/N`
with the time at which the run emits the progress of batch N.

It measures PySpark's own listener, which builds a Python object of every field, and then Headwater's. The
target: Headwater's is never more than two seconds behind.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.engine.listener import EventListener
from headwater.engine.pipeline_file import load
from headwater.engine.query import progress_event
from headwater.events import Event, QueryProgress
from headwater.runtime import RunOptions, launch, start

SECONDS, BURNERS, TARGET = 60.0, 4, 2.0
PIPELINE = """
name: lag
sources:
  ticks: {connector: rate_per_batch, rows_per_batch: 100}
tables:
  counts:
    sql: SELECT value % 10 AS k, count(*) AS number FROM ticks GROUP BY value % 10
sinks:
  out: {reads: counts, connector: noop, mode: update}
"""


class PySparkListener(StreamingQueryListener):
    """PySpark's own listener, in the role of Headwater's."""

    def __init__(self, emit: Callable[[Event], None], ended: Callable[[str], None], **_: Any) -> None:
        self._emit = emit
        self._ended = ended

    def open(self, spark: SparkSession) -> None:
        self._streams = spark.streams
        self._streams.addListener(self)

    def drain(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        self._streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        self._emit(progress_event(event.progress.name, json.loads(event.progress.json)))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        self._ended("out")


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
        for entry in os.scandir(self._folder):
            if entry.name.isdigit() and int(entry.name) not in self.at:
                with suppress(FileNotFoundError):
                    self.at[int(entry.name)] = entry.stat().st_mtime


def burn() -> None:
    while True:
        pass


@contextmanager
def busy() -> Iterator[None]:
    """Keep all cores busy."""
    burners = [multiprocessing.get_context("fork").Process(target=burn, daemon=True) for _ in range(BURNERS)]
    for each in burners:
        each.start()
    try:
        yield
    finally:
        for each in burners:
            each.kill()
            each.join()


def measure(listener: Any, seconds: float) -> list[float]:
    """The seconds between the commit of each batch and its progress event."""
    launch.EventListener = listener  # type: ignore[attr-defined]
    shown: dict[int, float] = {}

    def emit(event: Event) -> None:
        if isinstance(event, QueryProgress):
            shown.setdefault(event.batch_id, time.time())

    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        file = Path(folder, "lag.yml")
        file.write_text(PIPELINE, encoding="utf-8")
        commits = Commits(Path(folder, ".headwater", "checkpoints", "out", "commits"))
        commits.start()
        with busy():
            running, session = start(load(file), RunOptions(), emit, lambda line: None)
            time.sleep(seconds)
            # A batch without an event by now has at least this lag.
            end = time.time()
            lags = {batch: shown.get(batch, end) - at for batch, at in dict(commits.at).items()}
        running.stop()
        session.jvm.stop()
        commits.stop()
    return [lag for _, lag in sorted(lags.items())]


def main() -> int:
    """Measure and print. The exit code is 1 if the target is missed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    print(f"{BURNERS} busy processes on {os.cpu_count()} cores, {seconds:g} seconds each")
    worst = 0.0
    for name, listener in (("PySpark's listener", PySparkListener), ("Headwater's listener", EventListener)):
        lags = measure(listener, seconds)
        worst = max(lags)
        median = statistics.median(lags)
        print(f"  {name:22} {len(lags):4} batches, lag: median {median:.2f} s, worst {worst:.2f} s")
    return 0 if worst <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
