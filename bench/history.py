"""How fast a long history is read, and how large it becomes.

Ten million batches and ten million other events of four queries, one of each per second, are the history of 29 days.
They are written as the recorder does it, in larger transactions, into two files: one with the default limits, and
one whose limit of size is so high that it keeps every event. Then new connections read the status of the last run, the
data of one plot, and the first events that `headwater events` prints.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from bench.harness import HEADWATER, Benchmark, Case, Sample, Target, Variant
from headwater.events import Alert, QueryProgress, RunStarted
from headwater.events.status import RunView
from headwater.history.reader import History
from headwater.history.recorder import Recorder
from headwater.history.retention import DAY, MINUTE, HistoryLimits, Retention
from headwater.history.store import (
    INSERT_BATCH,
    INSERT_EVENT,
    as_text,
    measures,
    open_for_writing,
    text_of,
    transaction,
)

EVENTS, FEW = 10_000_000, 200_000
"""How many batches, and how many other events."""
QUERIES = ("orders", "clicks", "sessions", "totals")
START = 1_767_225_600_000
SECONDS_AT_ONCE = 1_250
"""How many seconds are written in one transaction: 5,000 batches and 5,000 events, as many as the recorder takes."""
LIMITS = {"default size": HistoryLimits(), "any size": HistoryLimits(max_bytes=1 << 40)}
MAX_SECONDS, MAX_MB = 0.3, HistoryLimits().max_bytes >> 20
SCREEN = 100
"""How many events fill the first screens of `headwater events`."""


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


def write(file: Path, events: int, limits: HistoryLimits) -> None:
    """Write batches and other events of every query, then the status of a last run."""
    connection, _ = open_for_writing(file)
    retention, seconds = Retention(connection, limits), events // len(QUERIES)
    for start in range(0, seconds, SECONDS_AT_ONCE):
        numbers = range(start, min(start + SECONDS_AT_ONCE, seconds))
        with transaction(connection):
            connection.executemany(INSERT_BATCH, _batches(numbers))
            connection.executemany(INSERT_EVENT, _events(numbers))
        list(retention.steps(START + numbers[-1] * 1_000, set(QUERIES)))
    connection.close()
    _write_status(file, START + seconds * 1_000, limits)


def _batches(numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        at = START + number * 1_000
        event = QueryProgress(query="orders", rows_out=1_000, progress=progress(number, str(text_of(at))))
        values = measures(event)
        yield from ((query, at, number, _run(at), *values) for query in QUERIES)


def _events(numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
    """An alert of each query, every second."""
    alerts = {query: _alert(query) for query in QUERIES}
    bodies = {query: as_text(alert.to_json()) for query, alert in alerts.items()}
    for number in numbers:
        at = START + number * 1_000
        for query, alert in alerts.items():
            body = bodies[query].replace(alert.at, str(text_of(at)))
            yield at, _run(at), alert.kind, query, alert.code, body


def _alert(query: str) -> Alert:
    return Alert(
        at=str(text_of(START)),
        query=query,
        alert="falling_behind",
        severity="warning",
        active=True,
        code="HW-FALLING-BEHIND",
        message=f"Query `{query}`: rows arrive 25 % faster than the query processes them.",
        hint="Add cores or executors, raise the limit of rows per batch, or simplify the query.",
    )


def _run(at: int) -> str:
    """A run takes a day."""
    return f"run-{at // DAY}"


def _write_status(file: Path, now: int, limits: HistoryLimits) -> None:
    view, at = RunView(), str(text_of(now))
    recorder = Recorder(file, view, limits, clock=lambda: now / 1_000)
    run = _run(now)
    started = RunStarted(run_id=run, pipeline="shop", queries=QUERIES, run_dir="", spark_version="", at=at)
    for event in (
        started,
        *(QueryProgress(query=query, rows_out=1, progress=progress(1, at), at=at) for query in QUERIES),
    ):
        view.apply(event)
        recorder(event)
    recorder.close()
    assert not recorder.dropped


class LongHistory(Benchmark):
    """The status, a plot and the events of a run of weeks."""

    name = "history"
    title = "A long history"
    description = (
        f"{EVENTS:,} batches and {EVENTS:,} other events of {len(QUERIES)} queries, one of each per second, are "
        "written into two files: one with the default limits, and one whose limit of size is so high that it keeps "
        "every event. New connections then read the status of the last run, one metric of a query over the whole "
        f"time, and the first {SCREEN} events: of the last run, of one of its queries, and since a time."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-history-") as folder:
            self.folder = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        events = FEW if quick else EVENTS
        end = START + events // len(QUERIES) * 1_000
        for name, limits in LIMITS.items():
            file = self.folder / f"{name}.sqlite"
            began = time.monotonic()
            write(file, events, limits)
            seconds = time.monotonic() - began
            for what, read in reads(end).items():
                yield _read(f"{name}: {what}", file, read)
            yield _size(f"{name}: size", file, limits, events, seconds)


def _size(name: str, file: Path, limits: HistoryLimits, events: int, seconds: float) -> Case:
    def run(folder: Path) -> Sample:
        with History(file) as history:
            kept = sum(point.count for point in history.series("orders", "duration_ms"))
        assert kept == events // len(QUERIES) + 1
        details = {"µs per event to write": seconds / (2 * events) * 1e6}
        return Sample(file.stat().st_size / (1 << 20), details=details)

    targets = [Target(HEADWATER, None, MAX_MB, "at most")] if limits == HistoryLimits() else []
    return Case(name, "MB", "lower", [Variant(HEADWATER, run, rounds=1)], baseline=HEADWATER, targets=targets)


def reads(end: int) -> dict[str, Callable[[History], Any]]:
    """What a user waits for, until the first lines can be printed."""

    def events(**chosen: Any) -> Callable[[History], object]:
        return lambda history: list(islice(history.events(**chosen), SCREEN))

    run = _run(end)
    return {
        "status": lambda history: history.status(),
        "plot": lambda history: history.series("orders", "duration_ms"),
        "events of the last run": events(run_id=run),
        "events of a query in the last run": events(run_id=run, query="orders"),
        "events of the last ten minutes": events(since=end - 10 * MINUTE),
        "events of a query in the last ten minutes": events(since=end - 10 * MINUTE, query="orders"),
    }


def _read(name: str, file: Path, read: Callable[[History], object]) -> Case:
    def run(folder: Path) -> Sample:
        began = time.perf_counter()
        with History(file) as history:
            found = read(history)
        seconds = time.perf_counter() - began
        assert found
        return Sample(seconds)

    targets = [Target(HEADWATER, None, MAX_SECONDS, "at most")]
    return Case(name, "s", "lower", [Variant(HEADWATER, run)], baseline=HEADWATER, targets=targets)


BENCHMARK = LongHistory()
