"""How a script ended, where it did not simply come to its end."""

from __future__ import annotations

import errno
import linecache
import re
import traceback
from dataclasses import replace
from types import FrameType

from headwater.errors import HeadwaterError, Problem
from headwater.errors.catalogue import programs
from headwater.errors.catalogue.environment import INTERNAL
from headwater.errors.catalogue.running import UNKNOWN_COLUMN
from headwater.spark.errors import condition_of, parameters_of, sentence_of
from headwater.values import Duration, Position
from headwater.values.user_frames import fails_in_headwater, own_place, raising_place
from headwater.values.words import nearest

_STREAM_ACTION = "Queries with streaming sources must be executed with writeStream"
_NO_SOURCE = re.compile(r"Failed to find (?:the )?data source: (\S+?)[.\s]")
# What a write in the sandbox gives where it can't be discarded.
_NOT_DISCARDED = (errno.EOVERFLOW, errno.EROFS)
_PACKAGED = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "avro": "org.apache.spark:spark-avro_2.13:{spark}",
    "delta": "io.delta:delta-spark_{line}_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{line}_2.13:1.12.0",
}


def failure_of(error: BaseException, file: str, spark_version: str) -> Problem | None:
    """Why a script ended by an exception; None where this is a good end."""
    if isinstance(error, SystemExit):
        return _exit_problem(error, file)
    place = raising_place(error.__traceback__)
    if isinstance(error, HeadwaterError) and error.problems:
        first = error.problems[0]
        return first if first.place else replace(first, place=place)
    detail = "".join(traceback.format_exception(error))
    if fails_in_headwater(error.__traceback__):
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        return replace(INTERNAL.at(place, error=told), detail=detail)
    return replace(_problem(error, place, spark_version), detail=detail)


def _problem(error: BaseException, place: Position | None, spark_version: str) -> Problem:
    says = str(error)
    if _STREAM_ACTION in says:
        return programs.SCRIPT_ACTION.at(place, action=_action(place))
    if isinstance(error, Exception) and condition_of(error):
        return _spark_problem(error, place, spark_version)
    if isinstance(error, OSError) and error.errno in _NOT_DISCARDED:
        return programs.SCRIPT_WRITES.at(place, path=error.filename or "a file")
    if isinstance(error, KeyboardInterrupt):
        return programs.SCRIPT_FAILED.at(place, error="it was interrupted")
    lines = [line for line in says.strip().splitlines() if line.strip()]
    words = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    failed = programs.SCRIPT_PROGRESS if _lacks_progress(error, place) else programs.SCRIPT_FAILED
    return failed.at(place, error=words.rstrip(". "))


def _lacks_progress(error: BaseException, place: Position | None) -> bool:
    """Whether a line wants what a stand-in has none of: `lastProgress` is None, `recentProgress` is empty."""
    nothing = isinstance(error, IndexError) or (isinstance(error, TypeError) and "NoneType" in str(error))
    return nothing and bool(re.search(r"\.(last|recent)Progress\b", _line(place)))


def _spark_problem(error: Exception, place: Position | None, spark_version: str) -> Problem:
    condition, parameters = condition_of(error), parameters_of(error)
    if condition.startswith("UNRESOLVED_COLUMN"):
        column, proposal = parameters.get("objectName", ""), parameters.get("proposal", "")
        hint = _column_hint(column, proposal)
        return UNKNOWN_COLUMN.at(place, where="This line", column=column, hint=hint)
    if condition == "DATA_SOURCE_NOT_FOUND" or _NO_SOURCE.search(str(error)):
        found = _NO_SOURCE.search(str(error))
        return source_missing(place, parameters.get("provider") or (found[1] if found else ""), spark_version)
    return programs.SCRIPT_FAILED.at(place, error=sentence_of(error))


def source_missing(place: Position | None, format: str, spark_version: str) -> Problem:
    """The problem of a data source that Spark does not have."""
    package = _PACKAGED.get(format.lower())
    if package:
        spark, line = spark_version or "4.1.1", ".".join((spark_version or "4.1").split(".")[:2])
        filled = package.format(spark=spark, line=line)
        hint = (
            f"Set `spark.jars.packages` to `{filled}` where the session is made; the check of a script takes "
            f"it as `--conf spark.jars.packages={filled} --allow-network`."
        )
    else:
        hint = "Correct its name, or add its jar where the session is made: `spark.jars`."
    return programs.SCRIPT_SOURCE_MISSING.at(place, format=format, hint=hint)


def _exit_problem(error: SystemExit, file: str) -> Problem | None:
    if error.code is None or error.code == 0:
        return None
    code = error.code if isinstance(error.code, int) else 1
    says = "" if isinstance(error.code, int) else f": {error.code}".rstrip(". ")
    # argparse ends a program with 2 when its arguments don't fit.
    hint = (
        f"Give the script its arguments after `--`: `headwater check {file} -- …`."
        if code == 2
        else "A check needs the script to come as far as its queries."
    )
    return programs.SCRIPT_EXIT.at(raising_place(error.__traceback__), code=code, says=says, hint=hint)


def deadline_problem(frame: FrameType | None, file: str, seconds: float) -> Problem:
    """The line that a script had reached when its time was over."""
    place, time = own_place(frame), str(Duration(int(seconds * 1000)))
    reached = "this is the line that it had reached" if place else "no line of it could be seen"
    return programs.SCRIPT_DEADLINE.at(place, seconds=time, file=file, reached=reached)


def _action(place: Position | None) -> str:
    calls = re.findall(r"\.(\w+)\(", _line(place))
    return f"`{calls[-1]}()`" if calls else "an action"


def _line(place: Position | None) -> str:
    return linecache.getline(place.file, place.line) if place else ""


def _column_hint(column: str, proposal: str) -> str:
    names = {each.rpartition("`.`")[2].strip("`"): each for each in proposal.split(", ") if each}
    meant = nearest(column.rpartition("`.`")[2].strip("`"), names)
    if meant:
        return f"Did you mean {names[meant]}?"
    return f"It has {proposal}." if proposal else "Check the columns of what it reads."
