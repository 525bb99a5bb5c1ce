"""Keeps the history within its limits: old batches are summarized, and the oldest data is deleted.

The oldest batches of a query become buckets of a minute or an hour. A bucket has the count, minimum, maximum and sum
of a metric, so a spike never disappears. A fold adds to the buckets and deletes the batches in one transaction: no
batch is lost or counted twice. Every step handles a bounded slice, so that the recorder is never blocked for long.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.history.store import METRICS, transaction
from headwater.values import Duration

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
BATCHES_KEPT = 100_000
"""The newest batches of a query that are not summarized."""
PROGRESS_KEPT = 1_000
"""The newest batches of a query with their complete progress."""
_PROGRESS_LEAST = 100
MINUTES_KEPT = 7 * DAY
RUNS_KEPT = 1_000
SLICE = 5_000
_STEPS = 20
_MAX_AGE = Duration.parse("30 days")
_FULL = 0.9
"""The share of the maximum size that the data may fill: the rest is for what a write adds before it is checked."""
_EXPIRY = MINUTE
_PER_BUCKET = len(METRICS)
"""A batch is about as large as a bucket of one metric: buckets of fewer batches would take more space."""
_MERGE = """
    ON CONFLICT DO UPDATE SET count = count + excluded.count, min = min(min, excluded.min),
        max = max(max, excluded.max), sum = sum + excluded.sum
