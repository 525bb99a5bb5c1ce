"""The file of the history: its versions, damaged files, and the values of a batch."""

from __future__ import annotations

import json
import sqlite3
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SetupError
from headwater.history.reader import History
from headwater.history.store import (
    METRICS,
    VERSION,
    as_text,
    measures,
    ms_of,
    open_for_writing,
    packed,
    text_of,
)
from headwater.history.store import unpacked as unpack
from headwater.values.secrets import hide
from tests.unit.history.events import NOON, batch

VERSION_1 = """
PRAGMA auto_vacuum = INCREMENTAL;
CREATE TABLE runs (run_id TEXT PRIMARY KEY, pipeline TEXT, started_at INTEGER, ended_at INTEGER, exit_code INTEGER,
    status TEXT);
CREATE TABLE events (seq INTEGER PRIMARY KEY, at INTEGER, run_id TEXT, kind TEXT, query TEXT, body TEXT);
CREATE TABLE batches (query TEXT, at INTEGER, run_id TEXT, rows_out INTEGER, body TEXT);
PRAGMA user_version = 1;
"""


def test_a_new_file_has_the_newest_version(tmp_path: Path) -> None:
    connection, problem = open_for_writing(tmp_path / "deep" / "history.sqlite")
    pragmas = ("user_version", "journal_mode", "synchronous", "auto_vacuum")
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    connection.close()
    assert (found, problem) == ([VERSION, "wal", 1, 2], None)


