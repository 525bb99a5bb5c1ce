"""Writes batches into a table exactly once, on Spark.

    claim      once per start: create the ledger, claim it for this run, create the table, drop dead staging
    stage      one Spark job: the rows of the batch go into staging
    apply      one transaction: ledger, table, ledger, staging

If the database is unavailable, the step is repeated for a minute: each is correct after any of its predecessors.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame

from headwater.checkpoint import Clock, SystemClock
from headwater.connectors.contract import BatchContext
from headwater.connectors.databases import errors
from headwater.connectors.databases.database import (
    LEDGER,
    Database,
    Field,
    Rejected,
    Session,
    Staged,
    StagingLost,
    Table,
    Unavailable,
)
from headwater.connectors.databases.ledger import Ledger, NextBatch, Recorded, create_statement
from headwater.connectors.options import TIMES
from headwater.errors import Entry, PipelineError, Problem, QueryFailedError
from headwater.spec.schema import backticked

T = TypeVar("T")
PATIENCE = 60.0
"""How long a step of a batch is repeated after the database became unavailable, in seconds."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_STAGING = "headwater_staging_"


def fields_of(rows: DataFrame) -> tuple[Field, ...]:
    """The columns of a DataFrame."""
    return tuple(Field(field.name, field.dataType.simpleString()) for field in rows.schema.fields)


def staging_rows(rows: DataFrame, database: Database) -> DataFrame:
    """The rows as they go into staging: columns c0, c1, …, with nested values as JSON, and `deleted`."""
    target = database.target
    columns = [f"{_staged_value(field)} AS c{number}" for number, field in enumerate(target.fields)]
    if target.options.delete_when is not None:
        columns.append(f"coalesce({target.options.delete_when}, false) AS deleted")
    return rows.selectExpr(*columns)


def _staged_value(field: Field) -> str:
    name = backticked(field.name)
    if not field.is_nested:
        return name
    options = ", ".join(
        f"'{key}', \"{value}\"" for key, value in {**TIMES, "ignoreNullFields": "false"}.items()
    )
    return f"to_json({name}, map({options}))"


@dataclass(frozen=True)
class Claimed:
    """What this run knows of its table since it claimed it."""

    ledger: Ledger
    epoch: int
    newest: int
    """The newest batch in the table, as far as this run knows."""
    place: tuple[str, str]
    table: Table
    staging: str


