"""The Python table of the demo."""

from __future__ import annotations

from pyspark.sql import DataFrame


def orders(arrivals: DataFrame) -> DataFrame:
    """Drop duplicate orders. The watermark limits how long Spark remembers an order."""
    return arrivals.dropDuplicates(["order_id", "at"])
