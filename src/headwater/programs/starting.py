"""What Spark checks at the start of a plain query itself: asked before."""

from __future__ import annotations

import errno
import linecache
import os
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import sink_side
from headwater.connectors.call import ConnectorCall
from headwater.connectors.files import FilesSink
from headwater.engine.builder import SPARK_ERRORS, columns_in
from headwater.engine.plain_facts import Written, plain_facts
from headwater.errors import HeadwaterError, PipelineError, Problem, UsageProblem
from headwater.errors.catalogue import programs
from headwater.errors.catalogue.environment import INTERNAL
from headwater.errors.catalogue.running import SINK_MODE, UNKNOWN_COLUMN
from headwater.plan.predicates import FILES, SinkFormat, connector_format, sink_format
from headwater.programs.capture import CaughtQuery
from headwater.programs.script import Caught
from headwater.spark.errors import condition_of, parameters_of, sentence_of
from headwater.spark.session import class_of, may_be_python, writes_streams
from headwater.spec import SinkSpec
from headwater.values import Duration, Position
from headwater.values.user_frames import fails_in_headwater, own_place, raising_place
from headwater.values.words import nearest

# How a script ended, where it did not simply come to its end.

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


_CHECKPOINT = "spark.sql.streaming.checkpointLocation"
# Spark makes a checkpoint for these by itself, in a folder for passing files.
_UNCHECKED = ("console", "foreach", "foreachbatch", "memory", "noop")
_LASTING = ("foreach", "foreachbatch")
_ONLY_SOURCES = ("rate", "rate-micro-batch", "socket", "textsocket", "statestore")
_OWN = ("memory", "foreach", "foreachbatch")


@dataclass
class Started:
    """The queries that a script has started so far, by what no two running queries may share."""

    names: dict[str, int] = field(default_factory=dict)
    running: dict[str, CaughtQuery] = field(default_factory=dict)
    checkpoints: dict[str, tuple[str, CaughtQuery]] = field(default_factory=dict)

    def name_of(self, written: Written, places: tuple[Position, ...]) -> str:
        """The query's own name, or else the line where it starts; each once.

        Of several from one line the later ones also have the line that led there.
        """
        line, *before = [f"{Path(place.file).name}:{place.line}" for place in places] or ["query"]
        name = written.name or line
        self.names[name] = self.names.get(name, 0) + 1
        if self.names[name] == 1:
            return name
        return f"{name} ({self.names[name]}{f', from {before[0]}' if before else ''})"

    def add(self, query: CaughtQuery, written: Written, name: str) -> None:
        """Remember a query that was caught."""
        if written.name:
            self.running[written.name] = query
        checkpoint = _checkpoint_of(query.frame.sparkSession, written)
        if checkpoint:
            self.checkpoints[checkpoint] = (name, query)

    def problems(
        self, frame: DataFrame, written: Written, place: Position | None, name: str
    ) -> Iterator[Problem]:
        """What a query shares with one that nobody has waited for, and that runs therefore."""
        other = self.running.get(written.name)
        if other is not None and not other.over:
            yield programs.SAME_QUERY_NAME.at(place, name=written.name)
        checkpoint = _checkpoint_of(frame.sparkSession, written)
        taken = self.checkpoints.get(checkpoint) if checkpoint else None
        if taken is not None and not taken[1].over:
            yield programs.SAME_CHECKPOINT.at(place, name=name, checkpoint=checkpoint, other=taken[0])


def start_problems(
    frame: DataFrame, written: Written, place: Position | None, name: str
) -> Iterator[Problem]:
    """What would keep a query from starting, as its writer was told."""
    spark, format = frame.sparkSession, written.format.lower()
    missing = format_problem(spark, written, place, name)
    if missing:
        yield missing
        return
    if format == "memory" and not written.name:
        yield programs.NO_TABLE_NAME.at(place)
    if format in FILES and not written.table and "path" not in written.options:
        yield programs.NO_PATH.at(place, name=name, format=format)
    if not _checkpoint_of(spark, written) and format not in _UNCHECKED:
        shown = f"the table {written.table}" if written.table else format
        yield programs.NO_CHECKPOINT.at(place, name=name, format=shown)
    yield from _partition_problems(frame, written, place, name)
    yield from sink_problems(frame, written, place, name, sink_format(written.format))


def start_doubts(frame: DataFrame, written: Written, place: Position | None, name: str) -> Iterator[Problem]:
    """A sink whose rows stay, fed from a checkpoint that does not."""
    if written.format.lower() in _LASTING and not _checkpoint_of(frame.sparkSession, written):
        yield programs.PASSING_CHECKPOINT.at(place, name=name)


def sink_problems(
    frame: DataFrame, written: Written, place: Position | None, name: str, known: SinkFormat
) -> Iterator[Problem]:
    """What stands against a sink of this kind; what Spark says to the plan is in the facts."""
    if known.modes and written.mode not in known.modes:
        modes = ", ".join(known.modes)
        params = {"sink": name, "mode": written.mode, "connector": known.connector, "modes": modes}
        yield SINK_MODE.at(place, **params)
    if written.format.lower() in FILES:
        yield from _file_problems(frame, written, place, name)


