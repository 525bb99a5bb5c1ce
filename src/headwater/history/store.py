"""The SQLite file with the history of runs: its tables, its versions, and the values of a batch.

A batch is a row of `batches`, and the newest also have their complete progress in `progress`. Old batches become
`buckets`: see `retention`. A version of the file is a version of these tables.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.errors import Problem, SetupError
from headwater.errors.catalogue.running import HISTORY_DAMAGED, HISTORY_VERSION_UNSUPPORTED
from headwater.events import QueryProgress
from headwater.events.status import lag_of
from headwater.values import scrub, scrub_within

VERSION = 3
OLDEST_READABLE = 2
"""The oldest version that a reader understands: it only lacks indexes of version 3."""
METRICS = (
    "rows_in",
    "rows_out",
    "duration_ms",
    "rows_in_per_second",
    "rows_processed_per_second",
    "watermark_delay_ms",
    "lag",
    "waiting_files",
    "state_rows",
    "state_bytes",
    "late_rows",
    "bad_rows",
)
"""What is kept of every batch; null if Spark does not report it."""
_METRIC_COLUMNS = ", ".join(f"{metric} REAL" for metric in METRICS)
_BUSY_SECONDS = 1.0
_WAL_BYTES = 8 << 20

# Times are milliseconds since the epoch. In `progress`, the body is compressed JSON; elsewhere, it is JSON.
# Every index of a table with a rowid ends with it, so each index of `events` has the events in the order of `seq`.
_TABLES = f"""
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER,
    exit_code INTEGER, last_seen INTEGER NOT NULL, status TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_started ON runs (started_at);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, run_id TEXT NOT NULL, kind TEXT NOT NULL,
    query TEXT NOT NULL, code TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_idle ON events (query) WHERE kind = 'query_idle';
CREATE INDEX IF NOT EXISTS events_run ON events (run_id);
CREATE INDEX IF NOT EXISTS events_query ON events (query);
CREATE INDEX IF NOT EXISTS events_time ON events (at);
CREATE TABLE IF NOT EXISTS batches (
    query TEXT NOT NULL, at INTEGER NOT NULL, batch_id INTEGER NOT NULL, run_id TEXT NOT NULL,
    {_METRIC_COLUMNS}, PRIMARY KEY (query, at, batch_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
    query TEXT NOT NULL, at INTEGER NOT NULL, batch_id INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (query, at, batch_id)
);
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, query TEXT NOT NULL, metric TEXT NOT NULL, UNIQUE (query, metric)
);
CREATE TABLE IF NOT EXISTS buckets (
    series INTEGER NOT NULL, resolution INTEGER NOT NULL, at INTEGER NOT NULL, count INTEGER NOT NULL,
    min REAL NOT NULL, max REAL NOT NULL, sum REAL NOT NULL, PRIMARY KEY (series, resolution, at)
) WITHOUT ROWID;
"""
INSERT_EVENT = "INSERT INTO events (at, run_id, kind, query, code, body) VALUES (?, ?, ?, ?, ?, ?)"
INSERT_BATCH = (
    f"INSERT OR REPLACE INTO batches (query, at, batch_id, run_id, {', '.join(METRICS)}) "
    f"VALUES (?, ?, ?, ?{', ?' * len(METRICS)})"
)
INSERT_PROGRESS = "INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?)"


def ms_of(text: str) -> int:
    """The milliseconds of a time as in events; 0 if there is none."""
    with suppress(ValueError):
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    return 0


def text_of(ms: int | None) -> str | None:
    """The time as in events."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def measures(event: QueryProgress, waiting_files: int | None = None) -> list[float | None]:
    """The values of a batch, in the order of `METRICS`."""
    progress = event.progress
    operators: list[Mapping[str, Any]] = progress.get("stateOperators") or []
    lags = [lag for source in progress.get("sources") or () if (lag := lag_of(source))]
    sources, watermark = event.source_counts, event.watermark
    found: list[Any] = [
        event.rows_in,
        event.rows_out,
        event.batch_ms,
        progress.get("inputRowsPerSecond"),
        progress.get("processedRowsPerSecond"),
        ms_of(str(progress.get("timestamp") or event.at)) - ms_of(watermark) if watermark else None,
        sum(sum(lag.values()) for lag in lags) if lags else None,
        waiting_files,
        sum(int(each.get("numRowsTotal") or 0) for each in operators) if operators else None,
        sum(int(each.get("memoryUsedBytes") or 0) for each in operators) if operators else None,
        sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators) if operators else None,
        sum(counts.bad for counts in sources.values()) if sources else None,
    ]
    return [_finite(value) for value in found]


