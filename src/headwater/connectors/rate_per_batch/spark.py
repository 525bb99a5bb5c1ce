"""The rate-per-batch source on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.connectors.rate_per_batch.options import RatePerBatchSource


def read_stream(spark: SparkSession, options: RatePerBatchSource, context: Context) -> DataFrame:
    """Rows from Spark's own rate-micro-batch source."""
    reader = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", options.rows_per_batch)
        .option("startTimestamp", options.start_ms)
        .option("advanceMillisPerBatch", options.step.milliseconds)
    )
    if options.partitions:
        reader = reader.option("numPartitions", options.partitions)
    return reader.options(**plain(options)).load()
