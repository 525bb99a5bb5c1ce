"""One definition of a table over a finished data set and over a stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.errors import PipelineError
from headwater.events import Event
from tests.pipelines import (
    batches,
    capture,
    captured,
    feed,
    rows_of,
    run_as_batch,
    run_until_idle,
    write,
)

PIPELINE = """
name: both_forms
spark: {spark.sql.shuffle.partitions: 1}
sources:
  events:
    connector: files
    path: in
    format: json
    schema: {at: timestamp, user: string, cost: int}
    watermark: {column: at, delay: 20 minutes}
    max_files_per_batch: 1
  users: {connector: files, path: users, format: json, schema: {user: string, city: string}, static: true}
tables:
  dear: {python: "tables.py:dear"}
  placed: SELECT e.user, u.city, e.cost FROM events e LEFT JOIN users u ON e.user = u.user
  per_window: |
    SELECT date_format(window.start, 'HH:mm') AS begin, user, sum(cost) AS cost, count(*) AS n
    FROM events GROUP BY window(at, '10 minutes'), user
  per_city: SELECT city, sum(cost) AS cost FROM placed GROUP BY city
  unique: {python: "tables.py:unique"}
  pairs: |
    SELECT a.user, a.cost AS first, b.cost AS second FROM events a
    JOIN events b ON a.user = b.user AND b.at > a.at AND b.at <= a.at + INTERVAL 10 MINUTES
sinks:
  dear: {reads: dear, connector: files, path: out/dear, format: parquet}
  pairs: {reads: pairs, connector: files, path: out/pairs, format: json}
  unique: {reads: unique, connector: files, path: out/unique, format: csv}
  per_window: {reads: per_window, connector: foreach_batch, function: "capture.py:per_window", mode: update}
  per_city: {reads: per_city, connector: foreach_batch, function: "capture.py:per_city", mode: complete}
"""
TABLES = """
from pyspark.sql.functions import col, udf


@udf("string")
def shout(word):
    return word.upper()


def dear(events):
    return events.where(col("cost") > 10).select(shout("user").alias("user"), "cost")


def unique(events):
    return events.dropDuplicates(["user", "at"]).select("user", "cost")
