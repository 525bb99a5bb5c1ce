"""One real server of each kind and one Spark JVM for all tests of a process; every database has one interface."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.contract import BatchContext
from headwater.connectors.databases import connector
from headwater.connectors.databases.connector import Kind
from headwater.connectors.databases.database import Database, Target
from headwater.connectors.databases.writer import TableWriter, fields_of
from headwater.dev import PostgresServer
from headwater.spec import Mode
from tests.databases.mariadb import MISSING, MariadbServer, program
from tests.jvm import shared_context

PASSWORD = "canary-8842"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """The server of the process; a test that kills it starts it again."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    try:
        with PostgresServer(folder, password=PASSWORD, settings={"fsync": "off"}) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """The MariaDB server of the process; a test that kills it starts it again."""
    if not program("mariadbd"):
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="headwater-mariadb-"))
    try:
        with MariadbServer(folder, password=PASSWORD) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    more = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    with shared_context(tmp_path_factory.mktemp("jvm"), lambda line: None, **more) as context:
        yield context


@pytest.fixture
def spark(context: SparkContext) -> SparkSession:
    """A session of its own for one test."""
    return SparkSession(context).newSession()


@dataclass
class Store:
    """A database for one test."""

    kind: Kind
    keys: Mapping[str, Any]
    """The keys of a sink that say where it is."""
    schema: str = ""

    def into(self, table: str) -> str:
        """The table in `into`."""
        return f"{self.schema}.{table}" if self.schema else table

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and commit; returns its rows."""
        raise NotImplementedError

    def rows(self, table: str, columns: str = "*") -> Counter[tuple[Any, ...]]:
        """The rows of a table, as a multiset."""
        return Counter(self.run(f"SELECT {columns} FROM {self.into(table)}"))

    def ledger(self) -> list[tuple[Any, ...]]:
        """Batch and run of each row of the ledger."""
        return self.run(f"SELECT batch_id, epoch FROM {self.into('headwater_ledger')} ORDER BY 1, 2")

    text, integer = "text", "integer"
    """The types of a column of `key` for texts, and of one for 32 bits."""
    quote = '"'
    keeps_infinities = True

    def values(self, rows: DataFrame, table: str) -> Counter[tuple[Any, ...]]:
        """The rows of a table as Python values of Spark's types."""
        return self.rows(table, ", ".join(f"{self.quote}{name}{self.quote}" for name in rows.columns))

    def staged(self) -> int:
        """How many rows are in staging."""
        return 0

    def lost(self) -> Exception:
        """The driver's error for a lost connection."""
        raise NotImplementedError

    def database(self, rows: DataFrame, table: str, mode: str = "append", **keys: Any) -> Database:
        """The driver for rows and a table."""
        options = self.kind.options.model_validate({**self.keys, "into": self.into(table), **keys})
        return self.kind.database(Target("out", "shop", Mode(mode), fields_of(rows), options))

    def writer(self, rows: DataFrame, table: str, mode: str = "append", **keys: Any) -> TableWriter:
        """What a query has after a start."""
        return TableWriter(self.database(rows, table, mode, **keys), patience=5)

    def write(
        self, rows: DataFrame, table: str, mode: str = "append", batch: int = 0, query: str = "q", **keys: Any
    ) -> None:
        """Write one batch of a query in run 1."""
        self.writer(rows, table, mode, **keys).write(rows, a_batch(batch, query=query))

    def write_twice(self, rows: DataFrame, table: str) -> None:
        """Append a batch twice: servers load the first on the executors, and the second, if small, on the driver."""
        writer = self.writer(rows, table)
        for number in range(2):
            writer.write(rows, a_batch(number))


def a_batch(number: int, epoch: int = 1, query: str = "q") -> BatchContext:
    return BatchContext("out", query, number, epoch)


class PostgresStore(Store):
    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.keys["url"], autocommit=True) as connection:
            cursor = psycopg.RawCursor(connection)
            cursor.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def staging(self) -> list[str]:
        """The staging tables."""
        tables = self.run(
            "SELECT relname FROM pg_class WHERE relname ^@ 'headwater_staging_' AND relkind = 'r' "
            "AND relnamespace = to_regnamespace($1)",
            [self.schema],
        )
        return [name for (name,) in tables]

    def staged(self) -> int:
        counts = (self.run(f'SELECT count(*) FROM {self.schema}."{name}"') for name in self.staging())
        return sum(count for ((count,),) in counts)

    def lost(self) -> Exception:
        return psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.fixture
