"""A fixed number of rows in each batch."""

from headwater.connectors.rate_per_batch.options import CONNECTOR, RatePerBatchSource

__all__ = ["CONNECTOR", "RatePerBatchSource"]
