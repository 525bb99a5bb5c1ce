"""The query of a sink over test streams: started with a test clock, advanced trigger by trigger."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checkpoint.editors import take_back_commit
from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.query import RunningQuery
from headwater.errors import PipelineError, SetupError
from headwater.errors.catalogue.testing import (
    TEST_SPARK_UNSUPPORTED,
    TEST_STATE_AMBIGUOUS,
    TEST_STATE_UNREADABLE,
)
from headwater.events.idle import QueryInputs, idle_sources
from headwater.spark.callbacks import StepClock
from headwater.spark.errors import sentence_of
from headwater.spark.frames import arrow_schema
from headwater.spark.plans import WATERMARK, PlanReader, delay_of
from headwater.spark.query import MemoryStream, Target, last_progress, latest_rows, moment, start_with_clock
from headwater.spark.session import active
from headwater.spec import Mode
from headwater.testing.report import compare
from headwater.testing.results import Batch, Failure
from headwater.testing.values import plain
from headwater.values import scrub

# A stream whose rows are added by the test, on Spark's own MemoryStream.

Rows = Sequence[Mapping[str, Any]]


class ScriptedStream:
    """One streaming source of one query: rows that are added together reach the query in one batch.

    The offset that Spark stores is the number of additions. A stream that is recreated for a restart and gets
    the same additions again therefore resumes where the old one was.
    """

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._spark = spark
        self.schema = schema
        self._stream = MemoryStream(spark, schema)
        self.frame = self._stream.frame

    def add(self, rows: Rows) -> None:
        """Rows for the next batch; an empty addition has no effect."""
        if rows:
            self._stream.add(frame_of(self._spark, rows, self.schema))


def frame_of(spark: SparkSession, rows: Rows, schema: StructType) -> DataFrame:
    """A static DataFrame of rows in the form of `testing.values`, which are part of its plan."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(schema))
    # Spark makes the session of a new DataFrame the active one; the user's own must stay active.
    with active(spark):
        return spark.createDataFrame(table, schema)


