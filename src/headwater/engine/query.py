"""One running query: starting it, asking it, and stopping it between two batches."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.checkpoint import STATE_FORMAT, Checkpoint, LocalStore
from headwater.connectors import sink_side
from headwater.connectors.connector import ForgetsBatches, Sink
from headwater.engine.builder import SPARK_ERRORS, Builder
from headwater.engine.session import PipelineSession, Setting
from headwater.engine.translate import planning_problem
from headwater.errors import PipelineError
from headwater.errors.catalogue.running import REAL_TIME_NOT_AVAILABLE
from headwater.events import QueryProgress
from headwater.events.counts import BranchCounts
from headwater.events.idle import InputMark, QueryInputs
from headwater.spark.errors import SparkStopped
from headwater.spark.evaluate_once import evaluated_once
from headwater.spark.output_rows import OutputRows, are_counted
from headwater.spark.plans import PlanReader
from headwater.spark.private import stopped_in_jvm
from headwater.spark.query import (
    LimitedFiles,
    UnreadFiles,
    end_after_batch,
    last_plan,
    last_progress,
    limited_files,
    marks_of,
    newest_commit,
    processes_data,
    recent_progress,
    set_real_time,
    thread_lives,
    writer_session,
)
from headwater.spark.session import active
from headwater.spec import SinkSpec
from headwater.values import AvailableNow, Continuous, Duration, Every, Once, RealTime, Trigger, Unpaced

_LOG = logging.getLogger("headwater")

# Repairing what a crash between a sink's commit and Spark's own leaves behind.


def rerun_unfinished(
    spark: SparkSession, sink: SinkSpec, checkpoint: Path, settings: tuple[Setting, ...]
) -> None:
    """Ensure that a stateful query recomputes its unfinished batch.

    A crash may happen after the sink has recorded batch N and before `commits/N`. Spark then retries N, and a
    sink like Spark's file sink skips it without computing it. In state format 2, the commit must name the
    state that the batch produced. Without the batch there are no names, and Spark fails at this start and at
    every later one. So the sink must forget the batch; it is then retried over the same offsets, with the
    same rows.
    """
    by_format = {setting.key: setting.value for setting in settings}.get(STATE_FORMAT)
    side = sink_side(sink.connector)
    if by_format != "2" or not isinstance(side, ForgetsBatches) or not (checkpoint / "state").exists():
        return
    batch = Checkpoint(LocalStore(checkpoint)).unfinished
    if batch is not None:
        side.forget_batch(spark, sink.options, batch)


OBSERVED = "headwater"
ROWS_OUT = "rows_out"
STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
INTERRUPT_SECONDS = 5
_POLL_SECONDS = 0.02
_QUIET_LOOKS = 5
# What PySpark raises when the JVM does not respond.
_NO_ANSWER = (Py4JError, OSError)


@dataclass(frozen=True)
class RunningQuery:
    """A started query, seen through Spark's handle."""

    name: str
    handle: StreamingQuery
    spark: SparkSession
    id: str
    """The same after each restart; stored, because a JVM that has exited cannot be asked."""
    inputs: QueryInputs = field(default_factory=QueryInputs)
    """What it reads, if known."""
    trigger: Trigger = field(default_factory=Unpaced)
    output_rows: OutputRows | None = None
    branch_counts: BranchCounts | None = None
    writing: Callable[[], str] = lambda: ""
    """The sink of a group that is being written, or that has failed; empty if none is."""

    @property
    def has_batches(self) -> bool:
        """Whether it has batches that Spark reports; a continuous query has epochs, which are not reported."""
        return not isinstance(self.trigger, Continuous)

    @property
    def ends_batches(self) -> bool:
        """Whether a batch ends when its rows are processed, and not when the interval has passed."""
        return not isinstance(self.trigger, Continuous | RealTime)

    @property
    def run_id(self) -> str:
        """New at each start."""
        return str(self.handle.runId)

    @property
    def is_gone(self) -> bool:
        """Whether Spark has ended, and every query with it: the JVM has exited, or has stopped Spark."""
        try:
            return stopped_in_jvm(self.spark.sparkContext)
        except _NO_ANSWER:
            return True

    @property
    def is_active(self) -> bool:
        """Whether its thread is still running; Spark's own `isActive` is false once a stop was requested."""
        with suppress(*_NO_ANSWER):
            return thread_lives(self.handle)
        return False

    def has_terminated(self, deadline: float) -> bool:
        """Whether its thread has ended; until `deadline`, a time of `time.monotonic()`, wait for a query that is
        about to terminate."""
        with suppress(*_NO_ANSWER):
            while not self.handle.isActive and self.is_active and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        return not self.is_active

    @property
    def is_in_batch(self) -> bool:
        with suppress(*_NO_ANSWER):
            return bool(self.is_active and self.handle.status["isTriggerActive"])
        return False

    @property
    def is_processing(self) -> bool:
        """Whether a batch with data is running."""
        with suppress(*_NO_ANSWER):
            return processes_data(self.handle)
        return False

    def plan(self) -> str:
        """The plan of the last batch."""
        return last_plan(self.handle)

    def failure(self) -> Exception | None:
        """The failure of the query."""
        try:
            return self.handle.exception()
        except _NO_ANSWER as error:
            return SparkStopped(str(error))

    def progress_after(self, batch: int) -> tuple[QueryProgress, ...]:
        """The newer batches whose progress Spark still has, oldest first; it keeps the last hundred.

        Spark also stores polls without data there, under the number of the next batch.
        """
        found: list[QueryProgress] = []
        with suppress(*_NO_ANSWER):
            last = last_progress(self.handle)
            if last is None or last.batchId() <= batch + (not _was_executed(last)):
                return ()
            for each in recent_progress(self.handle):
                if each.batchId() <= batch:
                    break
                if _was_executed(each):
                    # Only the metrics of the newest batch may still be on their way.
                    progress, wait = json.loads(each.json()), not found
                    found.append(
                        progress_event(self.name, progress, self.output_rows, self.branch_counts, wait=wait)
                    )
        return tuple(reversed(found))

    def waiting(self) -> tuple[UnreadFiles, ...]:
        """The files that its sources have seen and left for later batches, if they have a limit.

        Spark does not publish these lists; if it cannot be asked, the backlog counts as empty.
        """
        with suppress(*_NO_ANSWER):
            return tuple(each.unread() for each in self._limited_files)
        return ()

    @cached_property
    def _limited_files(self) -> tuple[LimitedFiles, ...]:
        return limited_files(self.handle)

    def marks(self) -> tuple[tuple[InputMark, ...], datetime | None] | None:
        """The progress of each of its watermarks, and the one that the next batch will use.

        None if Spark cannot be asked; nothing if there are not two watermarks, of which one can block another.
        """
        if len(self.inputs.watermarks) < 2:
            return (), None
        with suppress(*_NO_ANSWER):
            return marks_of(self.handle, self.inputs)
        return None

    def epoch(self) -> int | None:
        """The newest epoch that a continuous query has committed."""
        with suppress(*_NO_ANSWER):
            return newest_commit(self.handle)
        return None

    def begin_no_further_batch(self) -> None:
        """Let the current batch commit, and stop the query after it.

        Spark's own `stop()` interrupts the batch. Its execution loop checks this state between two batches,
        so setting it ends the loop there; nothing is planned and left unfinished.

        A batch that takes minutes, or never ends, is not waited for: rows since its last commit are read
        again at the next start.
        """
        if not self.ends_batches:
            return
        # TypeError: this Spark has no such state; the start has reported it.
        with suppress(*_NO_ANSWER, TypeError):
            end_after_batch(self.spark, self.handle)

    def finish_batch(self, deadline: float, forced: Callable[[], bool]) -> bool:
        """Wait for the current batch; False if it is still running.

        `deadline` is a time of `time.monotonic()`; `forced` returns whether to stop waiting.
        """
        while not self.ends_batches and self.is_active and time.monotonic() < deadline and not forced():
            # Interrupted immediately; pending epochs are committed first, which takes a while.
            self.stop()
        quiet = 0
        # A thread between two batches may be just about to start one: only after a while is it certain that
        # it waits for its next trigger.
        while self.is_active and quiet < _QUIET_LOOKS and time.monotonic() < deadline and not forced():
            time.sleep(_POLL_SECONDS)
            quiet = 0 if self.is_in_batch else quiet + 1
        return not (self.is_in_batch if self.ends_batches else self.is_active)

    def stop(self) -> bool:
        """Interrupt the query, even if it waits for its next trigger, hours away.

        False if it could not be interrupted: Python code that Spark called runs until it returns.
        """
        with suppress(*_NO_ANSWER, *SPARK_ERRORS):
            self.handle.stop()
        return not self.is_active