def _file_problems(
    frame: DataFrame, written: Written, place: Position | None, name: str
) -> Iterator[Problem]:
    """What the files connector has against the columns."""
    known = {column.lower() for column in frame.columns}
    partitioned = tuple(column for column in written.partitioned_by if column.lower() in known)
    options = FilesSink.model_construct(path="", format=written.format.lower(), partition_by=partitioned)
    sink = SinkSpec.model_construct(name=name, reads=name, connector="files", options=options, position=place)
    yield from sink_side("files").problems(sink, columns_in(frame))


def _partition_problems(
    frame: DataFrame, written: Written, place: Position | None, name: str
) -> Iterator[Problem]:
    known, format = {column.lower() for column in frame.columns}, written.format.lower()
    if written.partitioned_by and format in _OWN:
        columns = ", ".join(f"`{column}`" for column in written.partitioned_by)
        yield programs.NOT_PARTITIONED.at(place, name=name, columns=columns, format=format)
        return
    for column in written.partitioned_by:
        if column.lower() not in known:
            columns = ", ".join(frame.columns)
            yield programs.NO_SUCH_PARTITION.at(place, name=name, column=column, known=columns)


def format_problem(
    spark: SparkSession, written: Written, place: Position | None, name: str
) -> Problem | None:
    """A format that Spark does not have, or can't write streams with."""
    if written.format.lower() in _OWN or written.table:
        return None
    hint = "Write it in a function of `foreachBatch`, with `df.write` there."
    if written.format.lower() in _ONLY_SOURCES:
        hint = 'It is for reading; to look at the rows write `.format("console")`.'
        return programs.NOT_A_SINK.at(place, name=name, format=written.format, hint=hint)
    try:
        found = class_of(spark, written.format)
    except SPARK_ERRORS:
        if may_be_python(spark, written.format):
            return None
        return source_missing(place, written.format, spark.version)
    if writes_streams(spark, found):
        return None
    return programs.NOT_A_SINK.at(place, name=name, format=written.format, hint=hint)


def _checkpoint_of(spark: SparkSession, written: Written) -> str:
    """The checkpoint that a query would have; empty where Spark would make one that passes."""
    given = {key.lower(): value for key, value in written.options.items()}.get("checkpointlocation")
    if given:
        return given if "://" in given else os.path.abspath(given)
    base = spark.conf.get(_CHECKPOINT, None)
    # Below a common folder a query without a name gets a folder of its own at each start.
    return os.path.join(base, written.name or os.urandom(4).hex()) if base else ""


# A DataFrame of a running program, judged where it stands: nothing is started, nothing is changed.

_UNKNOWN = SinkFormat("", known=False, continuous=True, real_time=True)


def check_frame(
    frame: Any, *, sink: object, mode: str, trigger: str, name: str, place: Position | None
) -> Caught:
    """The facts of a stream that would be written so, and what Spark has against it."""
    _refuse(frame, name, place)
    format, known = sink_of(sink, place)
    written = Written(format, mode, trigger, partitioned_by=_partitions(sink))
    facts = plain_facts(frame, written, name, known)
    # A format that the user names may be one that Spark does not have.
    named = isinstance(sink, str) and not connector_format(sink).known
    missing = format_problem(frame.sparkSession, written, place, name) if named else None
    found = (missing,) if missing else tuple(sink_problems(frame, written, place, name, known))
    return Caught(facts, place, found)


def sink_of(sink: object, place: Position | None = None) -> tuple[str, SinkFormat]:
    """The format that a sink stands for, and what is known of it."""
    match sink:
        case None:
            return "", _UNKNOWN
        case ConnectorCall(connector="files", keys=keys):
            return str(keys.get("format", "")), connector_format("files")
        case ConnectorCall(connector=connector):
            return connector, connector_format(connector)
        case str():
            return _named(sink)
        case _ if callable(getattr(sink, "process", None)):
            return "foreach", sink_format("foreach")
        case Callable():
            return "foreachBatch", sink_format("foreachBatch")
    raise UsageProblem(programs.UNKNOWN_SINK.at(place, got=f"`{sink!r}`"))


def _named(name: str) -> tuple[str, SinkFormat]:
    found = sink_format(name)
    # A word may also be one of Headwater's own, such as `foreach_batch`.
    own = connector_format(name)
    return name, own if own.known and not found.known else found


def _partitions(sink: object) -> tuple[str, ...]:
    given = sink.keys.get("partition_by") if isinstance(sink, ConnectorCall) else None
    return (given,) if isinstance(given, str) else tuple(given or ())


def _refuse(frame: Any, name: str, place: Position | None) -> None:
    if ".connect." in type(frame).__module__:
        raise PipelineError(programs.CONNECT_SESSION.at(place))
    if not isinstance(frame, DataFrame):
        raise UsageProblem(programs.NOT_A_FRAME.at(place, got=f"a `{type(frame).__name__}`"))
    if not frame.isStreaming:
        raise PipelineError(programs.NOT_A_STREAM.at(place, name=name))
