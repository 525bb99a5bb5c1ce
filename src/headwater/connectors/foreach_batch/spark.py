"""The foreach_batch sink on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.contract import Context
from headwater.connectors.foreach_batch.options import ForeachBatchSink


def write_stream(writer: DataStreamWriter, options: ForeachBatchSink, context: Context) -> DataStreamWriter:
    """The user's function, called with a batch that is computed once."""
    return writer.foreachBatch(computed_once(context.load(options.function)))


def write_batch(rows: DataFrame, options: ForeachBatchSink, context: Context) -> None:
    """One call with all the rows, as batch 0."""
    computed_once(context.load(options.function))(rows, 0)


def computed_once(function: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
    """Compute the batch before the function sees it, and keep it while the function works.

    Spark computes a batch anew for each action in the function (and not at all where there is none), and
    counts its input rows as often. Computed up front, the counts are those of one pass whatever it does.
    """

    def call(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        release = batch.unpersist
        # Functions that were written for plain Spark persist the batch, and let go of it too early for us.
        for name in ("persist", "cache", "unpersist"):
            setattr(batch, name, lambda *_, **__: batch)
        try:
            batch.count()
            function(batch, batch_id)
        finally:
            release()

    return call
