"""Intercepts PySpark methods that write or start queries, in checked scripts and in table functions.

A table function only builds a plan. PySpark's classes are patched once in this process. Their behavior
changes only in a thread inside `without_writes`: functions of running queries can still write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import Catalog, DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark.plans import nodes_of, parsed
from headwater.spark.private import JavaObject, class_name, items_of

# What of PySpark writes rows, makes tables or starts queries: methods, and statements of SQL.

MAKES_TABLE = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
_STATEMENTS = frozenset(
    {
        *MAKES_TABLE,
        "CompoundBody",
        "CreateTableLikeCommand",
        "DeleteFromTable",
        "DropPartitions",
        "DropTable",
        "InsertIntoDir",
        "InsertIntoStatement",
        "LoadData",
        "MergeIntoTable",
        "OptimizeTableCommand",
        "TruncatePartition",
        "TruncateTable",
        "UpdateTable",
        "VacuumTableCommand",
    }
)
"""Spark's names for what SQL can do to rows and tables that stay."""
_COMMENTS = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_STATEMENT = re.compile(
    rf"{_COMMENTS}(?:INSERT|MERGE|DELETE|UPDATE|TRUNCATE|LOAD|DROP\s+TABLE|"
    r"(?:CREATE|REPLACE)\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?TABLE)\b",
    re.IGNORECASE | re.DOTALL,
)


def replace_methods(kind: type, **methods: Any) -> None:
    """Put these in the place of a class's own methods, in this process, for good."""
    for name, method in methods.items():
        setattr(kind, name, method)


def hold_persisted(batch: DataFrame) -> None:
    """Keep this DataFrame persisted, even if other code persists or unpersists it."""
    for name in ("persist", "cache", "unpersist"):
        setattr(batch, name, lambda *_, **__: batch)


def writing_statement(spark: Any, text: str) -> tuple[str, str] | None:
    """Spark's name for a statement that would change what stays, and the table that it makes."""
    try:
        plan = parsed(spark, text)
    except (PySparkException, Py4JError):
        # A text with places for values in it, or one that is wrong, which Spark is to say.
        return ("", "") if _STATEMENT.match(text) else None
    found = _writing(plan)
    if found is None:
        return None
    kind = class_name(found)
    return kind, _table_name(found) if kind in MAKES_TABLE else ""


def _writing(plan: JavaObject) -> JavaObject | None:
    """The first node that writes; WITH and several INSERTs of one FROM stand above theirs."""
    return next((node for node in nodes_of(plan) if class_name(node) in _STATEMENTS), None)


def _table_name(plan: JavaObject) -> str:
    return ".".join(map(str, items_of(plan.name().nameParts())))


@dataclass(frozen=True)
class WritingMethod:
    """A method of PySpark's that writes rows, makes a table or starts a query."""

    kind: type
    name: str
    call: str
    """As one would write it in a message."""
    writes: Callable[..., bool] = lambda *given, **named: True
    """Whether a call with these arguments does."""


def _sql_writes(spark: Any, sqlQuery: str, *given: Any, **named: Any) -> bool:  # noqa: N803 - PySpark's name
    return writing_statement(spark, sqlQuery) is not None


def _is_finished(frame: Any, *given: Any, **named: Any) -> bool:
    return not frame.isStreaming


_NAMES: tuple[tuple[type, str, str], ...] = (
    (DataStreamWriter, "writeStream", "start toTable"),
    (DataFrameWriter, "write", "save saveAsTable insertInto jdbc csv json orc parquet text xml"),
    (DataFrameWriterV2, "writeTo(…)", "create replace createOrReplace append overwrite overwritePartitions"),
    (MergeIntoWriter, "mergeInto(…)", "merge"),
    (Catalog, "catalog", "createTable createExternalTable"),
    (RDD, "rdd", "saveAsHadoopDataset saveAsHadoopFile saveAsNewAPIHadoopDataset saveAsNewAPIHadoopFile"),
    (RDD, "rdd", "saveAsPickleFile saveAsSequenceFile saveAsTextFile"),
)
WRITING_METHODS: tuple[WritingMethod, ...] = (
    *(
        WritingMethod(kind, name, f"`{owner}.{name}()`")
        for kind, owner, names in _NAMES
        for name in names.split()
    ),
    # Functions that are called with rows for what they do elsewhere; on a stream Spark refuses them.
    WritingMethod(ClassicDataFrame, "foreach", "`foreach()`", _is_finished),
    WritingMethod(ClassicDataFrame, "foreachPartition", "`foreachPartition()`", _is_finished),
    WritingMethod(SparkSession, "sql", "SQL that writes", _sql_writes),
)
Method = Callable[..., Any]


def intercept(replacement_of: Callable[[WritingMethod, Method], Method]) -> None:
    """Replace every method that writes, in this process, for good; a replacement gets the method itself."""
    for each in WRITING_METHODS:
        original = getattr(each.kind, each.name)
        replace_methods(each.kind, **{each.name: wraps(original)(replacement_of(each, original))})


class WriteRefused(Exception):
    """A call that would have started a query or written rows."""

    def __init__(self, call: str) -> None:
        super().__init__(f"{call} is not allowed here")
        self.call = call


_refused: ContextVar[list[WriteRefused] | None] = ContextVar("refused", default=None)
"""The rejected calls so far; None outside `without_writes`. Each thread has its own value."""


@contextmanager
def without_writes() -> Iterator[None]:
    """Block all Spark writes and starts in this thread; raises WriteRefused at the end if there were any.

    It is raised even if the code inside has caught it or raised something else.
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
    intercept(_guarded)


def _guarded(method: WritingMethod, original: Method) -> Method:
    # Code that looks for the method called by the user skips private names.
    def _called(*given: Any, **named: Any) -> Any:
        refused = _refused.get()
        if refused is None or not method.writes(*given, **named):
            return original(*given, **named)
        refused.append(WriteRefused(method.call))
        raise refused[-1]

    return _called