def _finite(value: Any) -> float | None:
    """Spark reports infinite rates for batches of 0 ms."""
    return value if isinstance(value, int | float) and abs(value) < float("inf") else None


def as_text(body: Mapping[str, Any]) -> str:
    """The body as JSON, without secrets. Scrubbing the whole text is quick, but could hit numbers."""
    text = json.dumps(body, ensure_ascii=False, default=str)
    return text if scrub(text) == text else json.dumps(scrub_within(body), ensure_ascii=False)


def packed(body: Mapping[str, Any]) -> bytes:
    """The body as compressed JSON."""
    return zlib.compress(as_text(body).encode(), 1)


def unpacked(body: bytes) -> dict[str, Any]:
    """The body of `packed`."""
    found: dict[str, Any] = json.loads(zlib.decompress(body))
    return found


# Opening.


def open_for_writing(file: Path) -> tuple[sqlite3.Connection, Problem | None]:
    """The open file, and a problem if a damaged one was moved.

    It is created if it does not exist, and migrated if it is older. Raises SetupError if it is newer.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        return _opened(file), None
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        problem = replace_damaged(file, str(error))
        return _opened(file), problem


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}").fetchall()
        _migrate(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, and not just locked or on a full disk."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def replace_damaged(file: Path, reason: str) -> Problem:
    """Rename the file and what belongs to it, so that a new one can be created."""
    moment = datetime.fromtimestamp(time.time(), UTC)
    backup = file.with_name(f"{file.name}.damaged-{moment:%Y%m%dT%H%M%S%f}")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(backup.with_name(backup.name + suffix))
    return HISTORY_DAMAGED.at(None, file=str(file), backup=str(backup), reason=reason)


def version_of(connection: sqlite3.Connection, file: Path, oldest: int) -> int:
    """The version of the file; raises SetupError if it is newer than this one, or older than `oldest`."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not oldest <= version <= VERSION:
        newer = "Use the version of Headwater that wrote it, or move the file to start a new history."
        older = "Start the pipeline once with this version. It converts the file."
        hint = newer if version > VERSION else older
        params = {"file": str(file), "version": version, "known": VERSION, "hint": hint}
        raise SetupError(HISTORY_VERSION_UNSUPPORTED.at(None, **params))
    return int(version)


def _migrate(connection: sqlite3.Connection, file: Path) -> None:
    if version_of(connection, file, 0) == VERSION:
        return
    with transaction(connection):
        # Another process may have migrated it in the meantime.
        version = version_of(connection, file, 0)
        if version == 1:
            _from_1(connection)
        for statement in filter(str.strip, _TABLES.split(";")):
            connection.execute(statement)
        if version == 1:
            _copy_batches(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _from_1(connection: sqlite3.Connection) -> None:
    """Version 1 had no buckets: a batch was its progress as JSON, and an event had no code."""
    connection.execute("ALTER TABLE runs RENAME TO runs_1")
    connection.execute("ALTER TABLE events RENAME TO events_1")
    connection.execute("ALTER TABLE batches RENAME TO batches_1")


def _copy_batches(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO runs SELECT run_id, pipeline, started_at, ended_at, exit_code, "
        "coalesce(ended_at, started_at), status FROM runs_1"
    )
    connection.execute(
        "INSERT INTO events SELECT seq, at, run_id, kind, query, coalesce(json_extract(body, '$.code'), ''), body "
        "FROM events_1 ORDER BY seq"
    )
    rows = connection.execute("SELECT query, at, run_id, rows_out, body FROM batches_1")
    for query, at, run_id, rows_out, body in rows:
        # A batch that cannot be read is not worth the rest.
        with suppress(ValueError, KeyError):
            event = QueryProgress(
                query=query, at=str(text_of(at)), rows_out=rows_out, progress=json.loads(body)
            )
            row = (query, at, event.batch_id, run_id, *measures(event))
            connection.execute(INSERT_BATCH, row)
            connection.execute(INSERT_PROGRESS, (query, at, event.batch_id, packed(event.progress)))
    for table in ("runs_1", "events_1", "batches_1"):
        connection.execute(f"DROP TABLE {table}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
