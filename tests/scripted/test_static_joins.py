"""Streams joined with static tables: no state, no watermark; static tables joined among themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.testing.report import report
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file, play_here

AMONG_THEMSELVES = """
name: kinds
sources:
  orders: {connector: files, path: orders/, format: json, schema: {id: int}}
  a: {connector: files, path: a/, format: json, schema: {k: int}, static: true}
  b: {connector: files, path: b/, format: json, schema: {k: int}, static: true}
tables:
  inner_join: SELECT a.k AS a, b.k AS b FROM a JOIN b ON a.k = b.k
  left_join: SELECT a.k AS a, b.k AS b FROM a LEFT JOIN b ON a.k = b.k
  right_join: SELECT a.k AS a, b.k AS b FROM a RIGHT JOIN b ON a.k = b.k
  full_join: SELECT a.k AS a, b.k AS b FROM a FULL JOIN b ON a.k = b.k
  cross_join: SELECT a.k AS a, b.k AS b FROM a CROSS JOIN b
  semi_join: SELECT a.k AS a, NULL AS b FROM a LEFT SEMI JOIN b ON a.k = b.k
  anti_join: SELECT a.k AS a, NULL AS b FROM a LEFT ANTI JOIN b ON a.k = b.k
  kinds: |
    SELECT 'inner' AS kind, * FROM inner_join UNION ALL SELECT 'left', * FROM left_join
    UNION ALL SELECT 'right', * FROM right_join UNION ALL SELECT 'full', * FROM full_join
    UNION ALL SELECT 'cross', * FROM cross_join UNION ALL SELECT 'semi', * FROM semi_join
    UNION ALL SELECT 'anti', * FROM anti_join
  seen: SELECT id, kind, a, b FROM orders CROSS JOIN kinds
sinks:
  seen: {reads: seen, connector: noop}
"""
EVERY_KIND = """
given: {a: [[1], [2]], b: [[2], [3]]}
tests:
  every kind:
    - feed: {orders: [[7]]}
      expect:
        seen:
          - [7, inner, 2, 2]
          - [7, left, 1, null]
          - [7, left, 2, 2]
          - [7, right, 2, 2]
          - [7, right, null, 3]
          - [7, full, 1, null]
          - [7, full, 2, 2]
          - [7, full, null, 3]
          - [7, cross, 1, 2]
          - [7, cross, 1, 3]
          - [7, cross, 2, 2]
          - [7, cross, 2, 3]
          - [7, semi, 2, null]
          - [7, anti, 1, null]
      watermark: none
      state: {seen: 0}
"""


@pytest.mark.feature("C7.1")
def test_streams_meet_static_tables_and_static_tables_each_other(player: TestRunner, tmp_path: Path) -> None:
    play_file(player, "static_joins/tests/test_static_joins.yml")
    result = play_here(player, tmp_path, AMONG_THEMSELVES, EVERY_KIND)["every kind"]
    assert result.passed, "\n".join(report(result))
