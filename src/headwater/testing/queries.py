"""The queries of one test, advanced step by step, and everything they did."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import PipelineError, Place, Problem
from headwater.errors.catalogue.testing import (
    TEST_ALREADY_RUNNING,
    TEST_BATCH_TIMEOUT,
    TEST_COLUMN_DUPLICATE,
    TEST_FEED_STATIC,
    TEST_GIVEN_STREAM,
    TEST_NAME_NOT_FOUND,
    TEST_NOT_RUNNING,
    TEST_ROW_MISMATCH,
    TEST_ROWS_MISSING,
)
from headwater.run_directory import RunDirectory
from headwater.testing.query import QueryUnderTest, ScriptedStream, Stuck, TestQueryFailed, frame_of
from headwater.testing.results import Failure, Values
from headwater.testing.steps import Row, Rows
from headwater.testing.subjects import ReadBack, ReadFunction, Subject
from headwater.testing.values import BadRow, LocalDay, read_row
from headwater.values import Duration, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


# Invalid tests: names that the pipeline does not have, rows that do not match.


def refuse_sinks(subject: Subject, named: Mapping[str, Place | None]) -> None:
    """Each name must be a sink; a problem is reported where the test uses the name."""
    _refuse_unknown("sink", named, subject.modes, "Sinks")


def refuse_streams(subject: Subject, named: Collection[str]) -> None:
    """Each name must be a streaming source."""
    others = {name: TEST_FEED_STATIC.at(None, name=name) for name in subject.statics}
    _refuse_unknown("source", dict.fromkeys(named), subject.streams, "Streaming sources", others)


def refuse_given(subject: Subject, named: Collection[str]) -> None:
    """Each name must be a static source."""
    others = {name: TEST_GIVEN_STREAM.at(None, name=name) for name in subject.streams}
    known, listed = subject.statics, "Static sources"
    _refuse_unknown("static source", dict.fromkeys(named), known, listed, others, "`given:`")


def _refuse_unknown(
    kind: str,
    named: Mapping[str, Place | None],
    known: Collection[str],
    listed: str,
    others: Mapping[str, Problem] | None = None,
    where: str = "The test",
) -> None:
    """Unknown names; `others` are known as something else."""
    names = ", ".join(f"`{each}`" for each in known) or "none"

    def unknown(name: str) -> Problem:
        hint = did_you_mean(name, known, f"{listed} of the pipeline: {names}.")
        return TEST_NAME_NOT_FOUND.at(named[name], where=where, name=name, kind=kind, hint=hint)

    _refuse((others or {}).get(name) or unknown(name) for name in named if name not in known)


def refuse_columns(sink: str, columns: Sequence[str]) -> None:
    """Rows are compared by column name."""
    twice = dict.fromkeys(name for name in columns if columns.count(name) > 1)
    _refuse(TEST_COLUMN_DUPLICATE.at(None, name=sink, column=column) for column in twice)


def bad_row(name: str, bad: BadRow, place: Place | None, schema: StructType) -> Problem:
    """A row that does not match its columns."""
    columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema.fields)
    column = f", column `{bad.column}`" if bad.column else ""
    return TEST_ROW_MISMATCH.at(place, name=name, column=column, says=bad.says, columns=columns)


def _refuse(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise PipelineError.of(found)


REAL = "real"
DEFAULT_LIMIT = 120.0


@dataclass(frozen=True)
class Environment:
    """What a test replaces around the pipeline."""

    local_day: LocalDay
    folder: Path
    """A separate directory for the test: checkpoints, and the output of real sinks."""
    given: Mapping[str, Rows | str] = field(default_factory=dict)
    real: Mapping[str, ReadFunction | None] = field(default_factory=dict)
    """The sinks that stay as declared, and how each is read back if that must be configured."""
    no_data_batches: bool | None = None
    """Whether Spark may run batches without data; None leaves this to the pipeline's own settings."""
    limit: float = DEFAULT_LIMIT
    """Seconds that a batch may take."""

    def sink_folder(self, sink: str) -> Path:
        """Where a sink that stays as declared writes."""
        return self.folder / "sinks" / sink


@dataclass(frozen=True)
class Broken:
    """A query that has failed in a step, and why."""

    sink: str
    problem: Problem


