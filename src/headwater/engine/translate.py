"""The one place where Spark's exceptions become problems of the catalogue."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from headwater.connectors import all_connectors
from headwater.connectors.connector import ExplainsFailures, Failure
from headwater.errors import Problem
from headwater.errors.catalogue import running
from headwater.errors.catalogue.pipelines import EXPECTATION_FAILED
from headwater.errors.catalogue.running import (
    BAD_ROW,
    PIVOT_UNSUPPORTED,
    REPLAYED_ROWS_INVALID,
    SUBQUERY_UNSUPPORTED,
)
from headwater.spark.errors import (
    SparkStopped,
    as_spark_said,
    causes_of,
    condition_of,
    failure_of,
    parameters_of,
    place_in_sql,
    place_in_tables,
    python_failure,
    sentence_of,
)
from headwater.spark.interception import WriteRefused
from headwater.spark.jvm_log import LOG
from headwater.spec import SinkSpec, SourceSpec, TableSpec
from headwater.values import Position, nearest, scrub
from headwater.values.user_frames import is_users, user_line

# Calls that need all rows, made on a stream by the function of a Python table.

_SAYS = (
    "Queries with streaming sources must be executed with writeStream",
    "pandas-on-Spark does not support Structured Streaming",
    "pivot is not supported on a streaming",
)
_CONDITION = "CALL_ON_STREAMING_DATASET_UNSUPPORTED"
PIVOT = "`pivot()`"
"""Without values: Spark would compute them from all rows."""
_ATTRIBUTES = ("rdd", "write")
"""Names that are attributes, not calls."""


def action_of(error: Exception, root: Path) -> str | None:
    """The call that a stream does not support, as the user wrote it: `count()`; None for any other error."""
    if condition_of(error) != _CONDITION and not any(each in str(error) for each in _SAYS):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    last = max((place for place, each in enumerate(frames) if is_users(each.filename, root)), default=-1)
    below = [each.name for each in frames[last + 1 :] if not each.name.startswith(("_", "<"))]
    if last < 0 or not below:
        return "an action"
    return f"`{below[0]}`" if below[0] in _ATTRIBUTES else f"`{below[0]}()`"


_ROW_CONDITIONS = (
    "MALFORMED_RECORD_IN_PARSING",
    "MALFORMED_CSV_RECORD",
    "CANNOT_PARSE_JSON_FIELD",
    "CANNOT_PARSE_STRING_AS_DATATYPE",
)
_STREAM_IN_EXPRESSION = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"
_NEGATED = re.compile(r"\bNOT\s+(IN|EXISTS)\b|\bNOT\b[^()]*\bIN\s*\(\s*SELECT\b", re.IGNORECASE)
_NO_WORKER = "Python worker failed to connect back"
_FILE_CONDITIONS = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FILE_NOT_EXIST")
_UNREAD_FILE = "FAILED_READ_FILE"
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)

# The failure for a bad row; its parts are separated by tabs.
_BAD_ROW = re.compile(
    rf"\[USER_RAISED_EXCEPTION\] {BAD_ROW.code}\t([^\t]*)\t([^\t]*)\t([^\n]*?)(?: SQLSTATE|\n|$)"
)

_FAILED_ROW = re.compile(
    rf"\[USER_RAISED_EXCEPTION\] {EXPECTATION_FAILED.code}\t([^\t]*)\t([^\t]*)\t([^\n]*)"
)
_UNREADABLE_ROW = re.compile(rf"\[USER_RAISED_EXCEPTION\] {REPLAYED_ROWS_INVALID.code}\t([^\t]*)\t([^\n]*)")
_SHOWN_OF_A_ROW = 300

_NO_CONNECTION = re.compile(
    r"\bjava\.net\.(Connect|UnknownHost|NoRouteToHost|SocketTimeout|PortUnreachable)Exception\b"
)
_UNREACHABLE = re.compile(
    # Errors of connections: Python's own, those of clients for HTTP and databases, and those of JDBC.
    r"(?:[\w.]*\.)?(?:Connect(?:ion)?\w*Error|\w*Timeout(?:Error)?|BrokenPipeError|URLError|gaierror)\b"
    r"|(?:sqlalchemy|psycopg|psycopg2|pymysql|MySQLdb|mysql|oracledb|pyodbc|redis|asyncpg)[\w.]*"
    r"\.(?:OperationalError|InterfaceError)\b"
    r"|(?:ConnectException|SocketTimeoutException|UnknownHostException|CommunicationsException)\b"
    r"|SQL(?:Transient\w*|Recoverable)Exception\b"
)
"""Exceptions of user code after which a retry can succeed."""
_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError(?:: ([^\n]*))?|^(MemoryError)\b", re.MULTILINE)
_WORKER_EXITED = re.compile(r"Python worker exited unexpectedly(?: \(([^)\n]*)\))?")


def source_problem(error: Exception, source: SourceSpec, root: Path) -> Problem:
    """Why a source could not be read; at the user's own line if its class failed."""
    in_python = python_failure(error, root)
    if in_python:
        raised, line = in_python
        where = f"source `{source.name}`"
        return _detailed(
            running.CLASS_CODE_FAILED.at(line or source.position, where=where, error=raised), error
        )
    return _generic(error, f"source `{source.name}`", source.position)


