"""Old batches are summarized without losing a value, and the history stays within its limits."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.history import retention
from headwater.history.reader import History
from headwater.history.retention import DAY, HOUR, MINUTE, HistoryLimits, Retention, Slice, queries
from headwater.history.store import INSERT_BATCH, METRICS, open_for_writing
from headwater.values import Duration
from tests.unit.history.events import NOON

Rows = list[tuple[int, float | None]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection, _ = open_for_writing(tmp_path / "history.sqlite")
    yield connection
    connection.close()


def insert(connection: sqlite3.Connection, rows: Rows, query: str = "out") -> None:
    """Batches with a value of the first metric."""
    rest = [None] * (len(METRICS) - 1)
    values = [(query, at, number, "r1", value, *rest) for number, (at, value) in enumerate(rows)]
    connection.execute("BEGIN")
    connection.executemany(INSERT_BATCH, values)
    connection.execute("COMMIT")


def total(connection: sqlite3.Connection) -> list[tuple[float, ...]]:
    """Count, minimum, maximum and sum of everything."""
    return connection.execute(
        "SELECT sum(count), min(min), max(max), total(sum) FROM (SELECT count, min, max, sum FROM buckets "
        "UNION ALL SELECT 1, rows_in, rows_in, rows_in FROM batches WHERE rows_in IS NOT NULL)"
    ).fetchall()


VALUES = st.none() | st.integers(-(2**40), 2**40)
BATCHES = st.lists(st.tuples(st.integers(0, 3 * HOUR), VALUES), max_size=60, unique_by=lambda each: each[0])


@given(BATCHES, st.integers(0, 60), st.sampled_from([MINUTE, HOUR]))
@settings(max_examples=60, deadline=None)
def test_buckets_have_exactly_what_the_batches_had(batches: Rows, keep: int, resolution: int) -> None:
    with TemporaryDirectory() as folder:
        connection, _ = open_for_writing(Path(folder) / "history.sqlite")
        insert(connection, batches)
        keeping = Retention(connection, HistoryLimits())
        newest = sorted(batches)[max(0, len(batches) - keep) :]
        while part := keeping.oldest("out", keep):
            keeping.fold(part, resolution)
        left = connection.execute("SELECT at, rows_in FROM batches ORDER BY at").fetchall()
        buckets = connection.execute(
            "SELECT at, count, min, max, sum FROM buckets WHERE resolution = ? ORDER BY at", (resolution,)
        ).fetchall()
        connection.close()
    folded: dict[int, list[float]] = {}
    for at, value in sorted(batches)[: max(0, len(batches) - keep)]:
        if value is not None:
            folded.setdefault(at // resolution * resolution, []).append(value)
    assert left == newest
    assert buckets == [
        (start, len(values), min(values), max(values), sum(values)) for start, values in folded.items()
    ]


@given(BATCHES)
@settings(max_examples=30, deadline=None)
def test_hours_have_exactly_what_the_minutes_had(batches: Rows) -> None:
    with TemporaryDirectory() as folder:
        connection, _ = open_for_writing(Path(folder) / "history.sqlite")
        insert(connection, batches)
        before = total(connection)
        keeping = Retention(connection, HistoryLimits(), batches_kept=0)
        while part := keeping.oldest("out", 0):
            keeping.fold(part, MINUTE)
        list(keeping.steps(8 * DAY, set()))
        after, resolutions = total(connection), connection.execute("SELECT DISTINCT resolution FROM buckets")
        assert (after, set(resolutions)) <= (before, {(HOUR,)})
        assert after == before
        connection.close()


def test_the_newest_batches_are_kept_and_old_ones_summarized(opened: sqlite3.Connection) -> None:
    rows: Rows = [(NOON + number * 1_000, number) for number in range(600)]
    insert(opened, rows)
    before = total(opened)
    list(Retention(opened, HistoryLimits(), batches_kept=100).steps(NOON + 600_000, {"out"}))
    assert opened.execute("SELECT min(rows_in), count(*) FROM batches").fetchall() == [(500, 100)]
    assert opened.execute("SELECT at, count, min, max, sum FROM buckets ORDER BY at LIMIT 2").fetchall() == [
        (NOON, 60, 0, 59, 1770),
        (NOON + MINUTE, 60, 60, 119, 5370),
    ]
    assert total(opened) == before


@pytest.mark.parametrize(
    ("rows", "span", "resolution"), [(720, HOUR, MINUTE), (719, HOUR, HOUR), (12, HOUR, HOUR), (11, HOUR, 0)]
)
def test_buckets_are_never_larger_than_the_batches(rows: int, span: int, resolution: int) -> None:
    assert Slice("out", NOON, NOON + span, rows).resolution == resolution


def test_what_a_previous_run_left_is_summarized_too(opened: sqlite3.Connection) -> None:
    for query in ("a", "b"):
        insert(opened, [(NOON + number, 1) for number in range(30)], query)
    assert list(queries(opened)) == ["a", "b"]
    list(Retention(opened, HistoryLimits(), batches_kept=10).steps(NOON, set()))
    assert opened.execute("SELECT query, count(*) FROM batches GROUP BY query").fetchall() == [
        ("a", 10),
        ("b", 10),
    ]


def test_everything_older_than_the_limit_is_deleted(opened: sqlite3.Connection) -> None:
    insert(opened, [(NOON - 2 * DAY - 1, 1), (NOON - 2 * DAY, 2), (NOON, 3)])
    keys = "(at, run_id, kind, query, code, body)"
    for at in (NOON - 2 * DAY - 1, NOON - 2 * DAY):
        opened.execute(f"INSERT INTO events {keys} VALUES (?, 'r', 'notice', '', '', '{{}}')", (at,))
        opened.execute("INSERT INTO progress VALUES ('out', ?, 1, x'00')", (at,))
        for resolution in (MINUTE, HOUR):
            opened.execute(
                "INSERT INTO buckets VALUES (1, ?, ?, 1, 1, 1, 1)", (resolution, at - resolution + 1)
            )
    opened.execute("INSERT INTO series VALUES (1, 'out', 'rows_in')")
    for run, seen in (("old", NOON - 3 * DAY), ("new", NOON)):
        opened.execute("INSERT INTO runs VALUES (?, 'shop', ?, NULL, NULL, ?, '{}')", (run, seen, seen))
    list(Retention(opened, HistoryLimits(max_age=Duration.parse("2 days"))).steps(NOON, set()))
    assert opened.execute("SELECT rows_in FROM batches ORDER BY at").fetchall() == [(2,), (3,)]
    assert opened.execute("SELECT at FROM events").fetchall() == [(NOON - 2 * DAY,)]
    assert opened.execute("SELECT at FROM progress").fetchall() == [(NOON - 2 * DAY,)]
    assert opened.execute("SELECT at FROM buckets").fetchall() == [
        (NOON - 2 * DAY - each + 1,) for each in (MINUTE, HOUR)
    ]
    assert opened.execute("SELECT run_id FROM runs").fetchall() == [("new",)]


def test_the_newest_run_stays_however_old_it_is(opened: sqlite3.Connection) -> None:
    opened.execute("INSERT INTO runs VALUES ('old', 'shop', 1, NULL, NULL, 1, '{}')")
    list(Retention(opened, HistoryLimits()).steps(NOON, set()))
    assert opened.execute("SELECT run_id FROM runs").fetchall() == [("old",)]


def test_only_the_newest_runs_are_kept(opened: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RUNS_KEPT", 2)
    for number in range(4):
        row = (f"r{number}", NOON + number, NOON)
        opened.execute("INSERT INTO runs VALUES (?, 'shop', ?, NULL, NULL, ?, '{}')", row)
    list(Retention(opened, HistoryLimits()).steps(NOON, set()))
    assert opened.execute("SELECT run_id FROM runs ORDER BY 1").fetchall() == [("r2",), ("r3",)]


def test_the_file_stays_within_its_size_and_the_oldest_data_goes_first(tmp_path: Path) -> None:
    file, limit = tmp_path / "history.sqlite", 2 << 20
    connection, _ = open_for_writing(file)
    keeping = Retention(connection, HistoryLimits(max_bytes=limit))
    noise = random.Random(1)
    at = NOON
    for _ in range(12):
        # Each round has 0.5 MB of events and batches.
        rows: Rows = []
        for _ in range(2_000):
            at += 2_000
            rows.append((at, noise.random()))
        insert(connection, rows)
        connection.executemany(
            "INSERT INTO events (at, run_id, kind, query, code, body) VALUES (?, 'r', 'notice', '', '', ?)",
            [(at, f'"{noise.randbytes(100).hex()}"') for _ in range(2_000)],
        )
        list(keeping.steps(at, {"out"}))
        assert keeping.bytes_used <= limit
    insert(connection, [(at + 1, 5.0)])
    connection.close()
    assert os.path.getsize(file) <= limit
    assert not file.with_name("history.sqlite-wal").exists()
    with History(file) as history:
        kept = [event.seq for event in history.events()]
        assert kept == list(range(kept[0], 24_001))
        assert len(kept) >= 1_000
        assert [each.batch_id for each in history.batches("out", 1)] == [0]
        # Batches are summarized before anything else is deleted.
        assert sum(point.count for point in history.series("out", "rows_in")) == 24_001


def test_a_limit_that_cannot_be_reached_ends_quickly(opened: sqlite3.Connection) -> None:
    insert(opened, [(NOON + number * HOUR, 1) for number in range(20)])
    keeping = Retention(opened, HistoryLimits(max_bytes=1))
    list(keeping.steps(NOON, {"out"}))
    assert opened.execute("SELECT count(*) FROM batches").fetchone() == (20,)
