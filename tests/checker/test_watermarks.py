"""Watermarks that can't clear state are refused, and what the refusal shows instead does clear it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.checks import Finding
from headwater.events import Event
from tests.pipelines import batches, feed, run_until_idle, write

SOURCE = """
name: watermarks
spark: {spark.sql.shuffle.partitions: 1}
sources:
  clicks:
    connector: files
    path: clicks
    format: json
    schema: {user: string, at: timestamp, paid: timestamp}
    watermark: {column: at, delay: 30 minutes}
    max_files_per_batch: 1
  plain:
    connector: files
    path: clicks
    format: json
    schema: {user: string, at: timestamp, paid: timestamp}
tables:
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

# Each table of SQL that takes its time apart, in all the ways to write that.
REWRITTEN = {
    "start": "SELECT window(at, '10 minutes').start AS s, count(*) AS n FROM clicks "
    "GROUP BY window(at, '10 minutes').start",
    "both_ends": "SELECT window(at, '10 minutes').start AS s, window(at, '10 minutes').end AS e, "
    "count(*) AS n FROM clicks GROUP BY window(at, '10 minutes').start, window(at, '10 minutes').end",
    "by_number": "SELECT window(at, '10 minutes').start, user, count(*) AS n FROM clicks GROUP BY 1, 2",
    "by_name": "SELECT window(at, '10 minutes').start AS s, count(*) AS n FROM clicks GROUP BY s",
    "of_a_column": "SELECT w.start AS s, count(*) AS n "
    "FROM (SELECT window(at, '10 minutes') AS w FROM clicks) GROUP BY w.start",
    "minute": "SELECT date_trunc('minute', at) AS m, count(*) AS n FROM clicks "
    "GROUP BY date_trunc('minute', at)",
    "hour": "SELECT date_trunc('hour', at) AS h, user, count(*) AS n FROM clicks GROUP BY 1, 2",
    "day": "SELECT to_date(at) AS d, count(*) AS n FROM clicks GROUP BY d",
    "having": "SELECT date_trunc('hour', at) AS h, count(*) AS n FROM clicks GROUP BY date_trunc('hour', at) "
    "HAVING date_trunc('hour', at) > timestamp'2026-01-01 01:00:00'",
    "cast": "SELECT CAST(at AS date) AS d, count(*) AS n FROM clicks GROUP BY CAST(at AS date)",
}
LOST = ("minute", "hour", "day", "having", "cast")


def pipeline(folder: Path, tables: dict[str, str], mode: str) -> Path:
    sinks = [f"  {name}: {{reads: {name}, connector: noop, mode: {mode}}}" for name in tables]
    lines = [f"  {name}: {sql}" for name, sql in tables.items()]
    return write(folder, "\n".join([SOURCE.rstrip(), *lines, "sinks:", *sinks]))


