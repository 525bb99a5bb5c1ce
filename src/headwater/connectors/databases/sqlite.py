"""SQLite: the driver inserts the rows of a batch; decimals, times and nested values are texts."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from headwater.connectors.databases import errors
from headwater.connectors.databases.database import (
    Column,
    Field,
    Rejected,
    Session,
    Table,
    Unavailable,
    Unique,
)
from headwater.connectors.databases.embedded import EmbeddedDatabase
from headwater.connectors.databases.names import quoted

_TYPES = {
    "boolean": "INTEGER",
    "tinyint": "INTEGER",
    "smallint": "INTEGER",
    "int": "INTEGER",
    "bigint": "INTEGER",
    "float": "REAL",
    "double": "REAL",
    "string": "TEXT",
    "binary": "BLOB",
    "date": "TEXT",
    "timestamp": "TEXT",
    "timestamp_ntz": "TEXT",
}
_AFFINITIES = (("INT", "INTEGER"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"), ("BLOB", "BLOB"))
_FLOATS = ("REAL", "FLOA", "DOUB")
_STAGING = "temp.headwater_staging"
_LOCK_SECONDS = 10.0


class SqliteSession:
    """A connection, with transactions that lock the file from their beginning."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        # With values, the statement has only names of Headwater.
        sql = re.sub(r"\$(\d)", r"?\1", sql) if values else sql
        return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise


class Sqlite(EmbeddedDatabase):
    """A table of SQLite."""

    title = "SQLite"
    alters_columns = False

    @contextmanager
    def connect(self) -> Iterator[SqliteSession]:
        try:
            with self.turn(), closing(self._opened()) as connection:
                yield SqliteSession(connection)
        except (sqlite3.Error, OSError) as error:
            raise self.trouble(error) from error

    def _opened(self) -> sqlite3.Connection:
        place = f"{Path(self.path).absolute().as_uri()}?mode={'ro' if self.only_reads else 'rwc'}"
        place = ":memory:" if self.is_missing else place
        return sqlite3.connect(place, timeout=_LOCK_SECONDS, isolation_level=None, uri=True)

    def describe(self, session: Session, table: tuple[str, str]) -> Table | None:
        schema, name = quoted(table[0] or "main"), quoted(table[1])
        kinds = session.run(
            f"SELECT type FROM {schema}.sqlite_master WHERE lower(name) = lower($1)", table[1]
        )
        columns = session.run(f"PRAGMA {schema}.table_xinfo({name})")
        if not kinds:
            return None
        uniques = [self._primary_key(columns)]
        for _, index, unique, _, partial in session.run(f"PRAGMA {schema}.index_list({name})"):
            if unique and not partial:
                names = [each[2] for each in session.run(f"PRAGMA {schema}.index_info({quoted(index)})")]
                # An index on an expression has no name there.
                if None not in names:
                    uniques.append(Unique(frozenset(map(self.as_declared, names))))
        return Table(tuple(self._column(*each) for each in columns), tuple(uniques), kinds[0][0])

    def _column(
        self, _: int, name: str, type_: str, required: int, default: str | None, in_key: int, hidden: int
    ) -> Column:
        # SQLite fills in a key of integers.
        fills = default is not None or (in_key and affinity(type_) == "INTEGER")
        return Column(self.as_declared(name), type_, bool(required) and not fills, computed=hidden in (2, 3))

    def _primary_key(self, columns: list[tuple[Any, ...]]) -> Unique:
        return Unique(frozenset(self.as_declared(column[1]) for column in columns if column[5]))

    def type_of(self, type_: str) -> str | None:
        if type_.startswith("decimal(") or Field("", type_).is_nested:
            return "TEXT"
        return _TYPES.get(type_)

    def accepts(self, column: str, type_: str) -> bool:
        return affinity(column) == self.type_of(type_)

    def trouble(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error | OSError):
            return error
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith(
            ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_FULL")
        ):
            return Unavailable(str(error))
        if isinstance(error, OSError):
            return Unavailable(error.strerror or str(error))
        return Rejected(errors.DATABASE_WRITE_FAILED, says=str(error))

    def scan(self, session: Session, query: str) -> Generator[tuple[Any, ...]]:
        assert isinstance(session, SqliteSession)
        yield from session.connection.execute(query)

    def fill(self, session: Session, rows: pa.Table) -> str:
        assert isinstance(session, SqliteSession)
        self._refuse_nan(rows)
        names = rows.column_names
        session.run(f"CREATE TABLE {_STAGING} ({', '.join(names)})")
        insert = f"INSERT INTO {_STAGING} VALUES ({', '.join('?' * len(names))})"
        for batch in rows.to_batches():
            columns = [self._values(number, column) for number, column in enumerate(batch.columns)]
            session.connection.executemany(insert, zip(*columns, strict=True))
        return _STAGING

    def empty(self, session: Session) -> None:
        session.run(f"DROP TABLE IF EXISTS {_STAGING}")

    def _values(self, number: int, column: pa.Array) -> list[Any]:
        try:
            return _python_values(column)
        except (ValueError, OverflowError) as error:
            name = self.target.fields[number].name
            if isinstance(error, UnicodeDecodeError):
                value, condition = "a text that is not valid UTF-8", f"is_valid_utf8({name})"
            else:
                value, condition = "a time outside the years 1 to 9999", f"year({name}) BETWEEN 1 AND 9999"
            params = {"value": value, "condition": condition, "database": self.title}
            raise Rejected(errors.DATABASE_VALUE_REJECTED, column=name, **params) from error

    def _refuse_nan(self, rows: pa.Table) -> None:
        """SQLite stores NaN as null."""
        for field, column in zip(self.target.fields, rows.columns, strict=False):
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                params = {"value": "NaN", "condition": f"NOT isnan({field.name})", "database": self.title}
                raise Rejected(errors.DATABASE_VALUE_REJECTED, column=field.name, **params)


def affinity(declared: str) -> str:
    """How SQLite treats a column with this declared type."""
    upper = declared.upper()
    for part, found in _AFFINITIES:
        if part in upper:
            return found
    if not upper:
        return "BLOB"
    return "REAL" if any(part in upper for part in _FLOATS) else "NUMERIC"


def _python_values(column: pa.Array) -> list[Any]:
    """The values as SQLite stores them."""
    type_, values = column.type, column.to_pylist()
    convert: Callable[[Any], Any] | None = None
    if pa.types.is_decimal(type_):
        convert = lambda value: format(value, "f")  # noqa: E731
    elif pa.types.is_date(type_):
        convert = lambda value: value.isoformat()  # noqa: E731
    elif pa.types.is_timestamp(type_):
        convert = _time_text
    elif pa.types.is_boolean(type_):
        convert = int
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _time_text(value: datetime) -> str:
    """A time in UTC, in a form that sorts and that SQLite's functions read."""
    plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return plain.isoformat(" ", "microseconds") + ("+00:00" if value.tzinfo else "")
