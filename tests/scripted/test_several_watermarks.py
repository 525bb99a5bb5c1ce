"""Two watermarks in one query: the slowest counts, or the fastest where the pipeline says so."""

from __future__ import annotations

import pytest

from headwater.testing.results import TestResult
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file


def used(result: TestResult) -> list[str | None]:
    """The watermarks that the batches used."""
    batches = [batch for step in result.steps for batch in step.batches["per_hour"]]
    return [f"{batch.watermark:%H:%M}" if batch.watermark else None for batch in batches]


@pytest.mark.feature("C12")
def test_the_slowest_watermark_counts_and_the_fastest_by_choice(player: TestRunner) -> None:
    played = play_file(player, "multiple_watermarks/tests/test_multiple_watermarks.yml")
    slowest = played["the slowest watermark is used by default"]
    fastest = played["the fastest watermark is used if configured"]
    assert used(slowest) == [None, "10:50", "10:50", "10:50", "13:10"]
    assert used(fastest) == [None, "12:10", "12:10", "14:20", "14:20"]
