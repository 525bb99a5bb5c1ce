"""What it costs to observe a run: history, health checks, control socket and metrics, on and off in one run."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import small_batches, throughput
from bench.children import JobRun, run_headwater
from bench.harness import Benchmark, Case, CaseResult, Outcome, Sample, Variant

ON, OFF = "Headwater, observed", "Headwater, not observed"
SCRIPT = """
import sys
from headwater.cli.foreground import run_stream
from headwater.runtime import RunOptions
options = RunOptions(observed={observed}, metrics={metrics})
sys.exit(run_stream(sys.argv[1:], options, None, as_json=True, verbose=False))
"""
BATCHES, RATE = "aggregation, small batches", "JSON files → windows → Parquet"
MOST_MS, LEAST_RATIO = 2.0, 0.99


def run(text: str, folder: Path, *, observed: bool) -> JobRun:
    """Run a pipeline as `headwater run --json` does."""
    script = SCRIPT.format(observed=observed, metrics=repr("0" if observed else None))
    return run_headwater(text, folder, command=[sys.executable, "-c", script])


class Observers(Benchmark):
    """A run with and without its observers."""

    name = "observers"
    title = "Observers"
    description = (
        "The same runs with and without history, health checks, control socket and metrics endpoint. Small batches: "
        f"median of {small_batches.FULL.warm}; throughput: rate after the warm-up."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder:
            self.input = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        size = small_batches.QUICK if quick else small_batches.FULL
        load = throughput.QUICK.files if quick else throughput.FULL.files
        small_batches.write_input(self.input / "small", size.batches)
        throughput.write_files(self.input / "large", load)
        yield Case(BATCHES, "ms per batch", "lower", self._variants(self._small(size)), baseline=OFF)
        yield Case(RATE, "rows/s", "higher", self._variants(self._large(load)), baseline=OFF)

    def _variants(self, measured: Callable[[Path, bool], Sample]) -> list[Variant]:
        return [
            Variant(ON, lambda folder: measured(folder, True)),
            Variant(OFF, lambda folder: measured(folder, False)),
        ]

    def _small(self, size: small_batches.Size) -> Callable[[Path, bool], Sample]:
        (workload,) = (each for each in small_batches.WORKLOADS if each.name == "aggregation")
        text = small_batches.pipeline(workload, {"data": str(self.input / "small")})

        def measured(folder: Path, observed: bool) -> Sample:
            return small_batches.sample(run(text, folder, observed=observed), size, size.batches)

        return measured

    def _large(self, load: throughput.Load) -> Callable[[Path, bool], Sample]:
        text = throughput.from_files(self.input / "large" / "json", "json")

        def measured(folder: Path, observed: bool) -> Sample:
            done = run(text, folder, observed=observed)
            written = throughput.files_size(folder / "out")
            return throughput.sample(done, load, written, throughput.closed_windows(load))

        return measured

    def outcomes(self, results: Sequence[CaseResult]) -> Iterable[Outcome]:
        for result in results:
            on, off = result.variant(ON), result.variant(OFF)
            if on is None or off is None:
                continue
            if result.name == BATCHES:
                pairs = [on.values()[each] - off.values()[each] for each in on.values().keys() & off.values()]
                text = "a small batch: observed minus not observed"
                reached = statistics.median(pairs) if pairs else None
                yield Outcome(text, reached, MOST_MS, "at most", " ms")
            else:
                yield Outcome("throughput: observed / not observed", on.ratio, LEAST_RATIO, "at least")


BENCHMARK = Observers()
