"""Exactly-once sinks for plain PySpark: functions for `foreachBatch`.

    rows.writeStream.foreachBatch(hw.sinks.postgres(url=URL, into="totals", key=["customer"])).start()

They also work on an existing checkpoint: the ledger begins with the next batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from headwater.connectors.connector import LazyModule
from headwater.connectors.contract import BatchContext
from headwater.connectors.databases.connector import DUCKDB, MYSQL, POSTGRES, SQLITE, Kind
from headwater.connectors.databases.database import Target
from headwater.connectors.databases.errors import DATABASE_NO_QUERY, DATABASE_SINK_INVALID
from headwater.connectors.databases.options import DatabaseSink, MysqlSink, PostgresSink
from headwater.connectors.foreach.connector import computed_once
from headwater.errors import PipelineError, UsageError
from headwater.spec import Mode
from headwater.values import Duration, Secret

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.connectors.databases import writer as tables
    from headwater.spark import query as queries
    from headwater.spark.query import ThreadQuery
else:
    from headwater.connectors.databases.connector import tables

    queries = LazyModule("headwater.spark.query")

__all__ = ["duckdb", "exactly_once", "group", "mysql", "postgres", "sqlite"]

ModeName = Literal["append", "update", "complete"]
ForBatch = Callable[["DataFrame", int], None]
T = TypeVar("T")


class PerStart(Generic[T]):
    """One object for each start of a query, for a function that several starts or queries use."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[str, T]] = {}

    def of(self, query: ThreadQuery, create: Callable[[], T]) -> T:
        """The object of this start of the query."""
        run, found = self._newest.get(query.query_id, ("", None))
        if found is None or run != query.run_id:
            found = create()
            self._newest[query.query_id] = query.run_id, found
        return found


def postgres(
    *,
    url: str | Secret,
    into: str,
    key: str | Sequence[str] | None = None,
    mode: ModeName | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] = "if_missing",
    columns: Literal["match", "add"] = "match",
    other_writers: Literal["fail", "allow"] = "fail",
    tls: Mapping[str, str | Secret] | None = None,
    statement_timeout: str | Duration | None = None,
) -> ForBatch:
    """A function that writes each batch to a table of PostgreSQL. Default mode: update with `key`, else append."""
    return _sink(POSTGRES, locals())


def mysql(
    *,
    url: str | Secret,
    into: str,
    key: str | Sequence[str] | None = None,
    mode: ModeName | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] = "if_missing",
    columns: Literal["match", "add"] = "match",
    other_writers: Literal["fail", "allow"] = "fail",
    tls: Mapping[str, str | Secret] | None = None,
    statement_timeout: str | Duration | None = None,
) -> ForBatch:
    """A function that writes each batch to a table of MySQL or MariaDB. Default mode: as that of `postgres`."""
    return _sink(MYSQL, locals())


def sqlite(
    *,
    path: str,
    into: str,
    key: str | Sequence[str] | None = None,
    mode: ModeName | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] = "if_missing",
    columns: Literal["match", "add"] = "match",
    other_writers: Literal["fail", "allow"] = "fail",
) -> ForBatch:
    """A function that writes each batch to a table of SQLite. Default mode: update with `key`, else append."""
    return _sink(SQLITE, locals())


def duckdb(
    *,
    path: str,
    into: str,
    key: str | Sequence[str] | None = None,
    mode: ModeName | None = None,
    delete_when: str | None = None,
    create: Literal["if_missing", "never"] = "if_missing",
    columns: Literal["match", "add"] = "match",
    other_writers: Literal["fail", "allow"] = "fail",
) -> ForBatch:
    """A function that writes each batch to a table of DuckDB. Default mode: update with `key`, else append."""
    return _sink(DUCKDB, locals())


