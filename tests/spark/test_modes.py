"""What a batch hands to its sink in each mode, held against the batch query over the rows consumed so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.events import Event, QueryProgress
from tests.pipelines import batches, capture, captured, feed, run_until_idle, write

Rows = Counter[tuple[Any, ...]]

SCHEMA = "at timestamp, word string"
PER_WINDOW = """
SELECT date_format(window.start, 'HH:mm') AS begin, date_format(window.end, 'HH:mm') AS end, word, count(*)
FROM events GROUP BY window(at, '10 minutes'), word
"""

PIPELINE = f"""
name: words
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  events:
    connector: files
    path: in
    format: json
    schema: {SCHEMA}
    watermark: {{column: at, delay: 5 minutes}}
    max_files_per_batch: 1
tables:
  per_window: |
    {" ".join(PER_WINDOW.split())}
sinks:
  closed: {{reads: per_window, connector: foreach_batch, function: "capture.py:closed"}}
  changed: {{reads: per_window, connector: foreach_batch, function: "capture.py:changed", mode: update}}
  whole: {{reads: per_window, connector: foreach_batch, function: "capture.py:whole", mode: complete}}
"""

# A row is dropped when its window had ended by the watermark of the batch before: that is 12:17 for the last.
FILES = (
    [("12:01", "owl"), ("12:04", "finch"), ("12:11", "owl")],
    [("12:13", "owl"), ("12:08", "finch"), ("12:22", "owl")],
    [("12:19", "owl"), ("12:31", "heron")],
    [("12:02", "finch"), ("12:33", "heron"), ("12:50", "owl")],
)
LATE = ("12:02", "finch")


def moment(time: str) -> str:
    return f"2026-01-01T{time}:00Z"


@dataclass(frozen=True)
class BatchQuery:
    """What the plain batch query says about the first files; the late row may be left out."""

    spark: SparkSession
    folder: Path

    @cache  # noqa: B019 (lives as long as the test)
    def over(self, files: int, *, without_late: bool = False) -> Rows:
        events = self.spark.read.schema(SCHEMA).json([str(self.folder / f"{n}.json") for n in range(files)])
        if without_late:
            events = events.where(f"NOT (at = timestamp '{moment(LATE[0])}' AND word = '{LATE[1]}')")
        events.createOrReplaceTempView("events")
        return Counter(tuple(row) for row in self.spark.sql(PER_WINDOW).collect())


def consumed(batch: QueryProgress) -> int:
    """How many files the query has read once this batch is committed: one file is one step."""
    (source,) = batch.progress["sources"]
    return int(source["endOffset"]["logOffset"]) + 1


def last_per_key(parts: list[Rows]) -> Rows:
    """The newest row of each window and word."""
    newest = {row[:3]: row for part in parts for row in part}
    return Counter(newest.values())


def dropped(batch: QueryProgress) -> int:
    return sum(operator["numRowsDroppedByWatermark"] for operator in batch.progress["stateOperators"])


@pytest.fixture
def batch_spark(spark: SparkSession) -> SparkSession:
    """The session of the plain batch queries."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    return spark


@pytest.mark.feature("A2")
def test_after_every_batch_each_mode_is_its_part_of_the_batch_query(
    batch_spark: SparkSession, tmp_path: Path
) -> None:
    folder, events = tmp_path / "in", list[Event]()
    capture(tmp_path, "closed", "changed", "whole")
    for number, rows in enumerate(FILES):
        feed(folder, str(number), [{"at": moment(at), "word": word} for at, word in rows], at=1000 + number)
    run_until_idle(write(tmp_path, PIPELINE), events)

    expected = BatchQuery(batch_spark, folder).over
    parts = {sink: captured(tmp_path, sink) for sink in ("closed", "changed", "whole")}
    for sink, rows_of_batches in parts.items():
        steps = batches(events, sink)
        assert [step.batch_id for step in steps] == list(range(len(rows_of_batches)))
        assert {consumed(step) for step in steps} == {1, 2, 3, 4}
        for step in steps:
            so_far, files = rows_of_batches[: step.batch_id + 1], consumed(step)
            if sink == "whole":
                assert so_far[-1] == expected(files)
            elif sink == "changed":
                assert last_per_key(so_far) == expected(files, without_late=True)
            else:
                mark = step.watermark[11:16] if step.watermark else "00:00"
                whole = expected(files, without_late=True)
                assert sum(so_far, Counter()) == Counter({r: n for r, n in whole.items() if r[1] <= mark})

    # Closed were the windows up to 12:40, the watermark of 12:45 having passed them.
    assert {row[1] for row in sum(parts["closed"], Counter())} == {"12:10", "12:20", "12:30", "12:40"}
    drops = {sink: sum(dropped(step) for step in batches(events, sink)) for sink in parts}
    assert drops == {"closed": 1, "changed": 1, "whole": 0}
