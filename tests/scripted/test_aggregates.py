"""Running aggregates on scripted streams: sums at every level, rankings, limits, distinct rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.testing.report import report
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file, play_here


@pytest.mark.feature("C2.1", part="without a function from a jar")
@pytest.mark.feature("C2.5")
@pytest.mark.feature("C14.3")
def test_sums_rankings_limits_and_distinct_rows(player: TestRunner) -> None:
    results = play_file(player, "running_aggregates/tests/test_running_aggregates.yml")

    ranking = results["a ranking is sorted again after each batch"]
    shops = [
        [row["shop"] for row in batch.rows] for step in ranking.steps for batch in step.batches["ranking"]
    ]
    assert shops == [["south", "west", "north"], ["south", "north", "west"]]


DISTINCT = """
name: distinct
spark: {spark.sql.shuffle.partitions: 1}
sources:
  sales:
    connector: files
    path: in
    format: json
    schema: {at: timestamp, product: string}
    watermark: {column: at, delay: 10 minutes}
tables:
  products: SELECT DISTINCT at, product FROM sales
sinks:
  final: {reads: products, connector: noop}
  seen: {reads: products, connector: noop, mode: update}
"""
DISTINCT_STEPS = """
tests:
  distinct rows with an event time:
    - feed: {sales: [{at: 12:00, product: tea}, {at: 12:00, product: tea}]}
      expect: {final: [], seen: [{at: 12:00, product: tea}]}
    - feed: {sales: [{at: 12:00, product: tea}, {at: 12:30, product: rum}]}
      expect:
        final: [{at: 12:00, product: tea}]
        seen: [{at: 12:00, product: tea}, {at: 12:30, product: rum}]
      state: {final: 1, seen: 1}
    - feed: {sales: [{at: 12:00, product: tea}]}
      expect: {final: [], seen: []}
      late: {final: 1, seen: 1}
"""


@pytest.mark.feature("C14.3", part="SELECT DISTINCT with an event time, in append and update mode")
def test_distinct_rows_of_a_watermark_are_final_once(player: TestRunner, tmp_path: Path) -> None:
    (result,) = play_here(player, tmp_path, DISTINCT, DISTINCT_STEPS).values()
    assert result.passed, "\n".join(report(result))
