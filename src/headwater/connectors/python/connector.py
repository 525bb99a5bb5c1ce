"""Sources and sinks that a class of the user's brings, written for Spark's Python Data Source API."""

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
from headwater.spec.pipeline import ClassField

PYTHON_CLASS_INVALID = Entry(
    "`{class_name}` of the {side} `{name}` is no data source: it does not derive from Spark's DataSource.",
    "Write `from pyspark.sql.datasource import DataSource` and `class {class_name}(DataSource):`.",
)
PYTHON_METHOD_MISSING = Entry(
    "The {side} `{name}` can't {does}: its class `{class_name}` has no `{method}`.", "{hint}"
)
PYTHON_SCHEMA_MISSING = Entry(
    "The columns of the source `{name}` are not known: its class `{class_name}` has no `schema`.",
    'Write `schema:` beside `class:`, or a method `def schema(self): return "id int, …"`.',
)

ENTRIES = name_entries(globals())


class PythonSource(SourceOptions):
    """Rows of a class of yours: `streamReader` or `simpleStreamReader` streams, `reader` reads at once."""

    python_class: ClassField = Field(
        alias="class", description='The DataSource, as `"feeds.py:Tickers"`, relative to the pipeline file.'
    )
    columns: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="The columns, where the class leaves them to you; else its `schema()` says them.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _read_columns(cls, written: Any, info: ValidationInfo) -> Schema:
        return read_schema(written, info)


class PythonSink(SinkOptions):
    """Hands rows to a class of yours: to its `streamWriter`, in a batch run to its `writer`."""

    python_class: ClassField = Field(
        alias="class", description='The DataSource, as `"out.py:Post"`, relative to the pipeline file.'
    )


def python(
    *,
    class_: str | type,
    schema: str | Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """A class of yours, written for Spark's Python Data Source API, as a source or as a sink."""
    return connector("python", **{"class": class_, "schema": schema, "options": options})


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
