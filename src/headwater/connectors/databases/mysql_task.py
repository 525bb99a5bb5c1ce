"""The executor side of the mysql sink: a task loads its rows into the staging table in one transaction.

It writes a file and sends it with LOAD DATA LOCAL; if the server does not allow that, it sends INSERT statements.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pymysql
from pymysql.connections import Connection

from headwater.connectors.databases.server_task import (
    NOT_A_YEAR,
    NOT_FINITE,
    Batches,
    InvalidValue,
    as_files,
    loading,
    refuse_invalid_texts,
)

_SESSION = {
    # Nothing is cut or corrected silently, and 0 is stored as 0 in a column with AUTO_INCREMENT.
    "sql_mode": "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
    "time_zone": "'+00:00'",
    # Who waits for a lock fails, repeats the step, and reports it if it stays locked.
    "innodb_lock_wait_timeout": "10",
    "lock_wait_timeout": "10",
    # The server ends the transaction of a suspended process, which would block the run that takes over.
    "wait_timeout": "30",
    "net_read_timeout": "30",
    "net_write_timeout": "30",
    # GROUP BY compares all bytes of a key.
    "max_sort_length": "4096",
    # SHOW WARNINGS must not omit a cut value.
    "max_error_count": "65535",
}
_CUT = {1264, 1265, 1292, 1366, 1406}
"""Codes of warnings about a value that was changed. LOAD DATA LOCAL has no errors for them."""
CHANGED = 1265
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
_YEARS = {"day": (-719_162, 2_932_896), "us": (-62_135_596_800_000_000, 253_402_300_799_999_999)}
"""The first and the last day, and microsecond, of the years 1 to 9999."""


@contextmanager
def connected(
    login: Mapping[str, Any],
    tls: Mapping[str, Any] | None,
    files: Mapping[str, bytes],
    timeout_ms: int,
    *,
    local_infile: bool = False,
) -> Iterator[Connection[Any]]:
    """A connection that commits each statement. `files` are those of TLS, which exist only on the driver."""
    connection = pymysql.connect(
        **login,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=10,
        local_infile=local_infile,
        binary_prefix=True,
        ssl=_tls_context(tls, files) if tls else None,
    )
    try:
        _keep_alive(connection)
        with connection.cursor() as cursor:
            settings = {**_SESSION}
            if timeout_ms and "MariaDB" in server_version(connection):
                settings["max_statement_time"] = str(timeout_ms / 1000)
            elif timeout_ms:
                settings["max_execution_time"] = str(timeout_ms)
            cursor.execute("SET " + ", ".join(f"SESSION {key} = {value}" for key, value in settings.items()))
            # A statement after a lock sees what its last holder has committed.
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        yield connection
    except AttributeError as error:
        # The client forgets its socket when it loses the connection while it sends a file.
        if connection.open:
            raise
        raise pymysql.OperationalError(2013, "Lost connection to the server") from error
    finally:
        with suppress(pymysql.Error, OSError):
            connection.close()


def server_version(connection: Connection[Any]) -> str:
    """The version as the server reports it."""
    return str(connection.get_server_info())  # type: ignore[no-untyped-call]


def _keep_alive(connection: Connection[Any]) -> None:
    """Let the client notice within a minute that the server is gone."""
    for name, value in _KEEPALIVE.items():
        option = getattr(socket, name, None)
        raw = getattr(connection, "_sock", None)
        if option is not None and raw is not None:
            with suppress(OSError):
                raw.setsockopt(socket.IPPROTO_TCP, option, value)


def _tls_context(tls: Mapping[str, Any], files: Mapping[str, bytes]) -> ssl.SSLContext:
    # With `ca`, only that one counts; by default, those of the system.
    context = ssl.create_default_context(cadata=files["ca"].decode() if "ca" in files else None)
    context.check_hostname = tls["mode"] == "verify-full"
    context.verify_mode = ssl.CERT_NONE if tls["mode"] == "require" else ssl.CERT_REQUIRED
    if "certificate" in files:
        with as_files(files) as paths:
            context.load_cert_chain(paths["certificate"], paths.get("key"), tls.get("key_password"))
    return context


def is_cut(cursor: Any) -> str | None:
    """The warning about a value that the last statement has changed, if there is one."""
    if not cursor.warning_count:
        return None
    cursor.execute("SHOW WARNINGS")
    return next((text for _, code, text in cursor.fetchall() if code in _CUT), None)


def loading_into(
    login: Mapping[str, Any],
    tls: Mapping[str, Any] | None,
    files: Mapping[str, bytes],
    timeout_ms: int,
    staging: str,
    names: Sequence[str],
    as_file: bool,
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow` that loads a partition into these columns of the staging table."""
    connect = functools.partial(connected, login, tls, files, timeout_ms, local_infile=as_file)

    def load(task: int, batches: Batches) -> int:
        # The connection opens when all rows are in a file: a server closes a connection that is idle for long.
        with tempfile.NamedTemporaryFile(prefix="headwater-") as file:
            rows = 0
            with (
                contextlib.nullcontext()
                if as_file
                else pa.ipc.new_stream(file, _text_schema(names)) as stream
            ):
                for batch in batches:
                    refuse_invalid_texts(batch, nul=True)
                    texts = _texts(batch, task, rows, names)
                    file.write(_lines(texts)) if stream is None else stream.write_batch(texts)
                    rows += batch.num_rows
            file.flush()
            with connect() as connection, connection.cursor() as cursor:
                connection.begin()
                (_load_file if as_file else _insert)(cursor, file.name, staging, names)
                connection.commit()
        return rows

    return loading(load, pymysql.Error, explained)


