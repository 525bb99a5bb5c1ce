"""Sources and sinks that a user class implements with Spark's Python Data Source API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationInfo, field_validator

from headwater.connectors.connector import (
    ALL_MODES,
    Connector,
    ConnectorCall,
    LazyModule,
    Options,
    Sink,
    Source,
    connector,
)
from headwater.connectors.contract import Context
from headwater.connectors.options import SchemaField, read_schema
from headwater.errors import Entry, Problem, name_entries
from headwater.spec import ClassRef, Delivery, Schema, SinkOptions, SourceOptions
from headwater.spec.references import ClassField

PYTHON_CLASS_INVALID = Entry(
    "{side} `{name}`: class `{class_name}` is not a data source: it does not derive from Spark's `DataSource`.",
    "Write `from pyspark.sql.datasource import DataSource` and `class {class_name}(DataSource):`.",
)
PYTHON_METHOD_MISSING = Entry(
    "{side} `{name}` does not support {does}: class `{class_name}` has no `{method}`.", "{hint}"
)
PYTHON_SCHEMA_MISSING = Entry(
    "Source `{name}`: unknown columns, because class `{class_name}` has no method `schema()`.",
    'Set `schema` on the source, or add a method `def schema(self): return "id int, …"` to the class.',
)

ENTRIES = name_entries(globals())


class PythonSource(SourceOptions):
    """Reads rows from your class: `streamReader` or `simpleStreamReader` for streams, `reader` for batches."""

    python_class: ClassField = Field(
        alias="class",
        description='`DataSource` class such as `"feeds.py:Tickers"`. Relative to the pipeline file.',
    )
    columns: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="Columns, if the class does not define them. Default: its `schema()` method.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _read_columns(cls, written: Any, info: ValidationInfo) -> Schema:
        return read_schema(written, info)


class PythonSink(SinkOptions):
    """Passes rows to your class: to its `streamWriter`, or in a batch run to its `writer`."""

    python_class: ClassField = Field(
        alias="class",
        description='`DataSource` class such as `"out.py:Post"`. Relative to the pipeline file.',
    )


def python(
    *,
    class_: str | type,
    schema: str | Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Declare a source or sink that uses your class for Spark's Python Data Source API."""
    return connector("python", **{"class": class_, "schema": schema, "options": options})


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headwater.connectors.python import data_sources
else:
    data_sources = LazyModule("headwater.connectors.python.data_sources")


class PythonReader(Source[PythonSource]):
    """Reads with the readers of the class."""

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
    """Writes with the writers of the class."""

    options = PythonSink
    modes = ALL_MODES
    delivery = Delivery.USER

    def spark_counts_rows(self, options: PythonSink) -> bool:
        return True

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
    "Reads or writes with your class for Spark's Python Data Source API.",
    source=PythonReader(),
    sink=PythonWriter(),
    errors=ENTRIES,
)
