"""The scripted query of a sink: started with our clock, moved trigger by trigger, looked at between two."""

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
from headwater.errors import EnvironmentProblem, PipelineError
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

# A stream whose rows are put in by hand, on Spark's own MemoryStream.

Rows = Sequence[Mapping[str, Any]]


class ScriptedStream:
    """One streaming source of one query: what is added at once reaches the query in one batch.

    The offset that Spark stores is the number of additions, so a stream that is made anew for a restart and
    gets the same additions again goes on where the old one was.
    """

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._spark = spark
        self.schema = schema
        self._stream = MemoryStream(spark, schema)
        self.frame = self._stream.frame

    def add(self, rows: Rows) -> None:
        """Rows for the next batch; none at all leave no trace."""
        if rows:
            self._stream.add(frame_of(self._spark, rows, self.schema))


def frame_of(spark: SparkSession, rows: Rows, schema: StructType) -> DataFrame:
    """A finished DataFrame of rows in the form of `testing.values`, which stand in its plan."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(schema))
    # Spark makes the session of a new DataFrame the active one; the user's own has to stay that.
    with active(spark):
        return spark.createDataFrame(table, schema)


def rows_of(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """The rows of a finished DataFrame, in the form of `testing.values`."""
    fields = frame.schema.fields
    return tuple(
        {field.name: plain(row[field.name], field.dataType) for field in fields}
        for row in frame.toArrow().to_pylist()
    )


# The rows that a query keeps between batches, read from its checkpoint by Spark.

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
    # Spark loads what it needs for reading state when somebody first asks for its queries.
    _ = spark.streams.active
    reader = spark.read.format("statestore")
    for word in words:
        key = "joinSide" if word in _SIDES else "operatorId" if word.isdigit() else "stateVarName"
        reader = reader.option(key, word)
    try:
        with active(spark):
            return reader.load(str(checkpoint)).drop("partition_id").localCheckpoint()
    except SPARK_ERRORS as error:
        # What follows are options of Spark's reader, which no test sets.
        says = _OPTIONS.split(scrub(sentence_of(error)))[0].rstrip(". ")
        raise PipelineError(TEST_STATE_UNREADABLE.at(None, name=sink, says=says)) from error


def _refuse_ambiguous(sink: str, words: Sequence[str], operators: Sequence[str]) -> None:
    """Where a query keeps several kinds of state, a part has to be named, and one that is there."""
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


# What the analyzed plan of a scripted query tells: its event times, and whether it looks at the clock.


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
    """Whether state times out by processing time: Spark then makes a batch at every trigger."""
    plan = PlanReader.of(frame)
    timings = [node.timeout() for node in plan.of_kind("FlatMapGroupsInPandasWithState")]
    timings += [node.timeMode() for node in plan.of_kind("TransformWithStateInPySpark")]
    return any(str(timing).startswith("ProcessingTime") for timing in timings)


NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# Far more than a moved watermark brings; a query that goes beyond never settles.
_MOST_TRIGGERS = 100


class Stuck(Exception):
    """A query does not come to rest; the text says after what."""


class TestQueryFailed(Exception):
    """A query has ended; its cause is the error with which it did."""


@dataclass
class ScriptedQuery:
    """The query of one sink over scripted streams, through all its starts, and every batch that ran."""

    name: str
    checkpoint: Path
    limit: float
    """Seconds that a batch may take."""
    captured: bool
    """Whether its rows are known; a real sink has taken them."""
    batches: list[Batch] = field(default_factory=list)
    """One that ran again stands there twice."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Rows that no batch has read yet, by source."""
    event_times: tuple[EventTime, ...] = ()
    operators: tuple[str, ...] = ()
    """What keeps state in the last batch, in Spark's order and words."""
    replays: list[Failure] = field(default_factory=list)
    """Batches that gave other rows when they ran again, since this was last asked."""
    failed: bool = False
    """It has failed and was not started again."""
    running: RunningQuery | None = None
    frame: DataFrame = field(init=False)
    streams: Mapping[str, ScriptedStream] = field(init=False)
    clock: StepClock = field(init=False)
    _sink: Target = field(init=False)
    _timed: bool = False
    _started_at: int = 0
    """How many batches had run before the last start."""
    _brought: dict[str, int] = field(default_factory=dict)
    """The last batch to which each source brought rows, since the start."""
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
        """Start it; Spark then makes a trigger by itself, in which an unfinished batch runs again."""
        self.frame, self.streams, self._sink = frame, streams, sink
        self.clock = StepClock(milliseconds)
        self.failed, self._timed = False, looks_at_the_clock(frame)
        self._started_at, self._brought = len(self.batches), {}
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
        """Triggers until no further batch is due.

        State that times out by processing time makes a batch due at every trigger; there only a watermark
        that has moved brings another.
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
        """The watermark that the next batch will use; None before the first event time was seen."""
        commit = Checkpoint(LocalStore(self.checkpoint)).last_commit if self.event_times else None
        return moment(commit.next_watermark_ms) if commit else None

    def idle(self) -> tuple[str, ...]:
        """The sources for which the watermark of the running query waits."""
        if not self.running:
            return ()
        marks, watermark = self.running.marks() or ((), None)
        return idle_sources(self._brought, marks, watermark)

    def stop(self, *, crash: bool = False) -> None:
        """End between two batches, without interrupting anything.

        With `crash` the last batch is left as a crash between the sink's write and the commit would.
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
        assert running is not None, "only a running query is looked at"
        try:
            waits = self.clock.await_waiting(lambda: running.is_active, self.limit)
        except TimeoutError:
            raise Stuck(f"{self.limit:.0f} seconds") from None
        if not waits:
            self.failed, self.running = True, None
            raise TestQueryFailed from running.failure()
        # Spark's progress also tells of triggers that ran no batch; a commit is there only after a batch.
        committed = _last_commit(self.checkpoint)
        if committed == self._committed:
            return False
        self._committed = committed
        progress: Any = last_progress(running.handle)
        self._take(json.loads(progress.json()))
        return True

    def _take(self, progress: Mapping[str, Any]) -> None:
        """Take note of a batch by Spark's progress."""
        number, operators = progress["batchId"], progress["stateOperators"]
        self.operators = tuple(operator["operatorName"] for operator in operators)
        written = progress.get("eventTime", {}).get("watermark", "1970-01-01T00:00:00Z")
        watermark = moment(int(datetime.fromisoformat(written).timestamp() * 1_000))
        before = next((batch for batch in reversed(self.batches) if batch.id == number), None)
        rows_in: Mapping[str, int] = before.rows_in if before else {}
        if not before and progress["numInputRows"]:
            rows_in, self.waiting = self.waiting, {}
        self._brought |= dict.fromkeys(rows_in, number)
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
            again=before is not None,
            captured=self.captured,
        )
        self.batches.append(batch)
        # A batch that runs again must give the same rows; a sink that drops repeats relies on it.
        if before and (diff := compare(before.rows, batch.rows, schema)):
            says = (
                f"batch {number} gave other rows when it ran again after the crash, expected are those "
                "of the first time: a random value, uuid() or the wall clock does that"
            )
            self.replays.append(Failure("replay", says, self.name, diff))


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
            raise EnvironmentProblem(TEST_SPARK_UNSUPPORTED.at(None, version=spark.version)) from error
        raise
    return RunningQuery(name, handle, spark, str(handle.id))