def exactly_once(
    function: Callable[[DataFrame, int, str], Any], *, ledger: str | Secret, name: str | None = None
) -> ForBatch:
    """A function that passes batch, batch ID and token to yours, and skips batches that the ledger has.

    `ledger` is the address of a PostgreSQL or MySQL database or the path of a SQLite file, and `name` that of your
    function in it. A crash after your function and before its batch is recorded calls it again with the same token.
    """
    name = name or getattr(function, "__qualname__", "")
    if not name or "<lambda>" in name:
        says = "`name` is required, because the function has no name of its own"
        raise UsageError(DATABASE_SINK_INVALID.at(None, function="exactly_once", says=says))
    kind = _kind_of(ledger)
    place = "path" if kind is SQLITE else "url"
    options = _options("exactly_once", kind, {place: ledger, "into": "headwater_ledger"})
    ledgers: PerStart[tables.FunctionLedger] = PerStart()

    def create() -> tables.FunctionLedger:
        return tables.FunctionLedger(kind.database(Target(name, "", Mode.APPEND, (), options)))

    def write(batch: DataFrame, batch_id: int) -> None:
        query = _query(batch, "exactly_once")
        of_batch = BatchContext(name, query.query_id, batch_id, 0)
        ledger = ledgers.of(query, create)
        ledger.run(batch, of_batch, name, lambda token: function(batch, batch_id, token))

    return write


def group(*functions: ForBatch) -> ForBatch:
    """A function that computes each batch once, and passes it to several functions, one after another.

    If one of them fails, so does the batch. When Spark retries it, each sink recognizes what it already has.
    """
    if not functions:
        raise UsageError(
            DATABASE_SINK_INVALID.at(None, function="group", says="expected at least one function")
        )

    def write(batch: DataFrame, batch_id: int) -> None:
        for function in functions:
            function(batch, batch_id)

    return computed_once(write)


def _kind_of(ledger: str | Secret) -> Kind:
    """The database at an address; a secret that is a whole address is one of PostgreSQL."""
    text = ledger.template if isinstance(ledger, Secret) else ledger
    if text.startswith(tuple(f"{scheme}://" for scheme in MysqlSink.schemes)):
        return MYSQL
    is_address = text.startswith(tuple(f"{scheme}://" for scheme in PostgresSink.schemes))
    return POSTGRES if is_address or isinstance(ledger, Secret) else SQLITE


def _sink(kind: Kind, keys: Mapping[str, Any]) -> ForBatch:
    named = {key: value for key, value in keys.items() if key != "mode" and value is not None}
    options = _options(kind.name, kind, named)
    mode = Mode(keys["mode"] or ("update" if options.key else "append"))
    writers: PerStart[tables.TableWriter] = PerStart()

    def write(batch: DataFrame, batch_id: int) -> None:
        query = _query(batch, kind.name)
        writer = writers.of(query, lambda: _writer(kind, mode, options, batch))
        writer.write(batch, BatchContext("", query.query_id, batch_id, 0))

    return write


def _writer(kind: Kind, mode: Mode, options: DatabaseSink, batch: DataFrame) -> tables.TableWriter:
    database = kind.database(Target(options.into, "", mode, tables.fields_of(batch), options))
    problems = list(database.problems())
    if problems:
        raise PipelineError.of(problems)
    return tables.TableWriter(database)


def _options(function: str, kind: Kind, keys: Mapping[str, Any]) -> DatabaseSink:
    if isinstance(path := keys.get("path"), str):
        keys = {**keys, "path": os.path.abspath(path)}
    if isinstance(timeout := keys.get("statement_timeout"), str):
        keys = {**keys, "statement_timeout": Duration.parse(timeout)}
    try:
        return kind.options.model_validate(keys)
    except ValidationError as error:
        first = error.errors()[0]
        says = f"`{'.'.join(map(str, first['loc']))}`: {first['msg'].removeprefix('Value error, ')}"
        raise UsageError(DATABASE_SINK_INVALID.at(None, function=function, says=says)) from None


def _query(batch: DataFrame, function: str) -> ThreadQuery:
    query: ThreadQuery | None = queries.thread_query(batch.sparkSession.sparkContext)
    if query is None:
        raise UsageError(DATABASE_NO_QUERY.at(None, function=function))
    return query
