"""The ledger: which batch of which query is in a table, and which run may write the next one."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.connectors.databases import errors
from headwater.connectors.databases.database import Rejected, Session


def create_statement(table: str, time: str, options: str) -> str:
    """The statement that creates the ledger if its schema has none."""
    columns = (
        "query_id varchar(64) NOT NULL, target varchar(600) NOT NULL, pipeline text NOT NULL, "
        f"sink text NOT NULL, batch_id bigint NOT NULL, epoch bigint NOT NULL, written_at {time} NOT NULL, "
        "PRIMARY KEY (query_id, target)"
    )
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}){options}"


@dataclass(frozen=True)
class Recorded:
    """The row of one query and table."""

    batch: int
    epoch: int


@dataclass(frozen=True)
class NextBatch:
    """The batch with which a checkpoint continues."""

    number: int
    planned: bool = True
    """Spark has planned it, so an earlier run may have written it."""


@dataclass(frozen=True)
class Ledger:
    """The rows about one table, for one query."""

    table: str
    """The ledger itself in SQL."""
    target: str
    """What is written: the qualified table, or the name of a user's function."""
    query_id: str
    locks_rows: str = ""

    @property
    def lock_name(self) -> str:
        """The name under which transactions exclude each other for this table."""
        return f"{self.table} {self.target}"

    @property
    def _own(self) -> tuple[str, str]:
        return self.query_id, self.target

    def read(self, session: Session, *, lock: bool = False) -> Recorded | None:
        """The row of this query; `lock` keeps others from changing it until the end of the transaction."""
        select = f"SELECT batch_id, epoch FROM {self.table} WHERE query_id = $1 AND target = $2"
        rows = session.run(select + (self.locks_rows if lock else ""), *self._own)
        return Recorded(*rows[0]) if rows else None

    def others(self, session: Session) -> list[str]:
        """Other queries with batches in the table, in words."""
        rows = session.run(
            f"SELECT pipeline, sink, batch_id FROM {self.table} "
            "WHERE target = $1 AND query_id <> $2 AND batch_id >= 0 ORDER BY pipeline, sink",
            self.target,
            self.query_id,
        )
        return [_who(pipeline, sink, batch) for pipeline, sink, batch in rows]

    def forget_statement(self, *, own: bool) -> str:
        """The statement that makes the ledger forget this query, or all queries of the table."""
        return f"DELETE FROM {self.table} WHERE {self._rows(own=own)};"

    def forget(self, session: Session) -> None:
        """Forget this query, when its table is gone."""
        session.run(f"DELETE FROM {self.table} WHERE query_id = $1 AND target = $2", *self._own)

    def _correct_statement(self, column: str, value: int) -> str:
        return f"UPDATE {self.table} SET {column} = {value} WHERE {self._rows(own=True)};"

    def _rows(self, *, own: bool) -> str:
        target = self.target.replace("'", "''")
        return f"target = '{target}'" + (f" AND query_id = '{self.query_id}'" if own else "")

    def claim(self, session: Session, pipeline: str, sink: str, epoch: int | None) -> Recorded:
        """Let this run write the next batches; without a number, it gets the next one."""
        found = self.read(session, lock=True)
        if found is None:
            session.run(
                f"INSERT INTO {self.table} VALUES ($1, $2, $3, $4, -1, $5, CURRENT_TIMESTAMP)",
                *self._own,
                pipeline,
                sink,
                epoch or 1,
            )
            return Recorded(-1, epoch or 1)
        mine = found.epoch + 1 if epoch is None else epoch
        if found.epoch > mine:
            raise Rejected(errors.DATABASE_SUPERSEDED, batch=found.batch + 1, epoch=mine, newer=found.epoch)
        session.run(
            f"UPDATE {self.table} SET epoch = $3, pipeline = $4, sink = $5 WHERE query_id = $1 AND target = $2",
            *self._own,
            mine,
            pipeline,
            sink,
        )
        return Recorded(found.batch, mine)

    def has(self, session: Session, batch: int, epoch: int) -> bool:
        """Whether a batch is recorded, inside the transaction that writes it; Rejected if this run must not."""
        found = self.read(session, lock=True)
        if found is None or found.epoch > epoch:
            newer = found.epoch if found else "unknown (its row in the ledger was deleted)"
            raise Rejected(errors.DATABASE_SUPERSEDED, batch=batch, epoch=epoch, newer=newer)
        self.check_order(found, NextBatch(batch))
        return found.batch == batch

    def check_order(self, found: Recorded, following: NextBatch) -> None:
        """Rejected unless the recorded batch is the one before, or the next one itself if Spark has planned it."""
        batch = following.number
        params = {"table": self.target, "recorded": found.batch, "batch": batch}
        if found.batch > (batch if following.planned else batch - 1):
            statement = self.forget_statement(own=True)
            raise Rejected(errors.DATABASE_LEDGER_AHEAD, **params, statement=statement)
        # Spark writes every batch, also an empty one.
        if 0 <= found.batch < batch - 1:
            statement = self._correct_statement("batch_id", batch - 1)
            raise Rejected(errors.DATABASE_LEDGER_BEHIND, **params, statement=statement)

    def check_epoch(self, found: Recorded, epoch: int) -> None:
        """Rejected if the number of a run that holds the lock is smaller than the recorded one."""
        if found.epoch > epoch:
            statement = self._correct_statement("epoch", 0)
            params = {"table": self.target, "recorded": found.epoch, "epoch": epoch}
            raise Rejected(errors.DATABASE_LEDGER_RUN_NEWER, **params, statement=statement)

    def record(self, session: Session, batch: int) -> None:
        """Record a batch, in the transaction that writes it."""
        session.run(
            f"UPDATE {self.table} SET batch_id = $3, written_at = CURRENT_TIMESTAMP "
            "WHERE query_id = $1 AND target = $2",
            *self._own,
            batch,
        )


def _who(pipeline: str, sink: str, batch: int) -> str:
    names = [f"pipeline `{pipeline}`"] * bool(pipeline) + [f"sink `{sink}`"] * bool(sink)
    return f"{', '.join(names) or 'a query without a name'} (up to batch {batch})"
