"""What Spark checks at the start of a plain query itself: asked before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import sink_side
from headwater.connectors.files import FilesSink
from headwater.engine.builder import SPARK_ERRORS, columns_in
from headwater.engine.plain_facts import Written
from headwater.errors import Problem
from headwater.errors.catalogue import programs
from headwater.errors.catalogue.running import SINK_MODE
from headwater.plan.formats import FILES, SinkFormat, sink_format
from headwater.programs.capture import CaughtQuery
from headwater.programs.failures import source_missing
from headwater.spark.python_sources import class_of, may_be_python, writes_streams
from headwater.spec import SinkSpec
from headwater.values import Position

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
