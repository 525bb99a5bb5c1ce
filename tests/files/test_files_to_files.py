from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines import feed, rows_of, run_until_idle, write

PIPELINE = """
name: orders
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int, cost: double}}
tables:
  large: SELECT id, cost FROM orders WHERE cost > 10
sinks:
  large: {reads: large, connector: files, path: out, format: json}
"""


@pytest.mark.feature("C1.1", part="where")
def test_each_row_arrives_once_over_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    feed(tmp_path / "in", "1", [{"id": 1, "cost": 5.0}, {"id": 2, "cost": 50.0}])
    first = run_until_idle(file)
    feed(tmp_path / "in", "2", [{"id": 3, "cost": 30.0}, {"id": 2, "cost": 50.0}])
    second = run_until_idle(file)

    assert rows_of(spark, tmp_path / "out", schema="id int, cost double") == Counter(
        {(2, 50.0): 2, (3, 30.0): 1}
    )
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert (first.queries["large"].rows_in, first.queries["large"].rows_out) == (2, 1)
    assert (second.queries["large"].rows_in, second.queries["large"].rows_out) == (2, 2)
