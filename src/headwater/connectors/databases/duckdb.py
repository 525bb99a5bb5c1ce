"""DuckDB: the driver inserts the rows of a batch from Arrow."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from headwater.connectors.databases import errors
from headwater.connectors.databases.database import (
    Busy,
    Column,
    Field,
    Rejected,
    Session,
    Table,
    Unavailable,
    Unique,
)
from headwater.connectors.databases.embedded import EmbeddedDatabase
from headwater.connectors.databases.names import unquoted

_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
_WIDER = {
    "tinyint": {"SMALLINT", "INTEGER", "BIGINT"},
    "smallint": {"INTEGER", "BIGINT"},
    "int": {"BIGINT"},
    "float": {"DOUBLE"},
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)", re.IGNORECASE)
_STAGING = "headwater_staging"
_ROWS_AT_ONCE = 100


class DuckdbSession:
    """A connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values or None).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.begin()
        try:
            yield
            self.connection.commit()
        except BaseException:
            # A failed COMMIT has ended the transaction.
            with suppress(duckdb.Error):
                self.connection.rollback()
            raise


class Duckdb(EmbeddedDatabase):
    """A table of DuckDB."""

    title = "DuckDB"

    @contextmanager
    def connect(self) -> Iterator[DuckdbSession]:
        try:
            with self.turn(), self._opened() as connection:
                yield DuckdbSession(connection)
        except (duckdb.Error, OSError) as error:
            raise self.trouble(error) from error

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self.is_missing:
            return duckdb.connect(":memory:")
        try:
            return duckdb.connect(self.path, read_only=self.only_reads)
        except duckdb.ConnectionException:
            # The user's code has a connection in this process, and all have to be of one kind.
            return duckdb.connect(self.path, read_only=not self.only_reads)
        except duckdb.IOException as error:
            if self.only_reads and "lock on file" in str(error):
                raise Busy from error
            raise

    def describe(self, session: Session, table: tuple[str, str]) -> Table | None:
        schema, name = table[0] or "main", table[1]
        kinds = session.run(
            "SELECT table_type FROM information_schema.tables "
            "WHERE table_catalog = current_database() "
            "AND lower(table_schema) = lower($1) AND lower(table_name) = lower($2)",
            schema,
            name,
        )
        if not kinds:
            return None
        columns = session.run(
            "SELECT column_name, data_type, is_nullable = 'NO' AND column_default IS NULL "
            "FROM information_schema.columns WHERE table_catalog = current_database() "
            "AND lower(table_schema) = lower($1) AND lower(table_name) = lower($2) ORDER BY ordinal_position",
            schema,
            name,
        )
        uniques = session.run(
            "SELECT constraint_column_names, false FROM duckdb_constraints() WHERE database_name = current_database() "
            "AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2) "
            "AND constraint_type IN ('UNIQUE', 'PRIMARY KEY') "
            # The columns of an index are one text, with names in double quotes if they need them.
            "UNION ALL SELECT CAST(expressions AS VARCHAR[]), true FROM duckdb_indexes() "
            "WHERE database_name = current_database() AND is_unique AND NOT is_primary "
            "AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)",
            schema,
            name,
        )
        return Table(
            tuple(Column(self.as_declared(name), type_, required) for name, type_, required in columns),
            tuple(
                Unique(frozenset(self.as_declared(unquoted(each) if in_sql else each) for each in names))
                for names, in_sql in uniques
            ),
            "table" if kinds[0][0] == "BASE TABLE" else "view",
        )

    def type_of(self, type_: str) -> str | None:
        if _DECIMAL.fullmatch(type_):
            return type_.upper()
        if Field("", type_).is_nested:
            return "JSON"
        return _TYPES.get(type_)

    def accepts(self, column: str, type_: str) -> bool:
        if column == self.type_of(type_) or column in _WIDER.get(type_, ()):
            return True
        mine, theirs = _DECIMAL.fullmatch(type_), _DECIMAL.fullmatch(column)
        if not mine or not theirs:
            return False
        (precision, scale), (most, digits) = (map(int, each.groups()) for each in (mine, theirs))
        return digits >= scale and most - digits >= precision - scale

    def trouble(self, error: Exception) -> Exception:
        if isinstance(error, OSError):
            return Unavailable(error.strerror or str(error))
        if isinstance(error, duckdb.IOException | duckdb.TransactionException | duckdb.OutOfMemoryException):
            return Unavailable(str(error).splitlines()[0])
        if isinstance(error, duckdb.Error):
            return Rejected(errors.DATABASE_WRITE_FAILED, says=str(error).splitlines()[0].rstrip("."))
        return error

    def scan(self, session: Session, query: str) -> Generator[tuple[Any, ...]]:
        assert isinstance(session, DuckdbSession)
        found = session.connection.execute(query)
        while rows := found.fetchmany(_ROWS_AT_ONCE):
            yield from rows

    def fill(self, session: Session, rows: pa.Table) -> str:
        assert isinstance(session, DuckdbSession)
        session.connection.register(_STAGING, rows)
        return _STAGING

    def empty(self, session: Session) -> None:
        assert isinstance(session, DuckdbSession)
        session.connection.unregister(_STAGING)
