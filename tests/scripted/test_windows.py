"""Windows on event time: tumbling, sliding, with an offset, and sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.testing.test_runner import TestRunner
from tests.pipelines import write
from tests.scripted.plays import play_file


@pytest.mark.feature("C3.1")
@pytest.mark.feature("C3.2")
def test_windows_of_every_kind(player: TestRunner) -> None:
    play_file(player, "windows/tests/test_windows.yml")


SESSIONS = """
name: sessions
sources:
  views: {connector: files, path: in, format: json, schema: {at: timestamp, user: string},
          watermark: {column: at, delay: 10 minutes}}
tables:
  visits: SELECT user, count(*) AS views FROM views GROUP BY session_window(at, '5 minutes'), user
sinks:
  append: {reads: visits, connector: noop}
  complete: {reads: visits, connector: noop, mode: complete}
  update: {reads: visits, connector: noop, mode: update}
"""


@pytest.mark.feature("C3.2", part="modes")
def test_sessions_are_refused_in_update_mode_alone(context: SparkContext, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    findings = check(write(tmp_path, SESSIONS)).findings
    errors = [each for each in findings if each.is_error]
    assert [(each.sink, each.problem.code) for each in errors] == [("update", "HW-SESSION-MODE-UNSUPPORTED")]
