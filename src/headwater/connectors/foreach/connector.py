"""User functions and objects that receive rows or batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwater.connectors.connector import ALL_MODES, BatchWriter, Connector, Sink
from headwater.connectors.contract import Context, NoScratch, Scratch
from headwater.connectors.foreach.options import METHODS, ForeachBatchSink, ForeachSink
from headwater.errors import Problem
from headwater.spec import Delivery, FunctionRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class ForeachWriter(Sink[ForeachSink]):
    """Calls the user's code with each row, on the executors."""

    options = ForeachSink
    modes = ALL_MODES
    delivery = Delivery.USER
    by_writer = True
    temporary_checkpoint = True
    passes = ("row",)
    methods = METHODS

    def functions(self, options: ForeachSink) -> tuple[FunctionRef, ...]:
        return tuple(ref for ref in (options.function, options.object) if ref)

    def write_stream(
        self, writer: DataStreamWriter, options: ForeachSink, context: Context
    ) -> DataStreamWriter:
        from headwater.connectors.foreach import rows

        return rows.write_stream(writer, options, context)

    def write_batch(self, rows: DataFrame, options: ForeachSink, context: Context) -> None:
        from headwater.connectors.foreach.rows import write_batch

        write_batch(rows, options, context)

    def read_function(self, options: ForeachSink) -> FunctionRef | None:
        return None

    def scratch(self, options: ForeachSink, scratch: Scratch) -> ForeachSink:
        raise NoScratch(
            "each row goes to your code; write with `foreach_batch`, which has the keys `read_back` and `scratch`"
        )

    def discard(self, options: ForeachSink, context: Context) -> None:
        """It has no scratch copy."""

    def ungrouped_keys(self, options: ForeachSink) -> Mapping[str, str]:
        return {}

    def delivers_batches(self, options: ForeachSink) -> Delivery:
        return self.delivery

    def batch_writer(self, options: ForeachSink, context: Context) -> BatchWriter:
        from headwater.connectors.foreach.rows import batch_writer

        return batch_writer(options, context)

    def code_problems(self, options: ForeachSink, context: Context) -> list[Problem]:
        from headwater.connectors.foreach.rows import code_problems

        return code_problems(options, context)


class ForeachBatchWriter(Sink[ForeachBatchSink]):
    """Calls the user's function with each batch, which is computed once."""

    options = ForeachBatchSink
    modes = ALL_MODES
    delivery = Delivery.USER
    by_writer = True
    temporary_checkpoint = True
    passes = ("batch", "batch_id")

    def functions(self, options: ForeachBatchSink) -> tuple[FunctionRef, ...]:
        return (options.function,)

    def write_stream(
        self, writer: DataStreamWriter, options: ForeachBatchSink, context: Context
    ) -> DataStreamWriter:
        return writer.foreachBatch(computed_once(context.load(options.function)))

    def read_function(self, options: ForeachBatchSink) -> FunctionRef | None:
        return options.read_back

    def scratch(self, options: ForeachBatchSink, scratch: Scratch) -> ForeachBatchSink:
        # The user's code finds its directory itself.
        if options.read_back is None:
            raise NoScratch(
                "only your code can read its rows; set `read_back` to a function that returns them"
            )
        if not options.scratch:
            raise NoScratch(
                "your code writes to its real target; have it use the directory in HEADWATER_SCRATCH if that is set, "
                "and set `scratch: true`"
            )
        return options

    def discard(self, options: ForeachBatchSink, context: Context) -> None:
        """Its rows are in the directory."""

    def write_batch(self, rows: DataFrame, options: ForeachBatchSink, context: Context) -> None:
        """Call the function once with all rows, as batch 0."""
        computed_once(context.load(options.function))(rows, 0)

    def ungrouped_keys(self, options: ForeachBatchSink) -> Mapping[str, str]:
        return {}

    def delivers_batches(self, options: ForeachBatchSink) -> Delivery:
        return self.delivery

    def batch_writer(self, options: ForeachBatchSink, context: Context) -> BatchWriter:
        from headwater.spark.interception import hold_persisted

        function = context.load(options.function)

        def write(rows: DataFrame, batch_id: int) -> None:
            hold_persisted(rows)
            function(rows, batch_id)

        return write


def computed_once(function: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
    """Compute the batch before calling the function, and cache it until the function returns.

    Otherwise Spark computes a batch again for each action in the function (and never without an action),
    and counts its input rows each time. Computed up front, the row counts are always those of one pass.
    """

    from headwater.spark.interception import hold_persisted

    def call(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        release = batch.unpersist
        # Functions written for plain Spark persist the batch and unpersist it too early for us.
        hold_persisted(batch)
        try:
            batch.count()
            function(batch, batch_id)
        finally:
            release()

    return call


FOREACH = Connector(
    "foreach",
    "Calls your function or object with each row, on the executors.",
    sink=ForeachWriter(),
    spark_formats=("foreach",),
)
FOREACH_BATCH = Connector(
    "foreach_batch",
    "Calls your function with each batch and its ID, on the driver.",
    sink=ForeachBatchWriter(),
    spark_formats=("foreachbatch",),
)
