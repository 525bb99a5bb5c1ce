"""The watermark: when windows close, which rows are late, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.testing.report import report
from headwater.testing.results import TestResult
from headwater.testing.steps import Feed, Test
from headwater.testing.test_runner import TestRunner
from tests.pipelines import write
from tests.scripted.plays import play_file, play_here


@pytest.mark.feature("C4.1")
@pytest.mark.feature("C4.2")
@pytest.mark.feature("C5.1")
@pytest.mark.feature("C6", part="a very late row beside the newest one")
def test_the_textbook_run_in_every_mode(player: TestRunner) -> None:
    play_file(player, "late_words/tests/test_late_words.yml")


DELAY = 10
# A group of rows with one event time ends at that time: no grouping is stricter with late rows.
STRICTEST = f"""
name: strictest
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  rows:
    connector: files
    path: in
    format: json
    schema: {{at: timestamp, id: int}}
    watermark: {{column: at, delay: {DELAY} minutes}}
tables:
  groups: SELECT at, id, count(*) AS n FROM rows GROUP BY at, id
sinks:
  kept: {{reads: groups, connector: noop, mode: update}}
"""
Minutes = list[list[int]]


@pytest.fixture(scope="module")
def strictest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline file; hypothesis plays many tests on it."""
    return write(tmp_path_factory.mktemp("strictest"), STRICTEST)


def script(pipeline: Path, batches: Minutes) -> Test:
    """Every batch brings rows at these minutes after twelve, each with an id of its own."""
    steps = []
    for number, minutes in enumerate(batches):
        rows = [{"at": f"12:{minute:02}", "id": 100 * number + n} for n, minute in enumerate(minutes)]
        steps.append(Feed({"rows": rows}))
    return Test("late rows", pipeline, steps)


def ids(result: TestResult) -> list[set[int]]:
    """The rows that each feed brought through."""
    return [{row["id"] for batch in step.batches["kept"] for row in batch.rows} for step in result.steps]


def late(result: TestResult) -> list[int]:
    return [sum(batch.late for batch in step.batches["kept"]) for step in result.steps]


@pytest.mark.feature("C6")
@settings(max_examples=6, deadline=None)
@example([[40, 0], [40, 31, 30, 0]])  # 0 beside 40 counts; later 31 is late by less than the delay, 30 is not
@example([[20], [11], [50, 11], [11, 41]])
@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), min_size=2, max_size=3))
def test_a_row_less_late_than_the_delay_is_never_dropped(
    player: TestRunner, strictest: Path, batches: Minutes
) -> None:
    result = player.play(script(strictest, batches))

    assert result.passed, "\n".join(report(result))
    newest = [max(sum(batches[:number], [-DELAY])) for number in range(len(batches))]
    in_time = [
        {100 * number + n for n, minute in enumerate(minutes) if newest[number] - minute < DELAY}
        for number, minutes in enumerate(batches)
    ]
    assert ids(result) == in_time
    assert late(result) == [len(rows) - len(kept) for rows, kept in zip(batches, in_time, strict=True)]


PRICED = """
name: priced
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  sales:
    connector: files
    path: in
    format: json
    schema: {{at: timestamp, product: string}}
    watermark: {{column: at, delay: 10 minutes}}
  prices:
    connector: files
    path: prices
    format: json
    static: true
    schema: {{since: timestamp, product: string, price: int}}
    {on_source}
tables:
  changes:
    sql: |
      SELECT product, window.start AS day, max(price) AS price
      FROM {prices} GROUP BY window(since, '1 day'), product
  recent:
    sql: SELECT day AS since, product, price FROM changes
    {on_table}
  priced: SELECT s.at, s.product, r.since, r.price FROM sales s JOIN recent r USING (product)
  counts: |
    SELECT window.start AS start, since, price, count(*) AS n
    FROM priced GROUP BY window(at, '10 minutes'), since, price
sinks:
  counts: {{reads: counts, connector: noop}}
"""
PRICED_STEPS = """
given:
  prices:
    - {since: 2020-01-01 08:00, product: tea, price: 2}
    - {since: 2030-01-01 08:00, product: tea, price: 3}
    - {since: 2030-01-01 09:00, product: tea, price: 4}
    - {product: rum, price: 9}
tests:
  prices:
    - feed: {sales: [{at: 12:00, product: tea}, {at: 12:01, product: rum}]}
      expect: {counts: []}
      watermark: 11:51
    - feed: {sales: [{at: 12:20, product: tea}]}
      expect:
        counts:
          - {start: 12:00, since: 2020-01-01, price: 2, n: 1}
          - {start: 12:00, since: 2030-01-01, price: 4, n: 1}
      watermark: 12:10
"""
MARK = "watermark: {column: since, delay: 1 minute}"


@pytest.mark.feature("C5.3")
def test_a_watermark_on_static_data_changes_nothing(player: TestRunner, tmp_path: Path) -> None:
    variants = {
        "none": PRICED.format(on_source="", on_table="", prices="prices"),
        "everywhere": PRICED.format(on_source=MARK, on_table=MARK, prices="prices"),
        "in SQL": PRICED.format(
            on_source="", on_table="", prices="prices WATERMARK since DELAY OF INTERVAL 1 MINUTE"
        ),
    }
    told: dict[str, list[Any]] = {}
    for name, pipeline in variants.items():
        folder = tmp_path / name
        folder.mkdir()
        (result,) = play_here(player, folder, pipeline, PRICED_STEPS).values()
        assert result.passed, "\n".join(report(result))
        told[name] = [(step.batches, step.watermarks) for step in result.steps]
    assert told["everywhere"] == told["none"]
    assert told["in SQL"] == told["none"]
