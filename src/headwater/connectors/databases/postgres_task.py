"""The executor side of the postgres sink: a task copies its rows into the staging table in one COPY."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
from pgpq import ArrowToPostgresBinaryEncoder

from headwater.connectors.databases.server_task import Batches, as_files, loading, refuse_invalid_texts

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
    with as_files(files) as paths:
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

    def load(task: int, batches: Batches) -> int:
        rows = 0
        with connected(url, keywords, files, timeout_ms) as connection, connection.cursor() as cursor:
            encoder = None
            with cursor.copy(copy) as stream:
                for batch in batches:
                    refuse_invalid_texts(batch, nul=False)
                    numbered = _numbered(batch, task)
                    if encoder is None:
                        encoder = ArrowToPostgresBinaryEncoder(numbered.schema)
                        stream.write(encoder.write_header())
                    stream.write(encoder.write_batch(numbered))
                    rows += batch.num_rows
                assert encoder is not None, "a partition without rows is not loaded"
                stream.write(encoder.finish())
        return rows

    return loading(load, psycopg.Error, _explained)


def _explained(error: psycopg.Error) -> tuple[str, str]:
    return error.sqlstate or "", (error.diag.message_primary or str(error)).strip()


def _numbered(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    number = pa.repeat(pa.scalar(task, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([number, *batch.columns], ["task", *batch.schema.names])