@dataclass
class QueriesUnderTest:
    """The queries of one test, from their first start to the end."""

    subject: Subject
    sinks: Sequence[str]
    environment: Environment
    clock: int
    """Processing time, in milliseconds since 1970."""
    broken: list[Broken] = field(default_factory=list)
    """Queries that failed since this was last read."""
    refused: bool = False
    """The last step was rejected, as expected."""
    _feeds: list[Mapping[str, list[Row]]] = field(default_factory=list)
    """All rows that were fed, by column: another version of the pipeline may have different columns."""
    _checked: bool = False

    def __post_init__(self) -> None:
        refuse_sinks(self.subject, dict.fromkeys((*self.sinks, *self.environment.real)))
        refuse_given(self.subject, self.environment.given)
        checkpoints, limit = RunDirectory(self.environment.folder).checkpoint, self.environment.limit
        self.queries = {
            sink: QueryUnderTest(sink, checkpoints(sink), limit, captured=sink not in self.environment.real)
            for sink in self.sinks
        }

    @property
    def running(self) -> list[QueryUnderTest]:
        return [query for query in self.queries.values() if query.running]

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock / 1_000, UTC)

    def start(self) -> None:
        """Start every query that is not running; an unfinished batch is retried immediately."""
        if len(self.running) == len(self.queries) and self._checked:
            raise PipelineError(TEST_ALREADY_RUNNING.at(None))
        for query in self.queries.values():
            if not query.running:
                self._start(query)
        self._checked = True
        self._settle()

    def stop(self) -> None:
        """Stop every query between two batches."""
        for query in self.running:
            query.stop()

    def feed(self, rows: Mapping[str, Rows], *, settle: bool = True) -> dict[str, tuple[Values, ...]]:
        """One data batch; without `settle`, the no-data batches are still to come."""
        refuse_streams(self.subject, rows)
        schemas = {name: self.subject.schema(name) for name in rows}
        read = {name: self.read(name, given, schemas[name]) for name, given in rows.items()}
        self._feeds.append({name: _by_column(given, schemas[name]) for name, given in rows.items()})
        for sink, query in self.queries.items():
            needed = self.subject.read_by(sink)
            for name, given in read.items():
                if name in needed and given:
                    query.waiting[name] = query.waiting.get(name, 0) + len(given)
                    if query.running:
                        query.streams[name].add(given)
        for query in self.running:
            if query.waiting:
                self._move(query, query.trigger)
        if settle:
            self._settle()
        return {name: tuple(given) for name, given in read.items()}

    def advance(self, by: Duration) -> None:
        """Advance processing time; running queries get a trigger."""
        self.clock += by.milliseconds
        for query in self.running:
            query.clock.milliseconds = self.clock
            self._move(query, query.trigger)
        self._settle()

    def crash(self, sinks: Collection[str] | None = None) -> None:
        """Stop, delete the commit of the last batch, and start: Spark retries that batch.

        With `sinks`, only these lose their last commit: the others were between two batches.
        """
        if not self.running:
            raise PipelineError(TEST_NOT_RUNNING.at(None, step="crash"))
        for query in self.running:
            query.stop(crash=sinks is None or query.name in sinks)
        self.start()

    def change_to(self, subject: Subject) -> None:
        """Continue with another version of the pipeline, on the same checkpoints."""
        self.stop()
        self.subject = subject
        refuse_sinks(subject, dict.fromkeys(self.sinks))
        self._checked = False
        self.start()

    def close(self) -> None:
        """Stop everything and delete the test's directory."""
        self.stop()
        shutil.rmtree(self.environment.folder, ignore_errors=True)

    def read_back(self, sink: str) -> ReadBack:
        """The current contents of a real sink."""
        folder, how = self.environment.sink_folder(sink), self.environment.real[sink]
        return self.subject.read_back(sink, self.queries[sink].frame, folder, how)

    def take_broken(self) -> list[Broken]:
        """The queries that failed since this was last called."""
        broken, self.broken = self.broken, []
        return broken

    def take_replays(self) -> list[Failure]:
        """Batches that returned different rows when they were retried, since this was last called."""
        replays = [failure for query in self.queries.values() for failure in query.replays]
        for query in self.queries.values():
            query.replays.clear()
        return replays

    def read(self, name: str, rows: Rows, schema: StructType) -> list[Values]:
        """Rows as written, in plain values; PipelineError reports the first invalid one of each kind."""
        read: list[Values] = []
        problems = []
        for row in rows:
            written = row if isinstance(row, Row) else Row(row)
            try:
                read.append(read_row(written.values, schema, self.environment.local_day))
            except BadRow as bad:
                problems.append(bad_row(name, bad, written.place, schema))
        if problems:
            raise PipelineError.of(problems)
        return read

    def _start(self, query: QueryUnderTest) -> None:
        """Build the query again, as every start does, and give its streams all earlier rows."""
        sink, subject = query.name, self.subject
        needed = subject.read_by(sink)
        streams = {
            name: ScriptedStream(subject.spark, subject.schema(name))
            for name in subject.streams
            if name in needed
        }
        rows = {name: stream.frame for name, stream in streams.items()} | self._static_rows(needed)
        frame = subject.build(sink, rows, check=not self._checked)
        refuse_columns(sink, frame.columns)
        for feed in self._feeds:
            for name, given in feed.items():
                if name in streams:
                    schema = streams[name].schema
                    streams[name].add(self.read(name, _of_columns(given, schema), schema))
        real = None if query.captured else self.environment.sink_folder(sink)
        no_data_batches = self.environment.no_data_batches
        try:
            table = subject.table(sink, frame, real, query.checkpoint)
            query.start(frame, streams, table, subject.modes[sink], self.clock, no_data_batches)
        except SPARK_ERRORS as error:
            raise PipelineError(subject.refusal(sink, error)) from error
        self._move(query, query.look)

    def _static_rows(self, needed: Collection[str]) -> dict[str, DataFrame]:
        frames = {}
        for name in self.subject.statics:
            given = self.environment.given.get(name)
            if name not in needed or given == REAL:
                continue
            if given is None or isinstance(given, str):
                raise PipelineError(TEST_ROWS_MISSING.at(None, name=name))
            schema = self.subject.schema(name)
            frames[name] = frame_of(self.subject.spark, self.read(name, given, schema), schema)
        return frames

    def _settle(self) -> None:
        for query in self.running:
            self._move(query, query.settle)

    def _move(self, query: QueryUnderTest, move: Callable[[], object]) -> None:
        """Advance a query; a failure is recorded."""
        try:
            move()
        except Stuck as stuck:
            raise PipelineError(TEST_BATCH_TIMEOUT.at(None, name=query.name, limit=str(stuck))) from None
        except TestQueryFailed as failed:
            error = failed.__cause__
            assert isinstance(error, Exception), "a query that terminated on its own has failed"
            self.broken.append(Broken(query.name, self.subject.problem(query.name, error)))


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
    """The part of each row that a stream with these columns delivers; rows that were fed before are valid."""
    known = {name.lower() for name in schema.names}
    return [
        replace(
            row, values={name: value for name, value in dict(row.values).items() if name.lower() in known}
        )
        for row in rows
    ]
