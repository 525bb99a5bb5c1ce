"""The demo's Python table."""

from __future__ import annotations

from pyspark.sql import DataFrame


def orders(arrivals: DataFrame) -> DataFrame:
    """Every order once, however often it arrived; the watermark says how long Spark has to remember it."""
    return arrivals.dropDuplicates(["order_id", "at"])
