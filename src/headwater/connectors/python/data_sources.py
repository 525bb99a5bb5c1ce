"""User-defined data sources on Spark."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext, SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.connectors.python.connector import (
    PYTHON_CLASS_INVALID,
    PYTHON_METHOD_MISSING,
    PYTHON_SCHEMA_MISSING,
    PythonSink,
    PythonSource,
)
from headwater.errors import PipelineError, Problem
from headwater.spark.private import python_includes
from headwater.spark.query import writer_session
from headwater.spark.session import data_source_exists


@dataclass(frozen=True)
class Need:
    """The methods that a class needs for one use: Spark calls the first one that exists."""

    does: str
    methods: tuple[str, ...]
    hint: str


STREAM_SOURCE = Need(
    "streaming reads",
    ("streamReader", "simpleStreamReader"),
    "Add `def streamReader(self, schema):` to the class. A class with only a `reader` supports `static: true`.",
)
BATCH_SOURCE = Need(
    "batch reads (`static: true` or batch runs)",
    ("reader",),
    "Add `def reader(self, schema):` to the class, or read it as a stream.",
)
STREAM_SINK = Need(
    "streaming writes", ("streamWriter",), "Add `def streamWriter(self, schema, overwrite):` to the class."
)
BATCH_SINK = Need("batch runs", ("writer",), "Add `def writer(self, schema, overwrite):` to the class.")


def read_stream(spark: SparkSession, options: PythonSource, context: Context) -> DataFrame:
    """Read with the stream reader of the class."""
    found = _source_class(options, context, STREAM_SOURCE)
    _show_modules_to_stream_readers(spark.sparkContext)
    reader = spark.readStream.format(_registered(spark, found, "source", context.name))
    if options.columns:
        reader = reader.schema(options.columns.ddl)
    return reader.options(**plain(options)).load()


def read_batch(spark: SparkSession, options: PythonSource, context: Context) -> DataFrame:
    """Read all existing rows with the reader of the class."""
    found = _source_class(options, context, BATCH_SOURCE)
    reader = spark.read.format(_registered(spark, found, "source", context.name))
    if options.columns:
        reader = reader.schema(options.columns.ddl)
    return reader.options(**plain(options)).load()


def write_stream(writer: DataStreamWriter, options: PythonSink, context: Context) -> DataStreamWriter:
    """Write with the stream writer of the class."""
    found = _sink_class(options, context)
    name = _registered(writer_session(writer), found, "sink", context.name)
    return writer.format(name).options(**plain(options))


def write_batch(rows: DataFrame, options: PythonSink, context: Context) -> None:
    """Append all rows with the writer of the class."""
    name = _registered(rows.sparkSession, _sink_class(options, context), "sink", context.name)
    rows.write.format(name).mode("append").options(**plain(options)).save()


def code_problems(options: PythonSink, context: Context) -> list[Problem]:
    """Problems with the class of a sink, before anything starts."""
    try:
        _sink_class(options, context)
    except PipelineError as error:
        return list(error.problems)
    return []


def _source_class(options: PythonSource, context: Context, need: Need) -> type[DataSource]:
    found = _data_source(options, context, "source", need)
    if options.columns is None and not _has(found, "schema"):
        problem = PYTHON_SCHEMA_MISSING.at(context.at("class"), name=context.name, class_name=found.__name__)
        raise PipelineError(problem)
    return found


def _sink_class(options: PythonSink, context: Context) -> type[DataSource]:
    return _data_source(options, context, "sink", BATCH_SINK if context.batch else STREAM_SINK)


def _data_source(
    options: PythonSource | PythonSink, context: Context, side: str, need: Need
) -> type[DataSource]:
    """The user's class; PipelineError if it is not a data source, or does not support this use."""
    found: object = context.load(options.python_class)
    told = {"side": side.capitalize(), "name": context.name, "class_name": options.python_class.name}
    if not isinstance(found, type) or not issubclass(found, DataSource):
        raise PipelineError(PYTHON_CLASS_INVALID.at(context.at("class"), **told))
    if not any(_has(found, method) for method in need.methods):
        method = "` or `".join(need.methods)
        problem = PYTHON_METHOD_MISSING.at(
            context.at("class"), **told, does=need.does, method=method, hint=need.hint
        )
        raise PipelineError(problem)
    return found


def _has(found: type[DataSource], method: str) -> bool:
    """Whether a user class overrides the method: `DataSource` has them all, but they only raise."""
    return getattr(found, method) is not getattr(DataSource, method)


def _registered(spark: SparkSession, found: type[DataSource], side: str, name: str) -> str:
    """Register the class in the session under a unique name, and return that name.

    The name that the class returns could conflict with a Spark format or another class. Spark asks the class
    for its name again in every Python process, so a derived class returns the new one. It is sent by value,
    the user's class by name: its module is available on the executors.
    """
    unique = f"headwater_{side}_{name.lower()}"

    def renamed(cls: type[DataSource]) -> str:
        return unique

    kept = {"__module__": found.__module__, "__qualname__": found.__qualname__, "__doc__": found.__doc__}
    derived = type(found.__name__, (found,), {**kept, "name": classmethod(renamed)})
    # It is already registered if a query starts again in the same session.
    if not data_source_exists(spark, unique):
        spark.dataSource.register(derived)
    return unique


def _show_modules_to_stream_readers(context: SparkContext) -> None:
    """Make the user's modules available to the process of a stream reader.

    On the driver, Spark makes only that process search a separate directory below the one with the modules,
    but puts nothing there.
    """
    files = Path(SparkFiles.getRootDirectory())
    folder = files / "streaming_job"
    folder.mkdir(exist_ok=True)
    for name in python_includes(context):
        with suppress(FileExistsError):
            (folder / name).symlink_to(files / name)
