"""Measures the Nexmark queries: how many events per second Headwater and hand-written Spark process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.children import JobFailed, JobRun, run_by_hand, run_headwater
from bench.harness import (
    DEFAULTS,
    GUIDE,
    HEADWATER,
    ROOT,
    SAME,
    Benchmark,
    Case,
    CaseResult,
    Outcome,
    Sample,
    Variant,
    geometric_mean,
)
from bench.nexmark.generator import PER_50, write_files, write_side_input
from bench.nexmark.jobs import pipeline
from bench.nexmark.queries import QUERIES, Query
from bench.variants import settings

AT_LEAST = 0.99
QUICK_QUERIES = ("q1", "q5")
WITH_DEFAULTS = "q17"
"""With 200 partitions, a stateful query needs seconds per batch: one of them, once, shows it."""


@dataclass(frozen=True)
class Size:
    """The input: one file per batch, and how many batches warm the JVM up."""

    files: int
    events_per_file: int
    warm_up: int

    @property
    def events(self) -> int:
        return self.files * self.events_per_file


FULL, QUICK = Size(8, 100_000, 2), Size(4, 10_000, 1)


class Nexmark(Benchmark):
    """The benchmark, with the directory of its events."""

    name = "nexmark"
    title = "Nexmark"
    description = (
        "Queries over an online auction: events per second from JSON files, one file of 100,000 events per batch, "
        "excluding two batches that warm up the JVM."
    )

    def __init__(self) -> None:
        self._folder = Path()

    @contextmanager
    def environment(self) -> Iterator[None]:
        """A directory for the events while the cases run."""
        with tempfile.TemporaryDirectory(prefix="headwater-nexmark-") as folder:
            self._folder = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        size = QUICK if quick else FULL
        write_files(self._folder / "events", size.events, size.events_per_file)
        write_side_input(self._folder / "side_input.csv")
        for query in QUERIES.values():
            if not quick or query.name in QUICK_QUERIES:
                yield self._case(query, size, quick)

    def outcomes(self, results: Sequence[CaseResult]) -> Iterable[Outcome]:
        reached = geometric_mean(results, HEADWATER, SAME)
        if reached is not None:
            yield Outcome(f"all queries: {HEADWATER} / {SAME}", reached, AT_LEAST, "at least")

    def _case(self, query: Query, size: Size, quick: bool) -> Case:
        variants = [
            Variant(HEADWATER, self._checked(query, size, self._run_headwater)),
            Variant(SAME, self._checked(query, size, self._by_hand(SAME))),
            Variant(GUIDE, self._checked(query, size, self._by_hand(GUIDE))),
        ]
        if query.name == WITH_DEFAULTS and not quick:
            variants.append(Variant(DEFAULTS, self._checked(query, size, self._by_hand(DEFAULTS)), rounds=1))
        note = query.title + (
            f"; differs from the published query: {query.difference}" if query.difference else ""
        )
        return Case(query.name, "events/s", "higher", variants, note=note)

    def _checked(
        self, query: Query, size: Size, run: Callable[[Query, Path], JobRun]
    ) -> Callable[[Path], Sample]:
        def measured(folder: Path) -> Sample:
            verify(query.name)
            return sample(run(query, folder), query, size)

        return measured

    def _run_headwater(self, query: Query, folder: Path) -> JobRun:
        text = pipeline(query, self._folder / "events", self._folder / "side_input.csv")
        return run_headwater(text, folder)

    def _by_hand(self, variant: str) -> Callable[[Query, Path], JobRun]:
        def run(query: Query, folder: Path) -> JobRun:
            parameters = {
                "name": query.name,
                "events": str(self._folder / "events"),
                "side_input": str(self._folder / "side_input.csv"),
            }
            return run_by_hand("bench.nexmark.jobs:start", folder, settings(variant), parameters)

        return run


@cache
def verify(name: str) -> None:
    """Compare the rows of the variants of a query, once; a difference ends the benchmark."""
    command = [sys.executable, "-m", "bench.nexmark.verify", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise JobFailed(
            f"{name}: the variants do not return the same rows:\n{done.stdout}{done.stderr[-3000:]}"
        )
    print(f"  {done.stdout.splitlines()[-1]}", flush=True)


def sample(run: JobRun, query: Query, size: Size) -> Sample:
    """Events per second of the batches after the warm-up; the batch that only closes windows counts as time."""
    run.between(0, size.files - 1)
    # Spark does not count rows that its parser skips because of a filter, as it does without Headwater's settings.
    possible = (size.events * len(query.kinds), sum(size.events * PER_50[kind] // 50 for kind in query.kinds))
    if run.rows not in possible:
        raise JobFailed(
            f"{query.name}: {run.rows} rows were read, expected {' or '.join(map(str, possible))}"
        )
    seconds = sum(batch.ms for batch in run.batches if batch.number >= size.warm_up) / 1000
    events = size.events - size.warm_up * size.events_per_file
    before, usage = run.usage_at(size.warm_up - 1)
    last = run.commits[max(run.commits)]
    return Sample(
        events / seconds,
        # A commit that the parent has not seen would move the start of the measured time.
        last.cpu - usage.cpu if before == size.warm_up - 1 else None,
        {"run s": run.seconds, "run CPU s": run.cpu_seconds, "peak MB": run.peak_bytes / 1e6},
    )


BENCHMARK = Nexmark()
