"""One source in several tables, several times in one query, and in several queries at their own pace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.events import Event
from tests.pipelines import batches, capture, captured, feed, run_until_idle, write

PIPELINE = """
name: shared
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int, shop: string}, max_files_per_batch: 1}
tables:
  small: SELECT id, shop FROM orders WHERE id < 3
  large: SELECT id, shop FROM orders WHERE id >= 3
  both: SELECT * FROM small UNION ALL SELECT * FROM large UNION ALL SELECT -id, shop FROM orders
  pairs: SELECT a.id AS one, b.id AS other FROM orders a JOIN small b ON a.shop = b.shop AND a.id <> b.id
sinks:
  both: {reads: both, connector: foreach_batch, function: "capture.py:both"}
  pairs: {reads: pairs, connector: foreach_batch, function: "capture.py:pairs"}
"""
LATER = '  late: {reads: both, connector: foreach_batch, function: "capture.py:late"}\n'
TWICE = """
name: lines
sources:
  lines: {connector: socket, host: localhost, port: 9999}
  more: {connector: socket, host: localhost, port: 9998}
tables:
  words: SELECT explode(split(value, ' ')) AS word FROM lines
  long: SELECT word FROM words WHERE length(word) > 5
sinks:
  all: {reads: lines, connector: console}
  long: {reads: Long, connector: console}
  more: {reads: more, connector: console}
"""


def total(folder: Path, sink: str) -> Counter[tuple[object, ...]]:
    return sum(captured(folder, sink), Counter())


@pytest.mark.feature("B9.2")
def test_one_source_many_times(context: SparkContext, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    capture(tmp_path, "both", "pairs", "late")
    feed(tmp_path / "in", "1", [{"id": 1, "shop": "a"}, {"id": 3, "shop": "a"}], at=1)
    feed(tmp_path / "in", "2", [{"id": 2, "shop": "a"}, {"id": 4, "shop": "b"}], at=2)
    assert check(file).errors == ()
    assert run_until_idle(file).exit_code == 0
    both = Counter([(1, "a"), (3, "a"), (2, "a"), (4, "b"), (-1, "a"), (-3, "a"), (-2, "a"), (-4, "b")])
    assert total(tmp_path, "both") == both
    assert total(tmp_path, "pairs") == Counter([(3, 1), (2, 1), (3, 2), (1, 2)])

    # A new sink begins at the beginning, the others go on where they are.
    write(tmp_path, PIPELINE + LATER)
    feed(tmp_path / "in", "3", [{"id": 5, "shop": "b"}], at=3)
    events: list[Event] = []
    assert run_until_idle(file, events).exit_code == 0
    assert [batch.rows_in for batch in batches(events, "late") if batch.rows_in]
    assert total(tmp_path, "both") == both + Counter([(5, "b"), (-5, "b")])
    assert total(tmp_path, "late") == total(tmp_path, "both")
    assert len(captured(tmp_path, "late")) == 3

    # What comes only once can't be in two queries, and no Spark is needed to see it.
    found = check(write(tmp_path, TWICE, "lines.yml"), offline=True).findings
    assert [(each.severity.value, each.problem.code, each.problem.params["name"]) for each in found] == [
        ("error", "HW-SOURCE-NOT-REPLAYABLE-SHARED", "lines"),
        ("warning", "HW-SOURCE-NOT-REPLAYABLE", "more"),
    ]
    assert found[0].problem.params["sinks"] == "`all`, `long`"
