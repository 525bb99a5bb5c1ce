"""What can be said about the foreach_batch sink."""

from __future__ import annotations

from pydantic import Field

from headwater.spec import Connector, Delivery, FunctionRef, SinkOptions, SinkSide
from headwater.spec.pipeline import FunctionField


class ForeachBatchSink(SinkOptions):
    """Calls `function(batch: DataFrame, batch_id: int)` once for each batch."""

    also_called = {"callback": "function", "foreachBatch": "function", "python": "function"}

    takes_options = False

    function: FunctionField = Field(
        description='The function, as `"out.py:write"`, relative to the pipeline file.'
    )


def _functions(options: ForeachBatchSink) -> tuple[FunctionRef, ...]:
    return (options.function,)


CONNECTOR = Connector(
    name="foreach_batch",
    summary="A function of yours, called with each batch and its id.",
    spark="headwater.connectors.foreach_batch.spark",
    sink=SinkSide(
        options=ForeachBatchSink,
        modes=frozenset({"append", "update", "complete"}),
        delivery=Delivery.USER,
        functions=_functions,
        passes=("batch", "batch_id"),
    ),
)
