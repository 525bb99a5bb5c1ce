"""A script in play: the queries under test, moved on step by step, and everything they did."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import PipelineError, Place, Problem
from headwater.errors.catalogue.testing import (
    TEST_BAD_ROW,
    TEST_COLUMN_TWICE,
    TEST_FEEDS_STATIC,
    TEST_GIVES_STREAM,
    TEST_NOT_GIVEN,
    TEST_NOT_RUNNING,
    TEST_RUNNING,
    TEST_STUCK,
    TEST_UNKNOWN_NAME,
)
from headwater.run_directory import RunDirectory
from headwater.scripted.query import (
    EventTime,
    Ran,
    ScriptedQuery,
    ScriptedStream,
    Stuck,
    frame_of,
    next_watermark,
    uncommit,
)
from headwater.scripted.subjects import Held, Read, Subject
from headwater.scripted.times import BadRow, Reading
from headwater.scripted.values import read_row
from headwater.testing.report import compare
from headwater.testing.results import Batch, Failure, Values
from headwater.testing.steps import Row, Rows
from headwater.values import Duration, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


# What a test can't mean: names that the pipeline does not have, rows that don't fit.


def refuse_sinks(subject: Subject, named: Mapping[str, Place | None]) -> None:
    """Each name has to be a sink; it is told at the place where the test names it."""
    known = subject.modes
    _refuse(
        replace(_unknown("sink", name, known, "Its sinks are"), place=place)
        for name, place in named.items()
        if name not in known
    )


def refuse_streams(subject: Subject, named: Collection[str]) -> None:
    """Each name has to be a streaming source."""
    _refuse(
        TEST_FEEDS_STATIC.at(None, name=name)
        if name in subject.statics
        else _unknown("source", name, subject.streams, "Its streams are")
        for name in named
        if name not in subject.streams
    )


def refuse_given(subject: Subject, named: Collection[str]) -> None:
    """Each name has to be a static source."""
    _refuse(
        TEST_GIVES_STREAM.at(None, name=name)
        if name in subject.streams
        else _unknown("static source", name, subject.statics, "Its static sources are", "`given:`")
        for name in named
        if name not in subject.statics
    )


def refuse_columns(sink: str, columns: Sequence[str]) -> None:
    """Rows are compared by the names of their columns."""
    twice = dict.fromkeys(name for name in columns if columns.count(name) > 1)
    _refuse(TEST_COLUMN_TWICE.at(None, name=sink, column=column) for column in twice)


def bad_row(name: str, bad: BadRow, place: Place | None, schema: StructType) -> Problem:
    """A row that does not fit its columns."""
    columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema.fields)
    column = f" in `{bad.column}`" if bad.column else ""
    return TEST_BAD_ROW.at(place, name=name, column=column, says=bad.says, columns=columns)


def _unknown(kind: str, name: str, known: Collection[str], listed: str, where: str = "The test") -> Problem:
    names = ", ".join(f"`{each}`" for each in known) or "none"
    hint = did_you_mean(name, known, f"{listed}: {names}.")
    return TEST_UNKNOWN_NAME.at(None, where=where, name=name, kind=kind, hint=hint)


def _refuse(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise PipelineError.of(found)


REAL = "real"
DEFAULT_LIMIT = 120.0


@dataclass(frozen=True)
class Environment:
    """What a test puts in place of the world around the pipeline."""

    reading: Reading
    folder: Path
    """A folder of the test's own: checkpoints, and what real sinks write."""
    given: Mapping[str, Rows | str] = field(default_factory=dict)
    real: Mapping[str, Read | None] = field(default_factory=dict)
    """The sinks that are kept as declared, and how each is read back where that has to be said."""
    no_data_batches: bool | None = None
    """Whether Spark may make them; None leaves that to the pipeline's own settings."""
    limit: float = DEFAULT_LIMIT
    """Seconds that a batch may take."""


@dataclass(frozen=True)
class Broken:
    """A query that has failed in a step, and why."""

    sink: str
    problem: Problem


