"""The memory sink has no keys of its own: its table is named after the sink."""

from __future__ import annotations

from headwater.spec import Connector, Delivery, SinkOptions, SinkSide


class MemorySink(SinkOptions):
    """A table named after the sink, kept by this process and queried with `run.sql("SELECT …")`."""

    takes_options = False


CONNECTOR = Connector(
    name="memory",
    summary="A table in the memory of this process, queried by SQL while the stream runs.",
    spark="headwater.connectors.memory.spark",
    sink=SinkSide(
        options=MemorySink,
        modes=frozenset({"append", "update", "complete"}),
        continuous=True,
        # The table and the checkpoint begin together, and Spark's sink passes over a batch that it has.
        delivery=Delivery.IDEMPOTENT,
        batch=False,
        in_process=True,
    ),
)