def sql_problem(error: Exception, table: TableSpec) -> Problem:
    """The problem in the SQL of a table, at its line."""
    where = f"table `{table.name}`"
    spot = place_in_sql(error, table.sql or "")
    place = table.text.at(*spot) if table.text and spot else table.position
    if condition_of(error).startswith("PARSE_"):
        says = sentence_of(error)
        return _detailed(
            running.SQL_SYNTAX.at(place, name=table.name, says=says, hint="Fix the SQL at this line."), error
        )
    return _generic(error, where, place, table.sql or "")


def function_problem(error: Exception, table: TableSpec, root: Path) -> Problem:
    """The problem in the function of a Python table, at the user's own line."""
    place = user_line(error.__traceback__, root) or table.position
    where = f"the function of table `{table.name}`"
    if isinstance(error, WriteRefused):
        return _detailed(running.TABLE_WRITE_UNSUPPORTED.at(place, name=table.name, call=error.call), error)
    action = action_of(error, root)
    if action == PIVOT:
        return _detailed(PIVOT_UNSUPPORTED.at(place, mode="any"), error)
    if action:
        return _detailed(running.TABLE_ACTION_UNSUPPORTED.at(place, name=table.name, action=action), error)
    if condition_of(error):
        return _generic(error, where, place)
    raised = f"{type(error).__name__}: {error}".rstrip(". ")
    return _detailed(running.TABLE_CODE_FAILED.at(place, name=table.name, error=raised), error)


def planning_problem(error: Exception, sink: SinkSpec, root: Path) -> Problem:
    """Why Spark cannot plan a sink's query; at the user's own line if its class failed."""
    in_python = python_failure(error, root)
    if in_python:
        raised, line = in_python
        where = f"sink `{sink.name}`"
        return _detailed(
            running.CLASS_CODE_FAILED.at(line or sink.position, where=where, error=raised), error
        )
    return _generic(error, f"query `{sink.name}`", sink.position)


def failure_problem(
    error: Exception, sink: SinkSpec, tables: Iterable[TableSpec], root: Path, log: Path
) -> Problem:
    """Why a running query failed, at the user's own line if there is one."""
    if isinstance(error, SparkStopped):
        return _detailed(running.SPARK_DIED.at(None, sink=sink.name, log=str(log.with_name(LOG))), error)
    of_row = _row_problem(str(error), sink, {table.name: table for table in tables})
    if of_row:
        return _detailed(of_row, error)
    of_connector, broken = _explained(Failure(str(error), full_text(error)), sink)
    if of_connector:
        return _detailed(of_connector, error)
    problem = _unexplained(error, sink, tables, root, log)
    return replace(problem, detail=f"{problem.detail}\n\n{scrub(broken)}") if broken else problem


