"""An input that brings no rows holds the watermark back: the run names it, until its rows come."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.events import Event, InputsIdle, RunFinished, WatermarkHeldBack
from headwater.runtime.handles import Run
from tests.pipelines import feed, rows_of, run_until_idle, run_while, wait_for, write

PIPELINE = """
name: ads
sources:
  impressions:
    connector: files
    path: impressions
    format: json
    schema: {ad: string, shown: timestamp}
    watermark: {column: shown, delay: 2 hours}
  clicks:
    connector: files
    path: clicks
    format: json
    schema: {ad: string, clicked: timestamp}
    watermark: {column: clicked, delay: 3 hours}
tables:
  joined: |
    SELECT i.ad, c.ad AS clicked FROM impressions i LEFT OUTER JOIN clicks c
    ON i.ad = c.ad AND c.clicked BETWEEN i.shown AND i.shown + INTERVAL 1 HOUR
sinks:
  joined: {reads: joined, connector: files, path: out, format: json}
"""
COLUMNS = "ad string, clicked string"


def impression(ad: str, time: str) -> dict[str, Any]:
    return {"ad": ad, "shown": f"2026-01-01T{time}:00Z"}


def click(ad: str, time: str) -> dict[str, Any]:
    return {"ad": ad, "clicked": f"2026-01-01T{time}:00Z"}


def summary(events: list[Event]) -> Any:
    (ended,) = [event for event in events if isinstance(event, RunFinished)]
    return list(ended.queries["joined"].idle_inputs)


@pytest.mark.feature("C8.4", part="run summary")
def test_the_silent_side_of_a_join_is_named_until_it_speaks(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    (tmp_path / "clicks").mkdir()
    feed(tmp_path / "impressions", "1", [impression("a", "06:00"), impression("b", "12:00")])
    events: list[Event] = []
    first = run_until_idle(file, events)

    assert [each["sources"] for each in first.queries["joined"].idle_inputs] == [["clicks"]]
    assert summary(events) == [
        {
            "sources": ["clicks"],
            "since_batch": None,
            "watermark": None,
            "message": "joined: idle input `clicks` blocks the watermark (no rows since the query started; "
            "no watermark yet).",
        }
    ]
    assert rows_of(spark, tmp_path / "out", schema=COLUMNS) == Counter()

    # Both sides have to come anew: at a start Spark forgets how far each of them had come.
    feed(tmp_path / "clicks", "1", [click("b", "12:10")])
    feed(tmp_path / "impressions", "2", [impression("c", "14:00")])
    events = []

    def steer(run: Run) -> None:
        query = run.queries["joined"]
        wait_for(lambda: query.rows_out == 2, run)
        feed(tmp_path / "impressions", "3", [impression("d", "20:00")])
        wait_for(lambda: query.idle_inputs == ("clicks",), run)
        feed(tmp_path / "clicks", "2", [click("d", "20:10")])
        wait_for(lambda: query.rows_out == 4, run)
        wait_for(lambda: query.idle_inputs == (), run)

    run_while(file, steer, events)
    assert rows_of(spark, tmp_path / "out", schema=COLUMNS) == Counter(
        {("a", None): 1, ("b", "b"): 1, ("c", None): 1, ("d", "d"): 1}
    )
    assert summary(events) == []
    waited = [event.idle_inputs for event in events if isinstance(event, InputsIdle)]
    assert [[(tuple(each["sources"]), each["watermark"]) for each in found] for found in waited] == [
        [(("clicks",), "2026-01-01T09:10:00Z")],
        [],
    ]


@pytest.mark.feature("C8.4", part="slow inputs")
def test_an_input_whose_rows_are_too_old_is_named_although_it_is_not_idle(tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    feed(tmp_path / "impressions", "0", [impression("a", "12:00")])
    feed(tmp_path / "clicks", "0", [click("a", "06:00")])
    events: list[Event] = []

    def blocking() -> list[tuple[str, ...]]:
        return [event.sources for event in events if isinstance(event, WatermarkHeldBack)]

    def steer(run: Run) -> None:
        query, number = run.queries["joined"], 0

        def is_read() -> bool:
            return query.rows_in == 2 * (number + 1)

        while blocking()[-1:] != [("clicks",)]:
            assert number < 100, "no input is named"
            wait_for(is_read, run)
            number += 1
            feed(tmp_path / "impressions", str(number), [impression("a", "13:00")])
            feed(tmp_path / "clicks", str(number), [click("a", "06:00")])

    run_while(file, steer, events)
