"""What Spark checks at the start of a plain query itself: asked before."""

from __future__ import annotations

import errno
import linecache
import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame

from headwater.connectors import Sink, all_connectors
from headwater.connectors.connector import ConnectorCall
from headwater.engine.builder import SPARK_ERRORS, columns_in
from headwater.engine.plain_facts import WriterSettings, plain_facts
from headwater.errors import HeadwaterError, PipelineError, Problem, UsageError
from headwater.errors.catalogue import programs
from headwater.errors.catalogue.environment import INTERNAL_ERROR
from headwater.errors.catalogue.running import COLUMN_NOT_FOUND, SINK_MODE_UNSUPPORTED
from headwater.jars import package_of
from headwater.plan.predicates import SinkFormat, connector_format, connector_of_format, sink_format
from headwater.programs.capture import FinishedQuery
from headwater.programs.script import CapturedQuery
from headwater.spark.errors import condition_of, parameters_of, sentence_of
from headwater.spark.session import class_of, may_be_python, writes_streams
from headwater.spec import Delivery, SinkSpec
from headwater.values import Duration, Position, quoted
from headwater.values.user_frames import fails_in_headwater, own_place, raising_place
from headwater.values.words import nearest

# How a script ended, where it did not simply come to its end.

_STREAM_ACTION = "Queries with streaming sources must be executed with writeStream"
_NO_SOURCE = re.compile(r"Failed to find (?:the )?data source: (\S+?)[.\s]")
# The errors of a write that the sandbox cannot discard.
_NOT_DISCARDED = (errno.EOVERFLOW, errno.EROFS)


def failure_of(error: BaseException, file: str, spark_version: str) -> Problem | None:
    """Why a script ended with an exception; None if that is a successful exit."""
    if isinstance(error, SystemExit):
        return _exit_problem(error, file)
    place = raising_place(error.__traceback__)
    if isinstance(error, HeadwaterError) and error.problems:
        first = error.problems[0]
        return first if first.place else replace(first, place=place)
    detail = "".join(traceback.format_exception(error))
    if fails_in_headwater(error.__traceback__):
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        return replace(INTERNAL_ERROR.at(place, error=told), detail=detail)
    return replace(_problem(error, place, spark_version), detail=detail)


def _problem(error: BaseException, place: Position | None, spark_version: str) -> Problem:
    says = str(error)
    code = linecache.getline(place.file, place.line) if place else ""
    if _STREAM_ACTION in says:
        calls = re.findall(r"\.(\w+)\(", code)
        return programs.SCRIPT_ACTION_UNSUPPORTED.at(
            place, action=f"`{calls[-1]}()`" if calls else "an action"
        )
    if isinstance(error, Exception) and condition_of(error):
        return _spark_problem(error, place, spark_version)
    if isinstance(error, OSError) and error.errno in _NOT_DISCARDED:
        return programs.SCRIPT_WRITES.at(place, path=error.filename or "a file")
    if isinstance(error, KeyboardInterrupt):
        return programs.SCRIPT_FAILED.at(place, error="the script was interrupted")
    lines = [line for line in says.strip().splitlines() if line.strip()]
    words = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    # A query that never ran has none: `lastProgress` is None, `recentProgress` is empty.
    nothing = isinstance(error, IndexError) or (isinstance(error, TypeError) and "NoneType" in says)
    lacks_progress = nothing and re.search(r"\.(last|recent)Progress\b", code)
    failed = programs.SCRIPT_NEEDS_PROGRESS if lacks_progress else programs.SCRIPT_FAILED
    return failed.at(place, error=words.rstrip(". "))


def _spark_problem(error: Exception, place: Position | None, spark_version: str) -> Problem:
    condition, parameters = condition_of(error), parameters_of(error)
    if condition.startswith("UNRESOLVED_COLUMN"):
        column, proposal = parameters.get("objectName", ""), parameters.get("proposal", "")
        names = {each.rpartition("`.`")[2].strip("`"): each for each in proposal.split(", ") if each}
        meant = nearest(column.rpartition("`.`")[2].strip("`"), names)
        hint = f"Use one of {proposal}." if proposal else "Check the columns of the DataFrame it reads."
        hint = f"Did you mean {names[meant]}?" if meant else hint
        return COLUMN_NOT_FOUND.at(place, where="This line", column=column, hint=hint)
    if condition == "DATA_SOURCE_NOT_FOUND" or _NO_SOURCE.search(str(error)):
        found = _NO_SOURCE.search(str(error))
        return source_missing(place, parameters.get("provider") or (found[1] if found else ""), spark_version)
    return programs.SCRIPT_FAILED.at(place, error=sentence_of(error))


def source_missing(place: Position | None, format: str, spark_version: str) -> Problem:
    """The problem of a missing data source."""
    package = package_of(format.lower(), spark_version or "4.1.1")
    if package:
        hint = (
            f"Set `spark.jars.packages` to `{package}` when you create the session. For the check, add "
            f"`--conf spark.jars.packages={package} --allow-network`."
        )
    else:
        hint = "Correct its name, or add its jar with `spark.jars` when you create the session."
    return programs.SCRIPT_SOURCE_NOT_FOUND.at(place, format=format, hint=hint)


