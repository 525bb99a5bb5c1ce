"""Reads a history, also while a run writes it. Times are milliseconds since the epoch; their JSON form is a text."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from headwater.errors import UsageError
from headwater.errors.catalogue.running import HISTORY_NOT_FOUND, HISTORY_UNREADABLE
from headwater.history.retention import HOUR, MINUTE
from headwater.history.store import METRICS, OLDEST_READABLE, text_of, unpacked, version_of

FOLLOW_SECONDS = 0.1
PAGE = 1_000
"""How many events are read at a time."""
_DISORDER_MS = 60_000
"""By how much an event may be older than those that were stored before it."""
_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class StoredRun:
    """A run, without its status."""

    run_id: str
    pipeline: str
    started_at: int
    ended_at: int | None
    exit_code: int | None
    last_seen: int
    """When it last wrote to the history. A run without `ended_at` may still be active, or was killed."""

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "pipeline": self.pipeline,
            "started_at": text_of(self.started_at),
            "ended_at": text_of(self.ended_at),
            "exit_code": self.exit_code,
            "last_seen": text_of(self.last_seen),
        }


@dataclass(frozen=True)
class StoredEvent:
    """An event, with its number."""

    seq: int
    at: int
    run_id: str
    """The run; empty for a start that failed before the run had its queries."""
    body: dict[str, Any] = field(hash=False)
    """Its JSON form."""

    def to_json(self) -> dict[str, Any]:
        return {"seq": self.seq, **self.body}


@dataclass(frozen=True)
class StoredBatch:
    """The values of a batch, by metric."""

    query: str
    at: int
    batch_id: int
    run_id: str
    values: dict[str, float | None] = field(hash=False)

    def to_json(self) -> dict[str, Any]:
        times = {
            "query": self.query,
            "at": text_of(self.at),
            "batch_id": self.batch_id,
            "run_id": self.run_id,
        }
        return {**times, **self.values}


@dataclass(frozen=True)
class Point:
    """The batches of a part of a series that have a value."""

    at: int
    count: int
    min: float
    max: float
    mean: float

    def to_json(self) -> dict[str, Any]:
        return {
            "at": text_of(self.at),
            "count": self.count,
            "min": self.min,
            "max": self.max,
            "mean": self.mean,
        }


class History:
    """A history, open for reading. Any thread may use it.

    Raises UsageError if the file does not exist or cannot be read, and SetupError if it has another version.
    """

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        self._turn = threading.Lock()
        if not self.file.is_file():
            raise UsageError(HISTORY_NOT_FOUND.at(None, file=str(self.file)))
        with self._explained():
            self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        uri = self.file.absolute().as_uri()
        connection = _connect(f"{uri}?mode=ro")
        try:
            version_of(connection, self.file, OLDEST_READABLE)
        except sqlite3.OperationalError:
            connection.close()
            # In a read-only directory, SQLite cannot create the files that it shares with a writer.
            if self.file.with_name(f"{self.file.name}-wal").exists():
                raise
            connection = _connect(f"{uri}?mode=ro&immutable=1")
            version_of(connection, self.file, OLDEST_READABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise UsageError(HISTORY_UNREADABLE.at(None, file=str(self.file), reason=str(error))) from error

    def _rows(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        with self._turn, self._explained():
            return self._connection.execute(sql, parameters).fetchall()

    def runs(self, limit: int | None = None) -> list[StoredRun]:
        """The runs, newest first."""
        columns = "run_id, pipeline, started_at, ended_at, exit_code, last_seen"
        sql = f"SELECT {columns} FROM runs ORDER BY started_at DESC, rowid DESC LIMIT ?"
        return [StoredRun(*row) for row in self._rows(sql, (_limit(limit),))]

    def status(self, run_id: str | None = None) -> dict[str, Any] | None:
        """The last status of a run, or of the newest; None if there is none.

        A run that was killed has the status that it had then.
        """
        sql = "SELECT status FROM runs WHERE ? IS NULL OR run_id = ? ORDER BY started_at DESC, rowid DESC LIMIT 1"
        rows = self._rows(sql, (run_id, run_id))
        return json.loads(rows[0][0]) if rows else None

    def events(
        self,
        after: int = 0,
        upto: int | None = None,
        *,
        since: int | None = None,
        query: str | None = None,
        run_id: str | None = None,
    ) -> Iterator[StoredEvent]:
        """The events with a number above `after`, oldest first, up to `upto` or the newest one now.

        Batches are not among them: see `batches`. Each page is a transaction of its own. A longer one would keep
        the writer from reusing its log for as long as the caller takes.
        """
        last = self.newest_seq() if upto is None else upto
        if since is not None:
            after = max(after, self._first_since(since, last) - 1)
        if run_id is not None:
            first, newest = self._ends("seq", "events WHERE run_id = :run", {"run": run_id})
            after, last = max(after, (first or 0) - 1), min(last, newest or 0)
        # A `+` keeps SQLite from using the index of that column, with which it would sort, or read the whole run.
        of_run = "run_id = ?" if query is None else "+run_id = ?"
        filters = {"query = ?": query, of_run: run_id, "+at >= ?": since}
        chosen = {condition: value for condition, value in filters.items() if value is not None}
        where = " AND ".join(["seq > ?", "seq <= ?", *chosen])
        sql = f"SELECT seq, at, run_id, body FROM events WHERE {where} ORDER BY seq LIMIT {PAGE}"
        while page := self._rows(sql, (after, last, *chosen.values())):
            for seq, at, run, body in page:
                yield StoredEvent(seq, at, run, json.loads(body))
            after = page[-1][0]

    def _first_since(self, ms: int, last: int) -> int:
        """The smallest number of an event at or after a time; the one after `last` if there is none.

        The oldest of these events can have a larger number than an event that is up to a minute newer.
        """
        # A `+` keeps SQLite from searching in the order of `seq`.
        sql = """
            SELECT min(+seq) FROM events, (SELECT min(at) AS oldest FROM events WHERE at >= ?)
            WHERE at BETWEEN oldest AND oldest + ?
        """
        ((first,),) = self._rows(sql, (ms, _DISORDER_MS))
        return last + 1 if first is None else int(first)

    def follow(
        self,
        stop: threading.Event,
        after: int | None = None,
        *,
        query: str | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> Iterator[StoredEvent]:
        """New events as they are stored, until `stop` is set; by default, those after the newest one now."""
        wait = wait or stop.wait
        seq = self.newest_seq() if after is None else after
        while not stop.is_set():
            newest = self.newest_seq()
            if newest > seq:
                yield from self.events(seq, newest, query=query)
                seq = newest
            wait(FOLLOW_SECONDS)

    def newest_seq(self) -> int:
        """The number of the newest event; 0 without events."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM events")[0][0])

    def queries(self) -> list[str]:
        """The queries that have batches, by name."""
        sql = "SELECT DISTINCT query FROM series UNION SELECT DISTINCT query FROM progress ORDER BY 1"
        return [name for (name,) in self._rows(sql)]

    def batches(self, query: str, limit: int = 100, before: int | None = None) -> list[StoredBatch]:
        """The newest batches of a query, newest first; with `before`, those before that time.

        Batches that are summarized are not among them: see `series`.
        """
        sql = (
            f"SELECT query, at, batch_id, run_id, {', '.join(METRICS)} FROM batches "
            "WHERE query = ? AND at < ? ORDER BY at DESC, batch_id DESC LIMIT ?"
        )
        rows = self._rows(sql, (query, 2**62 if before is None else before, limit))
        return [
            StoredBatch(name, at, number, run_id, dict(zip(METRICS, values, strict=True)))
            for name, at, number, run_id, *values in rows
        ]

    def batch(self, query: str, batch_id: int) -> dict[str, Any] | None:
        """The complete progress of a batch, as Spark reported it; None if it is no longer stored."""
        sql = "SELECT body FROM progress WHERE query = ? AND batch_id = ? ORDER BY at DESC LIMIT 1"
        rows = self._rows(sql, (query, batch_id))
        return unpacked(rows[0][0]) if rows else None

    def series(
        self, query: str, metric: str, start: int | None = None, end: int | None = None, points: int = 500
    ) -> list[Point]:
        """A metric over time, in at most `points` parts of equal length; a part without values has no point."""
        if metric not in METRICS:
            raise ValueError(f"unknown metric {metric!r}; expected one of {', '.join(METRICS)}")
        found = self._rows("SELECT id FROM series WHERE query = ? AND metric = ?", (query, metric))
        number = found[0][0] if found else 0
        start, end = self._bounds(query, number, start, end)
        width = max(1, -(-(end - start + 1) // points))
        # A bucket belongs to the range if a part of it does.
        inside = "SELECT max(at, :start) AS at, count, min, max, sum FROM buckets "
        inside += "WHERE series = :series AND resolution = {0} AND at > :start - {0} AND at <= :end"
        sql = f"""
            SELECT (at - :start) / :width AS point, sum(count), min(min), max(max), total(sum) FROM (
                SELECT at, 1 AS count, {metric} AS min, {metric} AS max, {metric} AS sum FROM batches
                WHERE query = :query AND at BETWEEN :start AND :end AND {metric} IS NOT NULL
                UNION ALL {inside.format(MINUTE)} UNION ALL {inside.format(HOUR)}
            ) GROUP BY point ORDER BY point
        """
        named = {"query": query, "series": number, "start": start, "end": end, "width": width}
        return [
            Point(start + point * width, count, low, high, total / count)
            for point, count, low, high, total in self._rows(sql, named)
        ]

    def _bounds(self, query: str, series: int, start: int | None, end: int | None) -> tuple[int, int]:
        """The range of a series; by default, all of it."""
        if start is not None and end is not None:
            return start, end
        tables = ["batches WHERE query = :query"]
        tables += [f"buckets WHERE series = :series AND resolution = {each}" for each in (MINUTE, HOUR)]
        named = {"query": query, "series": series}
        times = [self._ends("at", table, named) for table in tables]
        first = min((first for first, _ in times if first is not None), default=0)
        last = max((last for _, last in times if last is not None), default=0)
        return first if start is None else start, last if end is None else end

    def _ends(
        self, column: str, rows: str, named: Mapping[str, object]
    ) -> tuple[int, int] | tuple[None, None]:
        """The minimum and maximum; each in a query of its own, so that SQLite only looks at the ends of the index."""
        sql = f"SELECT (SELECT min({column}) FROM {rows}), (SELECT max({column}) FROM {rows})"
        first, last = self._rows(sql, named)[0]
        return first, last


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _limit(limit: int | None) -> int:
    return -1 if limit is None else limit
