"""MySQL and MariaDB: executors load their partitions into an InnoDB table, from which the driver applies them."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import SSCursor

from headwater.connectors.databases import errors, mysql_task
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
from headwater.connectors.databases.options import MysqlSink
from headwater.connectors.databases.server import LoadedRows, ServerDatabase
from headwater.connectors.options import revealed
from headwater.errors import Problem
from headwater.spec import Mode

_TYPES = {
    "boolean": "tinyint(1)",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    # Clients show a FLOAT with six digits only.
    "float": "double",
    "double": "double",
    "string": "longtext",
    "binary": "longblob",
    "date": "date",
    "timestamp": "datetime(6)",
    "timestamp_ntz": "datetime(6)",
}
_ALSO = {
    "boolean": {"tinyint"},
    "tinyint": {"tinyint(1)", "smallint", "mediumint", "int", "bigint"},
    "smallint": {"mediumint", "int", "bigint"},
    "int": {"bigint"},
    "float": {"float"},
    "string": {"varchar", "tinytext", "text", "mediumtext", "json"},
    "binary": {"varbinary", "tinyblob", "blob", "mediumblob"},
    "timestamp": {"timestamp(6)"},
}
"""Other types of an existing column that take every value, or reject what does not fit."""
_JSON = {"json", "longtext", "mediumtext", "text"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST_SCALE = 30
_WIDTH = re.compile(r"^(tinyint|smallint|mediumint|int|bigint)\(\d+\)")
_INDEX_BYTES, _MOST_TEXT = 3072, 255
"""The most bytes of an index, and the most characters of a text in `key` of a created table."""
_TEXT_BYTES = 4
_EXACT = re.compile(r"(?:^$|^binary$|_nopad_bin$|^utf8mb4_0900_bin$)")
"""Collations in which different texts are different."""
_LOST = {
    0,
    1020,
    1021,
    1030,
    1037,
    1038,
    1040,
    1041,
    1042,
    1043,
    1045,
    1047,
    1053,
    1077,
    1079,
    1080,
    1114,
    1152,
}
_LOST |= {
    1158,
    1159,
    1160,
    1161,
    1180,
    1184,
    1203,
    1205,
    1206,
    1213,
    1226,
    1290,
    1317,
    1412,
    1614,
    1615,
    1637,
    1792,
}
_LOST |= {1836, 1927, 1969, 3024, 3058, 3100, 3101, 3168, 4031}
"""Errors after which a repetition can succeed: connections, deadlocks, resources, shutdown, timeouts, a full disk, and
a server that is read-only after a failover. Those of the client, 2000 to 2999, also are."""
_NO_TABLE, _DUPLICATE = 1146, 1062
_DUPLICATE_OF = re.compile(r"for key '(?:.*\.)?([^']*)'$")
_LARGE = 10_000
"""Staging with this number of rows or more is emptied after the transaction, because TRUNCATE would end it."""
_PLACEHOLDER = re.compile(r"`[^`]*`|\$(\d)")
_ROWS_AT_ONCE = 100


class MysqlSession:
    """A connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._locks: list[str] = []
        self.afterwards: list[Callable[[], object]] = []
        """What follows the COMMIT of the transaction."""

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if values:
            given: list[object] = []

            def placeholder(found: re.Match[str]) -> str:
                if found[1] is None:
                    return found[0]
                given.append(values[int(found[1]) - 1])
                return "%s"

            sql = _PLACEHOLDER.sub(placeholder, sql.replace("%", "%%"))
            self._cursor.execute(sql, given)
        else:
            self._cursor.execute(sql)
        rows = list(self._cursor.fetchall())
        if cut := mysql_task.is_cut(self._cursor):
            raise pymysql.DataError(mysql_task.CHANGED, cut)
        return rows

    def scan(self, query: str) -> Generator[tuple[Any, ...]]:
        """The rows of a query, which stay on the server until they are needed; the last query of the connection."""
        cursor: Any = self._connection.cursor(SSCursor)
        cursor.execute(query)
        try:
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield from rows
        finally:
            # Otherwise, it would read the other rows when it is closed.
            cursor._result.unbuffered_active = False
            cursor.close()

    def lock(self, name: str) -> None:
        """Get a lock until the end of the transaction."""
        # Names have up to 64 characters.
        digest = f"headwater_{sha256(name.encode()).hexdigest()[:40]}"
        if self.run("SELECT GET_LOCK($1, 10)", digest) != [(1,)]:
            raise Unavailable("another run uses the table")
        self._locks.append(digest)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
            self._connection.commit()
        except BaseException:
            with suppress(pymysql.Error, OSError):
                self._connection.rollback()
            raise
        finally:
            with suppress(pymysql.Error, OSError):
                while self._locks:
                    self.run("DO RELEASE_LOCK($1)", self._locks.pop())
        while self.afterwards:
            self.afterwards.pop()()


