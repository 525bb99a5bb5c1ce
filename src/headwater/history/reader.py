"""Reads a history, also while a run writes it. Times are milliseconds since the epoch; their JSON form is a text."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from headwater.errors import UsageError
from headwater.errors.catalogue.running import HISTORY_NOT_FOUND, HISTORY_UNREADABLE
from headwater.history.retention import HOUR, MINUTE
from headwater.history.store import METRICS, VERSION, text_of, unpacked, version_of

FOLLOW_SECONDS = 0.1
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
            version_of(connection, self.file, VERSION)
        except sqlite3.OperationalError:
            connection.close()
            # In a read-only directory, SQLite cannot create the files that it shares with a writer.
            if self.file.with_name(f"{self.file.name}-wal").exists():
                raise
            connection = _connect(f"{uri}?mode=ro&immutable=1")
            version_of(connection, self.file, VERSION)
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
        *,
        since: int | None = None,
        kinds: Iterable[str] = (),
        query: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> list[StoredEvent]:
        """The events with a number above `after`, oldest first; `limit` returns the newest of them.

        Batches are not among them: see `batches`.
        """
        where: list[str] = ["seq > ?"]
        wanted: list[object] = [after]
        for condition, value in (("at >= ?", since), ("query = ?", query), ("run_id = ?", run_id)):
            if value is not None:
                where.append(condition)
                wanted.append(value)
        if kinds := tuple(kinds):
            where.append(f"kind IN ({', '.join('?' * len(kinds))})")
            wanted.extend(kinds)
        sql = (
            f"SELECT seq, at, run_id, body FROM events WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?"
        )
        rows = self._rows(sql, (*wanted, _limit(limit)))
        return [StoredEvent(seq, at, run, json.loads(body)) for seq, at, run, body in reversed(rows)]

    def follow(
        self,
        stop: threading.Event,
        after: int | None = None,
        *,
        kinds: Iterable[str] = (),
        query: str | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> Iterator[StoredEvent]:
        """New events as they are stored, until `stop` is set; by default, those after the newest one now."""
        kinds, wait = tuple(kinds), wait or stop.wait
        seq = self.newest_seq() if after is None else after
        while not stop.is_set():
            newest = self.newest_seq()
            if newest > seq:
                for event in self.events(seq, kinds=kinds, query=query):
                    yield event
                    newest = max(newest, event.seq)
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
        # Each minimum and maximum in a query of its own: SQLite then only looks at the ends of the index.
        ends = (f"SELECT (SELECT min(at) FROM {table}), (SELECT max(at) FROM {table})" for table in tables)
        named = {"query": query, "series": series}
        times = [row for each in ends for row in self._rows(each, named)]
        first = min((first for first, _ in times if first is not None), default=0)
        last = max((last for _, last in times if last is not None), default=0)
        return first if start is None else start, last if end is None else end


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _limit(limit: int | None) -> int:
    return -1 if limit is None else limit
