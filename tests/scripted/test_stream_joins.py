"""Streams joined with streams: what finds its partner, what waits, and when it comes out without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.testing.report import report
from headwater.testing.results import Batch, TestResult
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file, play_here

BY_WINDOW = """
name: by_window
sources:
  left_rows:
    connector: files
    path: left/
    format: json
    schema: {k: string, l: timestamp}
    watermark: {column: l, delay: 10 minutes}
  right_rows:
    connector: files
    path: right/
    format: json
    schema: {k: string, r: timestamp}
    watermark: {column: r, delay: 20 minutes}
tables:
  x: SELECT k, window(l, '1 hour') AS hour FROM left_rows
  y: SELECT k, window(r, '1 hour') AS hour FROM right_rows
  left_join: SELECT x.k AS x, y.k AS y FROM x LEFT JOIN y ON x.k = y.k AND x.hour = y.hour
  right_join: SELECT x.k AS x, y.k AS y FROM x RIGHT JOIN y ON x.k = y.k AND x.hour = y.hour
  full_join: SELECT x.k AS x, y.k AS y FROM x FULL JOIN y ON x.k = y.k AND x.hour = y.hour
  semi_join: SELECT x.k AS x FROM x LEFT SEMI JOIN y ON x.k = y.k AND x.hour = y.hour
sinks:
  left_join: {reads: left_join, connector: noop}
  right_join: {reads: right_join, connector: noop}
  full_join: {reads: full_join, connector: noop}
  semi_join: {reads: semi_join, connector: noop}
"""
WINDOWS_CLOSE = """
tests:
  the end of the window decides:
    - feed:
        left_rows: [[a, 12:00], [b, 12:10], [d, 13:10]]
        right_rows: [[a, 12:50], [c, 12:20], [b, 13:05]]
      expect: {left_join: [[a, a]], right_join: [[a, a]], full_join: [[a, a]], semi_join: [[a]]}
      watermark: 12:45
    - feed: {left_rows: [[d, 13:12]], right_rows: [[d, 13:20]]}
      expect:
        left_join: [[d, d], [d, d], [b, null]]
        right_join: [[d, d], [d, d], [null, c]]
        full_join: [[d, d], [d, d], [b, null], [null, c]]
        semi_join: [[d], [d]]
      watermark: 13:00
"""


@pytest.fixture(scope="module")
def played(player: TestRunner) -> dict[str, TestResult]:
    return play_file(player, "ad_clicks/tests/test_ad_clicks.yml")


def batches(result: TestResult, sink: str) -> Iterator[Batch]:
    for step in result.steps:
        yield from step.batches.get(sink, ())


def without_partner(result: TestResult, sink: str) -> list[tuple[datetime | None, bool, list[Any]]]:
    """The rows with nulls: the watermark of their batch, and whether that had data."""
    return [
        (batch.watermark, bool(batch.rows_in), list(row.values()))
        for batch in batches(result, sink)
        for row in batch.rows
        if None in row.values()
    ]


def at(hour: int, minute: int, millisecond: int = 0) -> datetime:
    return datetime(2026, 1, 1, hour, minute, 0, millisecond * 1_000, UTC)


@pytest.mark.feature("C8.1")
def test_inner_joins_with_and_without_watermarks(player: TestRunner, played: dict[str, TestResult]) -> None:
    timed = played["a click within one hour matches its impression"]
    assert [len(batch.rows) for batch in batches(timed, "clicked")] == [1, 0, 1, 0, 1, 0, 0]
    assert [batch.state for batch in batches(timed, "clicked")] == [3, 3, 5, 5, 7, 2, 2]
    by_window = played["impressions and clicks of the same clock hour"]
    assert [batch.state for batch in batches(by_window, "same_hour")] == [5, 5, 7, 3]

    endless = play_file(player, "ad_clicks/tests/test_unbounded.yml")
    kept = endless["without watermarks no row is late and no state expires"]
    assert [batch.state for batch in batches(kept, "ever_clicked")] == [2, 3, 4]
    assert {batch.watermark for batch in batches(kept, "ever_clicked")} == {None}


@pytest.mark.feature("C8.2")
def test_rows_without_a_partner_come_in_the_batch_that_the_watermark_says(
    player: TestRunner, played: dict[str, TestResult], tmp_path: Path
) -> None:
    result = played["each join type emits different rows"]
    not_clicked = (at(13, 10, 1), False, ["cat", at(12, 10), None])
    not_shown = (at(13, 10), False, ["fox", None, at(13, 5)])
    assert without_partner(result, "outcomes") == [not_clicked]
    assert without_partner(result, "origins") == [not_shown]
    assert without_partner(result, "ledger") == [not_shown, not_clicked]
    assert without_partner(result, "noticed") == []

    windows = play_here(player, tmp_path, BY_WINDOW, WINDOWS_CLOSE)["the end of the window decides"]
    assert windows.passed, "\n".join(report(windows))
    assert without_partner(windows, "left_join") == [(at(13, 0), False, ["b", None])]
    assert without_partner(windows, "right_join") == [(at(13, 0), False, [None, "c"])]
    assert {row[0] for row in without_partner(windows, "full_join")} == {at(13, 0)}


@pytest.mark.feature("C8.4")
def test_an_idle_input_delays_outer_rows_and_is_named(played: dict[str, TestResult]) -> None:
    result = played["idle clicks block the watermark"]
    assert [step.idle for step in result.steps] == [{}, {"outcomes": ("clicks",)}, {}]
    assert [step.watermarks["outcomes"] for step in result.steps] == [at(9, 30), at(9, 30), at(17, 30)]
    assert without_partner(result, "outcomes") == [(at(17, 30), False, ["owl", at(12, 0), None])]

    assert "    outcomes: then watermark 09:30, idle: clicks" in report(result, verbose=True)
    ended_idle = replace(result, steps=result.steps[:2])
    assert report(ended_idle)[1:] == ["  idle: clicks (blocks the watermark of outcomes: 09:30)"]
