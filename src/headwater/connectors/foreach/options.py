"""The keys of the sinks that call user code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from pydantic import Field, model_validator

from headwater.connectors.connector import ConnectorCall, connector
from headwater.spec import Method, SinkOptions
from headwater.spec.references import ClassField, FunctionField


class ForeachSink(SinkOptions):
    """Calls `function(row)` for each row, or the methods of your object. Set one of the two keys."""

    also_called = {"class": "object", "foreach": "function", "writer": "object"}

    takes_options = False

    function: FunctionField | None = Field(
        default=None,
        description='Function to call with each row, such as `"out.py:send"`. Relative to the pipeline file.',
    )
    object: ClassField | None = Field(
        default=None,
        description='Class such as `"out.py:Writer"`. Each task calls `open(partition_id, epoch_id)`, '
        "`process(row)` for each row, and `close(error)` on its own object. Only `process` is required.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.function is None) == (self.object is None):
            advice = "set one of them" if self.object is None else "remove one of them"
            raise ValueError(f"exactly one of `function` and `object` is required; {advice}")
        return self


METHODS = (
    Method("open", ("partition_id", "epoch_id"), required=False),
    Method("process", ("row",)),
    Method("close", ("error",), required=False),
)


class ForeachBatchSink(SinkOptions):
    """Calls `function(batch: DataFrame, batch_id: int)` once for each batch."""

    also_called = {"callback": "function", "foreachBatch": "function", "python": "function"}

    takes_options = False

    function: FunctionField = Field(
        description='Function such as `"out.py:write"`. Relative to the pipeline file.'
    )
    read_back: FunctionField | None = Field(
        default=None,
        description='Function such as `"out.py:rows"`, called with the Spark session, that returns the rows that '
        "`function` has stored. `headwater prove` needs it.",
    )
    scratch: bool = Field(
        default=False,
        description="Whether `function` and `read_back` use the directory in the environment variable "
        "`HEADWATER_SCRATCH` if it is set. `headwater prove` needs it.",
    )


def foreach(
    *,
    function: str | Callable[[Any], Any] | None = None,
    object: str | type | None = None,
) -> ConnectorCall:
    """Declare a sink that calls your function or object with each row, on the executors."""
    return connector("foreach", **locals())


def foreach_batch(
    *,
    function: str | Callable[[Any, int], Any],
    read_back: str | Callable[[Any], Any] | None = None,
    scratch: bool | None = None,
) -> ConnectorCall:
    """Declare a sink that calls your function with each batch and its ID."""
    return connector("foreach_batch", **locals())
