"""What can be said about the console sink."""

from __future__ import annotations

from pydantic import Field

from headwater.spec import Connector, Delivery, SinkOptions, SinkSide


class ConsoleSink(SinkOptions):
    """The rows of each batch as a table on the terminal; for trying things out."""

    also_called = {"limit": "rows", "numRows": "rows"}

    rows: int = Field(default=20, gt=0, description="Most rows shown of a batch.")
    truncate: bool = Field(default=True, description="Cut values to 20 characters.")


CONNECTOR = Connector(
    name="console",
    summary="The rows of each batch, printed on the terminal.",
    spark="headwater.connectors.console.spark",
    sink=SinkSide(
        options=ConsoleSink,
        modes=frozenset({"append", "update", "complete"}),
        continuous=True,
        real_time=True,
        delivery=Delivery.REPEATS,
    ),
)
