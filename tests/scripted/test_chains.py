"""Stateful steps upon stateful steps: append mode carries them, the other modes are refused."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from headwater.checks.modes import ONLY_APPEND
from headwater.testing.report import report
from headwater.testing.test_runner import TestRunner
from tests.scripted.plays import play_file, play_here

IN_OTHER_MODES = """
name: refused
sources:
  a:
    connector: files
    path: a/
    format: json
    schema: {id: string, k: string, at: timestamp}
    watermark: {column: at, delay: 1 minute}
  b:
    connector: files
    path: b/
    format: json
    schema: {k: string, bt: timestamp}
    watermark: {column: bt, delay: 1 minute}
tables:
  once: {reads: a, deduplicate: [id], within: watermark}
  minutes: SELECT window AS minute, k, count(*) AS n FROM once GROUP BY window(at, '1 minute'), k
  windows: SELECT window, sum(n) AS n FROM minutes GROUP BY window(window_time(minute), '1 hour')
  windows_too: SELECT window, sum(n) AS n FROM minutes GROUP BY window(minute, '1 hour')
  joined: SELECT a.k, at FROM a JOIN b ON a.k = b.k AND bt BETWEEN at AND at + INTERVAL 1 HOUR
  counted: SELECT window, count(*) AS n FROM joined GROUP BY window(at, '1 minute')
  others: SELECT window AS minute, k, count(*) AS n FROM b GROUP BY window(bt, '1 minute'), k
  of_counts: SELECT x.k, x.n FROM minutes x JOIN others y ON x.k = y.k AND x.minute = y.minute
  cascade: SELECT j.k FROM joined j JOIN b ON j.k = b.k AND bt BETWEEN at AND at + INTERVAL 1 HOUR
sinks:
"""
FINE = """
tests:
  fine:
    - feed: {a: [[x, k, 12:00], [x, k, 12:00], [y, k, 12:00]]}
      expect:
        minutes_update: [[{start: 12:00, end: 12:01}, k, 2]]
        minutes_complete: [[{start: 12:00, end: 12:01}, k, 2]]
"""
TABLES = ("windows", "windows_too", "counted", "of_counts", "cascade")
CODES = {"windows": "HW-CHAINED-AGGREGATION", "windows_too": "HW-CHAINED-AGGREGATION"}
REFUSED = {
    f"{table}_{mode}": CODES.get(table, "HW-JOIN-MODE-UNSUPPORTED")
    for table in TABLES
    for mode in ("update", "complete")
} | {
    # Complete mode asks for an aggregation first of all.
    "cascade_complete": "HW-COMPLETE-NEEDS-AGGREGATION"
}
USE = {"Set `mode: append`"}
if not pyspark.__version__.startswith(ONLY_APPEND):
    # Since 4.2 Spark runs inner joins of streams in update mode, too.
    del REFUSED["counted_update"], REFUSED["cascade_update"]
    REFUSED["of_counts_update"] = "HW-CHAINED-AGGREGATION"
    USE.add("Set `mode: append` or `mode: update`")


def in_other_modes() -> tuple[str, str]:
    """The pipeline, and a test for each sink that is refused."""
    names = [name.rpartition("_") for name in (*REFUSED, "minutes_update", "minutes_complete")]
    sinks = [
        f"  {reads}_{mode}: {{reads: {reads}, connector: console, mode: {mode}}}" for reads, _, mode in names
    ]
    tests = [f"  {name}: [{{feed: {{a: [[x, k, 12:00]]}}, expect: {{{name}: []}}}}]" for name in REFUSED]
    return IN_OTHER_MODES + "\n".join(sinks), FINE + "\n".join(tests)


@pytest.mark.feature("C10")
def test_chains_run_in_append_mode_and_in_no_other(player: TestRunner, tmp_path: Path) -> None:
    play_file(player, "chained_operators/tests/test_chained_operators.yml")

    played = play_here(player, tmp_path, *in_other_modes())
    fine = played.pop("fine")
    assert fine.passed, "\n".join(report(fine))
    told = {name: [problem.code for problem in result.problems] for name, result in played.items()}
    assert told == {name: [code] for name, code in REFUSED.items()}
    assert {result.outcome for result in played.values()} == {"error"}
    remedies = [str(result.problems[0].params["hint"]) for result in played.values()]
    assert {remedy.partition(", or")[0] for remedy in remedies} == USE