"""


@dataclass(frozen=True)
class HistoryLimits:
    """How much history is kept."""

    max_age: Duration = _MAX_AGE
    max_bytes: int = 500 << 20


@dataclass(frozen=True)
class Slice:
    """The oldest batches of a query."""

    query: str
    start: int
    end: int
    """The time of the newest one; all batches up to it belong to the slice."""
    rows: int

    @property
    def resolution(self) -> int:
        """The length of the buckets to summarize it; 0 if they would take more space than the batches."""
        span = max(1, self.end - self.start)
        return next((each for each in (MINUTE, HOUR) if self.rows * each >= _PER_BUCKET * span), 0)


class Retention:
    """Applies the limits to an open history, step by step."""

    def __init__(
        self, connection: sqlite3.Connection, limits: HistoryLimits, batches_kept: int = BATCHES_KEPT
    ) -> None:
        self._connection = connection
        self._limits = limits
        self._batches_kept = batches_kept
        self._expired_at = 0

    def steps(self, now: int, grown: set[str]) -> Iterator[None]:
        """Summarize old batches of the queries that have grown, and apply the limits of age and size.

        It yields after every slice, so that the caller can write what has arrived in the meantime.
        """
        if not self._expired_at:
            # A previous run may have left more.
            grown = {*grown, *self._queries()}
        for query in grown:
            yield from self._trim(query)
        if now - self._expired_at >= _EXPIRY:
            self._expired_at = now
            self._expire(now - self._limits.max_age.milliseconds)
            yield
            for series in self._series():
                self._fold_minutes(series, now - MINUTES_KEPT)
                yield
        for _ in range(_STEPS):
            if self.bytes_used <= self._limits.max_bytes * _FULL or not self._shrink(now):
                break
            yield
        self._vacuum()

    @property
    def bytes_used(self) -> int:
        """The size of the data, without free pages."""
        return (self._pragma("page_count") - self._pragma("freelist_count")) * self._pragma("page_size")

    # What each query keeps.

    def _trim(self, query: str) -> Iterator[None]:
        self._trim_progress(query, PROGRESS_KEPT)
        for _ in range(_STEPS):
            part = self.oldest(query, self._batches_kept)
            if part is None:
                return
            self.fold(part, part.resolution or HOUR)
            yield

    def _trim_progress(self, query: str, keep: int) -> int:
        newest = "SELECT at FROM progress WHERE query = ? ORDER BY at DESC LIMIT 1 OFFSET ?"
        delete = f"DELETE FROM progress WHERE query = ? AND at <= ({newest})"
        return self._connection.execute(delete, (query, query, keep)).rowcount

    def oldest(self, query: str, keep: int) -> Slice | None:
        """The oldest batches of a query, without the newest `keep`; None if there are no others."""
        newest = "SELECT at FROM batches WHERE query = ? ORDER BY at DESC LIMIT 1 OFFSET ?"
        found = self._connection.execute(newest, (query, keep)).fetchone()
        if found is None:
            return None
        oldest = "SELECT at FROM batches WHERE query = ? AND at <= ? ORDER BY at LIMIT ?"
        counted = f"SELECT min(at), max(at), count(*) FROM ({oldest})"
        start, end, rows = self._connection.execute(counted, (query, found[0], SLICE)).fetchone()
        return Slice(query, start, end, rows)

    def fold(self, part: Slice, resolution: int) -> None:
        """Move batches into buckets."""
        with transaction(self._connection):
            for metric in METRICS:
                self._connection.execute(
                    f"INSERT INTO buckets SELECT ?, ?, at / ? * ?, count({metric}), min({metric}), max({metric}), "
                    f"total({metric}) FROM batches WHERE query = ? AND at <= ? AND {metric} IS NOT NULL "
                    f"GROUP BY at / ? {_MERGE}",
                    (
                        self._series_id(part.query, metric),
                        *(resolution, resolution, resolution),
                        *(part.query, part.end, resolution),
                    ),
                )
            self._drop(part)

    def _drop(self, part: Slice) -> None:
        self._connection.execute("DELETE FROM batches WHERE query = ? AND at <= ?", (part.query, part.end))

    def _series_id(self, query: str, metric: str) -> int:
        find = "SELECT id FROM series WHERE query = ? AND metric = ?"
        found = self._connection.execute(find, (query, metric)).fetchone()
        if found:
            return int(found[0])
        cursor = self._connection.execute("INSERT INTO series (query, metric) VALUES (?, ?)", (query, metric))
        return int(cursor.lastrowid or 0)

    def _fold_minutes(self, series: int, before: int) -> bool:
        """Move buckets of a minute that start before a time into those of an hour; three days at most."""
        oldest = "SELECT at FROM buckets WHERE series = ? AND resolution = ? ORDER BY at LIMIT 1"
        found = self._connection.execute(oldest, (series, MINUTE)).fetchone()
        before = before // HOUR * HOUR
        if found is None or found[0] >= before:
            return False
        before = min(before, found[0] // HOUR * HOUR + 3 * DAY)
        with transaction(self._connection):
            self._connection.execute(
                "INSERT INTO buckets SELECT series, ?, at / ? * ?, sum(count), min(min), max(max), total(sum) "
                f"FROM buckets WHERE series = ? AND resolution = ? AND at < ? GROUP BY at / ? {_MERGE}",
                (HOUR, HOUR, HOUR, series, MINUTE, before, HOUR),
            )
            self._delete_buckets(series, MINUTE, before)
        return True

    def _delete_buckets(self, series: int, resolution: int, before: int) -> int:
        delete = "DELETE FROM buckets WHERE series = ? AND resolution = ? AND at < ?"
        return self._connection.execute(delete, (series, resolution, before)).rowcount

    # The limit of age.

    def _expire(self, before: int) -> None:
        execute = self._connection.execute
        for query in self._queries():
            oldest = "SELECT at FROM batches WHERE query = ? ORDER BY at LIMIT ?"
            execute(
                f"DELETE FROM batches WHERE query = ? AND at < ? AND at <= (SELECT max(at) FROM ({oldest}))",
                (query, before, query, SLICE),
            )
            execute("DELETE FROM progress WHERE query = ? AND at < ?", (query, before))
        for series in self._series():
            for resolution in (MINUTE, HOUR):
                self._delete_buckets(series, resolution, before - resolution + 1)
        execute(
            "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT ?) AND at < ?",
            (SLICE, before),
        )
        newest = "SELECT run_id FROM runs ORDER BY started_at DESC LIMIT"
        execute(
            f"DELETE FROM runs WHERE run_id NOT IN ({newest} ?) "
            f"OR last_seen < ? AND run_id NOT IN ({newest} 1)",
            (RUNS_KEPT, before),
        )

    # The limit of size: what is oldest is summarized first, then deleted.

    def _shrink(self, now: int) -> bool:
        """One step; False if nothing is left that it may delete."""
        return (
            self._shrink_batches()
            or self._shrink_minutes(now)
            or self._shrink_events()
            or self._shrink_buckets()
            or self._shrink_progress()
        )

    def _shrink_batches(self) -> bool:
        parts = [part for query in self._queries() if (part := self.oldest(query, PROGRESS_KEPT))]
        if not parts:
            return False
        part = min(parts, key=lambda each: each.start)
        if part.resolution:
            self.fold(part, part.resolution)
        else:
            with transaction(self._connection):
                self._drop(part)
        return True

    def _shrink_minutes(self, now: int) -> bool:
        return any(self._fold_minutes(series, now - HOUR) for series in self._series())

    def _shrink_events(self) -> bool:
        delete = (
            "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT ?) "
            "AND seq <= (SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?)"
        )
        return self._connection.execute(delete, (SLICE, PROGRESS_KEPT)).rowcount > 0

    def _shrink_buckets(self) -> bool:
        oldest = "SELECT min(at) FROM buckets WHERE series = ? AND resolution = ?"
        starts = [self._connection.execute(oldest, (each, HOUR)).fetchone()[0] for each in self._series()]
        before = min((start for start in starts if start is not None), default=0) + DAY
        return sum([self._delete_buckets(series, HOUR, before) for series in self._series()]) > 0

    def _shrink_progress(self) -> bool:
        return sum(self._trim_progress(query, _PROGRESS_LEAST) for query in self._queries()) > 0

    def _vacuum(self) -> None:
        """Return free pages to the disk, if the file is larger than the data may be."""
        size = self._pragma("page_size")
        excess = self._pragma("page_count") - int(self._limits.max_bytes * _FULL) // size
        pages = min(excess, self._pragma("freelist_count"))
        if pages > 0:
            # `execute` would stop after the first page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _series(self) -> list[int]:
        return [number for (number,) in self._connection.execute("SELECT id FROM series")]

    def _queries(self) -> list[str]:
        return list(queries(self._connection))


def queries(connection: sqlite3.Connection) -> Iterator[str]:
    """The queries with batches that are not summarized; quick, regardless of their number."""
    following = "SELECT min(query) FROM batches WHERE query > ?"
    (query,) = connection.execute(following, ("",)).fetchone()
    while query is not None:
        yield query
        (query,) = connection.execute(following, (query,)).fetchone()