@dataclass
class ScriptedQueries:
    """The queries of one test, from their first start to the end."""

    subject: Subject
    sinks: Sequence[str]
    environment: Environment
    clock: int
    """Processing time, in milliseconds since 1970."""
    queries: dict[str, ScriptedQuery] = field(default_factory=dict)
    """The running ones, by the name of the sink."""
    done: dict[str, list[Batch]] = field(default_factory=dict)
    """Every batch that ran, by the name of the sink; one that ran again stands there twice."""
    event_times: dict[str, tuple[EventTime, ...]] = field(default_factory=dict)
    operators: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What keeps state in each query, in Spark's order and words, as of its last batch."""
    broken: list[Broken] = field(default_factory=list)
    """Queries that failed since it was last looked at."""
    failed: set[str] = field(default_factory=set)
    """Sinks whose queries have failed and were not started again."""
    replays: list[Failure] = field(default_factory=list)
    """Batches that gave other rows when they ran again."""
    refused: bool = False
    """The last step was refused, as it was expected to be."""
    frames: dict[str, DataFrame] = field(default_factory=dict)
    """The DataFrame of each sink, as it was last built."""
    _feeds: list[Mapping[str, list[Row]]] = field(default_factory=list)
    """All that was fed, by column: another version of the pipeline may have other columns."""
    _waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the name of the sink: rows that no batch has read yet, by source."""
    _checked: bool = False

    def __post_init__(self) -> None:
        refuse_sinks(self.subject, dict.fromkeys((*self.sinks, *self.environment.real)))
        refuse_given(self.subject, self.environment.given)
        self.done = {sink: [] for sink in self.sinks}
        self._waiting = {sink: {} for sink in self.sinks}

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock / 1_000, UTC)

    def start(self) -> None:
        """Start every query that does not run; an unfinished batch runs again at once."""
        if len(self.queries) == len(self.sinks) and self._checked:
            raise PipelineError(TEST_RUNNING.at(None))
        for sink in self.sinks:
            if sink not in self.queries:
                self._begin(sink)
        self._checked = True
        self._settle()

    def stop(self) -> None:
        """Stop every query between two batches."""
        for query in self.queries.values():
            query.stop()
        self.queries.clear()

    def feed(self, rows: Mapping[str, Rows], *, settle: bool = True) -> dict[str, tuple[Values, ...]]:
        """One data batch; without `settle` the no-data batches are still to come."""
        refuse_streams(self.subject, rows)
        read = {name: self.read(name, given, self.subject.schema(name)) for name, given in rows.items()}
        self._feeds.append(
            {name: _by_column(given, self.subject.schema(name)) for name, given in rows.items()}
        )
        for sink in self.sinks:
            needed = self.subject.read_by(sink)
            for name, given in read.items():
                if name in needed and given:
                    self._waiting[sink][name] = self._waiting[sink].get(name, 0) + len(given)
                    if sink in self.queries:
                        self.queries[sink].streams[name].add(given)
        self._trigger(sink for sink in self.queries if self._waiting[sink])
        if settle:
            self._settle()
        return {name: tuple(given) for name, given in read.items()}

    def advance(self, by: Duration) -> None:
        """Move processing time; running queries get a trigger."""
        self.clock += by.milliseconds
        for query in self.queries.values():
            query.clock.milliseconds = self.clock
        self._trigger(list(self.queries))
        self._settle()

    def crash(self, sinks: Collection[str] | None = None) -> None:
        """Stop, take the commit of the last batch away, and start: Spark runs that batch again.

        With `sinks`, only these have something to lose: the others were between two batches.
        """
        if not self.queries:
            raise PipelineError(TEST_NOT_RUNNING.at(None, step="crash"))
        for sink, query in self.queries.items():
            query.stop()
            if sinks is None or sink in sinks:
                uncommit(query.checkpoint)
        self.queries.clear()
        self.start()

    def change_to(self, subject: Subject) -> None:
        """Go on with another version of the pipeline, on the same checkpoints."""
        self.stop()
        self.subject = subject
        refuse_sinks(subject, dict.fromkeys(self.sinks))
        self._checked = False
        self.start()

    def close(self) -> None:
        """Stop everything and remove the test's folder."""
        self.stop()
        shutil.rmtree(self.environment.folder, ignore_errors=True)

    def checkpoint(self, sink: str) -> Path:
        return RunDirectory(self.environment.folder).checkpoint(sink)

    def real_folder(self, sink: str) -> Path | None:
        """Where a sink that is kept as declared writes."""
        return self.environment.folder / "sinks" / sink if sink in self.environment.real else None

    def watermark(self, sink: str) -> datetime | None:
        """The watermark that the next batch of a sink's query will use."""
        if not self.event_times.get(sink):
            return None
        return next_watermark(self.checkpoint(sink))

    def idle(self, sink: str) -> tuple[str, ...]:
        """The sources for which a running query's watermark waits."""
        return self.queries[sink].idle() if sink in self.queries else ()

    def read_back(self, sink: str) -> Held:
        """What a real sink holds now."""
        folder = self.real_folder(sink)
        assert folder is not None, "only a real sink is read back"
        return self.subject.read_back(sink, self.frames[sink], folder, self.environment.real[sink])

    def take_broken(self) -> list[Broken]:
        """The queries that failed since this was last asked."""
        broken, self.broken = self.broken, []
        return broken

    def read(self, name: str, rows: Rows, schema: StructType) -> list[Values]:
        """Rows as they were written, in plain values; PipelineError names the first bad one of each kind."""
        read: list[Values] = []
        problems = []
        for row in rows:
            written = row if isinstance(row, Row) else Row(row)
            try:
                read.append(read_row(written.values, schema, self.environment.reading))
            except BadRow as bad:
                problems.append(bad_row(name, bad, written.place, schema))
        if problems:
            raise PipelineError.of(problems)
        return read

    def _begin(self, sink: str) -> None:
        """Build the query anew, as every start does, and give its streams all that came before."""
        needed = self.subject.read_by(sink)
        streams = {
            name: ScriptedStream(self.subject.spark, self.subject.schema(name))
            for name in self.subject.streams
            if name in needed
        }
        rows = {name: stream.frame for name, stream in streams.items()} | self._static_rows(needed)
        frame = self.subject.build(sink, rows, check=not self._checked)
        self.frames[sink] = frame
        refuse_columns(sink, frame.columns)
        for feed in self._feeds:
            for name, given in feed.items():
                if name in streams:
                    schema = streams[name].schema
                    streams[name].add(self.read(name, _of_columns(given, schema), schema))
        self.failed.discard(sink)
        real, checkpoint = self.real_folder(sink), self.checkpoint(sink)
        try:
            self.queries[sink] = ScriptedQuery(
                sink,
                frame,
                streams,
                self.subject.table(sink, frame, real, checkpoint),
                self.subject.modes[sink],
                checkpoint=checkpoint,
                milliseconds=self.clock,
                limit=self.environment.limit,
                captured=real is None,
                no_data_batches=self.environment.no_data_batches,
            )
        except SPARK_ERRORS as error:
            raise PipelineError(self.subject.refusal(sink, error)) from error
        self.event_times[sink] = self.queries[sink].event_times
        self._took(sink, self.queries[sink].begin)

    def _static_rows(self, needed: Collection[str]) -> dict[str, Any]:
        frames = {}
        for name in self.subject.statics:
            given = self.environment.given.get(name)
            if name not in needed or given == REAL:
                continue
            if given is None or isinstance(given, str):
                raise PipelineError(TEST_NOT_GIVEN.at(None, name=name))
            schema = self.subject.schema(name)
            frames[name] = frame_of(self.subject.spark, self.read(name, given, schema), schema)
        return frames

    def _trigger(self, sinks: Iterable[str]) -> None:
        for sink in list(sinks):
            self._took(sink, self.queries[sink].trigger)

    def _settle(self) -> None:
        for sink in list(self.queries):
            self._took(sink, self.queries[sink].settle)

    def _took(self, sink: str, move: Any) -> None:
        """Take note of the batches that a move brought, or of the failure."""
        query = self.queries[sink]
        try:
            ran = move()
        except Stuck as stuck:
            raise PipelineError(TEST_STUCK.at(None, name=sink, limit=str(stuck))) from None
        for each in ran or ():
            self._note(sink, each)
        if ran is None:
            del self.queries[sink]
            error = query.failure()
            assert error is not None, "a query that ended by itself has failed"
            self.broken.append(Broken(sink, self.subject.problem(sink, error)))
            self.failed.add(sink)

    def _note(self, sink: str, ran: Ran) -> None:
        before = next((batch for batch in reversed(self.done[sink]) if batch.id == ran.id), None)
        batch = Batch(
            ran.id,
            ran.watermark,
            {},
            ran.rows,
            ran.late,
            ran.state,
            again=before is not None,
            captured=sink not in self.environment.real,
        )
        if before is not None:
            batch = replace(batch, rows_in=before.rows_in)
            self._compare(sink, before, batch)
        elif ran.had_data:
            batch = replace(batch, rows_in=self._waiting[sink])
            self._waiting[sink] = {}
        self.done[sink].append(batch)
        if sink in self.queries:
            self.queries[sink].note(batch.id, batch.rows_in)
            self.operators[sink] = self.queries[sink].operators

    def _compare(self, sink: str, before: Batch, again: Batch) -> None:
        """A batch that runs again must give the same rows; a sink that drops repeats relies on it."""
        diff = compare(before.rows, again.rows, self.frames[sink].schema)
        if diff:
            says = (
                f"batch {again.id} gave other rows when it ran again after the crash, expected are those "
                "of the first time: a random value, uuid() or the wall clock does that"
            )
            self.replays.append(Failure("replay", says, sink, diff))


def _by_column(rows: Rows, schema: StructType) -> list[Row]:
    """Rows that were written as lists, with the names of the columns that they were written for."""
    written = [row if isinstance(row, Row) else Row(row) for row in rows]
    return [
        row
        if isinstance(row.values, Mapping)
        else replace(row, values=dict(zip(schema.names, row.values, strict=True)))
        for row in written
    ]


def _of_columns(rows: Sequence[Row], schema: StructType) -> list[Row]:
    """What of each row a stream with these columns brings; what was fed before is no mistake of now."""
    known = {name.lower() for name in schema.names}
    return [
        replace(
            row, values={name: value for name, value in dict(row.values).items() if name.lower() in known}
        )
        for row in rows
    ]
