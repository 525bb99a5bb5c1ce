"""What Spark's exceptions say, taken apart: condition, sentence, place in SQL, place in the user's code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.errors import PySparkException

from headwater.spec import TableSpec
from headwater.values import Position
from headwater.values.user_lines import is_users

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*")
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_PARSE_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_SQL_PLACE = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==\n(.*?)\n(\s*\^+)", re.DOTALL)
_CALLBACK = "An exception was raised by the Python Proxy"
_PYTHON_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)$", re.MULTILINE)


class SparkSaid(Exception):
    """What Spark said to code of ours that it had called."""


class SparkGone(Exception):
    """Spark's process ended while a query ran."""


def condition_of(error: Exception) -> str:
    """Spark's own name for what happened, if it has one."""
    found = error.getCondition() if isinstance(error, PySparkException) else None
    if found:
        return str(found)
    match = _CONDITION.search(str(error))
    return match[1] if match else ""


def causes_of(error: Exception) -> Iterator[Exception]:
    """The error and what Spark says it came from, the outermost first."""
    cause: Exception | None = error
    while cause is not None:
        yield cause
        cause = getattr(cause, "_cause", None)


def sentence_of(error: Exception) -> str:
    """Spark's sentence without its code, state, plan and stack."""
    text = str(error).strip()
    text = text.split("\n=== Streaming Query ===")[0].split("\n== SQL")[0].split("\nJVM stacktrace")[0]
    text = _STATE.sub("", _CONDITION.sub("", _JAVA_CLASS.sub("", text), count=1))
    first = text.strip().split("\n")[0]
    # Analysis errors end in `; line 1 pos 7;` and then the plan.
    return re.sub(r";\s*(line \d+.*)?$", "", first).strip().rstrip(".;:") or type(error).__name__


def parameters_of(error: Exception) -> dict[str, str]:
    """The parameters of Spark's sentence."""
    found = error.getMessageParameters() if isinstance(error, PySparkException) else None
    return dict(found or {})


def place_in_sql(error: Exception, sql: str) -> tuple[int, int] | None:
    """Line and column (from 1) of the SQL text that an analysis error speaks of."""
    parsed = _PARSE_PLACE.search(str(error))
    if parsed:
        return int(parsed[1]), int(parsed[2]) + 1
    if not isinstance(error, PySparkException):
        return None
    for context in error.getQueryContext() or ():
        if "SQL" in str(context.contextType()):
            return _line_and_column(sql, context.startIndex())
    return None


def place_in_tables(error: Exception, tables: Iterable[TableSpec]) -> Position | None:
    """The line of the user's SQL that failed while the query ran: Spark quotes it."""
    found = _SQL_PLACE.search(str(error))
    if found is None:
        return None
    line, column = int(found[1]), int(found[2])
    quoted = found[3].split("\n")[0].strip(". ")
    for table in tables:
        lines = (table.sql or "").split("\n")
        if table.text and line <= len(lines) and quoted[:40].strip() in lines[line - 1]:
            return table.text.at(line, column)
    return None


def as_spark_said(error: Exception, root: Path) -> Exception:
    """The failure of Spark's own that our code on the driver handed on; any other as it is.

    A sink that works through a function on the driver gets Spark's failure there, as an exception of Python.
    """
    trace, captured, said = str(error).partition("\npyspark.errors.exceptions.captured.")
    frames = _PYTHON_FRAME.findall(trace + said)
    if not captured or _CALLBACK not in trace or any(is_users(file, root) for file, _ in frames):
        return error
    plain = SparkSaid(said.partition(": ")[2])
    plain.__cause__ = error
    return plain


def python_failure(error: Exception, root: Path) -> tuple[str, Position | None] | None:
    """What a user's Python code raised while Spark ran it, and the user's own line."""
    text = str(error)
    start = text.find("Traceback (most recent call last)")
    if start < 0:
        return None
    trace = text[start:].split("\n\tat ")[0].split("\n=== Streaming Query ===")[0]
    raised = _PYTHON_ERROR.findall(trace)
    frames = [(file, int(line)) for file, line in _PYTHON_FRAME.findall(trace) if is_users(file, root)]
    place = Position(*frames[-1]) if frames else None
    return (raised[-1].strip().rstrip(".") if raised else sentence_of(error)), place


def _line_and_column(sql: str, index: int) -> tuple[int, int]:
    before = sql[: max(0, index)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