def _exit_problem(error: SystemExit, file: str) -> Problem | None:
    if error.code is None or error.code == 0:
        return None
    code = error.code if isinstance(error.code, int) else 1
    says = "" if isinstance(error.code, int) else f": {error.code}".rstrip(". ")
    # argparse exits with 2 if the arguments are invalid.
    hint = (
        f"Pass the script its arguments after `--`: `headwater check {file} -- …`."
        if code == 2
        else "Make sure that the script reaches the lines that start its queries."
    )
    return programs.SCRIPT_EXIT.at(raising_place(error.__traceback__), code=code, says=says, hint=hint)


def deadline_problem(frame: FrameType | None, file: str, seconds: float) -> Problem:
    """The line that a script had reached at the timeout."""
    place, time = own_place(frame), str(Duration(int(seconds * 1000)))
    reached = "it had reached this line" if place else "the line that it had reached is unknown"
    return programs.SCRIPT_TIMEOUT.at(place, seconds=time, file=file, reached=reached)


_CHECKPOINT = "spark.sql.streaming.checkpointLocation"
_STATE = "statestore"
"""Spark's format for reading the state of a query, which has no connector."""


@dataclass(frozen=True)
class Start:
    """One start of a query, with the settings of its writer, and the problems that would prevent it."""

    frame: DataFrame
    writer: WriterSettings
    place: Position | None
    name: str

    @property
    def format(self) -> str:
        return self.writer.format.lower()

    @property
    def columns(self) -> set[str]:
        return {column.lower() for column in self.frame.columns}

    @cached_property
    def sink(self) -> Sink[Any] | None:
        """The sink of the connector for this format."""
        connector = connector_of_format(self.format)
        return connector.sink if connector else None

    @cached_property
    def checkpoint(self) -> str:
        """The checkpoint that the query would use; empty if Spark would create a temporary one."""
        given = {key.lower(): value for key, value in self.writer.options.items()}.get("checkpointlocation")
        if given:
            return given if "://" in given else os.path.abspath(given)
        base = self.frame.sparkSession.conf.get(_CHECKPOINT, None)
        # Below a common directory, an unnamed query gets a new directory at each start.
        return os.path.join(base, self.writer.name or os.urandom(4).hex()) if base else ""

    def problems(self) -> Iterator[Problem]:
        if missing := self.format_problem():
            yield missing
            return
        writer, place, name = self.writer, self.place, self.name
        side = self.sink
        path = side.options.model_fields.get("path") if side else None
        if side and side.in_process and not writer.name:
            yield programs.QUERY_NAME_MISSING.at(place)
        if path and path.is_required() and not writer.table and "path" not in writer.options:
            yield programs.SINK_PATH_MISSING.at(place, name=name, format=self.format)
        if not self.checkpoint and not (side and side.temporary_checkpoint):
            shown = f"the table {writer.table}" if writer.table else self.format
            yield programs.CHECKPOINT_MISSING.at(place, name=name, format=shown)
        if writer.partitioned_by and side and side.by_writer:
            columns = ", ".join(f"`{column}`" for column in writer.partitioned_by)
            yield programs.PARTITION_BY_UNSUPPORTED.at(place, name=name, columns=columns, format=self.format)
        else:
            for column in writer.partitioned_by:
                if column.lower() not in self.columns:
                    known = ", ".join(self.frame.columns)
                    yield programs.PARTITION_BY_COLUMN_NOT_FOUND.at(
                        place, name=name, column=column, known=known
                    )
        yield from self.sink_problems(sink_format(writer.format))

    def doubts(self) -> Iterator[Problem]:
        """Warn about a sink that keeps its rows but has a temporary checkpoint."""
        side = self.sink
        lasting = side is not None and side.temporary_checkpoint and side.delivery is Delivery.USER
        if lasting and not self.checkpoint:
            yield programs.CHECKPOINT_TEMPORARY.at(self.place, name=self.name)

    def sink_problems(self, known: SinkFormat) -> Iterator[Problem]:
        """The problems of a sink of this kind; the facts contain what Spark reports about the plan."""
        writer, name = self.writer, self.name
        if known.modes and writer.mode not in known.modes:
            hint = f"Set the output mode to {quoted(known.modes, last=' or ')}."
            params = {"sink": name, "mode": writer.mode, "connector": known.connector, "hint": hint}
            yield SINK_MODE_UNSUPPORTED.at(self.place, **params)
        side = self.sink
        partitions = tuple(column for column in writer.partitioned_by if column.lower() in self.columns)
        options = side.plain_options(self.format, partitions) if side else None
        if side and options:
            given = {"name": name, "reads": name, "connector": known.connector, "options": options}
            sink = SinkSpec.model_construct(**given, position=self.place)
            yield from side.problems(sink, columns_in(self.frame))

    def format_problem(self) -> Problem | None:
        """The problem of a format that Spark does not have or cannot write streams with."""
        spark, format = self.frame.sparkSession, self.writer.format
        if self.writer.table or (self.sink and self.sink.by_writer):
            return None
        hint = "Write each batch in a `foreachBatch` function with `df.write`."
        if self.format == _STATE or (connector_of_format(format) and not self.sink):
            hint = 'This format is only for reading. To inspect the rows, use `.format("console")`.'
        else:
            try:
                if writes_streams(spark, class_of(spark, format)):
                    return None
            except SPARK_ERRORS:
                known = may_be_python(spark, format)
                return None if known else source_missing(self.place, format, spark.version)
        return programs.SINK_FORMAT_UNSUPPORTED.at(self.place, name=self.name, format=format, hint=hint)