def rows_of(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """The rows of a static DataFrame, in the form of `testing.values`."""
    fields = frame.schema.fields
    return tuple(
        {field.name: plain(row[field.name], field.dataType) for field in fields}
        for row in frame.toArrow().to_pylist()
    )


# The state rows of a query between batches, read from its checkpoint by Spark.

_SIDES = ("left", "right")
_JOIN = "symmetricHashJoin"
_OPTIONS = re.compile(r"\s+(?:for|with) StateSourceOptions|StateSourceOptions")


def state_rows(
    spark: SparkSession, sink: str, checkpoint: Path, part: str | None, operators: Sequence[str]
) -> DataFrame:
    """The state after the last committed batch; `operators` are those of the query, in Spark's order.

    A part is an operator by its number, a side of a join, a variable of transformWithState, or a number and
    one of these: `1 left`.
    """
    words = str(part).split() if part is not None else []
    _refuse_ambiguous(sink, words, operators)
    # Spark loads what it needs for reading state when its queries are first requested.
    _ = spark.streams.active
    reader = spark.read.format("statestore")
    for word in words:
        key = "joinSide" if word in _SIDES else "operatorId" if word.isdigit() else "stateVarName"
        reader = reader.option(key, word)
    try:
        with active(spark):
            return reader.load(str(checkpoint)).drop("partition_id").localCheckpoint()
    except SPARK_ERRORS as error:
        # The rest are options of Spark's reader, which no test sets.
        says = _OPTIONS.split(scrub(sentence_of(error)))[0].rstrip(". ")
        raise PipelineError(TEST_STATE_UNREADABLE.at(None, name=sink, says=says)) from error


def _refuse_ambiguous(sink: str, words: Sequence[str], operators: Sequence[str]) -> None:
    """If a query has several kinds of state, a part must be named, and must exist."""
    numbers = [int(word) for word in words if word.isdigit()]
    number = numbers[0] if numbers else 0
    sided = any(word in _SIDES for word in words)
    known = number < len(operators) and sided == (operators[number] == _JOIN)
    if (numbers or len(operators) == 1) and known:
        return
    parts = [
        f"{number} {side}".strip()
        for number, name in enumerate(operators)
        for side in (_SIDES if name == _JOIN else ("",))
    ]
    listed = ", ".join(f"{number} ({name})" for number, name in enumerate(operators)) or "none"
    first = f'"{parts[0]}"' if parts else '"0"'
    raise PipelineError(TEST_STATE_AMBIGUOUS.at(None, name=sink, parts=listed, first=first))


# What the analyzed plan of a query shows: its event times, and whether it depends on the clock.


@dataclass(frozen=True)
class EventTime:
    """A watermark in a plan."""

    column: str
    delay_ms: int
    sources: tuple[str, ...]
    """The sources whose rows pass it."""


def event_times(frame: DataFrame, inputs: QueryInputs) -> tuple[EventTime, ...]:
    """The watermarks of a query."""
    return tuple(
        EventTime(
            str(node.eventTime().name()),
            delay_of(frame.sparkSession, node),
            inputs.watermarks[str(node.nodeId())],
        )
        for node in PlanReader.of(frame).of_kind(WATERMARK)
    )


def looks_at_the_clock(frame: DataFrame) -> bool:
    """Whether state times out by processing time: Spark then runs a batch at every trigger."""
    plan = PlanReader.of(frame)
    timings = [node.timeout() for node in plan.of_kind("FlatMapGroupsInPandasWithState")]
    timings += [node.timeMode() for node in plan.of_kind("TransformWithStateInPySpark")]
    return any(str(timing).startswith("ProcessingTime") for timing in timings)


NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# Far more than an advanced watermark causes; a query that exceeds this never settles.
_MOST_TRIGGERS = 100


class Stuck(Exception):
    """A query does not settle; the text names the limit."""


class TestQueryFailed(Exception):
    """A query has terminated; its cause is the error."""


@dataclass
class QueryUnderTest:
    """The query of one sink over test streams, through all its starts, and every batch that ran."""

    name: str
    checkpoint: Path
    limit: float
    """Seconds that a batch may take."""
    captured: bool
    """Whether its rows are known; those of a real sink are not."""
    batches: list[Batch] = field(default_factory=list)
    """A retried batch appears twice."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Rows that no batch has read yet, by source."""
    event_times: tuple[EventTime, ...] = ()
    operators: tuple[str, ...] = ()
    """The stateful operators of the last batch, in Spark's order and terms."""
    replays: list[Failure] = field(default_factory=list)
    """Batches that returned different rows when they were retried, since this was last read."""
    failed: bool = False
    """It has failed and was not restarted."""
    running: RunningQuery | None = None
    frame: DataFrame = field(init=False)
    streams: Mapping[str, ScriptedStream] = field(init=False)
    clock: StepClock = field(init=False)
    _sink: Target = field(init=False)
    _timed: bool = False
    _started_at: int = 0
    """How many batches had run before the last start."""
    _delivered: dict[str, int] = field(default_factory=dict)
    """The last batch in which each source delivered rows, since the start."""
    _committed: int | None = None

    def start(
        self,
        frame: DataFrame,
        streams: Mapping[str, ScriptedStream],
        sink: Target,
        mode: Mode,
        milliseconds: int,
        no_data_batches: bool | None,
    ) -> None:
        """Start it; Spark then triggers automatically, and retries an unfinished batch."""
        self.frame, self.streams, self._sink = frame, streams, sink
        self.clock = StepClock(milliseconds)
        self.failed, self._timed = False, looks_at_the_clock(frame)
        self._started_at, self._delivered = len(self.batches), {}
        inputs = PlanReader.of(frame).inputs({name: stream.frame for name, stream in streams.items()})
        self.event_times = event_times(frame, inputs)
        self._committed = _last_commit(self.checkpoint)
        with _setting(frame.sparkSession, NO_DATA_BATCHES, no_data_batches):
            started = _start(frame, self.name, self.checkpoint, sink, mode, self.clock)
        self.running = replace(started, inputs=inputs)

    def trigger(self) -> bool:
        """One trigger: whether a batch was due."""
        self.clock.tick()
        return self.look()

    def settle(self) -> None:
        """Trigger until no further batch is due.

        If state times out by processing time, a batch is due at every trigger; then only an advanced
        watermark requires another one.
        """
        for _ in range(_MOST_TRIGGERS):
            last = self.batches[-1] if len(self.batches) > self._started_at else None
            if self._timed and (last is None or self.next_watermark == last.watermark):
                return
            if not self.trigger():
                return
        raise Stuck(f"{_MOST_TRIGGERS} triggers")

    @property
    def next_watermark(self) -> datetime | None:
        """The watermark that the next batch will use; None before the first event time."""
        commit = Checkpoint(LocalStore(self.checkpoint)).last_commit if self.event_times else None
        return moment(commit.next_watermark_ms) if commit else None

    def idle(self) -> tuple[str, ...]:
        """The idle sources that block the watermark of the running query."""
        if not self.running:
            return ()
        marks, watermark = self.running.marks() or ((), None)
        return idle_sources(self._delivered, marks, watermark)

    def stop(self, *, crash: bool = False) -> None:
        """Stop between two batches, without interrupting anything.

        With `crash`, the last batch is left as after a crash between the sink's write and the commit.
        """
        if self.running:
            self.running.begin_no_further_batch()
            self.clock.open()
            self.running.stop()
            self.running = None
        if crash:
            store = LocalStore(self.checkpoint)
            take_back_commit(store).apply(store)

    def look(self) -> bool:
        """Wait until it waits for its next trigger: whether a batch has run."""
        running = self.running
        assert running is not None, "only a running query is inspected"
        try:
            waits = self.clock.await_waiting(lambda: running.is_active, self.limit)
        except TimeoutError:
            raise Stuck(f"{self.limit:.0f} seconds") from None
        if not waits:
            self.failed, self.running = True, None
            raise TestQueryFailed from running.failure()
        # Spark's progress also includes triggers without a batch; a commit exists only after a batch.
        committed = _last_commit(self.checkpoint)
        if committed == self._committed:
            return False
        self._committed = committed
        progress: Any = last_progress(running.handle)
        self._take(json.loads(progress.json()))
        return True

    def _take(self, progress: Mapping[str, Any]) -> None:
        """Record a batch from Spark's progress."""
        number, operators = progress["batchId"], progress["stateOperators"]
        self.operators = tuple(operator["operatorName"] for operator in operators)
        written = progress.get("eventTime", {}).get("watermark", "1970-01-01T00:00:00Z")
        watermark = moment(int(datetime.fromisoformat(written).timestamp() * 1_000))
        before = next((batch for batch in reversed(self.batches) if batch.id == number), None)
        rows_in: Mapping[str, int] = before.rows_in if before else {}
        if not before and progress["numInputRows"]:
            rows_in, self.waiting = self.waiting, {}
        self._delivered |= dict.fromkeys(rows_in, number)
        schema, rows = self.frame.schema, None
        if self.captured:
            rows = latest_rows(self.frame.sparkSession, self._sink.table, number, schema)
        batch = Batch(
            id=number,
            watermark=watermark,
            rows_in=rows_in,
            rows=() if rows is None else rows_of(rows),
            late=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
            state=sum(operator["numRowsTotal"] for operator in operators),
            retried=before is not None,
            captured=self.captured,
        )
        self.batches.append(batch)
        # A retried batch must return the same rows; a sink that removes duplicates depends on it.
        if before and (diff := compare(before.rows, batch.rows, schema)):
            says = (
                f"batch {number} returned different rows when it was retried after the crash (expected: the "
                "rows of the first attempt). Possible causes: random values, uuid() or the wall clock"
            )
            self.replays.append(Failure("retry", says, self.name, diff))


def _last_commit(checkpoint: Path) -> int | None:
    commit = Checkpoint(LocalStore(checkpoint)).last_commit
    return commit.batch_id if commit else None


@contextmanager
def _setting(spark: SparkSession, key: str, value: bool | None) -> Iterator[None]:
    """A setting for the query that starts now: Spark copies the session's settings for it."""
    before = str(spark.conf.get(key))
    spark.conf.set(key, before if value is None else str(value).lower())
    try:
        yield
    finally:
        spark.conf.set(key, before)


def _start(
    frame: DataFrame, name: str, checkpoint: Path, sink: Target, mode: Mode, clock: StepClock
) -> RunningQuery:
    spark: SparkSession = frame.sparkSession
    try:
        handle = start_with_clock(frame, name, checkpoint, sink, mode, clock)
    except Py4JError as error:
        if "startQuery" in str(error) and "does not exist" in str(error):
            raise SetupError(TEST_SPARK_UNSUPPORTED.at(None, version=spark.version)) from error
        raise
    return RunningQuery(name, handle, spark, str(handle.id))
