from __future__ import annotations

from typing import Any

import pytest

from bench.__main__ import benchmark, names
from bench.harness import Case, Sample, Target, Variant, compare, to_json
from scripts.benchmarks import main, titles
from scripts.benchmarks import page as page_of

FACTS = {
    "date": "2026-11-18 06:00 UTC",
    "cores": 2,
    "memory_gb": 8,
    "processor": "A processor",
    "system": "Linux 6.1",
    "java": "openjdk 17",
    "spark": "4.1.4",
    "python": "3.11.7",
    "headwater": "1.0",
    "load_before": 0.1,
    "quick": False,
    "rounds": 1,
}


class Counting:
    name = "counting"
    title = "Counting"
    description = "Counts rows"


def document(cases: int = 1, **facts: Any) -> dict[str, Any]:
    """Results in which Headwater is slower than it should be, and a peer is missing."""

    def run(folder: object) -> Sample:
        raise AssertionError("nothing runs")

    variants = [Variant(name, run) for name in ("Headwater", "Spark, same settings", "Peer")]
    samples = {
        "Headwater": {0: Sample(120, 300, {"p99": 9})},
        "Spark, same settings": {0: Sample(100, 200)},
        "Peer": {},
    }
    target = Target("Headwater", "Spark, same settings", 1.05, "at most")
    results = [
        compare(
            Case(f"case {each}", "ms", "lower", variants, targets=[target]), samples, {"Peer": "no wheel"}
        )
        for each in range(cases)
    ]
    return to_json(Counting(), results, [], FACTS | facts)  # type: ignore[arg-type]


def page(found: list[dict[str, Any]]) -> str:
    """The page, if there are no other benchmarks."""
    return page_of(found, {"counting": "Counting"})


def test_the_page_is_up_to_date() -> None:
    assert main(["--check"]) == 0


def test_a_case_has_a_table_and_a_missed_target_is_listed() -> None:
    text = page([document()])
    assert (
        "| Counting | case 0: Headwater / Spark, same settings | at most 1.05 | 1.20 | **missed** |" in text
    )
    assert "| variant | median, ms | spread | CPU, s | ratio | lost | p99 |" in text
    assert "| Headwater | 120 | 120–120 | 300 | 1.20 | 1 of 1 | 9.00 |" in text
    assert "Peer: not available: no wheel." in text
    assert "2026-11-18 06:00 UTC, 2 cores (A processor), 8 GB, Linux 6.1, openjdk 17, PySpark 4.1.4" in text


def test_many_cases_share_one_table() -> None:
    text = page([document(cases=7)])
    assert "| case 6 | ms | Headwater | 120 | 120–120 | 300 | 1.20 | 1 of 1 |" in text
    assert text.count("Peer: not available") == 1


def test_a_quick_run_says_that_it_is_no_measurement() -> None:
    assert "not a measurement" in page([document(quick=True)])
    assert "not a measurement" not in page([document()])


def test_a_variant_with_another_number_of_rounds_says_so() -> None:
    text = page([document(rounds=3)])
    assert ", Headwater 1.0, 3 rounds, " in text
    assert "\nHeadwater: 1 round.\n\nSpark, same settings: 1 round.\n\nPeer: not available" in text
    text = page([document()])
    assert ", Headwater 1.0, 1 round, " in text
    assert "Headwater: 1 round." not in text


def test_notes_below_a_shared_table_are_paragraphs() -> None:
    text = page([document(cases=7, rounds=3)])
    assert text.endswith(
        "\n\nHeadwater: 1 round.\n\nSpark, same settings: 1 round.\n\nPeer: not available: no wheel.\n"
    )


def test_benchmarks_without_results_are_listed() -> None:
    text = page_of([document()], {"counting": "Counting", "growth": "Growth", "yahoo": "Yahoo"})
    assert "| `growth` | Growth | not run |\n| `yahoo` | Yahoo | not run |" in text
    assert "`counting`" not in text
    assert "not run" not in page([document()])
    assert set(titles()) == set(names())


def test_the_page_shows_the_commit() -> None:
    assert ", load before the run 0.1, commit not recorded." in page([document()])
    commit: dict[str, Any] = {"commit": "0123456789abcdef0123", "dirty": False}
    assert ", commit 0123456789ab." in page([document(**commit)])
    assert ", commit 0123456789ab with uncommitted changes." in page([document(**commit | {"dirty": True})])


def test_a_run_on_a_busy_machine_has_a_warning() -> None:
    assert "**Warning: the load before the run was 0.51: use an idle machine.**" in page(
        [document(load_before=0.51)]
    )
    assert "Warning" not in page([document(load_before=0.5)])


@pytest.mark.parametrize("name", names())
def test_a_benchmark_has_the_name_of_its_module(name: str) -> None:
    assert benchmark(name).name == name
    assert benchmark(name).title
    assert benchmark(name).description
