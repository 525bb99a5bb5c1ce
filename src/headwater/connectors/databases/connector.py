"""The database connectors: one sink class for all, with a module of its own for each database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.connectors.connector import ALL_MODES, BatchWriter, Connector, Failure, LazyModule, Sink
from headwater.connectors.contract import Context, Held, Scratch, Snapshot
from headwater.connectors.databases import errors
from headwater.connectors.databases.database import Busy, Database, Field, Rejected, Target, Unavailable
from headwater.connectors.databases.errors import ENTRIES
from headwater.connectors.databases.ledger import NextBatch
from headwater.connectors.databases.options import (
    DatabaseSink,
    DuckdbSink,
    MysqlSink,
    PostgresSink,
    SqliteSink,
)
from headwater.errors import HeadwaterError, PipelineError, Place, Problem
from headwater.spec import Delivery, Mode, SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from headwater.connectors.databases import reader
    from headwater.connectors.databases import scratch as scratches
    from headwater.connectors.databases import writer as tables
else:
    reader = LazyModule("headwater.connectors.databases.reader")
    tables = LazyModule("headwater.connectors.databases.writer")
    scratches = LazyModule("headwater.connectors.databases.scratch")


@dataclass(frozen=True)
class Kind:
    """A database: its options, the class of its driver, and the packages that it needs."""

    name: str
    options: type[DatabaseSink]
    driver: str
    """Module and class, imported on first use."""
    packages: tuple[str, ...] = ()
    on_driver: bool = False
    disconnects: bool = False
    """A proof can find the connections of a run, and terminate them."""

    def missing(self, sink: str, place: Place | None) -> Problem | None:
        """A problem if a package is not installed."""
        for package in self.packages:
            if find_spec(package) is None:
                params = {"sink": sink, "connector": self.name, "package": package, "extra": self.name}
                return errors.DATABASE_DRIVER_MISSING.at(place, **params)
        return None

    def database(self, target: Target) -> Database:
        """The driver; PipelineError if a package is not installed."""
        if problem := self.missing(target.sink, target.place):
            raise PipelineError(problem)
        module, _, name = self.driver.partition(":")
        made: Database = getattr(import_module(f"{__package__}.{module}"), name)(target)
        return made


class CarriedProblem(Exception):
    """A problem on its way through Spark, which keeps only the text of an exception; `carried_problem` reads it."""

    MARK = "Headwater reports: "

    def __init__(self, problem: Problem) -> None:
        params = {key: str(value) for key, value in problem.params.items()}
        super().__init__(f"{self.MARK}{json.dumps([problem.code, params])}")


def carried_problem(text: str, place: Place | None) -> Problem | None:
    """The problem in the text of a failed query."""
    start = text.find(CarriedProblem.MARK)
    if start < 0:
        return None
    (code, params), _ = json.JSONDecoder().raw_decode(text[start + len(CarriedProblem.MARK) :])
    entry = next((entry for entry in ENTRIES.values() if entry.code == code), None)
    return entry.at(place, **params) if entry else None


class DatabaseWriter(Sink[DatabaseSink]):
    """Writes each batch in one transaction with a ledger, so a retried batch changes nothing."""

    modes = ALL_MODES
    delivery = Delivery.IDEMPOTENT
    stores = True
    writes_in_place = True
    fences = True
    fixed_keys = ("into",)
    rejections = (
        errors.DATABASE_DRIVER_MISSING,
        errors.DATABASE_NAME_INVALID,
        errors.DATABASE_TYPE_UNSUPPORTED,
        errors.DATABASE_KEY_REQUIRED,
        errors.DATABASE_KEY_UNUSED,
        errors.DATABASE_KEY_NOT_FOUND,
    )

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.options = kind.options
        self.on_driver = kind.on_driver

    def places(self, options: DatabaseSink) -> tuple[str, ...]:
        return (f"table {options.into} in {options.address}",)

    def problems(self, sink: SinkSpec, columns: Mapping[str, str]) -> Iterable[Problem]:
        if problem := self.kind.missing(sink.name, sink.position):
            return [problem]
        assert isinstance(sink.options, DatabaseSink)
        fields = tuple(Field(name, type_) for name, type_ in columns.items())
        target = Target(sink.name, "", sink.mode, fields, sink.options, sink.position)
        return self.kind.database(target).problems()

    def code_problems(self, options: DatabaseSink, context: Context) -> list[Problem]:
        """A problem if the database cannot be reached."""
        if not _can_ask(options, context) or self.kind.missing(context.name, None):
            return []
        database = self._database((), options, context)
        database.only_reads = not context.starts
        try:
            return list(tables.reachable_problems(database))
        except Busy:
            return []

    def outgoing(self, rows: DataFrame, options: DatabaseSink, context: Context) -> DataFrame:
        """The rows, after a comparison with the table and the ledger."""
        database = self._database(tables.fields_of(rows), options, context)
        # Spark analyzes `delete_when`.
        tables.staging_rows(rows, database)
        database.only_reads = not context.starts
        if _can_ask(options, context):
            try:
                problems = list(tables.table_problems(database))
                # A batch run has no ledger.
                if not context.batch:
                    problems += tables.ledger_problems(database, *_progress(context), context.epoch)
            except (Unavailable, Busy):
                # `code_problems` reports it before a start; after a restart, the first batch waits for the database.
                problems = []
            except Rejected as error:
                problems = [database.target.at(error.entry, **error.params)]
            if problems:
                raise PipelineError.of(problems)
        return rows

    def write_stream(
        self, writer: DataStreamWriter, options: DatabaseSink, context: Context
    ) -> DataStreamWriter:
        return writer.foreachBatch(self.batch_writer(options, context))

    def ungrouped_keys(self, options: DatabaseSink) -> Mapping[str, str]:
        return {}

    def delivers_batches(self, options: DatabaseSink) -> Delivery:
        return self.delivery

    def batch_writer(self, options: DatabaseSink, context: Context) -> BatchWriter:
        table: tables.TableWriter | None = None
        start = None if context.test else _progress(context)[1]

        def write(rows: DataFrame, batch_id: int) -> None:
            nonlocal table
            try:
                if table is None:
                    database = self._database(tables.fields_of(rows), options, context)
                    table = tables.TableWriter(database, start=start)
                table.write(rows, context.of_batch(batch_id))
            except HeadwaterError as error:
                raise CarriedProblem(error.problems[0]) from None

        return write

    def write_batch(self, rows: DataFrame, options: DatabaseSink, context: Context) -> None:
        tables.TableWriter(self._database(tables.fields_of(rows), options, context)).write_once(rows)

    def read_table(
        self, spark: SparkSession, sink: SinkSpec, written: StructType, max_bytes: int
    ) -> DataFrame | None:
        assert isinstance(sink.options, DatabaseSink)
        fields = tuple(Field(field.name, field.dataType.simpleString()) for field in written.fields)
        target = Target(sink.name, "", sink.mode, fields, sink.options, sink.position)
        return reader.read_table(spark, self.kind.database(target), written, max_bytes)

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem | None:
        return carried_problem(failure.text, sink.position)

    ledgers = True

    @property
    def connections(self) -> bool:
        return self.kind.disconnects

    def scratch(self, options: DatabaseSink, scratch: Scratch) -> DatabaseSink:
        return scratches.scratch_options(options, scratch)

    def discard(self, options: DatabaseSink, context: Context) -> None:
        scratches.discard(self._database((), options, context))

    def newest_batch(self, options: DatabaseSink, context: Context) -> int | None:
        return scratches.newest_batch(self._database((), options, context))

    def snapshot(self, options: DatabaseSink, context: Context) -> Snapshot | None:
        return scratches.snapshot(self._database((), options, context))

    def hold(self, options: DatabaseSink, context: Context) -> AbstractContextManager[Held | None]:
        return scratches.hold(self._database((), options, context))

    def _database(self, fields: tuple[Field, ...], options: DatabaseSink, context: Context) -> Database:
        mode = context.mode or Mode.APPEND
        return self.kind.database(
            Target(context.name, context.pipeline, mode, fields, options, context.place)
        )


def _can_ask(options: DatabaseSink, context: Context) -> bool:
    """Whether the database can be asked: not in a test, and not without its secrets, which a check reports itself."""
    return not context.test and (
        context.starts or not any(secret.missing() for _, secret in options.secrets())
    )


def _progress(context: Context) -> tuple[str | None, NextBatch]:
    """The ID of the query, if it has started, and its next batch."""
    if context.checkpoint is None or not context.checkpoint.is_dir():
        return None, NextBatch(0, planned=False)
    checkpoint = Checkpoint(LocalStore(context.checkpoint))
    planned, unfinished = checkpoint.last_offset, checkpoint.unfinished
    if unfinished is not None:
        return checkpoint.query_id, NextBatch(unfinished)
    return checkpoint.query_id, NextBatch(planned.batch_id + 1 if planned else 0, planned=False)


DUCKDB = Kind("duckdb", DuckdbSink, "duckdb:Duckdb", ("duckdb",), on_driver=True)
MYSQL = Kind("mysql", MysqlSink, "mysql:Mysql", ("pymysql",))
SQLITE = Kind("sqlite", SqliteSink, "sqlite:Sqlite", on_driver=True)
POSTGRES = Kind("postgres", PostgresSink, "postgres:Postgres", ("psycopg", "pgpq"), disconnects=True)


def _connector(kind: Kind, title: str) -> Connector:
    return Connector(
        kind.name,
        f"Writes tables of {title}, each batch exactly once.",
        sink=DatabaseWriter(kind),
        errors=ENTRIES,
    )


POSTGRES_CONNECTOR = _connector(POSTGRES, "PostgreSQL")
MYSQL_CONNECTOR = _connector(MYSQL, "MySQL and MariaDB")
SQLITE_CONNECTOR = _connector(SQLITE, "SQLite")
DUCKDB_CONNECTOR = _connector(DUCKDB, "DuckDB")
