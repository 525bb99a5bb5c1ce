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

RESULT = "task bigint, rows bigint, state string, says string, nul_column int"
"""What a task returns: its number and its rows; or the SQLSTATE and the message of an error, and the number of the
column that contains a NUL character, which PostgreSQL does not store."""


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
        # A process that is paused inside a transaction must not block the run that takes over.
        connection.execute(
            "SELECT set_config('statement_timeout', %s, false), "
            "set_config('idle_in_transaction_session_timeout', '30s', false), set_config('timezone', 'UTC', false), "
            # Who waits for a lock fails, repeats the step, and reports it if it stays locked. A statement after a lock
            # sees what its last holder has committed.
            "set_config('lock_timeout', '10s', false), "
            "set_config('default_transaction_isolation', 'read committed', false)",
            (str(timeout_ms),),
        )
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
                        _refuse_nul(batch)
                        stream.write(encoder.write_batch(_numbered(batch, task)))
                        rows += batch.num_rows
                    stream.write(encoder.finish())
        except (psycopg.Error, NulFound) as error:
            # An exception would carry Spark's traceback to people. The rows are read to their end, because Spark
            # stores the state of a batch after the last one.
            for _ in filled:
                continue
            yield _failed(error)
            return
        yield _result(task, rows, None, None, None)

    return run


class NulFound(Exception):
    """A column of text contains a NUL character."""

    def __init__(self, column: int) -> None:
        super().__init__(column)
        self.column = column


def _refuse_nul(batch: pa.RecordBatch) -> None:
    for number, column in enumerate(batch.columns):
        if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise NulFound(number)


def _numbered(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    number = pa.repeat(pa.scalar(task, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([number, *batch.columns], ["task", *batch.schema.names])


def _failed(error: psycopg.Error | NulFound) -> pa.RecordBatch:
    if isinstance(error, NulFound):
        return _result(0, 0, "22021", "a text contains a NUL character", error.column)
    says = (error.diag.message_primary or str(error)).strip()
    return _result(0, 0, error.sqlstate or "", says or type(error).__name__, None)


def _result(
    task: int, rows: int, state: str | None, says: str | None, nul_column: int | None
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([task], pa.int64()),
            pa.array([rows], pa.int64()),
            pa.array([state], pa.string()),
            pa.array([says], pa.string()),
            pa.array([nul_column], pa.int32()),
        ],
        ["task", "rows", "state", "says", "nul_column"],
    )
