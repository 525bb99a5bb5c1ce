"""SQL queries over the tables of a run: what its sinks have written so far."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import sink_side
from headwater.connectors.connector import ReadsBack, ReadsTable
from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.sql_values import SqlResult, first_rows
from headwater.errors import HeadwaterError, UsageError
from headwater.errors.catalogue.connectors import (
    RUN_SQL_INVALID,
    RUN_SQL_STREAM_UNSUPPORTED,
    SQL_BUSY,
    SQL_FUNCTION_FORBIDDEN,
    SQL_NOT_READ_ONLY,
    SQL_RESULT_TOO_LARGE,
    SQL_TABLE_TOO_LARGE,
    SQL_TABLE_UNREADABLE,
    SQL_TIMEOUT,
)
from headwater.plan.graph import NotAQuery, NotSql, sql_references
from headwater.spark.errors import python_failure, sentence_of
from headwater.spark.session import active, copy_of
from headwater.spark.sql_text import (
    FORBIDDEN_FUNCTIONS,
    SqlText,
    cancel_group,
    forbidden_function,
    quoted_name,
    read_besides,
    read_only_copy,
    show_as,
)
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import scrub

__all__ = ["DataFrame", "SqlResult", "SqlTables"]

MAX_ROWS = 1000
MAX_SECONDS = 10.0
MAX_BYTES = 16 << 20
_SIZE = f"{MAX_BYTES >> 20} MB"
POOL = "headwater sql"
_WAITING = 4
"""How many queries can wait while one runs."""
_SHARE = 4
"""A stage of a query has one task for this number of cores, so most cores stay with the pipeline."""
# Dates that Python does not have; a JVM that has exited.
_OTHER_ERRORS = (ValueError, OverflowError, OSError)
_LOG = logging.getLogger("headwater")


_GROUPED = "SELECT id % 2 AS k, count(*) AS n FROM range(4) WHERE id > 0 GROUP BY id % 2 ORDER BY n"


@dataclass
class SqlTables:
    """The tables of one run: each has the name of its sink, and the rows that the sink has written.

    They are the tables of in-process sinks, which are views in the session of the pipeline, and of sinks that
    can be read back. Tables in databases are read on the driver, and only if they are small. Queries run in
    copies of that session, so they cannot change it.
    """

    spark: SparkSession
    spec: PipelineSpec
    frames: Mapping[str, DataFrame]
    """What each sink writes, by its name."""
    _analysis: threading.Lock = field(default_factory=threading.Lock)
    _slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(1 + _WAITING))
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self) -> None:
        """Do in the background what makes the first query slow: its session, and what the JVM loads and compiles."""
        InheritableThread(target=self._prepare, name="headwater sql", daemon=True).start()

    def _prepare(self) -> None:
        # One row of one table of each kind; a table in a database is read as a whole.
        kinds = {sink.connector: sink for sink in self._readable.values() if not _reads_all(sink)}
        tables = [
            f"SELECT count(*) FROM (SELECT * FROM {quoted_name(each.name)} LIMIT 1)"
            for each in kinds.values()
        ]
        try:
            for query in (*tables, _GROUPED):
                # A query that comes meanwhile is next.
                with self._turn:
                    self._answer(query, 1, _new_group())
        except Exception:  # noqa: BLE001 - the run may have ended; the first query reports what is wrong
            _LOG.debug("could not prepare for queries", exc_info=True)

    def query(self, sql: str) -> DataFrame:
        """The rows of a query; UsageError if Spark rejects it or it reads a stream.

        It can also read the static sources of the pipeline and the catalogs of Spark.
        """
        self._refuse_statements(sql)
        try:
            with self._analysis, active(self._open_session):
                text = SqlText.of(self._open_session, sql)
                self._show(self._open_session, text)
                rows = self._open_session.sql(sql)
        except SPARK_ERRORS as error:
            raise self._failed(error) from error
        return self._static(rows)

    def rows(self, sql: str, max_rows: int = MAX_ROWS, seconds: float = MAX_SECONDS) -> SqlResult:
        """The first rows of a query that only reads the tables; UsageError if it does not, or exceeds a limit.

        One query runs at a time, and a few wait for it. The wait counts toward the limit of `seconds`.
        """
        self._refuse_statements(sql)
        deadline = time.monotonic() + seconds
        if not self._slots.acquire(blocking=False):
            raise UsageError(SQL_BUSY.at(None, count=1 + _WAITING))
        if not self._turn.acquire(timeout=max(0.0, seconds)):
            self._slots.release()
            raise UsageError(SQL_TIMEOUT.at(None, seconds=f"{seconds:g}"))
        answer = Future[SqlResult]()
        group = _new_group()

        def work() -> None:
            try:
                answer.set_result(self._answer(sql, max_rows, group))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                answer.set_exception(error)
            finally:
                self._turn.release()
                self._slots.release()

        # A thread of its own, whose local properties no other query sees.
        thread = InheritableThread(target=work, name="headwater sql", daemon=True)
        thread.start()
        try:
            return answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            cancel_group(self.spark, group)
            raise UsageError(SQL_TIMEOUT.at(None, seconds=f"{seconds:g}")) from None

    def _answer(self, sql: str, max_rows: int, group: str) -> SqlResult:
        try:
            context = self.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOL)
            context.setJobGroup(group, "headwater sql", interruptOnCancel=True)
            with active(self._read_only_session):
                found = first_rows(self._analyzed(sql), max_rows, MAX_BYTES)
        except (*SPARK_ERRORS, *_OTHER_ERRORS) as error:
            raise self._failed(error) from error
        if found is None:
            raise UsageError(SQL_RESULT_TOO_LARGE.at(None, size=_SIZE))
        return found

    def _analyzed(self, sql: str) -> DataFrame:
        """The result of a text that only reads the tables."""
        with self._analysis:
            text = SqlText.of(self._read_only_session, sql)
            if text.statement is not None:
                raise self._no_query(sql, text.statement)
            for parts in text.tables:
                if len(parts) > 1 or parts[0].lower() not in self._readable:
                    raise self._unreadable(".".join(parts))
            self._show(self._read_only_session, text)
            rows = text.analyzed()
            if rows is None:
                raise self._no_query(sql, "Command")
        # Spark has the last word on what a name means.
        besides = read_besides(rows, self._readable.keys())
        if besides:
            raise self._unreadable(besides)
        return self._static(rows)

    def _show(self, session: SparkSession, text: SqlText) -> None:
        """Let a session see the current rows of the tables that a text names."""
        for parts in text.tables:
            sink = self._readable.get(parts[0].lower())
            if len(parts) == 1 and sink is not None:
                show_as(session, sink.name, self._table(session, sink))

    def _table(self, session: SparkSession, sink: SinkSpec) -> DataFrame:
        side = sink_side(sink.connector)
        if isinstance(side, ReadsBack):
            return side.read_back(session, sink.options, self.frames[sink.name].schema)
        if isinstance(side, ReadsTable):
            rows = side.read_table(session, sink, self.frames[sink.name].schema, MAX_BYTES)
            if rows is None:
                raise UsageError(SQL_TABLE_TOO_LARGE.at(None, name=sink.name, size=_SIZE))
            return rows
        return self.spark.table(quoted_name(sink.name))

    @cached_property
    def _open_session(self) -> SparkSession:
        return copy_of(self.spark)

    @cached_property
    def _read_only_session(self) -> SparkSession:
        return read_only_copy(self.spark, max(1, self.spark.sparkContext.defaultParallelism // _SHARE))

    @cached_property
    def _readable(self) -> dict[str, SinkSpec]:
        """The sinks that can be queried, by their names in lower case."""
        sides = ((sink, sink_side(sink.connector)) for sink in self.spec.sinks)
        return {
            sink.name.lower(): sink
            for sink, side in sides
            if side.in_process or isinstance(side, ReadsBack | ReadsTable)
        }

    @property
    def _names(self) -> str:
        names = (sink.name for sink in self._readable.values())
        return ", ".join(name if name.isidentifier() else quoted_name(name) for name in names) or "none"

    # Errors.

    def _refuse_statements(self, sql: str) -> None:
        """UsageError for a text that is certainly not one query."""
        try:
            sql_references(sql)
        except NotAQuery as error:
            raise UsageError(SQL_NOT_READ_ONLY.at(None, what=str(error))) from None
        except NotSql as error:
            raise UsageError(RUN_SQL_INVALID.at(None, says=str(error), tables=self._names)) from None

    def _no_query(self, sql: str, statement: str) -> HeadwaterError:
        return UsageError(SQL_NOT_READ_ONLY.at(None, what=f"{scrub(sql.split()[0])} ({statement})"))

    def _unreadable(self, name: str) -> HeadwaterError:
        return UsageError(SQL_TABLE_UNREADABLE.at(None, name=name, tables=self._names))

    def _failed(self, error: Exception) -> HeadwaterError:
        name = forbidden_function(error)
        if name is not None:
            return UsageError(SQL_FUNCTION_FORBIDDEN.at(None, name=name, reason=FORBIDDEN_FUNCTIONS[name]))
        of_python = python_failure(error, self.spec.root)
        says = scrub(of_python[0] if of_python else sentence_of(error))
        return UsageError(RUN_SQL_INVALID.at(None, says=says, tables=self._names))

    def _static(self, rows: DataFrame) -> DataFrame:
        if rows.isStreaming:
            raise UsageError(RUN_SQL_STREAM_UNSUPPORTED.at(None, tables=self._names))
        return rows


def _reads_all(sink: SinkSpec) -> bool:
    """Whether each query reads the whole table of a sink."""
    return isinstance(sink_side(sink.connector), ReadsTable)


def _new_group() -> str:
    """The name of the jobs of one query."""
    return f"headwater sql {uuid.uuid4().hex}"
