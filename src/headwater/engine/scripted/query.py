"""One scripted query: started with our clock, moved one trigger at a time, looked at between two."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.engine.analysis import output_mode
from headwater.engine.inputs import inputs_of, moment
from headwater.engine.query import RunningQuery
from headwater.engine.scripted.clock import StepClock
from headwater.engine.scripted.plan_facts import event_times, looks_at_the_clock
from headwater.engine.scripted.sinks import Target
from headwater.engine.scripted.stream import ScriptedStream, rows_held
from headwater.errors import EnvironmentProblem
from headwater.errors.catalogue.testing import TEST_SPARK_VERSION
from headwater.events.idle import idle_sources
from headwater.spec import Mode

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
        progress: Any = self.running.handle._jsq.lastProgress()
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
        latest = self._sink.latestBatchId()
        if not latest.isDefined() or int(latest.get()) != batch:
            return ()
        held = self._sink.latestBatchData()
        # Most batches without data have no rows; each look into the JVM costs more than the batch.
        return () if held.isEmpty() else rows_held(self.frame.sparkSession, held, self.frame.schema)


def next_watermark(checkpoint: Path) -> datetime | None:
    """The watermark that the next batch will use; None before the first event time was seen."""
    commit = Checkpoint(LocalStore(checkpoint)).last_commit
    return moment(commit.next_watermark_ms) if commit else None


def _last_commit(checkpoint: Path) -> int | None:
    commit = Checkpoint(LocalStore(checkpoint)).last_commit
    return commit.batch_id if commit else None


def uncommit(checkpoint: Path) -> None:
    """Leave the last batch as a crash between the sink's write and the commit would."""
    last = Checkpoint(LocalStore(checkpoint)).last_commit
    if last:
        for name in (str(last.batch_id), f".{last.batch_id}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)


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
    """Spark's private way to a query with another clock; the only place that knows its arguments."""
    spark: SparkSession = frame.sparkSession
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    option, streaming = jvm.scala.Option, jvm.org.apache.spark.sql.streaming
    manager = session.sessionState().streamingQueryManager()
    try:
        query = manager.startQuery(
            option.apply(name),
            option.apply(str(checkpoint)),
            frame._jdf,
            sink.options,
            sink.table,
            output_mode(spark, mode),
            False,  # no temporary checkpoint in place of this one
            True,  # go on from the checkpoint
            streaming.Trigger.ProcessingTime(1),
            clock,
            option.empty(),
            option.empty(),
        )
    except Py4JError as error:
        if "startQuery" in str(error) and "does not exist" in str(error):
            raise EnvironmentProblem(TEST_SPARK_VERSION.at(None, version=spark.version)) from error
        raise
    handle = StreamingQuery(query)
    return RunningQuery(name, handle, spark, str(handle.id))


def _milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)
