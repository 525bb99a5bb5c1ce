"""A user's function or object, called with each row or each batch."""

from headwater.connectors.foreach.connector import FOREACH, FOREACH_BATCH
from headwater.connectors.foreach.options import ForeachBatchSink, ForeachSink

__all__ = ["FOREACH", "FOREACH_BATCH", "ForeachBatchSink", "ForeachSink"]