def _load_file(cursor: Any, path: str, staging: str, names: Sequence[str]) -> None:
    """Send a file of lines."""
    cursor.execute(
        f"LOAD DATA LOCAL INFILE {cursor.connection.escape(path)} INTO TABLE {staging} "
        r"CHARACTER SET binary FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' "
        f"({', '.join(names)})"
    )
    if cut := is_cut(cursor):
        raise pymysql.DataError(CHANGED, cut)


def _insert(cursor: Any, path: str, staging: str, names: Sequence[str]) -> None:
    """Insert the rows of a file of Arrow, many with each statement."""
    # The client replaces `%s`, so a `%` in a name is doubled.
    staging = staging.replace("%", "%%")
    statement = f"INSERT INTO {staging} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
    with pa.ipc.open_stream(path) as stream:
        for batch in stream:
            values = [column.to_pylist() for column in batch.columns]
            cursor.executemany(statement, list(zip(*values, strict=True)))


def explained(error: Exception) -> tuple[str, str]:
    """The number and the message of an error."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    return str(number), str(error.args[-1] if error.args else error)


def _text_schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.large_binary()) for name in names])


def _texts(batch: pa.RecordBatch, task: int, start: int, names: Sequence[str]) -> pa.RecordBatch:
    """The values as MySQL reads them, in bytes; `task` and the number of the row come first."""
    numbers = [
        pa.repeat(pa.scalar(task, pa.int64()), batch.num_rows),
        pa.array(range(start, start + batch.num_rows), pa.int64()),
    ]
    columns = [_text(number - 2, column) for number, column in enumerate([*numbers, *batch.columns])]
    return pa.RecordBatch.from_arrays(columns, schema=_text_schema(names))


def _text(number: int, column: pa.Array) -> pa.Array:
    type_ = column.type
    if pa.types.is_floating(type_):
        if not pc.all(pc.is_finite(column)).as_py() and column.null_count < len(column):
            raise InvalidValue(number, NOT_FINITE)
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(type_):
        column = column.cast(pa.int8())
    elif pa.types.is_date(type_):
        _refuse_years(number, column.cast(pa.int32()), "day")
    elif pa.types.is_timestamp(type_):
        instants = column.cast(pa.int64())
        _refuse_years(number, instants, "us")
        column = instants.cast(pa.timestamp("us"))
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary())


def _refuse_years(number: int, values: pa.Array, unit: str) -> None:
    first, last = _YEARS[unit]
    outside = pc.or_(pc.less(values, first), pc.greater(values, last))
    if pc.any(outside).as_py():
        raise InvalidValue(number, NOT_A_YEAR)


def _lines(texts: pa.RecordBatch) -> bytes:
    """The lines of a file for LOAD DATA."""
    columns = texts.columns
    for plain, escaped in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n")):
        columns = [pc.replace_substring(column, plain, escaped) for column in columns]
    joined = pc.binary_join_element_wise(
        *columns, pa.scalar(b"\t", pa.large_binary()), null_handling="replace", null_replacement=b"\\N"
    )
    return b"".join(line + b"\n" for line in joined.to_pylist())
