"""PostgreSQL: executors copy their partitions into an unlogged table, from which the driver applies them."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headwater.connectors.databases import errors, postgres_task, server_task
from headwater.connectors.databases.database import (
    Column,
    Field,
    Rejected,
    Session,
    StagingLost,
    Table,
    Unavailable,
    Unique,
)
from headwater.connectors.databases.names import table_name
from headwater.connectors.databases.options import PostgresSink
from headwater.connectors.databases.server import LoadedRows, ServerDatabase
from headwater.connectors.options import revealed

_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_ALSO = {
    "tinyint": {"integer", "bigint", "numeric"},
    "smallint": {"integer", "bigint", "numeric"},
    "int": {"bigint", "numeric"},
    "bigint": {"numeric"},
    "float": {"double precision"},
    "string": {"character varying", "uuid", "json", "jsonb", "citext"},
}
"""Other types of an existing column that take every value, or reject what is not of their form."""
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")
_SCALAR_ARRAY = re.compile(r"array<(?!array|map|struct|binary)(.+)>")
_LOST = ("08", "40", "53", "57P", "57014", "55P03", "25006", "25P03", "25P04")
"""SQLSTATEs, or how they begin, after which a repetition can succeed: connections, deadlocks, resources, shutdown,
timeouts, and a server that is read-only after a failover."""
_SMALL_STAGING = 1 << 20
"""Up to this size in bytes, DELETE empties a staging table: a new, empty file costs more than a small batch."""
_LOCK_TIMEOUT = "1s"
"""How long a statement waits for a staging table that a suspended task can have locked."""
_BLOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)
_WITH_EQUAL_NULLS = 150000
"""The server version since which a unique index can treat nulls as equal."""
_UNDEFINED_TABLE, _REPEATED = "42P01", "21000"


class PostgresSession:
    """A connection in psycopg's form."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        # Placeholders are `$1`, so a `%` in a name means nothing.
        self._cursor = psycopg.RawCursor(connection)

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        self._cursor.execute(sql.encode(), values or None)
        return self._cursor.fetchall() if self._cursor.description else []

    def transaction(self) -> Any:
        return self._connection.transaction()

    def scan(self, query: str) -> Generator[tuple[Any, ...]]:
        """The rows of a query, which stay on the server until they are needed."""
        with self.transaction(), psycopg.RawServerCursor(self._connection, "headwater_rows") as cursor:
            cursor.execute(query.encode())
            yield from cursor