def windows(folder: Path, number: int) -> None:
    """A row in each of so many windows of ten minutes: half of them, the other half, and one more."""
    for file, numbers in enumerate((range(number // 2), range(number // 2, number), (number,))):
        times = [(BEGIN + timedelta(minutes=10 * each)).isoformat() for each in numbers]
        rows = [{"user": "a", "at": time, "paid": time} for time in times]
        feed(folder / "clicks", str(file), rows, at=1000 + file)


def errors(file: Path) -> dict[str, Finding]:
    result = check(file)
    return {finding.sink: finding for finding in result.errors}


@pytest.mark.feature("C5.2", part="rewritten queries")
def test_the_rewritten_query_passes_and_keeps_only_windows_inside_the_delay(
    context: SparkContext, tmp_path: Path
) -> None:
    windows(tmp_path, 1000)
    found = errors(pipeline(tmp_path, REWRITTEN, "update"))
    codes = {name: "HW-WATERMARK-LOST" if name in LOST else "HW-GROUP-BY-WINDOW-FIELD" for name in REWRITTEN}
    assert {name: finding.problem.code for name, finding in found.items()} == codes
    assert all(finding.suppressible for finding in found.values())

    rewritten = {name: finding.suggested_sql for name, finding in found.items()}
    for name, finding in found.items():
        assert finding.problem.hint.endswith(rewritten[name])
    # Append mode is the stricter judge, and gives each window once.
    assert errors(pipeline(tmp_path, rewritten, "append")) == {}
    kept = dict(_kept(tmp_path, {name: rewritten[name] for name in ("of_a_column", "day")}))
    # Those four that were not over half an hour before the last but one, and the last, which came after.
    assert kept == {"of_a_column": 5, "day": 1}


def _kept(folder: Path, tables: dict[str, str]) -> Iterator[tuple[str, int]]:
    """The rows in the state of each query after all that is there."""
    events: list[Event] = []
    run_until_idle(pipeline(folder, tables, "update"), events)
    for name in tables:
        # A batch without rows may follow, and may not: how far it has come when the run ends is a race.
        (operator,) = [each for each in batches(events, name) if each.rows_in][-1].progress["stateOperators"]
        yield name, operator["numRowsTotal"]


PYTHON = """
from pyspark.sql import functions as F


def moved(clicks):
    later = clicks.select((F.col("at") + F.expr("INTERVAL 1 HOUR")).alias("later"))
    return later.groupBy(F.window("later", "10 minutes")).count()


def parted(clicks):
    return clicks.groupBy(F.window("at", "10 minutes").start.alias("s")).count()


def twice(clicks):
    return clicks.withWatermark("at", "1 hour").groupBy(F.window("at", "10 minutes")).count()
"""

OTHERS = {
    "wrong_column": "{sql: \"SELECT window, count(*) AS n FROM clicks GROUP BY window(paid, '1 hour')\"}",
    "after": "{sql: 'SELECT user, max(at) AS at FROM plain GROUP BY user', "
    "watermark: {column: at, delay: 1 hour}}",
    "second": "{sql: SELECT * FROM clicks, watermark: {column: at, delay: 1 hour}}",
    "on_windows": "{sql: \"SELECT count(*) AS n FROM below GROUP BY window(s, '1 hour')\"}",
    "formatted": "{sql: \"SELECT date_format(at, 'yyyy-MM-dd HH') AS h, count(*) AS n FROM clicks "
    'GROUP BY 1"}',
    "seconds": "{sql: 'SELECT floor(unix_timestamp(at) / 300) AS s, count(*) AS n FROM clicks GROUP BY 1'}",
    "calendar": "{sql: 'SELECT count(*) AS n FROM clicks GROUP BY year(at), month(at), hour(at)'}",
    "distinct": "{sql: \"SELECT DISTINCT date_trunc('hour', at) AS h FROM clicks\"}",
    "moved": '{python: "code.py:moved"}',
    "parted": '{python: "code.py:parted"}',
    "twice": '{python: "code.py:twice"}',
}
BELOW = """
  below:
    sql: SELECT window.start AS s, user FROM clicks GROUP BY window(at, '10 minutes'), user
    watermark: {column: s, delay: 1 hour}
"""
SOUND = {
    "whole": "SELECT window.start AS s, count(*) AS n FROM clicks GROUP BY window(at, '10 minutes')",
    "both": "SELECT window.start AS s FROM clicks GROUP BY window(at, '10 minutes'), window.start",
    "column": "SELECT at, count(*) AS n FROM clicks GROUP BY at",
    "renamed": "SELECT t, count(*) AS n FROM (SELECT at AS t FROM clicks) GROUP BY t",
    "by_user": "SELECT user, count(*) AS n FROM clicks GROUP BY user",
    "by_month": "SELECT date_trunc('month', at) AS m, count(*) AS n FROM clicks GROUP BY 1",
    "by_year": "SELECT year(at) AS y, date_format(at, 'yyyy-MM') AS m, count(*) AS n FROM clicks "
    "GROUP BY 1, 2",
    "by_day_name": "SELECT date_format(at, 'EEEE') AS d, count(*) AS n FROM clicks GROUP BY 1",
    "before": "SELECT at < timestamp'2026-01-02' AS early, count(*) AS n FROM clicks GROUP BY 1",
    "hour_of_day": "SELECT hour(at) AS h, count(*) AS n FROM clicks GROUP BY hour(at)",
    "chained": "SELECT sum(n) AS n FROM "
    "(SELECT window, count(*) AS n FROM clicks GROUP BY window(at, '10 minutes')) "
    "GROUP BY window(window, '1 hour')",
    "distinct_then": "SELECT window, count(*) AS n FROM (SELECT DISTINCT user, at FROM clicks) "
    "GROUP BY window(at, '10 minutes')",
}


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_session_by_its_start_is_none(context: SparkContext, tmp_path: Path, mode: str) -> None:
    windows(tmp_path, 50)
    begins = (
        "SELECT user, session_window(at, '5 minutes').start AS s, count(*) AS n FROM clicks GROUP BY user, s"
    )
    found = errors(pipeline(tmp_path, {"begins": begins}, mode))
    assert found["begins"].problem.code == "HW-GROUP-BY-SESSION-FIELD"
    assert found["begins"].suggested_sql.endswith("GROUP BY user, session_window(at, '5 minutes')")


@pytest.mark.feature("C5.2")
def test_a_watermark_that_can_not_clear_is_refused_with_its_reason(
    context: SparkContext, tmp_path: Path
) -> None:
    windows(tmp_path, 50)
    write(tmp_path, PYTHON, "code.py")
    lines = [*BELOW.strip("\n").splitlines(), *(f"  {name}: {table}" for name, table in OTHERS.items())]
    modes = {name: "append" if name == "on_windows" else "update" for name in OTHERS}
    sinks = [f"  {name}: {{reads: {name}, connector: noop, mode: {modes[name]}}}" for name in OTHERS]
    found = errors(write(tmp_path, "\n".join([SOURCE.rstrip(), *lines, "sinks:", *sinks])))
    assert {name: _told(finding) for name, finding in found.items()} == {
        "wrong_column": ("HW-WATERMARK-WRONG-COLUMN", "wrong_column", {"column": "paid", "others": "`at`"}),
        "after": ("HW-WATERMARK-AFTER-STATE", "after", {"column": "at", "operator": "GROUP BY"}),
        "second": ("HW-WATERMARK-CONFLICT", "second", {"first": "at", "second": "at"}),
        "on_windows": ("HW-WATERMARK-CONFLICT", "below", {"first": "at", "second": "s"}),
        "formatted": ("HW-WATERMARK-LOST", "formatted", {"column": "at"}),
        "seconds": ("HW-WATERMARK-LOST", "seconds", {"column": "at"}),
        "calendar": ("HW-WATERMARK-LOST", "calendar", {"column": "at"}),
        "distinct": ("HW-WATERMARK-LOST", "distinct", {"column": "at"}),
        "moved": ("HW-WATERMARK-LOST", "moved", {"column": "at"}),
        "parted": ("HW-GROUP-BY-WINDOW-FIELD", "parted", {}),
        "twice": ("HW-WATERMARK-CONFLICT", "twice", {"first": "at", "second": "at"}),
    }


def _told(finding: Finding) -> tuple[str, str, dict[str, Any]]:
    said = {key: finding.problem.params[key] for key in ("column", "others", "first", "second", "operator")
            if key in finding.problem.params}  # fmt: skip
    return finding.problem.code, finding.table, said


def test_sound_watermarks_are_not_blamed(context: SparkContext, tmp_path: Path) -> None:
    windows(tmp_path, 50)
    in_update = {name: sql for name, sql in SOUND.items() if name not in ("chained", "distinct_then")}
    in_append = {
        name: SOUND[name] for name in ("whole", "both", "column", "renamed", "chained", "distinct_then")
    }
    assert errors(pipeline(tmp_path, in_update, "update")) == {}
    assert errors(pipeline(tmp_path, in_append, "append")) == {}


def test_no_delay_is_warned_of(context: SparkContext, tmp_path: Path) -> None:
    windows(tmp_path, 50)
    file = pipeline(tmp_path, {"whole": SOUND["whole"]}, "update")
    file.write_text(file.read_text().replace("30 minutes", "0 seconds"), encoding="utf-8")
    warned = [
        finding for finding in check(file).findings if finding.problem.code == "HW-WATERMARK-DELAY-ZERO"
    ]
    assert [(each.severity.value, each.problem.params["column"]) for each in warned] == [("warning", "at")]
