"""The foreach and foreach_batch connectors: user code that receives rows or batches."""

from headwater.connectors.foreach.connector import FOREACH, FOREACH_BATCH
from headwater.connectors.foreach.options import ForeachBatchSink, ForeachSink

__all__ = ["FOREACH", "FOREACH_BATCH", "ForeachBatchSink", "ForeachSink"]
