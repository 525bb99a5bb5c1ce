"""A function of the user's, called with each batch and its id."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.events import Event
from tests.pipelines import batches, feed, rows_of, run_until_idle, write

PIPELINE = """
name: functions
sources:
  scores: {connector: files, path: in, format: json, schema: "name string, points int",
           max_files_per_batch: 1}
tables:
  good: SELECT name, points FROM scores WHERE points > 0
sinks:
  silent: {reads: good, connector: foreach_batch, function: "out.py:silent"}
  stored: {reads: good, connector: foreach_batch, function: "out.py:stored"}
  ranked: {reads: good, connector: foreach_batch, function: "out.py:ranked"}
"""
FUNCTIONS = """
import json
from pathlib import Path

HERE = Path(__file__).parent


def silent(batch, batch_id):
    pass


def stored(batch, batch_id):
    batch.write.mode("overwrite").parquet(str(HERE / "stored" / f"batch={batch_id}"))


def ranked(batch, batch_id):
    batch.persist()  # as code for plain Spark does
    best = [list(row) for row in batch.orderBy("points", ascending=False).limit(2).collect()]
    batch.unpersist()
    with (HERE / "ranked.txt").open("a") as out:
        out.write(json.dumps([batch_id, batch.count(), best]) + "\\n")
"""


@pytest.mark.feature("D5.1")
def test_a_function_gets_each_batch_with_its_id_and_may_do_what_batches_can(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = [{"name": "ann", "points": 3}, {"name": "bob", "points": 9}, {"name": "cyd", "points": 5}]
    second = [{"name": "dan", "points": 0}, {"name": "eve", "points": 4}]
    feed(tmp_path / "in", "1", first, at=1000)
    feed(tmp_path / "in", "2", second, at=1001)
    write(tmp_path, FUNCTIONS, "out.py")
    events = list[Event]()
    result = run_until_idle(write(tmp_path, PIPELINE), events)

    assert result.exit_code == 0
    assert rows_of(spark, tmp_path / "stored", "parquet") == Counter(
        [("ann", 3, 0), ("bob", 9, 0), ("cyd", 5, 0), ("eve", 4, 1)]
    )
    ranked = [json.loads(line) for line in (tmp_path / "ranked.txt").read_text().splitlines()]
    assert ranked == [[0, 3, [["bob", 9], ["cyd", 5]]], [1, 1, [["eve", 4]]]]
    # None, one and two actions in the function: each row is read and counted once all the same.
    for sink in ("silent", "stored", "ranked"):
        counted = [(batch.batch_id, batch.rows_in, batch.rows_out) for batch in batches(events, sink)]
        assert counted == [(0, 3, 3), (1, 2, 1)]
