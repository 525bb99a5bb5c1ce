"""One running query: how it is started, asked, and stopped between two batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.engine.build import SPARK_ERRORS, Builder, spark_module
from headwater.engine.session import PipelineSession
from headwater.engine.settings import Setting
from headwater.engine.translate import planning_problem
from headwater.errors import PipelineError
from headwater.spec import SinkSpec
from headwater.values import AvailableNow, Every, Once, Trigger

OBSERVED = "headwater"
ROWS_OUT = "rows_out"
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class RunningQuery:
    """A started query, seen through Spark's handle."""

    name: str
    handle: StreamingQuery
    spark: SparkSession

    @property
    def id(self) -> str:
        """The same after each restart."""
        return str(self.handle.id)

    @property
    def run_id(self) -> str:
        """New at each start."""
        return str(self.handle.runId)

    @property
    def is_active(self) -> bool:
        return bool(self.handle.isActive)

    @property
    def is_in_batch(self) -> bool:
        return bool(self.is_active and self.handle.status["isTriggerActive"])

    def plan(self) -> str:
        """The plan of the last batch."""
        return str(self.handle._jsq.explainInternal(False))

    def failure(self) -> Exception | None:
        """What the query died of."""
        return self.handle.exception()

    def begin_no_further_batch(self) -> None:
        """Let the running batch commit and the query end after it.

        Spark's own `stop()` interrupts the batch. Its execution loop asks for this state between two
        batches, so setting it alone ends the loop there; nothing is planned and left unfinished.
        """
        jvm: Any = self.spark._jvm
        states = jvm.org.apache.spark.sql.execution.streaming.runtime
        terminated = getattr(getattr(states, "TERMINATED$"), "MODULE$")
        self.handle._jsq.streamingQuery().state().set(terminated)

    def stop_after_batch(self, deadline: float, forced: Callable[[], bool]) -> bool:
        """Wait for the running batch, then stop; False if the batch had to be interrupted.

        `deadline` is a time of `time.monotonic()`; `forced` says that nobody wants to wait any longer.
        """
        while self.is_in_batch and time.monotonic() < deadline and not forced():
            time.sleep(_POLL_SECONDS)
        finished = not self.is_in_batch
        # Also ends the wait for the next trigger, which may be hours away.
        self.handle.stop()
        return finished


def start_query(
    session: PipelineSession,
    builder: Builder,
    sink: SinkSpec,
    frame: DataFrame,
    *,
    checkpoint: Path,
    settings: tuple[Setting, ...],
    trigger: Trigger,
) -> RunningQuery:
    """Start the query of one sink in a fair pool of its own."""
    session.apply(settings)
    session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", sink.name)
    counted = frame.observe(OBSERVED, count(lit(1)).alias(ROWS_OUT))
    writer = counted.writeStream.queryName(sink.name).outputMode(sink.mode.value)
    writer = _triggered(writer.option("checkpointLocation", str(checkpoint)), trigger)
    try:
        written = spark_module(sink.connector).write_stream(writer, sink.options, builder.context(sink))
        return RunningQuery(sink.name, written.start(), session.spark)
    except SPARK_ERRORS as error:
        raise PipelineError(planning_problem(error, sink)) from error
    finally:
        session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger:
        case Every(interval):
            return writer.trigger(processingTime=str(interval))
        case Once():
            return writer.trigger(once=True)
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case _:
            return writer