"""
# A row may be 20 minutes behind the newest of the files before it, so none of these is late.
FILES = (
    (("12:01", "ann", 5), ("12:04", "bob", 20), ("12:04", "bob", 20)),
    (
        *(("12:09", "ann", 30), ("12:02", "cyd", 15), ("12:13", "bob", 1)),
        *(("12:01", "ann", 5), ("12:18", "ann", 12), ("12:10", "cyd", 50)),
    ),
)
FOLDERS = {
    "dear": ("parquet", None),
    "pairs": ("json", "user string, first int, second int"),
    "unique": ("csv", "user string, cost int"),
}

Rows = Counter[tuple[Any, ...]]


def stored(spark: SparkSession, folder: Path) -> dict[str, Rows]:
    """What the sinks that keep files have written below a folder."""
    return {name: rows_of(spark, folder / name, format, schema) for name, (format, schema) in FOLDERS.items()}


@pytest.mark.feature("A1.1")
def test_the_stream_and_the_batch_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    for number, rows in enumerate(FILES):
        lines = [{"at": f"2026-01-01T{at}:00Z", "user": user, "cost": cost} for at, user, cost in rows]
        feed(tmp_path / "in", str(number), lines, at=1000 + number)
    feed(tmp_path / "users", "1", [{"user": "ann", "city": "Ulm"}, {"user": "bob", "city": "Bonn"}])
    write(tmp_path, TABLES, "tables.py")
    capture(tmp_path, "per_window", "per_city")
    file, events = write(tmp_path, PIPELINE), list[Event]()

    run_until_idle(file, events)
    streamed = stored(spark, tmp_path / "out")
    newest = {row[:2]: row for batch in captured(tmp_path, "per_window") for row in batch}
    last_of_city = captured(tmp_path, "per_city")[-1]
    assert len([batch for batch in batches(events, "per_window") if batch.rows_in]) == len(FILES)

    run_as_batch(file, tmp_path / "batch")
    assert stored(spark, tmp_path / "batch") == streamed
    # The batch form calls the function once, with all rows as batch 0.
    assert captured(tmp_path, "per_window")[0] == Counter(newest.values())
    assert captured(tmp_path, "per_city")[0] == last_of_city

    assert streamed["dear"] == Counter(
        [("BOB", 20), ("BOB", 20), ("ANN", 30), ("CYD", 15), ("ANN", 12), ("CYD", 50)]
    )
    assert streamed["unique"] == Counter(
        [("ann", 5), ("bob", 20), ("ann", 30), ("cyd", 15), ("bob", 1), ("ann", 12), ("cyd", 50)]
    )
    assert streamed["pairs"] == Counter(
        [("ann", 5, 30), ("ann", 5, 30), ("ann", 30, 12), ("bob", 20, 1), ("bob", 20, 1), ("cyd", 15, 50)]
    )
    assert Counter(newest.values()) == Counter(
        [
            ("12:00", "ann", 40, 3),
            ("12:00", "bob", 40, 2),
            ("12:00", "cyd", 15, 1),
            ("12:10", "bob", 1, 1),
            ("12:10", "ann", 12, 1),
            ("12:10", "cyd", 50, 1),
        ]
    )
    assert last_of_city == Counter([("Ulm", 52), ("Bonn", 41), (None, 65)])


STREAMS_ONLY = """
name: streams_only
sources:
  ticks: {connector: rate}
  counted: {connector: rate_per_batch, rows_per_batch: 1}
  lines: {connector: socket, host: localhost, port: 9}
sinks:
  ticks: {reads: ticks, connector: noop}
  counted: {reads: counted, connector: noop}
  lines: {reads: lines, connector: noop}
"""
STATEFUL = """
name: stateful
sources:
  events:
    connector: files
    path: in
    format: json
    schema: {at: timestamp, user: string}
    watermark: {column: at, delay: 20 minutes}
tables:
  unique: {reads: events, deduplicate: user, within: watermark}
  users: SELECT user FROM unique
  seen: {python: "tables.py:seen"}
sinks:
  users: {reads: users, connector: noop}
  seen: {reads: seen, connector: noop}
"""
SEEN = """
def remember(key, batches, state):
    for batch in batches:
        yield batch[["user"]]


def seen(events):
    grouped = events.select("user").groupBy("user")
    return grouped.applyInPandasWithState(remember, "user string", "n int", "append", "NoTimeout")
"""


@pytest.mark.feature("A1.2")
@pytest.mark.usefixtures("spark")
def test_what_has_no_batch_form_is_refused_by_name(tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", [{"at": "2026-01-01T12:00:00Z", "user": "ann"}])
    write(tmp_path, SEEN, "tables.py")

    def refused(text: str) -> list[tuple[object, ...]]:
        with pytest.raises(PipelineError) as error:
            run_as_batch(write(tmp_path, text), tmp_path / "batch")
        told = [(p.code, p.params["name"], p.params["connector"], p.place) for p in error.value.problems]
        return [(code, name, form, place and place.line) for code, name, form, place in told]

    assert refused(STREAMS_ONLY) == [
        ("HW-BATCH-UNSUPPORTED", "ticks", "rate", 4),
        ("HW-BATCH-UNSUPPORTED", "counted", "rate_per_batch", 5),
        ("HW-BATCH-UNSUPPORTED", "lines", "socket", 6),
    ]
    assert refused(STATEFUL) == [
        ("HW-BATCH-UNSUPPORTED", "unique", "dropDuplicatesWithinWatermark", 11),
        ("HW-BATCH-UNSUPPORTED", "seen", "applyInPandasWithState", 13),
    ]
