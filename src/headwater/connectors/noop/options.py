"""The noop sink has nothing to say."""

from __future__ import annotations

from headwater.spec import Connector, Delivery, SinkOptions, SinkSide


class NoopSink(SinkOptions):
    """Computes every row and keeps none; for measuring."""


CONNECTOR = Connector(
    name="noop",
    summary="Computes every row and keeps none; for measuring.",
    spark="headwater.connectors.noop.spark",
    sink=SinkSide(
        options=NoopSink,
        modes=frozenset({"append", "update", "complete"}),
        continuous=True,
        delivery=Delivery.IDEMPOTENT,
    ),
)
