"""A crash after the file sink has a batch and before Spark's commit, for a stateful query."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipelines import feed, rows_of, run_until_idle, write

PIPELINE = """
name: visits
spark: {spark.sql.streaming.fileSink.log.compactInterval: INTERVAL}
sources:
  visits:
    connector: files
    path: in
    format: json
    schema: {at: timestamp}
    max_files_per_batch: 1
    watermark: {column: at, delay: 0 seconds}
tables:
  counted: SELECT window.start AS at, count(*) AS visits FROM visits GROUP BY window(at, '1 minute')
sinks:
  counted: {reads: counted, connector: files, path: out, format: json}
"""


def feed_minute(folder: Path, minute: int) -> None:
    feed(folder / "in", str(minute), [{"at": f"2026-01-01T12:{minute:02}:30Z"}], at=1_700_000_000 + minute)


def windows(minutes: int) -> Counter[tuple[Any, ...]]:
    return Counter((datetime(2026, 1, 1, 12, minute), 1) for minute in range(minutes))


# Each minute makes a batch, and the last one without data closes the last window but one. Of a log that is
# made compact every three batches, 2 repeats 0 and 1.
@pytest.mark.feature("H1.1", part="between the file sink's commit and Spark's, with state")
@pytest.mark.parametrize("interval", [3, pytest.param(10, marks=pytest.mark.soak)])
def test_the_batch_is_computed_again(spark: SparkSession, tmp_path: Path, interval: int) -> None:
    minutes, batch = 2, 2
    file = write(tmp_path, PIPELINE.replace("INTERVAL", str(interval)))
    for minute in range(minutes):
        feed_minute(tmp_path, minute)
    assert run_until_idle(file).exit_code == 0
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    before = rows_of(spark, tmp_path / "out", schema="at timestamp, visits long")
    assert before == windows(minutes - 1)
    log = tmp_path / "out" / "_spark_metadata"
    assert (log / (str(batch) if interval > batch + 1 else f"{batch}.compact")).exists()
    commit = tmp_path / ".headwater" / "checkpoints" / "counted" / "commits" / str(batch)
    commit.unlink()
    commit.with_name(f".{batch}.crc").unlink(missing_ok=True)

    assert run_until_idle(file).exit_code == 0
    assert rows_of(spark, tmp_path / "out", schema="at timestamp, visits long") == before
    feed_minute(tmp_path, minutes)
    assert run_until_idle(file).exit_code == 0
    assert rows_of(spark, tmp_path / "out", schema="at timestamp, visits long") == windows(minutes)
