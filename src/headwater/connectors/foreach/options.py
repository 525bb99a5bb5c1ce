"""The keys of the sinks that call the user's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from pydantic import Field, model_validator

from headwater.connectors.connector import ConnectorCall, connector
from headwater.spec import Method, SinkOptions
from headwater.spec.pipeline import ClassField, FunctionField


class ForeachSink(SinkOptions):
    """Calls `function(row)` for each row, or the methods of an object of yours; one of the two keys."""

    also_called = {"class": "object", "foreach": "function", "writer": "object"}

    takes_options = False

    function: FunctionField | None = Field(
        default=None, description='A function that is called with each row, as `"out.py:send"`.'
    )
    object: ClassField | None = Field(
        default=None,
        description='A class, as `"out.py:Writer"`. One object for each task gets `open(partition_id, '
        "epoch_id)`, `process(row)` for each row, `close(error)`; only `process` has to be there.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.function is None) == (self.object is None):
            has = "neither `function` nor `object` is there" if self.object is None else "it has both forms"
            raise ValueError(f"{has}; write one of `function:` and `object:`")
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
        description='The function, as `"out.py:write"`, relative to the pipeline file.'
    )


def foreach(
    *,
    function: str | Callable[[Any], Any] | None = None,
    object: str | type | None = None,
) -> ConnectorCall:
    """A function or an object of yours, called with each row on the executors."""
    return connector("foreach", **locals())


def foreach_batch(*, function: str | Callable[[Any, int], Any]) -> ConnectorCall:
    """A function of yours, called with each batch and its id."""
    return connector("foreach_batch", **locals())
