"""Parses Spark's exceptions: condition, message, position in SQL, position in user code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from pyspark.errors import PySparkException

from headwater.spec import TableSpec
from headwater.values import Position
from headwater.values.user_frames import PACKAGE_PREFIX, is_users

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*")
_JAVA_CLASS = re.compile(r"^(?:[a-z][\w$]*\.)+([A-Z][\w$]*)(?=: |\n|$)")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
# What stands around the message of a task or of a call from Python, and says nothing about the cause; nor
# do Spark's own classes.
_LOST_TASK = r"Task [^\n]*?most recent failure: (?:Lost task [^\n]*?\(TID \d+\) \([^)]*\): )?"
_AROUND = re.compile(
    rf"^(?:Job aborted due to stage failure: (?:{_LOST_TASK})?"
    r"|An error occurred while calling \S+\s*: |org\.apache\.spark\.[\w.$]+: )+"
)
# Outer errors that only say that an inner one was there.
_WRAPPERS = ("TASK_WRITE_FAILED", "WRITING_JOB_ABORTED")
_CAUSED_BY = re.compile(r"^Caused by: (.+(?:\n(?!\t|Caused by).+)*)", re.MULTILINE)
_PARSE_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_SQL_PLACE = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==\n(.*?)\n(\s*\^+)", re.DOTALL)
_PLAN = "\n=== Streaming Query ==="
_CALLBACK = "An exception was raised by the Python Proxy"
_PYTHON_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_FRAME_LINE = re.compile(r'\s+File "')
_CALL_SITE = re.compile(r"== DataFrame ==\n.* was called from\n(.+):(\d+)")
_OF_PROJECT = re.compile(rf"^{PACKAGE_PREFIX}[0-9a-f]+\.")
_LONGEST_RAISED = 500


class PlainSparkError(Exception):
    """What Spark said to code of ours that it had called."""


class SparkStopped(Exception):
    """Spark's process ended while a query ran."""


def condition_of(error: Exception) -> str:
    """Spark's own name for what happened, if it has one."""
    found = error.getCondition() if isinstance(error, PySparkException) else None
    if found:
        return str(found)
    match = _CONDITION.search(str(error).split(_PLAN)[0])
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
    text = text.split(_PLAN)[0].split("\n== SQL")[0].split("\nJVM stacktrace")[0]
    text = _JAVA_CLASS.sub(r"\1", _AROUND.sub("", text))
    text = _STATE.sub("", _CONDITION.sub("", text, count=1))
    first = text.strip().split("\n")[0]
    # Analysis errors end in `; line 1 pos 7;` and then the plan.
    return re.sub(r";\s*(line \d+.*)?$", "", first).strip().rstrip(".;:") or type(error).__name__


def failure_of(error: Exception, stack: str) -> str:
    """What a query failed of: Spark's name for it, its sentence, and the part of the SQL that it is about."""
    inner = _CAUSED_BY.findall(stack)
    if inner and condition_of(error).startswith(_WRAPPERS):
        error = PlainSparkError(inner[-1])
    condition, sentence, quoted = condition_of(error), sentence_of(error), _SQL_PLACE.search(str(error))
    if not condition:
        return _with_class(error, sentence)
    if quoted is None:
        return f"[{condition}] {sentence}"
    line, marks = quoted[3].split("\n")[0], quoted[4]
    return f"[{condition}] {sentence}. The expression is `{line[marks.find('^') : len(marks)]}`"


def _with_class(error: Exception, sentence: str) -> str:
    """A sentence without a condition, after the name of Java's class: `Java heap space` alone says little."""
    stack = str(getattr(getattr(error, "_cause", None), "_stackTrace", None) or "")
    found = _JAVA_CLASS.match(_AROUND.sub("", stack))
    return sentence if found is None or sentence.startswith(found[1]) else f"{found[1]}: {sentence}"


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


def place_in_tables(error: Exception, tables: Iterable[TableSpec], root: Path) -> Position | None:
    """The line of the user's SQL or Python that failed while the query ran: Spark quotes it."""
    called = _CALL_SITE.search(str(error))
    if called and is_users(called[1], root):
        return Position(called[1], int(called[2]))
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
    """The Spark failure behind an error that Headwater's code on the driver forwarded; others unchanged.

    A sink that uses a function on the driver receives Spark's failure there, as a Python exception.
    """
    trace, captured, said = str(error).partition("\npyspark.errors.exceptions.captured.")
    frames = _PYTHON_FRAME.findall(trace + said)
    if not captured or _CALLBACK not in trace or any(is_users(file, root) for file, _ in frames):
        return error
    plain = PlainSparkError(said.partition(": ")[2])
    plain.__cause__ = error
    return plain


def python_failure(error: Exception, root: Path) -> tuple[str, Position | None] | None:
    """What a user's Python code raised while Spark ran it, and the user's own line."""
    text = str(error)
    start = text.find("Traceback (most recent call last)")
    if start < 0:
        return None
    trace = text[start:].split("\n\tat ")[0].split(_PLAN)[0]
    frames = [(file, int(line)) for file, line in _PYTHON_FRAME.findall(trace) if is_users(file, root)]
    place = Position(*frames[-1]) if frames else None
    return _raised(trace.splitlines()) or sentence_of(error), place


def _raised(trace: list[str]) -> str:
    """The exception at the end of a traceback: what stands behind the last frame, without its code."""
    frames = [number for number, line in enumerate(trace) if _FRAME_LINE.match(line)]
    behind = trace[frames[-1] + 1 :] if frames else []
    first = next((number for number, line in enumerate(behind) if line[:1].strip()), None)
    if first is None:
        return ""
    # A module of the project has a name of its own on the executors.
    name, _, message = _OF_PROJECT.sub("", behind[first]).partition(": ")
    more = list(takewhile(lambda line: line.strip() and not line.startswith("\t"), behind[first + 1 :]))
    if name.endswith("Py4JJavaError"):
        # The first line names the object that was called; Java's own message follows.
        return sentence_of(PlainSparkError("\n".join([message, *more])))
    if name.startswith("pyspark."):
        # A plan or the quoted SQL follows.
        name, more = name.rpartition(".")[2], []
    said = " ".join([f"{name}: {message}" if message else name, *(line.strip() for line in more)])
    said = _STATE.sub("", said)
    said = f"{said[:_LONGEST_RAISED]}…" if len(said) > _LONGEST_RAISED else said
    return said.strip().rstrip(".;")


def _line_and_column(sql: str, index: int) -> tuple[int, int]:
    before = sql[: max(0, index)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