class Mysql(ServerDatabase):
    """A table of MySQL or MariaDB."""

    title = "MySQL"
    quote = "`"
    folds_case = True
    names_indexes = True
    locks_rows = " FOR UPDATE"
    task_module = mysql_task
    staging_columns = ("task", "n")
    time_type = "datetime(6)"

    collation = "utf8mb4_0900_bin"
    """The collation of created texts, in which different texts are different; known once connected."""
    _takes_files = 0
    """The server allows LOAD DATA LOCAL; known once connected."""
    _key_index = ""
    """The unique index of `key` in the table, as far as known."""

    @property
    def table_options(self) -> str:  # type: ignore[override]
        return f" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={self.collation} ROW_FORMAT=DYNAMIC"

    # Connecting.

    @cached_property
    def _login(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, bytes], int]:
        """What a connection needs, as plain values for the executors."""
        options = self.target.options
        assert isinstance(options, MysqlSink)
        try:
            url = urlsplit(options.reveal_url())
            port = url.port or 3306
        except ValueError as error:
            raise Rejected(errors.DATABASE_ADDRESS_INVALID, why=str(error)) from None
        login = {
            "host": url.hostname,
            "port": port,
            "user": unquote(url.username or ""),
            "password": unquote(url.password or ""),
            "database": unquote(url.path[1:]),
            "program_name": f"headwater {self.target.sink}"[:63],
        }
        tls, files = None, {}
        if options.tls:
            named = {"ca": options.tls.ca, "certificate": options.tls.certificate, "key": options.tls.key}
            files = {name: Path(file).read_bytes() for name, file in named.items() if file}
            password = revealed(options.tls.key_password) if options.tls.key_password else None
            tls = {"mode": options.tls.mode, "key_password": password}
        timeout = options.statement_timeout.milliseconds if options.statement_timeout else 0
        return login, tls, files, timeout

    @contextmanager
    def connect(self) -> Iterator[MysqlSession]:
        try:
            with mysql_task.connected(*self._login) as connection:
                session = MysqlSession(connection)
                if "MariaDB" in mysql_task.server_version(connection):
                    self.collation = "utf8mb4_nopad_bin"
                ((self._takes_files,),) = session.run("SELECT @@local_infile")
                yield session
        except pymysql.Error as error:
            raise self.trouble(error) from error

    # Names, columns and types.

    def _why_invalid(self, name: str) -> str:
        if len(name) > 64:
            return "it is longer than 64 characters"
        if name.endswith(tuple(" \t\n\v\f\r")):
            return "it ends with a space"
        if any(ord(each) > 0xFFFF for each in name):
            return "it contains a character outside the Basic Multilingual Plane"
        return super()._why_invalid(name)

    def type_of(self, type_: str) -> str | None:
        if decimal := _DECIMAL.fullmatch(type_):
            return type_ if int(decimal[2]) <= _MOST_SCALE else None
        if Field("", type_).is_nested:
            return "json"
        return _TYPES.get(type_)

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for field in self.target.fields:
            if field.is_nested and field.name in self.target.key:
                params = {"column": field.name, "type": f"{field.type} in `key`", "database": self.title}
                yield self.target.at(errors.DATABASE_TYPE_UNSUPPORTED, **params)

    def column_type(self, field: Field) -> str | None:
        if field.name in self.target.key and field.type in ("string", "binary"):
            return f"{'varchar' if field.type == 'string' else 'varbinary'}({self._key_length})"
        return self.type_of(field.type)

    @property
    def _key_length(self) -> int:
        """How long texts in `key` can be, so that the index of a created table can contain all of them."""
        types = [field.type for field in self.target.fields if field.name in self.target.key]
        texts = sum(type_ in ("string", "binary") for type_ in types)
        room = _INDEX_BYTES - 32 * (len(types) - texts)
        return min(_MOST_TEXT, room // (_TEXT_BYTES * max(texts, 1)))

    def definition(self, field: Field) -> str:
        is_text = field.type == "string"
        return f"{self.column_type(field)}{self._charset if is_text else ''}"

    @property
    def _charset(self) -> str:
        return f" CHARACTER SET utf8mb4 COLLATE {self.collation}"

    def accepts(self, column: str, type_: str) -> bool:
        if column == self.type_of(type_):
            return True
        mine, theirs = _DECIMAL.fullmatch(type_), _DECIMAL.fullmatch(column)
        if mine and theirs:
            (precision, scale), (most, digits) = (map(int, each.groups()) for each in (mine, theirs))
            return digits >= scale and most - digits >= precision - scale
        if Field("", type_).is_nested:
            return column in _JSON
        if type_ in ("string", "binary"):
            column = column.partition("(")[0]
        return column in _ALSO.get(type_, ())

    def unique_clause(self, columns: str) -> str:
        # A null in `key` is rejected, and replication needs a primary key.
        return f"PRIMARY KEY ({columns})"

    def change_type(self, table: tuple[str, str], field: Field) -> list[str]:
        column = f"{self.quoted(field.name)} {self.definition(field)}"
        return [f"ALTER TABLE {self.qualified(table)} MODIFY COLUMN {column}"]

    def drop_required(self, table: tuple[str, str], column: Column) -> list[str]:
        charset = f" COLLATE {column.collation}" if column.collation else ""
        column_ = f"{self.quoted(column.name)} {column.type}{charset} NULL"
        return [f"ALTER TABLE {self.qualified(table)} MODIFY COLUMN {column_}"]

    def more_differences(self, table: tuple[str, str], found: Table) -> Iterator[tuple[str, list[str]]]:
        if found.kind == "table" and found.engine.lower() != "innodb":
            alter = f"ALTER TABLE {self.qualified(table)} ENGINE=InnoDB"
            yield f"its storage engine {found.engine} is not InnoDB", [alter]
        for field in self.target.fields:
            column = found.column(field.name)
            if field.name not in self.target.key or column is None or _EXACT.search(column.collation):
                continue
            if self.accepts(column.type, field.type):
                definition = f"{self.quoted(field.name)} {column.type}{self._charset}"
                alter = f"ALTER TABLE {self.qualified(table)} MODIFY COLUMN {definition}"
                why = f"has collation {column.collation}, in which different texts can be equal"
                yield f"column `{field.name}` of `key` {why}", [alter]

    # The table.

    def locate(self, session: Session) -> tuple[str, str]:
        schema, name = table_name(self.target.options.into)
        ((current, folds),) = session.run("SELECT DATABASE(), @@lower_case_table_names")
        schema = schema or current
        return (schema.lower(), name.lower()) if folds else (schema, name)

    def describe(self, session: Session, table: tuple[str, str]) -> Table | None:
        where = "WHERE table_schema = $1 AND table_name = $2 AND BINARY table_name = BINARY $2"
        kinds = session.run(f"SELECT table_type, engine FROM information_schema.tables {where}", *table)
        if not kinds:
            return None
        columns = session.run(
            "SELECT column_name, column_type, is_nullable = 'NO' AND column_default IS NULL, lower(extra), "
            f"collation_name FROM information_schema.columns {where} ORDER BY ordinal_position",
            *table,
        )
        indexes = session.run(
            "SELECT index_name, column_name, sub_part FROM information_schema.statistics "
            f"{where} AND non_unique = 0 ORDER BY index_name, seq_in_index",
            *table,
        )
        uniques = []
        for name, parts in groupby(indexes, key=lambda part: part[0]):
            found = [(column, part) for _, column, part in parts]
            # An index on the beginning of a text, or on an expression, is not one of its columns.
            if all(column is not None and part is None for column, part in found):
                uniques.append((name, Unique(frozenset(self.as_declared(column) for column, _ in found))))
        key = frozenset(self.target.key)
        self._key_index = next((name for name, unique in uniques if unique.columns == key), "")
        (kind, engine) = kinds[0]
        return Table(
            tuple(self._column(*each) for each in columns),
            tuple(unique for _, unique in uniques),
            "table" if kind == "BASE TABLE" else kind.lower(),
            engine or "",
        )

    def _column(self, name: str, type_: str, required: int, extra: str, collation: str | None) -> Column:
        plain = type_ if type_ == "tinyint(1)" else _WIDTH.sub(r"\1", type_)
        fills = "auto_increment" in extra
        computed = "generated" in extra and "default_generated" not in extra
        return Column(
            self.as_declared(name),
            plain,
            bool(required) and not fills and not computed,
            computed,
            collation or "",
        )

    def scan(self, session: Session, query: str) -> Generator[tuple[Any, ...]]:
        assert isinstance(session, MysqlSession)
        yield from session.scan(query)

    def readable(self, field: Field) -> str:
        if not field.type.startswith("timestamp"):
            return self.quoted(field.name)
        text = f"CAST({self.quoted(field.name)} AS CHAR)"
        return f"CONCAT({text}, '+00:00')" if field.type == "timestamp" else text

    def exclude(self, session: Session, name: str) -> None:
        assert isinstance(session, MysqlSession)
        session.lock(name)

    # A batch.

    def delete_rows(self, session: Session, table: str, source: str, same: str) -> None:
        session.run(f"DELETE t FROM {source} AS s JOIN {table} AS t ON {same} WHERE s.deleted")

    def put_rows(self, session: Session, table: str, found: Table, source: str) -> None:
        if self.target.mode is not Mode.UPDATE:
            return super().put_rows(session, table, found, source)
        # Not ON DUPLICATE KEY UPDATE: it would overwrite other rows that are equal in another unique index.
        same, first = self.same_key(found, "="), self.quoted(self.target.key[0])
        others = [
            number for number, field in enumerate(self.target.fields) if field.name not in self.target.key
        ]
        if others:
            fields = self.target.fields
            sets = ", ".join(
                f"t.{self.quoted(fields[number].name)} = {self.value(f's.c{number}', fields[number], '')}"
                for number in others
            )
            session.run(f"UPDATE {source} AS s JOIN {table} AS t ON {same} SET {sets} WHERE {self.kept}")
        missing = f"LEFT JOIN {table} AS t ON {same} WHERE t.{first} IS NULL AND {self.kept}"
        session.run(f"{self.insert_from(table, found, source)} {missing}")
        return None

    # Staging.

    def staging_statement(self, staging: str, columns: Sequence[str]) -> str:
        # Rows of one task are together, so removing them locks no others.
        keys = "task bigint NOT NULL, n bigint NOT NULL"
        listed = ", ".join([keys, *columns, "PRIMARY KEY (task, n)"])
        return f"CREATE TABLE IF NOT EXISTS {staging} ({listed}){self.table_options}"

    def staged_type(self, field: Field) -> str:
        if field.is_nested:
            return "longtext"
        if field.name in self.target.key and field.type in ("string", "binary"):
            return "varchar(768)" if field.type == "string" else "varbinary(3072)"
        return self.type_of(field.type) or "longtext"

    def loading(self, staging: str, names: Sequence[str]) -> Callable[..., Any]:
        return mysql_task.loading_into(*self._login, staging, names, bool(self._takes_files))

    def clear_staging(self, session: Session, staged: LoadedRows) -> None:
        assert isinstance(session, MysqlSession)
        place = self.qualified(staged.place)
        if staged.rows < _LARGE:
            session.run(f"DELETE FROM {place} WHERE {staged.condition}")
        session.afterwards.append(lambda: self._empty(session, place))

    def _empty(self, session: MysqlSession, staging: str) -> None:
        """Remove what is left in staging, also of failed tasks; their numbers are never used again."""
        try:
            if session.run(f"SELECT 1 FROM {staging} LIMIT 1"):
                session.run("SET SESSION lock_wait_timeout = 1")
                session.run(f"TRUNCATE {staging}")
        except pymysql.Error:
            # A suspended task still loads into it. The batch is committed in any case.
            self.abandon_staging()

    def drop_staging(
        self, session: Session, table: tuple[str, str], prefix: str, is_dead: Callable[[str], bool]
    ) -> None:
        self.staging = ""
        found = session.run(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND left(table_name, $2) = $3",
            table[0],
            len(prefix),
            prefix,
        )
        session.run("SET SESSION lock_wait_timeout = 1")
        for (name,) in found:
            if is_dead(name):
                # A suspended task of a dead run still loads into it; the next start drops it.
                with suppress(pymysql.OperationalError):
                    session.run(f"DROP TABLE IF EXISTS {self.qualified((table[0], name))}")

    # Errors.

    def trouble(self, error: Exception) -> Exception:
        return self.rejected(*mysql_task.explained(error)) if isinstance(error, pymysql.Error) else error

    def rejected(self, state: str, says: str) -> Exception:
        says, number = " ".join(says.split()).rstrip("."), int(state)
        if number in _LOST or 2000 <= number < 3000:
            return Unavailable(says or "the connection was lost")
        if number == _NO_TABLE and "headwater_staging_" in says:
            self.staging = ""
            return StagingLost(says)
        found = _DUPLICATE_OF.search(says)
        if number == _DUPLICATE and self.target.mode is Mode.UPDATE and found and found[1] == self._key_index:
            return Unavailable(f"another writer has inserted the same key: {says}")
        return Rejected(errors.DATABASE_WRITE_FAILED, says=f"{says} (error {number})")
