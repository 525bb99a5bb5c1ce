"""Sources and sinks that a class of the user's brings, written for Spark's Python Data Source API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.connectors.connector import ALL_MODES, Connector, LazyModule, Sink, Source
from headwater.connectors.contract import Context
from headwater.connectors.python.errors import ENTRIES
from headwater.connectors.python.options import PythonSink, PythonSource
from headwater.errors import Problem
from headwater.spec import ClassRef, Delivery, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headwater.connectors.python import data_sources
else:
    data_sources = LazyModule("headwater.connectors.python.data_sources")


class PythonReader(Source[PythonSource]):
    """Rows from the class's readers."""

    options = PythonSource
    replayable = True

    def functions(self, options: PythonSource) -> tuple[ClassRef, ...]:
        return (options.python_class,)

    def columns(self, options: PythonSource) -> Schema | None:
        return options.columns

    def read_stream(self, spark: SparkSession, options: PythonSource, context: Context) -> DataFrame:
        return data_sources.read_stream(spark, options, context)

    def read_batch(self, spark: SparkSession, options: PythonSource, context: Context) -> DataFrame:
        return data_sources.read_batch(spark, options, context)


class PythonWriter(Sink[PythonSink]):
    """Rows to the class's writers."""

    options = PythonSink
    modes = ALL_MODES
    delivery = Delivery.USER

    def functions(self, options: PythonSink) -> tuple[ClassRef, ...]:
        return (options.python_class,)

    def write_stream(
        self, writer: DataStreamWriter, options: PythonSink, context: Context
    ) -> DataStreamWriter:
        return data_sources.write_stream(writer, options, context)

    def write_batch(self, rows: DataFrame, options: PythonSink, context: Context) -> None:
        data_sources.write_batch(rows, options, context)

    def code_problems(self, options: PythonSink, context: Context) -> list[Problem]:
        return data_sources.code_problems(options, context)


CONNECTOR = Connector(
    "python",
    "A class of yours, written for Spark's Python Data Source API.",
    source=PythonReader(),
    sink=PythonWriter(),
    errors=ENTRIES,
)