def postgres(server: PostgresServer) -> PostgresStore:
    """A schema of its own for one test."""
    store = PostgresStore(connector.POSTGRES, {"url": server.url}, f"test_{next(_NUMBERS)}")
    store.run(f"CREATE SCHEMA {store.schema}")
    return store


class SqliteStore(Store):
    text = "text"

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.keys["path"], isolation_level=None)) as connection:
            return connection.execute(sql, values).fetchall()

    def values(self, rows: DataFrame, table: str) -> Counter[tuple[Any, ...]]:
        """The texts and numbers in which SQLite keeps some types, as Python values."""
        read: dict[str, Callable[[Any], Any]] = {
            "boolean": bool,
            "date": date.fromisoformat,
            "timestamp": datetime.fromisoformat,
            "timestamp_ntz": datetime.fromisoformat,
        }
        types = [field.dataType.simpleString() for field in rows.schema.fields]
        readers = [Decimal if type_.startswith("decimal") else read.get(type_, _same) for type_ in types]
        return Counter(
            tuple(
                None if value is None else reader(value) for reader, value in zip(readers, row, strict=True)
            )
            for row in super().values(rows, table).elements()
        )

    def lost(self) -> Exception:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
        return error


def _same(value: Any) -> Any:
    return value


class DuckdbStore(Store):
    text = "varchar"

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with duckdb.connect(self.keys["path"]) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(sql, values).fetchall()

    def lost(self) -> Exception:
        return duckdb.IOException("could not write")


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteStore:
    (tmp_path / "files").mkdir()
    return SqliteStore(connector.SQLITE, {"path": str(tmp_path / "files" / "shop.db")})


@pytest.fixture
def duck(tmp_path: Path) -> DuckdbStore:
    (tmp_path / "files").mkdir(exist_ok=True)
    return DuckdbStore(connector.DUCKDB, {"path": str(tmp_path / "files" / "shop.duckdb")})


class MysqlStore(Store):
    text, integer = "varchar(255)", "int"
    quote = "`"
    keeps_infinities = False
    server: MariadbServer

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {self.schema}")
            # Statements of the tests quote names as the others do.
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
            cursor.execute(sql, list(values) or None)
            return list(cursor.fetchall())

    def values(self, rows: DataFrame, table: str) -> Counter[tuple[Any, ...]]:
        """Booleans are numbers, and points in time have no zone."""
        read: dict[str, Callable[[Any], Any]] = {
            "boolean": bool,
            "timestamp": lambda value: value.replace(tzinfo=UTC),
        }
        readers = [read.get(field.dataType.simpleString(), _same) for field in rows.schema.fields]
        return Counter(
            tuple(
                None if value is None else reader(value) for reader, value in zip(readers, row, strict=True)
            )
            for row in super().values(rows, table).elements()
        )

    def staging(self) -> list[str]:
        """The staging tables."""
        tables = self.run(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
            "AND left(table_name, 18) = 'headwater_staging_'",
            [self.schema],
        )
        return [name for (name,) in tables]

    def staged(self) -> int:
        counts = (self.run(f"SELECT count(*) FROM {self.schema}.{name}") for name in self.staging())
        return sum(count for ((count,),) in counts)

    def lost(self) -> Exception:
        return pymysql.OperationalError(2013, "Lost connection to MySQL server during query")


@pytest.fixture
def mysql(mariadb: MariadbServer) -> MysqlStore:
    """A database of its own for one test."""
    store = MysqlStore(connector.MYSQL, {"url": mariadb.url}, f"test_{next(_NUMBERS)}")
    store.server = mariadb
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {store.schema}")
    return store


@pytest.fixture(params=["postgres", "sqlite", "duck", "mysql"])
def store(request: pytest.FixtureRequest) -> Store:
    """Every database, one after another."""
    found: Store = request.getfixturevalue(request.param)
    return found
