"""Scratch tables of a proof: what a reader sees in one moment, commits that wait, and the removal of the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from headwater.connectors.contract import Held, HoldLost, Scratch, Snapshot
from headwater.connectors.databases.database import (
    LEDGER,
    Busy,
    Database,
    Rejected,
    Session,
    Unavailable,
)
from headwater.connectors.databases.ledger import Ledger
from headwater.connectors.databases.names import quoted, table_name
from headwater.connectors.databases.options import DatabaseSink, FileSink
from headwater.connectors.databases.writer import Steps, drop_all_staging, ledger_of

_NOW_UNREADABLE = (Unavailable, Busy, Rejected)
"""For example, a killed transaction that no writer has rolled back yet."""
PREFIX = "headwater_prove_"
PATIENCE = 30.0
"""How long a removal is repeated: a killed process can hold a lock a little longer."""


def scratch_options(options: DatabaseSink, scratch: Scratch) -> DatabaseSink:
    """The same table under another name: in the same schema, or in a file of its own."""
    schema, _ = table_name(options.into)
    name = f"{PREFIX}{scratch.name}"
    into = f"{quoted(schema)}.{name}" if schema else name
    changed: dict[str, object] = {"into": into, "create": "if_missing", "other_writers": "fail"}
    if isinstance(options, FileSink):
        changed["path"] = str(scratch.directory / "scratch.db")
    return options.model_copy(update=changed)


def newest_batch(database: Database) -> int | None:
    """The newest batch in the ledger."""
    database.only_reads = True
    try:
        with database.connect() as session:
            ledger = _ledger(database, session)
            return _newest(session, ledger) if ledger else None
    except _NOW_UNREADABLE:
        return None


def snapshot(database: Database) -> Snapshot | None:
    """The rows and the ledger, in one statement, so that no commit is between them."""
    database.only_reads = True
    try:
        with database.connect() as session:
            place = database.locate(session)
            if database.describe(session, place) is None:
                return Snapshot(())
            ledger = _ledger(database, session)
            if ledger is None or _newest(session, ledger) is None:
                return Snapshot(tuple(session.run(f"SELECT * FROM {database.qualified(place)}")))
            found = session.run(
                f"SELECT l.batch_id, t.* FROM {ledger.table} AS l "
                f"LEFT JOIN (SELECT 1 AS is_row, s.* FROM {database.qualified(place)} AS s) AS t ON 1 = 1 "
                "WHERE l.target = $1",
                ledger.target,
            )
    except _NOW_UNREADABLE:
        return None
    if not found:
        return None
    return Snapshot(tuple(tuple(row[2:]) for row in found if row[1] is not None), found[0][0])


@runtime_checkable
class ShowsWaiting(Protocol):
    """A database that shows which connections wait for another one."""

    terminate: str
    """The statement that terminates a connection."""

    def blocked(self, session: Session) -> list[int]:
        """The connections that wait for a lock of this one."""


@dataclass
class HeldLedger:
    """The row of the ledger is locked, so the transaction that applies a batch waits."""

    database: Database
    session: Session

    def waiting(self) -> bool | None:
        return bool(self._blocked) if isinstance(self.database, ShowsWaiting) else None

    def disconnect(self) -> int:
        found = self._blocked
        for connection in found:
            assert isinstance(self.database, ShowsWaiting), "others have no such connections"
            self.session.run(self.database.terminate, connection)
        return len(found)

    @property
    def _blocked(self) -> list[int]:
        return self.database.blocked(self.session) if isinstance(self.database, ShowsWaiting) else []


@contextmanager
def hold(database: Database) -> Iterator[Held | None]:
    """Let commits wait; None if that is not possible now, and HoldLost if the connection is lost meanwhile.

    The lock is that of a commit, so the ledger does not change before the end of the block.
    """
    locked = False
    try:
        # An error inside passes through `connect`, which translates it.
        with database.connect() as session:
            found = ((each, each.read(session)) for each in _rows_of_ledger(database, session))
            own = [each for each, recorded in found if recorded and recorded.batch >= 0]
            if own:
                with session.transaction():
                    # By its key, so that rows of other queries stay unlocked.
                    own[0].read(session, lock=True)
                    locked = True
                    yield HeldLedger(database, session)
    except _NOW_UNREADABLE as error:
        if locked:
            raise HoldLost(str(error)) from error
    if not locked:
        yield None


def discard(database: Database, *, patience: float = PATIENCE) -> None:
    """Drop the table and its staging, and forget it in the ledger; QueryFailedError if that is not possible.

    A file goes with its directory.
    """
    if isinstance(database.target.options, FileSink):
        return
    assert PREFIX in database.target.options.into, "only a scratch table is dropped"
    Steps(database, patience=patience).repeated(lambda: _drop(database))


def _drop(database: Database) -> None:
    with database.connect() as session:
        place = database.locate(session)
        rows = _rows_of_ledger(database, session)
        with session.transaction():
            session.run(f"DROP TABLE IF EXISTS {database.qualified(place)}")
            for row in rows:
                row.forget(session)
        drop_all_staging(database, session, place)


def _ledger(database: Database, session: Session) -> Ledger | None:
    place = database.locate(session)
    found = database.describe(session, (place[0], LEDGER))
    return ledger_of(database, place, "") if found else None


def _rows_of_ledger(database: Database, session: Session) -> list[Ledger]:
    """The ledger of each query that has claimed the table."""
    ledger = _ledger(database, session)
    if ledger is None:
        return []
    found = session.run(f"SELECT query_id FROM {ledger.table} WHERE target = $1", ledger.target)
    return [replace(ledger, query_id=query_id) for (query_id,) in found]


def _newest(session: Session, ledger: Ledger) -> int | None:
    found = session.run(f"SELECT max(batch_id) FROM {ledger.table} WHERE target = $1", ledger.target)
    batch = found[0][0]
    return int(batch) if batch is not None and batch >= 0 else None
