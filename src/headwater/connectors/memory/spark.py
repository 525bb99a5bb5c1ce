"""The memory sink on Spark."""

from __future__ import annotations

from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.contract import Context
from headwater.connectors.memory.options import MemorySink


def write_stream(writer: DataStreamWriter, options: MemorySink, context: Context) -> DataStreamWriter:
    """Spark's own memory sink, which makes a view with the name of the query in the pipeline's session."""
    return writer.format("memory")