def _unexplained(
    error: Exception, sink: SinkSpec, tables: Iterable[TableSpec], root: Path, log: Path
) -> Problem:
    """The same for a failure that no connector explains."""
    error = as_spark_said(error, root)
    in_python = python_failure(error, root)
    if in_python:
        return _detailed(_raised_by_user(*in_python, sink), error)
    of_process = _process_problem(full_text(error), sink)
    if of_process:
        return _detailed(of_process, error)
    says = sentence_of(error)
    malformed = [cause for cause in causes_of(error) if condition_of(cause).startswith(_ROW_CONDITIONS)]
    if malformed:
        # The outer error names the file, the inner one the row.
        says = says if malformed[0] is error else f"{_lower(sentence_of(malformed[0]))} ({_lower(says)})"
        return _detailed(running.ROW_MALFORMED.at(sink.position, sink=sink.name, says=says), error)
    if condition_of(error).startswith(_FILE_CONDITIONS):
        return _detailed(running.FILE_DELETED.at(sink.position, sink=sink.name, says=says), error)
    if condition_of(error).startswith(_UNREAD_FILE):
        # Spark's own message names only the file; the cause is at the end of its stack.
        why = [says, *_CAUSE.findall(full_text(error))[-1:]]
        says = ": ".join(_lower(each.rstrip(".")) for each in why)
        return _detailed(running.DATA_FILE_UNREADABLE.at(sink.position, sink=sink.name, says=says), error)
    if _NO_WORKER in str(error):
        return _detailed(running.WORKER_TOO_SLOW.at(sink.position, sink=sink.name), error)
    if _NO_CONNECTION.search(full_text(error)):
        return _detailed(
            running.CONNECTION_FAILED.at(sink.position, sink=sink.name, says=_lower(says)), error
        )
    place, says = place_in_tables(error, tables, root) or sink.position, failure_of(error, full_text(error))
    return _detailed(running.QUERY_FAILED.at(place, sink=sink.name, says=says, log=str(log)), error)


def _raised_by_user(raised: str, line: Position | None, sink: SinkSpec) -> Problem:
    """What the user's code raised."""
    place = line or sink.position
    # A task that a function for foreachBatch has started can also lose its process.
    if worker := _WORKER_EXITED.search(raised):
        return running.WORKER_DIED.at(place, sink=sink.name, says=worker[1] or "no reason")
    if _MEMORY.match(raised):
        return running.OUT_OF_MEMORY.at(place, sink=sink.name, says=raised)
    if _UNREACHABLE.match(raised):
        return running.USER_CONNECTION_FAILED.at(place, sink=sink.name, error=raised)
    return running.QUERY_CODE_FAILED.at(place, sink=sink.name, error=raised)


def _process_problem(text: str, sink: SinkSpec) -> Problem | None:
    """A task that ran out of memory, or whose Python process exited."""
    memory, worker = _MEMORY.search(text), _WORKER_EXITED.search(text)
    if memory:
        says = ": ".join(filter(None, ("OutOfMemoryError", (memory[1] or "").strip().rstrip("."))))
        return running.OUT_OF_MEMORY.at(sink.position, sink=sink.name, says=says)
    if worker:
        return running.WORKER_DIED.at(sink.position, sink=sink.name, says=worker[1] or "no reason")
    return None


def _explained(failure: Failure, sink: SinkSpec) -> tuple[Problem | None, str]:
    """A connector's explanation of a failure; the sink's connector is asked first.

    Also what `explain` itself raised, for the log: another package's code must not hide the failure.
    """
    broken = ""
    known = sorted(all_connectors().values(), key=lambda each: each.name != sink.connector)
    for side in (side for each in known for side in (each.source, each.sink)):
        if side is not None and isinstance(side, ExplainsFailures):
            try:
                problem = side.explain(failure, sink)
            except Exception:  # noqa: BLE001 (another package's code may raise anything)
                broken += f"{type(side).__name__}.explain failed:\n{traceback.format_exc()}"
                continue
            if problem:
                return problem, broken
    return None, broken


def _row_problem(says: str, sink: SinkSpec, tables: Mapping[str, TableSpec]) -> Problem | None:
    """The row that failed a query, and why."""
    bad = _BAD_ROW.search(says)
    if bad:
        params = dict(zip(("source", "reason", "where"), bad.groups(), strict=True))
        return BAD_ROW.at(sink.position, **params)
    unreadable = _UNREADABLE_ROW.search(says)
    if unreadable:
        table, row = unreadable.groups()
        return REPLAYED_ROWS_INVALID.at(tables[table].position, table=table, row=_shown(row))
    failed = _FAILED_ROW.search(says)
    if failed:
        table, expectation, row = failed.groups()
        each = next(each for each in tables[table].expect if each.name == expectation)
        params = {"table": table, "expectation": expectation, "condition": each.condition, "row": _shown(row)}
        return EXPECTATION_FAILED.at(each.at(), **params)
    return None


