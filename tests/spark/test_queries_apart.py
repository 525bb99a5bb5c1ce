"""Queries that stand at different places when what they read is mended."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.api.quarantine import list_quarantines, replay
from tests.pipelines import feed, run_until_idle, write

PIPELINE = """
name: orders
sources:
  orders:
    connector: files
    path: [in/, inner/]
    format: json
    schema: {{id: int, cost: {cost}}}
    bad_rows: quarantine
tables:
  priced: SELECT id, CAST(cost AS double) AS cost FROM orders
sinks:
  all: {{reads: priced, connector: files, path: out/all, format: json}}
"""
BOTH = PIPELINE + "  behind: {{reads: priced, connector: files, path: out/behind, format: json}}\n"


@pytest.mark.feature("K1.3", part="of several paths; where a query is behind, a fed row comes to it once")
def test_a_row_is_neither_lost_nor_doubled(tmp_path: Path, spark: SparkSession) -> None:
    feed(tmp_path / "in", "1", [{"id": 1, "cost": 1}])
    (tmp_path / "inner").mkdir()
    file = write(tmp_path, BOTH.format(cost="int"))
    run_until_idle(file)
    # One of the queries stays behind.
    write(tmp_path, PIPELINE.format(cost="int"))
    feed(tmp_path / "in", "2 x", [{"id": 2, "cost": 2.5}])
    feed(tmp_path / "inner", "3", [{"id": 3, "cost": 3.5}])
    run_until_idle(file)

    write(tmp_path, BOTH.format(cost="double"))
    left = replay(file, "orders")
    assert (left.rows, left.unread, left.behind, left.redefined) == (0, 2, ("behind",), True)
    warned = [
        each.problem for each in check(file).findings if each.problem.code == "HW-QUARANTINE-RULES-CHANGED"
    ]
    assert [each.params["queries"] for each in warned] == ["`all`, `behind`, `quarantine.orders`"]

    write(tmp_path, BOTH.format(cost="int"))
    run_until_idle(file)
    write(tmp_path, BOTH.format(cost="double"))
    assert replay(file, "orders").rows == 2
    run_until_idle(file)
    found = json.loads((tmp_path / ".headwater/findings.json").read_text())["findings"]
    assert "HW-QUARANTINE-RULES-CHANGED" not in [each["code"] for each in found]
    for sink in ("all", "behind"):
        rows = spark.read.schema("id int, cost double").json(str(tmp_path / "out" / sink)).collect()
        assert Counter(map(tuple, rows)) == Counter([(1, 1.0), (2, 2.5), (3, 3.5)])
    assert [each.pending for each in list_quarantines(file)] == [0]
