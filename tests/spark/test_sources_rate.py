"""Rows made by a clock, and a fixed number of rows per batch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError
from headwater.events import Event
from headwater.runtime.handles import Run
from tests.pipelines import batches, capture, captured, run_to_its_end, run_while, wait_for, write

RATE = """
name: rate
sources:
  clock: {connector: rate, rows_per_second: 12, ramp_up_time: 1 second, num_partitions: 3}
tables:
  rows: SELECT value, unix_millis(timestamp) AS at, spark_partition_id() AS part FROM clock
sinks:
  rows: {reads: rows, connector: foreach_batch, function: "capture.py:rows"}
"""


def made_after(seconds: int) -> int:
    """Rows made in the first seconds: 12 a second, and half of that in the one second of ramp-up."""
    return 6 if seconds == 1 else max(0, 12 * seconds - 6)


def seconds(offset: Any) -> int:
    """Where a batch of the rate source begins or ends; the very first has no beginning."""
    return int(json.loads(offset) if isinstance(offset, str) else offset or 0)


@pytest.mark.feature("B7.1")
def test_the_clock_makes_every_value_once_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    events = list[Event]()
    capture(tmp_path, "rows")
    file = write(tmp_path, RATE)

    def until_rows(run: Run, after: int) -> None:
        wait_for(lambda: any(batch.rows_in for batch in batches(events, "rows")[after:]), run)

    run_while(file, lambda run: until_rows(run, 0), events)
    first = len(batches(events, "rows"))
    run_while(file, lambda run: until_rows(run, first), events)

    committed = batches(events, "rows")
    (source,) = committed[-1].progress["sources"]
    rows = sum(captured(tmp_path, "rows"), Counter())
    total = made_after(seconds(source["endOffset"]))
    assert total > 12
    assert Counter(value for value, _, _ in rows.elements()) == Counter(range(total))
    for batch, part in zip(committed, captured(tmp_path, "rows"), strict=True):
        (source,) = batch.progress["sources"]
        begin, end = seconds(source["startOffset"]), seconds(source["endOffset"])
        assert batch.rows_in == part.total() == made_after(end) - made_after(begin)
        assert {number for _, _, number in part} == ({0, 1, 2} if part else set())

    with pytest.raises(PipelineError) as refused:
        load(write(tmp_path, RATE.replace("1 second", "1500 ms")))
    (problem,) = refused.value.problems
    assert problem.code == "HW-VALUE-INVALID"
    assert "whole seconds" in str(problem.params["says"])


PER_BATCH = """
name: steps
sources:
  steps:
    connector: rate_per_batch
    rows_per_batch: 3
    start_timestamp: 2026-01-01T12:00:00Z
    advance_per_batch: 10 minutes
tables:
  rows: SELECT value, date_format(timestamp, 'yyyy-MM-dd HH:mm') AS at FROM steps
sinks:
  rows: {reads: rows, connector: foreach_batch, function: "capture.py:rows", trigger: once}
"""


@pytest.mark.feature("B7.2")
def test_every_batch_has_the_same_number_of_rows_a_step_later(spark: SparkSession, tmp_path: Path) -> None:
    capture(tmp_path, "rows")
    file = write(tmp_path, PER_BATCH)
    for _ in range(3):
        run_to_its_end(file)

    assert captured(tmp_path, "rows") == [
        Counter((value, f"2026-01-01 12:{10 * batch:02}") for value in range(3 * batch, 3 * batch + 3))
        for batch in range(3)
    ]