class Steps:
    """Runs steps against one database, and repeats them while it is unavailable."""

    def __init__(self, database: Database, *, patience: float = PATIENCE, clock: Clock | None = None) -> None:
        self._database = database
        self._patience = patience
        self._clock = clock or SystemClock()

    def repeated(self, step: Callable[[], T]) -> T:
        """Repeat a step while the database is unavailable, for some time after the first failure."""
        deadline: float | None = None
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._translated(step)
            except Unavailable as error:
                now = self._clock.monotonic()
                deadline = now + self._patience if deadline is None else deadline
                if now + pause > deadline:
                    raise QueryFailedError(unavailable(self._database, error)) from error
            self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _translated(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except Exception as raised:
            error = self._database.trouble(raised)
            if isinstance(error, Rejected):
                raise QueryFailedError(self._database.target.at(error.entry, **error.params)) from raised
            if error is raised:
                raise
            raise error from raised

    _foreign = errors.DATABASE_LEDGER_FOREIGN
    """The error if only other queries have written the table."""

    def _create_ledger(self, session: Session, ledger: Ledger) -> None:
        """Create the ledger of the schema, in a transaction of its own."""
        with session.transaction():
            self._database.exclude(session, ledger.table)
            database = self._database
            session.run(create_statement(ledger.table, database.time_type, database.table_options))

    def _check_others(self, session: Session, ledger: Ledger) -> None:
        """PipelineError if only other queries have written the table.

        Until the end of the transaction, no other query can write its first batch.
        """
        self._database.exclude(session, ledger.lock_name)
        if problem := foreign_problem(self._database, ledger, session, self._foreign):
            raise PipelineError(problem)


class TableWriter(Steps):
    """Writes the batches of one query; each start of the query has its own."""

    def __init__(
        self,
        database: Database,
        *,
        start: NextBatch | None = None,
        patience: float = PATIENCE,
        clock: Clock | None = None,
    ) -> None:
        """`start` is the next batch of the checkpoint before the start, if known."""
        super().__init__(database, patience=patience, clock=clock)
        self._start = start
        self._claimed: Claimed | None = None

    def write(self, rows: DataFrame, batch: BatchContext) -> None:
        """Write a batch, or nothing if the table has it. Epoch 0 is that of a query without a lock."""
        # After a failure, nothing is assumed about the table.
        claimed, self._claimed = self._claimed or self.repeated(lambda: self._claim(batch)), None
        self._write(rows, batch, claimed)
        self._claimed = replace(claimed, newest=batch.batch_id)

    def _write(self, rows: DataFrame, batch: BatchContext, claimed: Claimed) -> None:
        if claimed.newest == batch.batch_id:
            compute(rows)
            return
        wire = staging_rows(rows, self._database)
        staged: Staged | None = None

        def step() -> None:
            nonlocal staged
            staged = staged or self._database.stage(wire, claimed.place, claimed.staging)
            try:
                self._apply(staged, claimed, batch.batch_id)
            except StagingLost:
                staged = None
                raise

        self.repeated(step)

    def write_once(self, rows: DataFrame) -> None:
        """Write rows that belong to no query: in one transaction, and without the ledger."""
        database, target = self._database, self._database.target
        prefix = f"{_STAGING}{_digest('batch run', target.pipeline, target.sink, target.options.into)}"
        name, wire = f"{prefix}_{uuid.uuid4().hex[:8]}", staging_rows(rows, database)

        def created() -> tuple[tuple[str, str], Table]:
            with database.connect() as session:
                place = database.locate(session)
                with session.transaction():
                    database.exclude(session, ledger_of(database, place, "").lock_name)
                    table = self._created(session, place)
                # What a batch run of this sink has left that was killed.
                database.drop_staging(session, place, prefix, lambda name: True)
                return place, table

        staged: Staged | None = None

        def step() -> None:
            nonlocal staged
            staged = staged or database.stage(wire, place, name)
            try:
                self._merge_once(place, table, staged)
            except StagingLost:
                staged = None
                raise

        place, table = self.repeated(created)
        self.repeated(step)
        # The rows are in the table. If this fails, the next batch run drops the staging.
        with suppress(Unavailable, Rejected), database.connect() as session:
            database.drop_staging(session, place, name, lambda name: True)

    def _merge_once(self, place: tuple[str, str], table: Table, staged: Staged) -> None:
        database, merged = self._database, False
        try:
            with database.connect() as session, session.transaction():
                database.merge(session, place, table, staged)
                merged = True
        except Exception as raised:
            error = database.trouble(raised)
            # Without a ledger, nothing shows whether the transaction was committed.
            if merged and isinstance(error, Unavailable):
                params = {"says": str(error), "table": database.qualified(place)}
                raise QueryFailedError(
                    database.target.at(errors.DATABASE_OUTCOME_UNKNOWN, **params)
                ) from raised
            raise

    def _claim(self, batch: BatchContext) -> Claimed:
        database, target = self._database, self._database.target
        following = NextBatch(batch.batch_id)
        if self._start is not None and self._start.number == batch.batch_id:
            following = self._start
        with database.connect() as session:
            place = database.locate(session)
            ledger = ledger_of(database, place, batch.query_id)
            self._create_ledger(session, ledger)
            with session.transaction():
                self._check_others(session, ledger)
                found = ledger.claim(session, target.pipeline, target.sink, batch.epoch or None)
                ledger.check_order(found, following)
                table = self._created(session, place)
            prefix = f"{_STAGING}{_digest(ledger.target)}"
            staging = f"{prefix}_{_digest(batch.query_id)}_{found.epoch}"
            alone = target.options.other_writers != "allow"
            database.drop_staging(session, place, prefix, lambda name: _is_dead(name, staging, alone))
        # From now on, this run itself may have written the batch.
        self._start = None
        return Claimed(ledger, found.epoch, found.batch, place, table, staging)

    def _created(self, session: Session, place: tuple[str, str]) -> Table:
        found = self._database.describe(session, place)
        problems = list(self._database.compare(place, found))
        if problems:
            raise PipelineError.of(problems)
        return self._database.create(session, place, found)

    def _apply(self, staged: Staged, claimed: Claimed, batch: int) -> None:
        database, ledger = self._database, claimed.ledger
        with database.connect() as session, session.transaction():
            if claimed.newest < 0:
                # Another query may have written its first batch since the claim.
                self._check_others(session, ledger)
            # An earlier attempt may have committed although its answer was lost.
            if not ledger.has(session, batch, claimed.epoch):
                database.merge(session, claimed.place, claimed.table, staged)
                ledger.record(session, batch)
            staged.clear(session)


class FunctionLedger(Steps):
    """Calls a user's function with each batch that the ledger does not have, and records the batch afterwards."""

    _foreign = errors.DATABASE_FUNCTION_FOREIGN
    _claimed: tuple[Ledger, Recorded] | None = None

    def run(self, rows: DataFrame, batch: BatchContext, name: str, function: Callable[[str], None]) -> None:
        """Call the function with the token of the batch, which is the same at each attempt."""
        claimed, self._claimed = self._claimed or self.repeated(lambda: self._claim(batch, name)), None
        ledger, found = claimed
        if self.repeated(lambda: self._has(ledger, found, batch)):
            compute(rows)
        else:
            function(f"{batch.query_id}-{batch.batch_id}")
            self.repeated(lambda: self._record(ledger, found, batch))
        self._claimed = ledger, replace(found, batch=batch.batch_id)

    def _claim(self, batch: BatchContext, name: str) -> tuple[Ledger, Recorded]:
        database = self._database
        with database.connect() as session:
            ledger = _ledger(database, database.locate(session), name, batch.query_id)
            self._create_ledger(session, ledger)
            with session.transaction():
                self._check_others(session, ledger)
                found = ledger.claim(session, "", batch.query, batch.epoch or None)
                ledger.check_order(found, NextBatch(batch.batch_id))
            return ledger, found

    def _has(self, ledger: Ledger, found: Recorded, batch: BatchContext) -> bool:
        with self._database.connect() as session, session.transaction():
            return self._is_recorded(session, ledger, found, batch)

    def _record(self, ledger: Ledger, found: Recorded, batch: BatchContext) -> None:
        with self._database.connect() as session, session.transaction():
            if not self._is_recorded(session, ledger, found, batch):
                ledger.record(session, batch.batch_id)

    def _is_recorded(self, session: Session, ledger: Ledger, found: Recorded, batch: BatchContext) -> bool:
        if found.batch < 0:
            self._check_others(session, ledger)
        return ledger.has(session, batch.batch_id, found.epoch)


def _digest(*parts: str) -> str:
    """A short name that is the same for the same parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _is_dead(name: str, own: str, alone: bool) -> bool:
    """Whether a staging of the same table is that of a run that is over; `alone` if no other query may write it."""
    # headwater_staging_TABLE_QUERY_EPOCH; the database can append a number.
    query, epoch = name.split("_")[3:5]
    own_query, own_epoch = own.split("_")[3:5]
    return int(epoch) <= int(own_epoch) if query == own_query else alone


def ledger_of(database: Database, place: tuple[str, str], query_id: str) -> Ledger:
    """The rows of the ledger about the table, for one query."""
    target = database.qualified(place)
    if database.folds_tables:
        # Only the ASCII letters, as these databases do.
        target = target.encode().lower().decode()
    return _ledger(database, place, target, query_id)


def _ledger(database: Database, place: tuple[str, str], target: str, query_id: str) -> Ledger:
    return Ledger(database.qualified((place[0], LEDGER)), target, query_id, database.locks_rows)


def drop_all_staging(database: Database, session: Session, place: tuple[str, str]) -> None:
    """Drop every staging of the table; nothing writes it anymore."""
    prefix = f"{_STAGING}{_digest(ledger_of(database, place, '').target)}"
    database.drop_staging(session, place, prefix, lambda name: True)


def compute(rows: DataFrame) -> None:
    """Compute the rows of a batch that is not written: Spark commits the state of a computed batch only."""
    rows.write.format("noop").mode("overwrite").save()


def unavailable(database: Database, error: Unavailable) -> Problem:
    """The problem of a database that cannot be used now."""
    target = database.target
    return target.at(errors.DATABASE_UNAVAILABLE, says=str(error), address=target.options.address)


def foreign_problem(
    database: Database, ledger: Ledger, session: Session, entry: Entry = errors.DATABASE_LEDGER_FOREIGN
) -> Problem | None:
    """A problem if other queries have written the table, and this one has not."""
    target, own = database.target, ledger.read(session)
    # A claim alone has written nothing.
    if target.options.other_writers == "allow" or (own is not None and own.batch >= 0):
        return None
    others = ledger.others(session)
    if not others:
        return None
    params = {"table": ledger.target, "who": "; ".join(others)}
    return target.at(entry, **params, statement=ledger.forget_statement(own=False))


def table_problems(database: Database) -> Iterator[Problem]:
    """Problems with the table before a start."""
    with database.connect() as session:
        place = database.locate(session)
        yield from database.compare(place, database.describe(session, place))


def ledger_problems(
    database: Database, query_id: str | None, start: NextBatch, epoch: int = 0
) -> Iterator[Problem]:
    """Problems with the ledger before a start; `epoch` is the number of the run, 0 if none starts."""
    with database.connect() as session:
        place = database.locate(session)
        if database.describe(session, (place[0], LEDGER)) is None:
            return
        ledger = ledger_of(database, place, query_id or "")
        if problem := foreign_problem(database, ledger, session):
            yield problem
        if found := ledger.read(session):
            try:
                ledger.check_order(found, start)
                if epoch:
                    ledger.check_epoch(found, epoch)
            except Rejected as error:
                yield database.target.at(error.entry, **error.params)


def reachable_problems(database: Database) -> Iterator[Problem]:
    """A problem if the database cannot be used now."""
    try:
        with database.connect():
            return
    except Unavailable as error:
        yield unavailable(database, error)
    except Rejected as error:
        yield database.target.at(error.entry, **error.params)
