"""A user's function, called with each batch."""

from headwater.connectors.foreach_batch.options import CONNECTOR, ForeachBatchSink

__all__ = ["CONNECTOR", "ForeachBatchSink"]