def test_version_1_is_migrated(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    old = sqlite3.connect(file)
    old.executescript(VERSION_1)
    notice = {"event": "notice", "code": "HW-ALL-DATA-READ", "message": "No more data to read."}
    old.execute("INSERT INTO runs VALUES ('r1', 'shop', 10, 90, 0, '{\"run_id\": \"r1\"}')")
    old.execute("INSERT INTO events VALUES (7, 20, 'r1', 'notice', '', ?)", (json.dumps(notice),))
    events = [batch(number, NOON + number) for number in range(3)]
    old.executemany(
        "INSERT INTO batches VALUES ('out', ?, 'r1', 4, ?)",
        [(ms_of(event.at), json.dumps(dict(event.progress))) for event in events],
    )
    old.execute("INSERT INTO batches VALUES ('out', 1, 'r1', 4, 'no JSON')")
    old.commit()
    old.close()

    connection, problem = open_for_writing(file)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    code = connection.execute("SELECT code FROM events").fetchone()
    new, _ = open_for_writing(tmp_path / "new.sqlite")
    assert objects(connection) == objects(new)
    new.close()
    connection.close()
    assert problem is None
    assert tables == {"runs", "events", "batches", "progress", "series", "buckets", "sqlite_sequence"}
    assert code == ("HW-ALL-DATA-READ",)
    with History(file) as history:
        (run,) = history.runs()
        assert (run.run_id, run.started_at, run.last_seen, history.status()) == (
            "r1",
            10,
            90,
            {"run_id": "r1"},
        )
        assert [(event.seq, event.body) for event in history.events()] == [(7, notice)]
        assert [(each.batch_id, each.values["rows_in"]) for each in history.batches("out")] == [
            (2, 5),
            (1, 5),
            (0, 5),
        ]
        assert history.batch("out", 1) == events[1].progress


VERSION_2 = """
PRAGMA auto_vacuum = INCREMENTAL;
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER,
    exit_code INTEGER, last_seen INTEGER NOT NULL, status TEXT NOT NULL
);
CREATE INDEX runs_started ON runs (started_at);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, run_id TEXT NOT NULL, kind TEXT NOT NULL,
    query TEXT NOT NULL, code TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX events_idle ON events (query) WHERE kind = 'query_idle';
CREATE TABLE batches (
    query TEXT NOT NULL, at INTEGER NOT NULL, batch_id INTEGER NOT NULL, run_id TEXT NOT NULL, rows_in REAL,
    rows_out REAL, duration_ms REAL, rows_in_per_second REAL, rows_processed_per_second REAL,
    watermark_delay_ms REAL, lag REAL, waiting_files REAL, state_rows REAL, state_bytes REAL, late_rows REAL,
    bad_rows REAL, PRIMARY KEY (query, at, batch_id)
) WITHOUT ROWID;
CREATE TABLE progress (
    query TEXT NOT NULL, at INTEGER NOT NULL, batch_id INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (query, at, batch_id)
);
CREATE TABLE series (
    id INTEGER PRIMARY KEY, query TEXT NOT NULL, metric TEXT NOT NULL, UNIQUE (query, metric)
);
CREATE TABLE buckets (
    series INTEGER NOT NULL, resolution INTEGER NOT NULL, at INTEGER NOT NULL, count INTEGER NOT NULL,
    min REAL NOT NULL, max REAL NOT NULL, sum REAL NOT NULL, PRIMARY KEY (series, resolution, at)
) WITHOUT ROWID;
INSERT INTO runs VALUES ('r1', 'shop', 10, 90, 0, 95, '{"run_id": "r1"}');
INSERT INTO events VALUES (7, 20, 'r1', 'notice', '', 'HW-X', '{"event": "notice"}');
INSERT INTO events VALUES (9, 30, 'r1', 'query_started', 'out', '', '{"event": "query_started"}');
INSERT INTO batches (query, at, batch_id, run_id, rows_in) VALUES ('out', 40, 3, 'r1', 5);
INSERT INTO series VALUES (1, 'out', 'rows_in');
INSERT INTO buckets VALUES (1, 3600000, 0, 2, 1, 3, 4);
PRAGMA user_version = 2;
"""


def objects(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Every table and index, with its table."""
    return set(connection.execute("SELECT name, tbl_name FROM sqlite_master WHERE sql IS NOT NULL"))


def content_of(file: Path) -> object:
    with History(file) as history:
        return (
            [run.to_json() for run in history.runs()],
            history.status(),
            [(event.seq, event.at, event.body) for event in history.events()],
            [event.seq for event in history.events(run_id="r1", query="out")],
            [event.seq for event in history.events(since=25)],
            [batch.to_json() for batch in history.batches("out")],
            [point.to_json() for point in history.series("out", "rows_in", points=1)],
        )


def test_version_2_is_readable_and_migrated(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    old = sqlite3.connect(file)
    old.executescript(VERSION_2)
    old.close()
    before = content_of(file)
    connection, problem = open_for_writing(file)
    new, _ = open_for_writing(tmp_path / "new.sqlite")
    assert problem is None
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert objects(connection) == objects(new)
    assert {name for name, table in objects(new) if table == "events"} == {
        "events",
        "events_idle",
        "events_query",
        "events_run",
        "events_time",
    }
    # Numbers of events are never used again.
    connection.execute(
        "INSERT INTO events (at, run_id, kind, query, code, body) VALUES (1, '', '', '', '', '')"
    )
    assert connection.execute("SELECT max(seq) FROM events").fetchone() == (10,)
    connection.execute("DELETE FROM events WHERE seq = 10")
    connection.close()
    new.close()
    assert content_of(file) == before
    assert before == (
        [
            {
                "run_id": "r1",
                "pipeline": "shop",
                "started_at": text_of(10),
                "ended_at": text_of(90),
                "exit_code": 0,
                "last_seen": text_of(95),
            }
        ],
        {"run_id": "r1"},
        [(7, 20, {"event": "notice"}), (9, 30, {"event": "query_started"})],
        [9],
        [9],
        [
            {
                "query": "out",
                "at": text_of(40),
                "batch_id": 3,
                "run_id": "r1",
                **dict.fromkeys(METRICS),
                "rows_in": 5,
            }
        ],
        [{"at": text_of(0), "count": 3, "min": 1, "max": 5, "mean": 3}],
    )


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    old = sqlite3.connect(file)
    old.executescript(VERSION_1)
    old.execute("INSERT INTO batches VALUES ('out', 1, 'r1', 4, 'kept')")
    old.execute("ALTER TABLE events DROP COLUMN query")
    old.commit()
    old.close()
    with pytest.raises(sqlite3.OperationalError, match="no such column: query"):
        open_for_writing(file)
    old = sqlite3.connect(file)
    assert old.execute("SELECT body FROM batches").fetchall() == [("kept",)]
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    old.close()


def test_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    new = sqlite3.connect(file)
    new.execute("PRAGMA user_version = 4")
    new.close()
    for opened in (open_for_writing, History):
        with pytest.raises(SetupError) as error:
            opened(file)
        (problem,) = error.value.problems
        assert problem.code == "HW-HISTORY-VERSION-UNSUPPORTED"
        assert (problem.params["version"], problem.params["known"]) == (4, 3)
        assert (
            problem.hint
            == "Use the version of Headwater that wrote it, or move the file to start a new history."
        )


def test_a_reader_does_not_migrate(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    old = sqlite3.connect(file)
    old.executescript(VERSION_1)
    old.close()
    with pytest.raises(SetupError) as error:
        History(file)
    assert error.value.problems[0].hint == "Start the pipeline once with this version. It converts the file."


def test_a_damaged_file_is_moved(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(b"no database" * 100)
    connection, problem = open_for_writing(file)
    connection.close()
    (backup,) = tmp_path.glob("history.sqlite.damaged-*")
    assert problem is not None
    assert (problem.code, problem.params["backup"]) == ("HW-HISTORY-DAMAGED", str(backup))
    assert backup.read_bytes() == b"no database" * 100


def test_what_is_measured() -> None:
    operator = {
        "operatorName": "dedupe",
        "numRowsTotal": 7,
        "memoryUsedBytes": 9,
        "numRowsDroppedByWatermark": 2,
    }
    source = {"endOffset": {"t": {"0": 5, "1": 6}}, "latestOffset": {"t": {"0": 9, "1": 6}}}
    event = batch(
        3,
        stateOperators=[operator, operator],
        sources=[source, {"endOffset": 3, "latestOffset": 4}],
        eventTime={"watermark": "2026-01-01T11:59:00.000Z"},
        observedMetrics={"headwater.rows.orders": {"read": 5, "bad": 1}},
        inputRowsPerSecond=float("inf"),
        processedRowsPerSecond=float("nan"),
    )
    assert dict(zip(METRICS, measures(event, 8), strict=True)) == {
        "rows_in": 5,
        "rows_out": 4,
        "duration_ms": 100,
        "rows_in_per_second": None,
        "rows_processed_per_second": None,
        "watermark_delay_ms": 60_000,
        "lag": 4,
        "waiting_files": 8,
        "state_rows": 14,
        "state_bytes": 18,
        "late_rows": 4,
        "bad_rows": 1,
    }
    assert measures(batch(3)) == [5, 4, 100, 2.5, 50.0, *[None] * 7]


@given(st.integers(0, 4_102_444_800_000))
def test_times_are_exact(ms: int) -> None:
    assert ms_of(str(text_of(ms))) == ms


def test_bodies_have_no_secrets() -> None:
    assert unpack(packed({"a": [1, "ä"]})) == {"a": [1, "ä"]}
    hide("4711-pass")
    body = {"batchId": 4711, "path": "s3://u:4711-pass@host"}
    assert json.loads(as_text(body)) == {"batchId": 4711, "path": "s3://u:***@host"}
    assert b"4711-pass" not in zlib.decompress(packed(body))
