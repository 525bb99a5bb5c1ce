"""One scripted query: started with our clock, moved one trigger at a time, looked at between two."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from headwater.errors.catalogue.testing import TEST_SPARK_VERSION, TEST_STATE, TEST_STATE_PART
from headwater.events.idle import QueryInputs, idle_sources
from headwater.scripted.values import plain
from headwater.spark.callbacks import StepClock
from headwater.spark.errors import sentence_of
from headwater.spark.frames import arrow_schema
from headwater.spark.plans import WATERMARK, analyzed, delay_of, inputs_of, nodes_of
from headwater.spark.private import kind_of
from headwater.spark.query import MemoryStream, Target, last_progress, latest_rows, moment, start_with_clock
from headwater.spark.session import active
from headwater.spec import Mode
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
    """A finished DataFrame of rows in the form of `scripted.values`, which stand in its plan."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(schema))
    # Spark makes the session of a new DataFrame the active one; the user's own has to stay that.
    with active(spark):
        return spark.createDataFrame(table, schema)


def rows_of(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """The rows of a finished DataFrame, in the form of `scripted.values`."""
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
        raise PipelineError(TEST_STATE.at(None, name=sink, says=says)) from error


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
    raise PipelineError(TEST_STATE_PART.at(None, name=sink, parts=listed, first=first))


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
        for node in nodes_of(analyzed(frame))
        if kind_of(node) == WATERMARK
    )


def looks_at_the_clock(frame: DataFrame) -> bool:
    """Whether state times out by processing time: Spark then makes a batch at every trigger."""
    return any(_timing(node).startswith("ProcessingTime") for node in nodes_of(analyzed(frame)))


def _timing(node: Any) -> str:
    match kind_of(node):
        case "FlatMapGroupsInPandasWithState":
            return str(node.timeout())
        case "TransformWithStateInPySpark":
            return str(node.timeMode())
        case _:
            return ""


NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# Far more than a moved watermark brings; a query that goes beyond never settles.
_MOST_TRIGGERS = 100


@dataclass(frozen=True)
class Ran:
    """What one batch of a scripted query did."""

    id: int
    watermark: datetime | None
    had_data: bool
    rows: tuple[Mapping[str, Any], ...]
    late: int
    state: int


class Stuck(Exception):
    """A query does not come to rest; the text says after what."""


class ScriptedQuery:
    """A query over scripted streams; its moves give the batches that ran, or None where it has failed."""

    def __init__(
        self,
        name: str,
        frame: DataFrame,
        streams: Mapping[str, ScriptedStream],
        sink: Target,
        mode: Mode,
        *,
        checkpoint: Path,
        milliseconds: int,
        limit: float,
        captured: bool,
        no_data_batches: bool | None = None,
    ) -> None:
        self.name = name
        self.frame = frame
        self.streams = streams
        self.checkpoint = checkpoint
        self.clock = StepClock(milliseconds)
        self._sink = sink.table
        self._captured = captured
        self._limit = limit
        self._timed = looks_at_the_clock(frame)
        self._brought: dict[str, int] = {}
        self.operators: tuple[str, ...] = ()
        """What keeps state in the last batch, in Spark's order and words."""
        inputs = inputs_of(frame, {name: stream.frame for name, stream in streams.items()})
        self.event_times = event_times(frame, inputs)
        self._last: Ran | None = None
        self._committed = _last_commit(checkpoint)
        with _setting(frame.sparkSession, NO_DATA_BATCHES, no_data_batches):
            started = _start(frame, name, checkpoint, sink, mode, self.clock)
        self.running = replace(started, inputs=inputs)

    def begin(self) -> list[Ran] | None:
        """The trigger that Spark makes by itself at a start, in which an unfinished batch runs again."""
        return self._looked()

    def trigger(self) -> list[Ran] | None:
        """One trigger: the batch that is due, or none."""
        self.clock.tick()
        return self._looked()

    def settle(self) -> list[Ran] | None:
        """Triggers until no further batch is due.

        State that times out by processing time makes a batch due at every trigger; there only a watermark
        that has moved brings another.
        """
        ran: list[Ran] = []
        for _ in range(_MOST_TRIGGERS):
            last = self._last
            if self._timed and (last is None or next_watermark(self.checkpoint) == last.watermark):
                return ran
            looked = self.trigger()
            if not looked:
                return ran if looked is not None else None
            ran += looked
        raise Stuck(f"{_MOST_TRIGGERS} triggers")

    def note(self, batch: int, sources: Iterable[str]) -> None:
        """These sources brought rows to a batch."""
        self._brought |= dict.fromkeys(sources, batch)

    def idle(self) -> tuple[str, ...]:
        """The sources for which its watermark waits."""
        marks, watermark = self.running.marks() or ((), None)
        return idle_sources(self._brought, marks, watermark)

    def failure(self) -> Exception | None:
        return self.running.failure()

    def stop(self) -> None:
        """End between two batches, without interrupting anything."""
        self.running.begin_no_further_batch()
        self.clock.open()
        self.running.stop()

    def _looked(self) -> list[Ran] | None:
        try:
            waits = self.clock.await_waiting(lambda: self.running.is_active, self._limit)
        except TimeoutError:
            raise Stuck(f"{self._limit:.0f} seconds") from None
        if not waits:
            return None
        # Spark's progress also tells of triggers that ran no batch; a commit is there only after a batch.
        committed = _last_commit(self.checkpoint)
        if committed == self._committed:
            return []
        self._committed = committed
        progress: Any = last_progress(self.running.handle)
        self._last = self._ran(json.loads(progress.json()))
        return [self._last]

    def _ran(self, progress: Mapping[str, Any]) -> Ran:
        operators = progress["stateOperators"]
        self.operators = tuple(operator["operatorName"] for operator in operators)
        watermark = progress.get("eventTime", {}).get("watermark")
        return Ran(
            id=progress["batchId"],
            watermark=moment(_milliseconds(watermark)) if watermark else None,
            had_data=bool(progress["numInputRows"]),
            rows=self._rows(progress["batchId"]) if self._captured else (),
            late=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
            state=sum(operator["numRowsTotal"] for operator in operators),
        )

    def _rows(self, batch: int) -> tuple[Mapping[str, Any], ...]:
        rows = latest_rows(self.frame.sparkSession, self._sink, batch, self.frame.schema)
        return () if rows is None else rows_of(rows)


def next_watermark(checkpoint: Path) -> datetime | None:
    """The watermark that the next batch will use; None before the first event time was seen."""
    commit = Checkpoint(LocalStore(checkpoint)).last_commit
    return moment(commit.next_watermark_ms) if commit else None


def _last_commit(checkpoint: Path) -> int | None:
    commit = Checkpoint(LocalStore(checkpoint)).last_commit
    return commit.batch_id if commit else None


def uncommit(checkpoint: Path) -> None:
    """Leave the last batch as a crash between the sink's write and the commit would."""
    store = LocalStore(checkpoint)
    take_back_commit(store).apply(store)


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
            raise EnvironmentProblem(TEST_SPARK_VERSION.at(None, version=spark.version)) from error
        raise
    return RunningQuery(name, handle, spark, str(handle.id))


def _milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)