def _shown(row: str) -> str:
    """The beginning of a row; secrets are removed before it is cut, so that no part of one remains."""
    # Spark appends the SQLSTATE to its message.
    shown = scrub(row.rpartition(" SQLSTATE: ")[0] or row)
    return f"{shown[:_SHOWN_OF_A_ROW]}…" if len(shown) > _SHOWN_OF_A_ROW else shown


def code_problem(error: Exception, sink: SinkSpec, root: Path) -> Problem:
    """What the user's own function raised on the driver, at the user's own line."""
    raised = f"{type(error).__name__}: {error}".rstrip(". ")
    return _detailed(_raised_by_user(raised, user_line(error.__traceback__, root), sink), error)


def full_text(error: BaseException) -> str:
    """The full text of an exception, for the log file and for `--verbose`."""
    stacks = [getattr(each, "_stackTrace", None) for each in (error, getattr(error, "_cause", None))]
    return "\n".join(["".join(traceback.format_exception(error)), *(stack for stack in stacks if stack)])


def _generic(error: Exception, where: str, place: Position | None, sql: str = "") -> Problem:
    condition, parameters, subject = condition_of(error), parameters_of(error), _upper(where)
    if condition.startswith("UNRESOLVED_COLUMN"):
        column = parameters.get("objectName", "")
        hint = _column_hint(column, parameters.get("proposal", ""))
        return _detailed(running.COLUMN_NOT_FOUND.at(place, where=subject, column=column, hint=hint), error)
    if condition.startswith("UNRESOLVED_ROUTINE"):
        function = parameters.get("routineName", "")
        return _detailed(running.FUNCTION_NOT_FOUND.at(place, where=subject, function=function), error)
    if condition.startswith("DATATYPE_MISMATCH"):
        return _detailed(running.TYPE_MISMATCH.at(place, where=subject, says=sentence_of(error)), error)
    if condition.startswith(_STREAM_IN_EXPRESSION):
        return _detailed(SUBQUERY_UNSUPPORTED.at(place, where=subject, hint=_joined(sql)), error)
    return _detailed(running.SPARK_ANALYSIS_FAILED.at(place, where=where, says=sentence_of(error)), error)


def _joined(sql: str) -> str:
    """The alternative to a subquery over a stream; all alternatives if the SQL does not show which one."""
    plain = "Replace IN and EXISTS with a `LEFT SEMI JOIN`"
    negated = (
        "Replace NOT IN and NOT EXISTS with a `LEFT JOIN` that has watermarks and a time range in its ON "
        "clause, and select the rows without a match with `WHERE … IS NULL`"
    )
    ways = [plain, negated]
    if sql:
        ways = [negated] if _NEGATED.search(sql) else [plain]
    value = "To use a value of an aggregation, write the aggregation to a sink and read it as a static source"
    return f"{'. '.join([*ways, value])}."


def _detailed(problem: Problem, error: Exception) -> Problem:
    """The problem with the full text behind it; Spark may quote an option, so secrets are removed here."""
    params = {key: scrub(value) if isinstance(value, str) else value for key, value in problem.params.items()}
    return replace(problem, params=params, detail=scrub(full_text(error)))


def unknown_column(table: TableSpec, column: str, known: list[str]) -> Problem:
    """A column that the rows of a `deduplicate` table do not have."""
    assert table.deduplicate is not None, "only such a table names columns"
    hint = _column_hint(column, ", ".join(f"`{each}`" for each in known))
    where = f"Table `{table.name}`"
    return running.COLUMN_NOT_FOUND.at(
        table.deduplicate.position, where=where, column=f"`{column}`", hint=hint
    )


def _column_hint(column: str, proposal: str) -> str:
    """The column that was most likely meant, of those that Spark proposes, or else all of these."""
    names = {_last_part(each): each for each in proposal.split(", ") if each}
    meant = nearest(_last_part(column), names)
    if meant:
        return f"Did you mean {names[meant]}?"
    return f"Use one of {proposal}." if proposal else "Check the columns of the table that it reads."


def _last_part(name: str) -> str:
    """`amount` of `orders`.`amount`."""
    return name.rpartition("`.`")[2].strip("`")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