@dataclass
class Started:
    """The queries that a script has started so far, by what running queries cannot share."""

    names: Counter[str] = field(default_factory=Counter)
    running: dict[str, FinishedQuery] = field(default_factory=dict)
    checkpoints: dict[str, tuple[str, FinishedQuery]] = field(default_factory=dict)

    def name_of(self, writer: WriterSettings, places: tuple[Position, ...]) -> str:
        """The name of the query, or else the line where it starts; always unique.

        If several queries start on one line, later names also contain the line of the caller.
        """
        line, *before = [f"{Path(place.file).name}:{place.line}" for place in places] or ["query"]
        name = writer.name or line
        self.names[name] += 1
        if self.names[name] == 1:
            return name
        return f"{name} ({self.names[name]}{f', from {before[0]}' if before else ''})"

    def add(self, query: FinishedQuery, start: Start) -> None:
        """Store a captured query."""
        if start.writer.name:
            self.running[start.writer.name] = query
        if start.checkpoint:
            self.checkpoints[start.checkpoint] = (start.name, query)

    def problems(self, start: Start) -> Iterator[Problem]:
        """Conflicts with a query that the script has not awaited, and that is therefore running."""
        other = self.running.get(start.writer.name)
        if other is not None and not other.over:
            yield programs.QUERY_NAME_CONFLICT.at(start.place, name=start.writer.name)
        name, taken = self.checkpoints.get(start.checkpoint, ("", None))
        if taken is not None and not taken.over:
            yield programs.CHECKPOINT_CONFLICT.at(
                start.place, name=start.name, checkpoint=start.checkpoint, other=name
            )


# Checks a DataFrame of a running program without starting or changing anything.

_UNKNOWN = SinkFormat("", known=False, continuous=True, real_time=True)


def check_frame(
    frame: Any, *, sink: object, mode: str, trigger: str, name: str, place: Position | None
) -> CapturedQuery:
    """The facts of a stream with this sink, and its problems."""
    _refuse(frame, name, place)
    format, known = sink_of(sink, place)
    writer = WriterSettings(format, mode, trigger, partitioned_by=_partitions(sink))
    facts = plain_facts(frame, writer, name, known)
    # Spark may not have the format that the user names.
    named = isinstance(sink, str) and not connector_format(sink).known
    start = Start(frame, writer, place, name)
    missing = start.format_problem() if named else None
    found = (missing,) if missing else tuple(start.sink_problems(known))
    return CapturedQuery(facts, place, found)


def sink_of(sink: object, place: Position | None = None) -> tuple[str, SinkFormat]:
    """The format of a sink, and what is known about it."""
    match sink:
        case None:
            return "", _UNKNOWN
        case ConnectorCall(connector=connector, keys=keys):
            # If a connector has several formats, the key `format` selects one.
            formats = all_connectors()[connector].spark_formats if connector in all_connectors() else ()
            format = keys.get("format", "")
            return format if format in formats else connector, connector_format(connector)
        case str():
            return _named(sink)
        case _ if callable(getattr(sink, "process", None)):
            return "foreach", sink_format("foreach")
        case Callable():
            return "foreachBatch", sink_format("foreachBatch")
    raise UsageError(programs.SINK_INVALID.at(place, got=f"`{sink!r}`"))


def _named(name: str) -> tuple[str, SinkFormat]:
    found = sink_format(name)
    # The name can also be a Headwater connector, such as `foreach_batch`.
    own = connector_format(name)
    return name, own if own.known and not found.known else found


def _partitions(sink: object) -> tuple[str, ...]:
    given = sink.keys.get("partition_by") if isinstance(sink, ConnectorCall) else None
    return (given,) if isinstance(given, str) else tuple(given or ())


def _refuse(frame: Any, name: str, place: Position | None) -> None:
    if ".connect." in type(frame).__module__:
        raise PipelineError(programs.CONNECT_SESSION_UNSUPPORTED.at(place))
    if not isinstance(frame, DataFrame):
        raise UsageError(programs.DATAFRAME_EXPECTED.at(place, got=f"a `{type(frame).__name__}`"))
    if not frame.isStreaming:
        raise PipelineError(programs.STREAM_EXPECTED.at(place, name=name))
