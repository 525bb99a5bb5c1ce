"""The console sink on Spark."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.console.options import ConsoleSink
from headwater.connectors.contract import Context
from headwater.connectors.options import plain


def write_stream(writer: DataStreamWriter, options: ConsoleSink, context: Context) -> DataStreamWriter:
    """Spark's own console sink."""
    return (
        writer.format("console")
        .option("numRows", options.rows)
        .option("truncate", options.truncate)
        .options(**plain(options))
    )


def write_batch(rows: DataFrame, options: ConsoleSink, context: Context) -> None:
    """The rows once, as `show()` prints them."""
    truncate = 20 if options.truncate else 0
    sys.stdout.write(rows._jdf.showString(options.rows, truncate, False) + "\n")
