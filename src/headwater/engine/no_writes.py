"""Writes and starts refused while the function of a table is called: such a function only makes a plan.

PySpark's classes are changed once in this process. What they do is the same as before, save in a thread that
is inside `without_writes`: functions of running queries may write at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any

from pyspark import RDD
from pyspark.sql import Catalog, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.engine.writing_calls import (
    FILES,
    INTO_TABLES,
    OF_CATALOGS,
    OF_FRAMES,
    OF_RDDS,
    writing_statement,
)

Writes = Callable[..., bool]
"""Whether a call with these arguments writes."""
_METHODS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (DataStreamWriter, "writeStream", ("start", "toTable")),
    (DataFrameWriter, "write", ("save", "saveAsTable", "insertInto", "jdbc", *FILES)),
    (DataFrameWriterV2, "writeTo(…)", INTO_TABLES),
    (MergeIntoWriter, "mergeInto(…)", ("merge",)),
    (Catalog, "catalog", OF_CATALOGS),
    (RDD, "rdd", OF_RDDS),
)


class WriteRefused(Exception):
    """A call that would have started a query or written rows."""

    def __init__(self, call: str) -> None:
        super().__init__(f"{call} is refused here")
        self.call = call


_refused: ContextVar[list[WriteRefused] | None] = ContextVar("refused", default=None)
"""What was refused so far; None where everything may write. Another thread has a value of its own."""


@contextmanager
def without_writes() -> Iterator[None]:
    """Let nothing of Spark's write or start in this thread; WriteRefused at the end if something would have.

    It is raised whatever the code inside has made of it: caught it, or raised something else for it.
    """
    _install()
    refused: list[WriteRefused] = []
    token = _refused.set(refused)
    try:
        yield
    except Exception:
        if not refused:
            raise
    finally:
        _refused.reset(token)
    if refused:
        raise refused[0]


@cache
def _install() -> None:
    for kind, owner, names in _METHODS:
        for name in names:
            _guard(kind, name, f"`{owner}.{name}()`", lambda *given, **named: True)
    for name in OF_FRAMES:
        _guard(DataFrame, name, f"`{name}()`", lambda frame, *given, **named: not frame.isStreaming)
    _guard(SparkSession, "sql", "SQL that writes", _sql_writes)


def _guard(kind: type, name: str, call: str, writes: Writes) -> None:
    original = getattr(kind, name)

    @wraps(original)
    def _guarded(self: Any, *given: Any, **named: Any) -> Any:
        refused = _refused.get()
        if refused is not None and writes(self, *given, **named):
            refused.append(WriteRefused(call))
            raise refused[-1]
        return original(self, *given, **named)

    setattr(kind, name, _guarded)


def _sql_writes(spark: Any, sqlQuery: str, *given: Any, **named: Any) -> bool:  # noqa: N803 - PySpark's name
    return writing_statement(spark, sqlQuery) is not None
