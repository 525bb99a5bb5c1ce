"""The noop sink on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.contract import Context
from headwater.connectors.noop.options import NoopSink
from headwater.connectors.options import plain


def write_stream(writer: DataStreamWriter, options: NoopSink, context: Context) -> DataStreamWriter:
    """Spark's own noop sink."""
    return writer.format("noop").options(**plain(options))


def write_batch(rows: DataFrame, options: NoopSink, context: Context) -> None:
    """Compute the rows and drop them."""
    rows.write.format("noop").mode("overwrite").options(**plain(options)).save()
