"""The rate source on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.connectors.rate.options import RateSource


def read_stream(spark: SparkSession, options: RateSource, context: Context) -> DataFrame:
    """Rows from Spark's own rate source."""
    reader = spark.readStream.format("rate").option("rowsPerSecond", options.rows_per_second)
    if options.ramp_up:
        reader = reader.option("rampUpTime", f"{options.ramp_up.milliseconds // 1000}s")
    if options.partitions:
        reader = reader.option("numPartitions", options.partitions)
    return reader.options(**plain(options)).load()
