"""The latency benchmark: percentiles, and one start for all rates."""

from __future__ import annotations

from pathlib import Path

from bench.harness import SAME, Sample
from bench.latency import RATES, Latency, SharedRuns
from bench.latency_client import percentile


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile(values, 100) == 100
    assert percentile([7.0], 1) == 7


def test_one_start_gives_a_sample_for_each_rate(tmp_path: Path) -> None:
    begun: list[Path] = []

    def measure(folder: Path) -> dict[int, Sample]:
        begun.append(folder)
        return {rate: Sample(len(begun) * 10_000.0 + rate) for rate in RATES}

    starts = SharedRuns(measure)
    slow, fast = RATES
    assert [starts.sample(slow, tmp_path).value for _ in range(2)] == [10_000 + slow, 20_000 + slow]
    assert [starts.sample(fast, tmp_path).value for _ in range(2)] == [10_000 + fast, 20_000 + fast]
    assert len(begun) == 2


def test_every_case_has_the_baseline_and_only_real_time_has_the_target() -> None:
    cases = list(Latency().cases(quick=True))
    assert all(SAME in [variant.name for variant in case.variants] for case in cases)
    assert {case.name for case in cases if case.targets} == {
        f"real time 5 {unit}, {rate:,} events/s" for unit in ("seconds", "minutes") for rate in RATES
    }