def progress_event(
    name: str,
    progress: Mapping[str, Any],
    output_rows: OutputRows | None = None,
    branch_counts: BranchCounts | None = None,
    *,
    wait: bool = True,
) -> QueryProgress:
    """A batch of a query, from Spark's progress report; `wait` for the metrics of its operators."""
    progress = branch_counts.added_to(progress) if branch_counts else progress
    return QueryProgress(query=name, rows_out=_rows_out(progress, output_rows, wait), progress=progress)


def _rows_out(progress: Mapping[str, Any], output_rows: OutputRows | None, wait: bool) -> int | None:
    """The rows that were written: as observed, as Spark reports them, or as its operators have counted them."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    if observed:
        return int(observed[ROWS_OUT])
    # Spark has -1 where it does not count.
    written = int(progress["sink"].get("numOutputRows", -1))
    if written >= 0:
        return written
    return output_rows.of(progress["runId"], progress["batchId"], wait=wait) if output_rows else None


def _was_executed(progress: Any) -> bool:
    return bool(progress.durationMs().containsKey("addBatch"))


def start_query(
    session: PipelineSession,
    builder: Builder,
    sink: SinkSpec,
    frame: DataFrame,
    *,
    checkpoint: Path,
    settings: tuple[Setting, ...],
    trigger: Trigger,
    write: Callable[[DataFrame, int], None] | None = None,
) -> RunningQuery:
    """Start the query of one sink in a separate fair pool; `write` writes the batches of a group."""
    pool = f"{builder.spec.name}.{sink.name}"
    try:
        session.apply(settings)
        if STOP_TIMEOUT not in session.given:
            session.spark.conf.set(STOP_TIMEOUT, f"{INTERRUPT_SECONDS}s")
        session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        side, context = sink_side(sink.connector), builder.context(sink)
        rows = frame if write else side.outgoing(frame, sink.options, context)
        # A continuous query supports no generator, so it parses messages again for a filter.
        if not isinstance(trigger, Continuous):
            rows = _evaluated_once(rows, sink.name)
        # A continuous query cannot count its rows.
        if write or not (isinstance(trigger, Continuous) or _are_counted(session, side, sink, rows)):
            rows = rows.observe(OBSERVED, count(lit(1)).alias(ROWS_OUT))
        writer = rows.writeStream.queryName(sink.name).outputMode(sink.mode.value)
        writer = _triggered(writer.option("checkpointLocation", str(checkpoint)), trigger, sink)
        if write is None:
            rerun_unfinished(session.spark, sink, checkpoint, settings)
        # Nothing slow may happen between the start and the listener's first events.
        inputs = _inputs(builder, frame)
        with active(session.spark):
            written = (
                writer.foreachBatch(write) if write else side.write_stream(writer, sink.options, context)
            )
            handle = written.start()
        counts = (session.output_rows, session.branch_counts)
        return RunningQuery(sink.name, handle, session.spark, str(handle.id), inputs, trigger, *counts)
    except SPARK_ERRORS as error:
        raise PipelineError(planning_problem(error, sink, builder.spec.root)) from error
    finally:
        # If the JVM has exited, the pool is gone with it.
        with suppress(*_NO_ANSWER):
            session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def _are_counted(session: PipelineSession, side: Sink[Any], sink: SinkSpec, rows: DataFrame) -> bool:
    """Whether Spark counts the rows that it writes; counting them again would cost a tenth of a small batch."""
    if side.spark_counts_rows(sink.options):
        return True
    if session.output_rows is None or not session.output_rows.is_open or not side.computes_once:
        return False
    with suppress(*SPARK_ERRORS):
        return are_counted(rows)
    return False


def _evaluated_once(rows: DataFrame, query: str) -> DataFrame:
    """The same rows, computed faster; unchanged if Spark's plan cannot be rewritten."""
    try:
        return evaluated_once(rows)
    # TypeError: py4j calls a class that this Spark does not have.
    except (*SPARK_ERRORS, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        _LOG.warning(
            "Query %s: Spark may parse each message twice (could not rewrite its plan: %s)", query, reason
        )
        return rows


def _inputs(builder: Builder, frame: DataFrame) -> QueryInputs:
    """What a query reads; nothing if Spark's plan cannot be read, which does not prevent the query."""
    streams = {source.name for source in builder.spec.sources if not source.static}
    with suppress(Py4JError):
        named = {name: each for name, each in builder.frames.items() if name in streams}
        return PlanReader.of(frame).inputs(named)
    return QueryInputs()


def _triggered(writer: DataStreamWriter, trigger: Trigger, sink: SinkSpec) -> DataStreamWriter:
    match trigger:
        case Every(interval):
            return writer.trigger(processingTime=str(interval))
        case Once():
            return writer.trigger(once=True)
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case Continuous(interval):
            return writer.trigger(continuous=str(interval))
        case RealTime(interval):
            return _in_real_time(writer, interval, sink)
        case _:
            return writer


def _in_real_time(writer: DataStreamWriter, interval: Duration, sink: SinkSpec) -> DataStreamWriter:
    """Set the real-time trigger, which not every Spark version has."""
    try:
        set_real_time(writer, interval.milliseconds)
    except Py4JError as error:
        problem = REAL_TIME_NOT_AVAILABLE.at(sink.at("trigger"), version=writer_session(writer).version)
        raise PipelineError(problem) from error
    return writer