class Postgres(ServerDatabase):
    """A table of PostgreSQL."""

    title = "PostgreSQL"
    longest_name = 63
    system_columns = frozenset(("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"))
    finds_repeats = True
    locks_rows = " FOR UPDATE"

    task_module = postgres_task

    nulls_equal = True
    """The server can treat nulls as equal in a unique index; known once connected."""

    @cached_property
    def _login(self) -> tuple[str, dict[str, str], dict[str, bytes], int]:
        """What a connection needs, as plain values for the executors."""
        options = self.target.options
        assert isinstance(options, PostgresSink)
        try:
            url = options.reveal_url()
        except ValueError as error:
            raise Rejected(errors.DATABASE_ADDRESS_INVALID, why=str(error)) from None
        in_url = conninfo_to_dict(url)
        keywords = {key: value for key, value in self._defaults().items() if key not in in_url}
        files: dict[str, bytes] = {}
        if tls := options.tls:
            named = {"sslrootcert": tls.ca, "sslcert": tls.certificate, "sslkey": tls.key}
            files = {keyword: Path(file).read_bytes() for keyword, file in named.items() if file}
            keywords["sslmode"] = tls.mode
            if tls.key_password:
                keywords["sslpassword"] = revealed(tls.key_password)
            if not tls.ca and tls.mode == "verify-full":
                keywords["sslrootcert"] = "system"
        timeout = options.statement_timeout.milliseconds if options.statement_timeout else 0
        return url, keywords, files, timeout

    def _defaults(self) -> dict[str, str]:
        """What an address can override."""
        return {
            "connect_timeout": "10",
            "application_name": f"headwater {self.target.sink}"[:63],
            # The client notices a dead server within a minute.
            "keepalives_idle": "30",
            "tcp_user_timeout": "60000",
        }

    @contextmanager
    def connect(self) -> Iterator[PostgresSession]:
        try:
            with postgres_task.connected(*self._login) as connection:
                self.nulls_equal = connection.info.server_version >= _WITH_EQUAL_NULLS
                yield PostgresSession(connection)
        except psycopg.Error as error:
            raise self.trouble(error) from error

    def locate(self, session: Session) -> tuple[str, str]:
        schema, name = table_name(self.target.options.into)
        found = session.run(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass($1)",
            self.qualified((schema, name)),
        )
        if found:
            return found[0][0], found[0][1]
        if schema:
            return schema, name
        ((current,),) = session.run("SELECT current_schema()")
        return current, name

    def describe(self, session: Session, table: tuple[str, str]) -> Table | None:
        found = session.run("SELECT relkind FROM pg_class WHERE oid = to_regclass($1)", self.qualified(table))
        if not found:
            return None
        kinds = {
            b"v": "view",
            b"m": "materialized view",
            b"f": "foreign table",
            "v": "view",
            "m": "materialized view",
        }
        columns = session.run(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = '', "
            "attgenerated <> '' OR attidentity = 'a' FROM pg_attribute "
            "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            self.qualified(table),
        )
        uniques = session.run(
            "SELECT array_agg(a.attname::text), "
            "bool_and(coalesce((to_jsonb(i)->>'indnullsnotdistinct')::boolean, false)) "
            "FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
            "WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indimmediate "
            "AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnatts = i.indnkeyatts GROUP BY i.indexrelid",
            self.qualified(table),
        )
        return Table(
            tuple(Column(*each) for each in columns),
            tuple(Unique(frozenset(names), nulls_equal) for names, nulls_equal in uniques),
            kinds.get(found[0][0], "table"),
        )

    def type_of(self, type_: str) -> str | None:
        if _DECIMAL.fullmatch(type_):
            return type_.replace("decimal", "numeric")
        if Field("", type_).is_nested:
            return "jsonb"
        return _TYPES.get(type_)

    def accepts(self, column: str, type_: str) -> bool:
        if column == self.type_of(type_):
            return True
        decimal = _DECIMAL.fullmatch(type_)
        if decimal:
            return _takes_decimal(column, int(decimal[1]), int(decimal[2]))
        if Field("", type_).is_nested:
            array = _SCALAR_ARRAY.fullmatch(type_)
            return column == "json" or bool(
                array and column.endswith("[]") and self.accepts(column.removesuffix("[]"), array[1])
            )
        return column.partition("(")[0] in _ALSO.get(type_, ())

    def value(self, source: str, field: Field, column: str) -> str:
        # Without its length or scale: a cast would cut silently, where the INSERT reports a value that does not fit.
        bare = re.sub(r"\(\d+(,\d+)?\)", "", column)
        if bare.endswith("[]"):
            item = bare.removesuffix("[]")
            elements = f"jsonb_array_elements_text({source}::jsonb) WITH ORDINALITY e(v, n)"
            items = f"SELECT e.v::{item} FROM {elements} ORDER BY n"
            return f"CASE WHEN {source} IS NOT NULL THEN ARRAY({items}) END"
        return f"{source}::{bare}"

    def scan(self, session: Session, query: str) -> Generator[tuple[Any, ...]]:
        assert isinstance(session, PostgresSession)
        yield from session.scan(query)

    def readable(self, field: Field) -> str:
        if field.is_nested:
            return f"to_jsonb({self.quoted(field.name)})::text"
        return f"{self.quoted(field.name)}::text" if field.type == "string" else self.quoted(field.name)

    def unique_clause(self, columns: str) -> str:
        return f"UNIQUE {'NULLS NOT DISTINCT ' if self.nulls_equal else ''}({columns})"

    def exclude(self, session: Session, name: str) -> None:
        session.run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)

    def drop_staging(
        self, session: Session, table: tuple[str, str], prefix: str, is_dead: Callable[[str], bool]
    ) -> None:
        self.staging = ""
        found = session.run(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND starts_with(c.relname, $2) AND c.relkind = 'r'",
            table[0],
            prefix,
        )
        for (name,) in found:
            if not is_dead(name):
                continue
            try:
                with session.transaction():
                    session.run(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                    session.run(f"DROP TABLE IF EXISTS {self.qualified((table[0], name))}")
            except _BLOCKED:
                # A paused task of a dead run still copies into it; the next start drops it.
                continue

    def blocked(self, session: Session) -> list[int]:
        # A transaction sees `pg_stat_activity` as it was at its first look.
        found = session.run(
            "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return [pid for (pid,) in found]

    terminate = "SELECT pg_terminate_backend($1)"

    def staging_statement(self, staging: str, columns: Sequence[str]) -> str:
        return f"CREATE UNLOGGED TABLE IF NOT EXISTS {staging} (task bigint, {', '.join(columns)})"

    def staged_type(self, field: Field) -> str:
        return "text" if field.is_nested else self.type_of(field.type) or "text"

    def loading(self, staging: str, names: Sequence[str]) -> Callable[..., Any]:
        copy = f"COPY {staging} ({', '.join(names)}) FROM STDIN (FORMAT BINARY)"
        return postgres_task.copying(*self._login, copy)

    def clear_staging(self, session: Session, staged: LoadedRows) -> None:
        shown = self.qualified(staged.place)
        ((size,),) = session.run("SELECT pg_relation_size($1::regclass)", shown)
        if size <= _SMALL_STAGING:
            session.run(f"DELETE FROM {shown}")
            return
        try:
            with session.transaction():
                session.run(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                session.run(f"TRUNCATE {shown}")
        except _BLOCKED:
            # A suspended task still copies into it, perhaps for hours, and this transaction has locks.
            self.abandon_staging()

    def trouble(self, error: Exception) -> Exception:
        if not isinstance(error, psycopg.Error):
            return error
        nested = [field.name for field in self.target.fields if field.is_nested]
        if "\\u0000" in (error.diag.message_detail or "") and len(nested) == 1:
            return self.refused(nested[0], server_task.NUL)
        return self.rejected(error.sqlstate or "", (error.diag.message_primary or str(error)).strip())

    def rejected(self, state: str, says: str) -> Exception:
        says = " ".join(says.split()).rstrip(".")
        if not state or state.startswith(_LOST):
            return Unavailable(says)
        if state == _UNDEFINED_TABLE and "headwater_staging_" in says:
            self.staging = ""
            return StagingLost(says)
        if state == _REPEATED:
            return Rejected(errors.DATABASE_KEY_REPEATED, key=", ".join(self.target.key))
        return Rejected(errors.DATABASE_WRITE_FAILED, says=f"{says} (SQLSTATE {state})")


def _takes_decimal(column: str, precision: int, scale: int) -> bool:
    if column == "numeric":
        return True
    found = _DECIMAL.fullmatch(column)
    return bool(found) and int(found[2]) >= scale and int(found[1]) - int(found[2]) >= precision - scale  # type: ignore[index]
