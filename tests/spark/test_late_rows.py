"""Rows that come behind the watermark are counted, by the operator that drops them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.views import LiveView, describe
from headwater.events import Event, QueryProgress, RunFinished
from tests.pipelines import feed, rows_of, run_until_idle, write

PIPELINE = """
name: visits
sources:
  visits:
    connector: files
    path: in
    format: json
    schema: {id: int, at: timestamp}
    max_files_per_batch: 1
    watermark: {column: at, delay: 1 minute}
tables:
  once: {reads: visits, deduplicate: [id, at]}
  counted: SELECT window.start AS at, count(*) AS visits FROM once GROUP BY window(at, '5 minutes')
sinks:
  counted: {reads: counted, connector: files, path: out, format: json}
  plain: {reads: visits, connector: noop}
"""


def visit(id_: int, minute: int) -> dict[str, object]:
    return {"id": id_, "at": f"2026-01-01T12:{minute:02}:00Z"}


@pytest.mark.feature("K2.1")
def test_late_rows_are_told_in_progress_live_table_and_summary(tmp_path: Path, spark: SparkSession) -> None:
    file = write(tmp_path, PIPELINE)
    feed(tmp_path / "in", "a", [visit(1, 0), visit(2, 30)], at=1_700_000_000)
    feed(tmp_path / "in", "b", [visit(3, 30)], at=1_700_000_001)
    feed(tmp_path / "in", "c", [visit(4, 1), visit(5, 2), visit(6, 31)], at=1_700_000_002)
    events: list[Event] = []
    result = run_until_idle(file, events)
    # Rows are late by the watermark of the batch before theirs: for the third file that is 12:29.
    assert result.queries["counted"].late_rows == {"deduplication": 2, "aggregation": 0}
    assert result.queries["plain"].late_rows == {}
    assert rows_of(spark, tmp_path / "out", schema="visits long") == {(1,): 1}
    progress = [event for event in events if isinstance(event, QueryProgress) and event.query == "counted"]
    assert sum(event.late_rows["deduplication"] for event in progress) == 2
    late = next(event for event in progress if event.late_rows["deduplication"])
    assert ", 2 late," in describe(late)
    assert late.to_json()["late_rows"] == {"deduplication": 2, "aggregation": 0}
    view = LiveView()
    for event in progress:
        view.show(event)
    assert view._rows["counted"]["late"] == "2"
    (ended,) = [event for event in events if isinstance(event, RunFinished)]
    assert "2 late in deduplication" in describe(ended)
