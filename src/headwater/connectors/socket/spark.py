"""The socket source on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.connectors.socket.options import SocketSource


def read_stream(spark: SparkSession, options: SocketSource, context: Context) -> DataFrame:
    """Lines as they come; Spark connects when the query starts, not before."""
    return (
        spark.readStream.format("socket")
        .option("host", options.host)
        .option("port", options.port)
        .option("includeTimestamp", options.arrival_time)
        .options(**plain(options))
        .load()
    )
