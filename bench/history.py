"""How fast a long history is written and read, and how large it becomes.

The batches of four queries, one per second each, are written through the recorder with a clock that runs ahead: ten
million batches are the history of 29 days. Then another connection reads the status of the run, and the data of
one plot over the whole time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import HEADWATER, Benchmark, Case, Sample, Target, Variant
from headwater.events import QueryProgress, RunStarted
from headwater.events.status import RunView
from headwater.history.reader import History
from headwater.history.recorder import Recorder
from headwater.history.store import text_of

BATCHES, FEW = 10_000_000, 20_000
QUERIES = ("orders", "clicks", "sessions", "totals")
START = 1_767_225_600_000
MAX_SECONDS, MAX_MB = 0.3, 500


def progress(number: int, at: str) -> dict[str, Any]:
    """The progress of a batch, with a Kafka source and state; every hundredth one is slow."""
    duration = 900 + number % 100 + (number % 100 == 0) * 8_000
    rows = 1_000 + number * 7 % 501
    return {
        "id": "a0c9a1de-6d2b-4f35-9f0b-2c8a3a9f7f10",
        "runId": "7e4b8a52-9f59-4f41-8a24-0e6b9d1c5d77",
        "name": "orders",
        "timestamp": at,
        "batchId": number,
        "batchDuration": duration,
        "numInputRows": rows,
        "inputRowsPerSecond": float(rows),
        "processedRowsPerSecond": rows * 1_000 / duration,
        "durationMs": {
            "addBatch": duration - 70,
            "commitBatch": 20,
            "getBatch": 1,
            "latestOffset": 9,
            "queryPlanning": 10,
            "triggerExecution": duration,
            "walCommit": 20,
        },
        "eventTime": {"avg": at, "max": at, "min": at, "watermark": at},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 50_000 + number % 1_000,
                "numRowsUpdated": 900,
                "memoryUsedBytes": 41_000_000 + number % 1_000 * 64,
                "numRowsDroppedByWatermark": number % 3,
                "customMetrics": {
                    "loadedMapCacheHitCount": number,
                    "stateOnCurrentVersionSizeBytes": 9_000_000,
                },
            }
        ],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[orders]]",
                "startOffset": {"orders": {"0": number * 500, "1": number * 500}},
                "endOffset": {"orders": {"0": (number + 1) * 500, "1": (number + 1) * 500}},
                "latestOffset": {"orders": {"0": (number + 1) * 500 + number % 50, "1": (number + 1) * 500}},
                "numInputRows": rows,
                "inputRowsPerSecond": float(rows),
                "processedRowsPerSecond": rows * 1_000 / duration,
            }
        ],
        "sink": {"description": "files", "numOutputRows": rows},
    }


def write(file: Path, batches: int) -> None:
    """Write a history of many batches through the recorder."""
    now, view = START, RunView()
    recorder = Recorder(file, view, clock=lambda: now / 1_000)
    started = RunStarted(
        run_id="run", pipeline="shop", queries=QUERIES, run_dir="", spark_version="", at=str(text_of(START))
    )
    view.apply(started)
    recorder(started)
    for number in range(batches // len(QUERIES)):
        now = START + number * 1_000
        at = str(text_of(now))
        for query in QUERIES:
            event = QueryProgress(query=query, rows_out=1_000, progress=progress(number, at), at=at)
            if number % 1_000 == 0:
                # The recorder only needs a status to store.
                view.apply(event)
            recorder(event)
    recorder.close()
    assert not recorder.dropped


class LongHistory(Benchmark):
    """The status and a plot of a run of weeks."""

    name = "history"
    title = "A long history"
    description = (
        f"{BATCHES:,} batches of {len(QUERIES)} queries, one per second each, written through the recorder. Then the "
        "status of the run and one metric of a query over the whole time are read, from a new connection each."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-history-") as folder:
            self.file = Path(folder) / "history.sqlite"
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        began, batches = time.monotonic(), FEW if quick else BATCHES
        write(self.file, batches)
        self.batches, self.seconds = batches, time.monotonic() - began
        yield self._read("status", lambda history: history.status())
        yield self._read("plot", lambda history: history.series("orders", "duration_ms"))
        size = Variant(HEADWATER, self._size, rounds=1)
        targets = [Target(HEADWATER, None, MAX_MB, "at most")]
        yield Case("size", "MB", "lower", [size], baseline=HEADWATER, targets=targets)

    def _read(self, name: str, read: Any) -> Case:
        def run(folder: Path) -> Sample:
            began = time.perf_counter()
            with History(self.file) as history:
                found = read(history)
            seconds = time.perf_counter() - began
            assert found
            return Sample(seconds)

        targets = [Target(HEADWATER, None, MAX_SECONDS, "at most")]
        return Case(name, "s", "lower", [Variant(HEADWATER, run)], baseline=HEADWATER, targets=targets)

    def _size(self, folder: Path) -> Sample:
        with History(self.file) as history:
            kept = sum(point.count for point in history.series("orders", "duration_ms"))
        assert kept == self.batches // len(QUERIES)
        megabytes = self.file.stat().st_size / (1 << 20)
        return Sample(megabytes, details={"µs per batch to write": self.seconds / self.batches * 1e6})


BENCHMARK = LongHistory()
