"""The executor side of the postgres sink; sent by value, because the executors may not have Headwater.

So this module imports nothing of Headwater. A task copies its rows into the staging table in one COPY, which is
atomic, with a random number of its own. The driver applies only the rows of the tasks that Spark counts: what a
failed or repeated task has left has other numbers.
"""

from __future__ import annotations

import itertools
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pgpq import ArrowToPostgresBinaryEncoder

RESULT = "task bigint, rows bigint, state string, says string, column int"
"""What a task returns: its number and its rows; or the SQLSTATE and the message of an error; or the number of a column
and what it contains that PostgreSQL does not store."""
NUL, NOT_UTF8 = "a NUL character", "a text that is not valid UTF-8"
_SESSION = {
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "timezone": "UTC",
    # Who waits for a lock fails, repeats the step, and reports it if it stays locked. A statement after a lock sees
    # what its last holder has committed.
    "lock_timeout": "10s",
    "default_transaction_isolation": "read committed",
}


@contextmanager
def connected(
    url: str, keywords: Mapping[str, str], files: Mapping[str, bytes], timeout_ms: int
) -> Iterator[psycopg.Connection[Any]]:
    """A connection that commits each statement. `files` are those of TLS, which exist only on the driver."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for keyword, content in files.items():
            paths[keyword] = os.path.join(folder, keyword)
            with open(os.open(paths[keyword], os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(content)
        connection = psycopg.connect(url, **keywords, **paths, autocommit=True)  # type: ignore[arg-type]
    with connection:
        # The server ends the transaction of a suspended process, which would block the run that takes over, and
        # notices within a minute that a client is gone.
        settings = {**_SESSION, "statement_timeout": str(timeout_ms)}
        calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
        connection.execute(f"SELECT {calls}", [text for each in settings.items() for text in each])
        yield connection


def copying(
    url: str, keywords: Mapping[str, str], files: Mapping[str, bytes], timeout_ms: int, copy: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that copies a partition with this statement."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        task, rows = secrets.randbits(62), 0
        try:
            with connected(url, keywords, files, timeout_ms) as connection, connection.cursor() as cursor:
                encoder = ArrowToPostgresBinaryEncoder(_numbered(first, task).schema)
                with cursor.copy(copy) as stream:
                    stream.write(encoder.write_header())
                    for batch in itertools.chain((first,), filled):
                        _refuse_invalid(batch)
                        stream.write(encoder.write_batch(_numbered(batch, task)))
                        rows += batch.num_rows
                    stream.write(encoder.finish())
        except (psycopg.Error, InvalidText) as error:
            # An exception would carry Spark's traceback to people. The rows are read to their end, because Spark
            # stores the state of a batch after the last one.
            for _ in filled:
                continue
            yield _failed(error)
            return
        yield _result(task, rows, None, None, None)

    return run


class InvalidText(Exception):
    """A column contains a text that PostgreSQL does not store."""

    def __init__(self, column: int, what: str) -> None:
        super().__init__(what)
        self.column = column


def _refuse_invalid(batch: pa.RecordBatch) -> None:
    for number, column in enumerate(batch.columns):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise InvalidText(number, NOT_UTF8) from None
        if pc.any(pc.match_substring(column, "\0")).as_py():
            raise InvalidText(number, NUL)


def _numbered(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    number = pa.repeat(pa.scalar(task, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([number, *batch.columns], ["task", *batch.schema.names])


def _failed(error: psycopg.Error | InvalidText) -> pa.RecordBatch:
    if isinstance(error, InvalidText):
        return _result(0, 0, None, str(error), error.column)
    says = (error.diag.message_primary or str(error)).strip()
    return _result(0, 0, error.sqlstate or "", says or type(error).__name__, None)


def _result(task: int, rows: int, state: str | None, says: str | None, column: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([task], pa.int64()),
            pa.array([rows], pa.int64()),
            pa.array([state], pa.string()),
            pa.array([says], pa.string()),
            pa.array([column], pa.int32()),
        ],
        ["task", "rows", "state", "says", "column"],
    )
