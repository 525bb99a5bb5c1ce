"""Deduplication without Python: for ever, with event time, within the watermark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.checking import check
from headwater.events import Event
from tests.pipelines import batches, capture, captured, feed, run_until_idle, write

PIPELINE = """
name: clicks
spark: {spark.sql.shuffle.partitions: 1}
sources:
  clicks:
    connector: files
    path: in
    format: json
    schema: {id: string, at: timestamp, shop: string}
    watermark: {column: at, delay: 10 minutes}
    max_files_per_batch: 1
tables:
  for_ever: {reads: clicks, distinct: id}
  by_time: {reads: clicks, distinct: [id, at]}
  within: {reads: clicks, distinct: [id], within: watermark}
  shops: SELECT shop, id FROM within WHERE shop <> 'closed'
sinks:
  for_ever: {reads: for_ever, connector: foreach_batch, function: "capture.py:for_ever"}
  by_time: {reads: by_time, connector: foreach_batch, function: "capture.py:by_time"}
  within: {reads: shops, connector: foreach_batch, function: "capture.py:within"}
"""


def click(id: str, minute: int, shop: str) -> dict[str, str]:
    return {"id": id, "at": f"2026-01-01T12:{minute:02}:00Z", "shop": shop}


FED = (
    [click("a", 0, "n"), click("a", 0, "n"), click("b", 1, "n")],
    # `a` again at another time; the watermark goes to 12:20 after this.
    [click("a", 5, "s"), click("c", 30, "n")],
    # What the watermark has passed is forgotten at the end of the next batch …
    [click("c", 31, "w")],
    # … so that `a` counts as new after it.
    [click("a", 32, "w")],
)


def kept(project: Path, sink: str, shop: int) -> list[Counter[tuple[str, str]]]:
    """The identifiers and shops of every batch that had rows."""
    found = [Counter((row[0], row[shop]) for row in rows.elements()) for rows in captured(project, sink)]
    return [rows for rows in found if rows]


@pytest.mark.feature("C11")
def test_duplicates_go_for_ever_with_event_time_or_within_the_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, rows in enumerate(FED):
        feed(tmp_path / "in", str(number), rows, at=1000 + number)
    capture(tmp_path, "for_ever", "by_time", "within")
    events: list[Event] = []

    run_until_idle(write(tmp_path, PIPELINE), events)

    assert kept(tmp_path, "for_ever", 2) == [
        Counter({("a", "n"): 1, ("b", "n"): 1}),
        Counter({("c", "n"): 1}),
    ]
    assert kept(tmp_path, "by_time", 2) == [
        Counter({("a", "n"): 1, ("b", "n"): 1}),
        Counter({("a", "s"): 1, ("c", "n"): 1}),
        Counter({("c", "w"): 1}),
        Counter({("a", "w"): 1}),
    ]
    assert kept(tmp_path, "within", 1) == [
        Counter({("n", "a"): 1, ("n", "b"): 1}),
        Counter({("n", "c"): 1}),
        Counter({("w", "a"): 1}),
    ]
    held = {sink: batches(events, sink)[-1].progress["stateOperators"][0]["numRowsTotal"] for sink in SINKS}
    assert held == {"for_ever": 3, "by_time": 3, "within": 2}


SINKS = ("for_ever", "by_time", "within")


@pytest.mark.usefixtures("spark")
def test_what_can_not_be_made_distinct_is_refused_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    wrong = """
name: clicks
sources:
  clicks: {connector: files, path: in, format: json, schema: {id: string}}
tables:
  misspelt: {reads: clicks, distinct: idd}
  unmarked: {reads: clicks, distinct: id, within: watermark}
sinks:
  misspelt: {reads: misspelt, connector: noop}
  unmarked: {reads: unmarked, connector: noop}
"""
    findings = check(write(tmp_path, wrong)).findings

    told = [(each.problem.code, each.problem.place and each.problem.place.line) for each in findings]
    assert told == [("HW-UNKNOWN-COLUMN", 6), ("HW-WITHIN-NO-WATERMARK", 7)]
    offline = check(tmp_path / "pipeline.yml", offline=True).findings
    assert [(each.problem.code, each.problem.place.line) for each in offline if each.problem.place] == [
        ("HW-WITHIN-NO-WATERMARK", 7)
    ]
