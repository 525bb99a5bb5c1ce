"""Repeated rows, dropped in three ways by tables without any Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.testing.report import report
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file, play_here

MARKED = """
name: marked
sources:
  payments:
    connector: files
    path: payments/
    format: json
    schema: {id: string, at: timestamp}
    watermark: {column: at, delay: 10 minutes}
tables:
  for_ever: {reads: payments, deduplicate: [id]}
sinks:
  for_ever: {reads: for_ever, connector: noop}
"""
LATE = """
tests:
  late rows go too:
    - feed: {payments: [[p1, 12:30]]}
      watermark: 12:20
    - feed: {payments: [[p2, 12:20], [p3, 12:21]]}
      expect: {for_ever: [[p3, 12:21]]}
      late: 1
      state: {for_ever: 2}
    - feed: {payments: [[p1, 18:00], [p4, 18:00]]}
      expect: {for_ever: [[p4, 18:00]]}
      watermark: 17:50
      state: {for_ever: 3}
"""


@pytest.mark.feature("C11")
def test_repeats_are_dropped_for_ever_with_event_time_or_within_the_watermark(player: TestRunner) -> None:
    play_file(player, "duplicates/tests/test_duplicates.yml")


def test_where_the_rows_have_a_watermark_late_ones_are_dropped_by_each_kind(
    player: TestRunner, tmp_path: Path
) -> None:
    result = play_here(player, tmp_path, MARKED, LATE)["late rows go too"]
    assert result.passed, "\n".join(report(result))
