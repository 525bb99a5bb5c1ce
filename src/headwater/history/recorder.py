"""Writes the events of a run to its history, at least once a second.

The bus calls the recorder on a thread of its own; another thread writes what has arrived. If the disk is full or the
file is locked, events wait in memory, and the run continues.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from headwater.errors import Problem, SetupError
from headwater.errors.catalogue.running import HISTORY_UNWRITABLE
from headwater.events import (
    BacklogChanged,
    EpochCommitted,
    Event,
    EventsDropped,
    QueryIdle,
    QueryProgress,
    QueryRunning,
    QueryTerminated,
    RunStarted,
    StartPhase,
    WatermarkHeldBack,
)
from headwater.events.status import RunView
from headwater.history.outputs import Outage, RepeatedIdle
from headwater.history.retention import PROGRESS_KEPT, HistoryLimits, Retention
from headwater.history.store import (
    INSERT_BATCH,
    INSERT_EVENT,
    INSERT_PROGRESS,
    as_text,
    is_damage,
    measures,
    ms_of,
    open_for_writing,
    packed,
    replace_damaged,
    transaction,
)

_LOG = logging.getLogger("headwater")
WRITE_SECONDS = 0.5
TIDY_SECONDS = 0.2
"""How long a write may summarize and delete old data before the next write."""
SEEN_SECONDS = 10.0
"""How often an idle run stores that it is still alive."""
MOST_PENDING = 10_000
"""How many events may wait in memory while they cannot be written; older ones are dropped."""
MOST_AT_ONCE = 5_000
_GROWN = 500
"""After how many batches the old ones of a query are summarized."""
_NOISE = (BacklogChanged, EpochCommitted, QueryRunning, StartPhase, WatermarkHeldBack)
"""Events that are not stored: others contain the same."""


class Recorder:
    """A consumer of events that stores them, with the status of the run that `view` has.

    It raises SetupError if a newer version of Headwater wrote the file, and nothing else. `notify` receives the
    problem of a damaged file, which is moved.
    """

    def __init__(
        self,
        file: Path,
        view: RunView,
        limits: HistoryLimits | None = None,
        clock: Callable[[], float] = time.time,
        notify: Callable[[Problem], None] = lambda problem: _LOG.warning("%s", problem),
    ) -> None:
        self.file = file
        self.dropped = 0
        """How many events were not stored, such as because the file could not be written for too long."""
        self.outage = Outage()
        self._view, self._limits, self._clock, self._notify = view, limits or HistoryLimits(), clock, notify
        self._turn = threading.Lock()
        self._pending: deque[tuple[Event, int | None]] = deque()
        self._full = threading.Condition()
        self._closed = False
        self._is_repeated = RepeatedIdle()
        self._waiting_files: dict[str, int] = {}
        self._grown = Counter[str]()
        self._tidying: Iterator[None] | None = None
        self._run_id = ""
        self._first_seq = 0
        self._failing = False
        self._snapshots_due = 0
        self._seen_at = 0.0
        self._connection: sqlite3.Connection | None = None
        with suppress(sqlite3.Error, OSError):
            # What fails here is tried again, and reported, with the first write.
            self._open()
        self._thread = threading.Thread(target=self._work, name="headwater history", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BacklogChanged):
            self._waiting_files[event.query] = sum(event.files.values())
        if isinstance(event, QueryTerminated):
            self._waiting_files.pop(event.query, None)
        if self._is_repeated(event):
            return
        with self._full:
            # The view may take in the event only after this, so the status is stored twice.
            self._snapshots_due = 2
            if isinstance(event, _NOISE):
                return
            if len(self._pending) >= MOST_PENDING:
                if isinstance(event, EventsDropped):
                    # The report of a loss must not cause one. The status has the number.
                    return
                self._pending.popleft()
                self.dropped += 1
            self._pending.append((event, self._waiting_files.get(getattr(event, "query", ""))))
            full = len(self._pending) >= MOST_AT_ONCE
        if full and not self._failing:
            self.flush()

    def flush(self) -> bool:
        """Write what has arrived; False if it could not be written."""
        with self._turn:
            try:
                self._write()
                self._failing = False
            except (sqlite3.Error, OSError, SetupError) as error:
                self._failing = True
                self._failed(error)
                return False
            except Exception:  # noqa: BLE001 - an event that cannot be stored must not block those after it
                _LOG.exception("the history missed events")
                return False
            self.outage.over()
            return True

    def close(self) -> None:
        """Write the rest, and close the file."""
        with self._full:
            self._closed = True
            self._snapshots_due = 1
            self._full.notify_all()
        self._thread.join()
        self.flush()
        with self._turn:
            self._disconnect()
            self.dropped += len(self._pending)
            self._pending.clear()

    def _work(self) -> None:
        while True:
            with self._full:
                if self._full.wait_for(lambda: self._closed, WRITE_SECONDS):
                    return
            self.flush()

    # Everything below is called by one thread at a time.

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection, problem = open_for_writing(self.file)
            self._retention = Retention(self._connection, self._limits)
            (seq,) = self._connection.execute("SELECT max(seq) FROM events").fetchone()
            self._first_seq = seq or 0
            if problem:
                self._notify(problem)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection, self._tidying = self._connection, None, None
        if connection:
            with suppress(sqlite3.Error):
                connection.close()

    def _failed(self, error: Exception) -> None:
        reason = str(getattr(error, "strerror", None) or error)
        if isinstance(error, sqlite3.Error) and is_damage(error):
            self._disconnect()
            try:
                self._notify(replace_damaged(self.file, reason))
                return
            except OSError as failed:
                reason = str(failed)
        params = {"file": str(self.file), "directory": str(self.file.parent), "reason": reason}
        self.outage.failed(HISTORY_UNWRITABLE.at(None, **params))

    def _write(self) -> None:
        connection = self._open()
        with self._full:
            taken, self._pending = self._pending, deque()
            status_due = self._snapshots_due > 0 or time.monotonic() - self._seen_at >= SEEN_SECONDS
            self._snapshots_due = max(0, self._snapshots_due - 1)
        try:
            if taken or status_due:
                with transaction(connection):
                    self._store(connection, taken)
                    if status_due:
                        self._store_status(connection)
        except (sqlite3.Error, OSError):
            self._put_back(taken)
            raise
        except Exception:
            with self._full:
                self.dropped += len(taken)
            raise
        self._seen_at = time.monotonic() if status_due else self._seen_at
        self._grown.update(event.query for event, _ in taken if isinstance(event, QueryProgress))
        self._tidy()

    def _tidy(self) -> None:
        """Keep the history within its limits. What takes longer than a moment continues after the next write."""
        until = time.monotonic() + TIDY_SECONDS
        while True:
            grown = {query for query, batches in self._grown.items() if batches >= _GROWN}
            if self._tidying is None:
                self._tidying = self._retention.steps(round(self._clock() * 1_000), grown)
                for query in grown:
                    del self._grown[query]
                grown = set()
            for _ in self._tidying:
                if time.monotonic() >= until and not self._closed:
                    return
            self._tidying = None
            if not grown:
                return

    def _put_back(self, taken: deque[tuple[Event, int | None]]) -> None:
        with self._full:
            self._snapshots_due += 1
            self._pending.extendleft(reversed(taken))
            while len(self._pending) > MOST_PENDING:
                self._pending.popleft()
                self.dropped += 1

    def _store(self, connection: sqlite3.Connection, taken: deque[tuple[Event, int | None]]) -> None:
        batches = [(event, files) for event, files in taken if isinstance(event, QueryProgress)]
        self._store_events(connection, [event for event, _ in taken if not isinstance(event, QueryProgress)])
        rows = [
            (event.query, ms_of(event.at), event.batch_id, self._run_id, *measures(event, files))
            for event, files in batches
        ]
        connection.executemany(INSERT_BATCH, rows)
        # Of more batches than are kept, only the newest are worth the work.
        left = Counter[str]()
        for event, _ in reversed(batches):
            left[event.query] += 1
            if left[event.query] <= PROGRESS_KEPT:
                row = (event.query, ms_of(event.at), event.batch_id, packed(event.progress))
                connection.execute(INSERT_PROGRESS, row)

    def _store_events(self, connection: sqlite3.Connection, events: list[Event]) -> None:
        self._run_id = self._run_id or self._view.run_id
        for event in events:
            query, code = getattr(event, "query", ""), getattr(event, "code", "")
            if isinstance(event, RunStarted):
                self._run_id = event.run_id
                # What happened before belongs to this run.
                update = "UPDATE events SET run_id = ? WHERE run_id = '' AND seq > ?"
                connection.execute(update, (event.run_id, self._first_seq))
            if isinstance(event, QueryIdle):
                # Of a query that is idle after each batch, one such event is enough.
                connection.execute("DELETE FROM events WHERE kind = 'query_idle' AND query = ?", (query,))
            row = (ms_of(event.at), self._run_id, event.kind, query, code, as_text(event.to_json()))
            connection.execute(INSERT_EVENT, row)

    def _store_status(self, connection: sqlite3.Connection) -> None:
        status = self._view.to_json()
        if not status["run_id"] or not status["started_at"]:
            return
        ended = status["ended_at"]
        connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "started_at = excluded.started_at, ended_at = excluded.ended_at, exit_code = excluded.exit_code, "
            "last_seen = excluded.last_seen, status = excluded.status",
            (
                status["run_id"],
                status["pipeline"],
                ms_of(status["started_at"]),
                ms_of(ended) if ended else None,
                status["exit_code"],
                round(self._clock() * 1_000),
                as_text(status),
            ),
        )
