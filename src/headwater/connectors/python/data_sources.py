"""A user's data source on Spark."""

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
    """What a class must have for one use: one of these methods, of which Spark calls the first it finds."""

    does: str
    methods: tuple[str, ...]
    hint: str


STREAM_SOURCE = Need(
    "be read as a stream",
    ("streamReader", "simpleStreamReader"),
    "Write `def streamReader(self, schema):` in it; with a `reader` alone it can be `static: true`.",
)
BATCH_SOURCE = Need(
    "be read at once, as `static: true` or in a batch run",
    ("reader",),
    "Write `def reader(self, schema):` in it, or read it as a stream.",
)
STREAM_SINK = Need(
    "take a stream", ("streamWriter",), "Write `def streamWriter(self, schema, overwrite):` in it."
)
BATCH_SINK = Need(
    "take the rows of a batch run", ("writer",), "Write `def writer(self, schema, overwrite):` in it."
)


def read_stream(spark: SparkSession, options: PythonSource, context: Context) -> DataFrame:
    """Rows from the class's stream reader."""
    found = _source_class(options, context, STREAM_SOURCE)
    _show_modules_to_stream_readers(spark.sparkContext)
    reader = spark.readStream.format(_registered(spark, found, "source", context.name))
    if options.columns:
        reader = reader.schema(options.columns.ddl)
    return reader.options(**plain(options)).load()


def read_batch(spark: SparkSession, options: PythonSource, context: Context) -> DataFrame:
    """Rows from the class's reader, all that there are now."""
    found = _source_class(options, context, BATCH_SOURCE)
    reader = spark.read.format(_registered(spark, found, "source", context.name))
    if options.columns:
        reader = reader.schema(options.columns.ddl)
    return reader.options(**plain(options)).load()


def write_stream(writer: DataStreamWriter, options: PythonSink, context: Context) -> DataStreamWriter:
    """Rows to the class's stream writer."""
    found = _sink_class(options, context)
    name = _registered(writer_session(writer), found, "sink", context.name)
    return writer.format(name).options(**plain(options))


def write_batch(rows: DataFrame, options: PythonSink, context: Context) -> None:
    """All rows to the class's writer, which is told to append."""
    name = _registered(rows.sparkSession, _sink_class(options, context), "sink", context.name)
    rows.write.format(name).mode("append").options(**plain(options)).save()


def code_problems(options: PythonSink, context: Context) -> list[Problem]:
    """What is wrong with the class of a sink, before anything starts."""
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
    """The user's class; PipelineError where it is no data source, or not one for this use."""
    found: object = context.load(options.python_class)
    told = {"side": side, "name": context.name, "class_name": options.python_class.name}
    if not isinstance(found, type) or not issubclass(found, DataSource):
        raise PipelineError(PYTHON_CLASS_INVALID.at(context.at("class"), **told))
    if not any(_has(found, method) for method in need.methods):
        method = "` and no `".join(need.methods)
        problem = PYTHON_METHOD_MISSING.at(
            context.at("class"), **told, does=need.does, method=method, hint=need.hint
        )
        raise PipelineError(problem)
    return found


def _has(found: type[DataSource], method: str) -> bool:
    """Whether a class of the user's has the method: DataSource itself has them all, and each only refuses."""
    return getattr(found, method) is not getattr(DataSource, method)


def _registered(spark: SparkSession, found: type[DataSource], side: str, name: str) -> str:
    """Make the class known to the pipeline's session under a name of its own, and say that name.

    Under the name that the class gives itself it could meet a format of Spark's, or another class. Spark asks
    the class for its name again in every Python process, so it is a class derived from the user's that says
    the new one. That class is sent by value, the user's own by name: its module is with the executors.
    """
    unique = f"headwater_{side}_{name.lower()}"

    def renamed(cls: type[DataSource]) -> str:
        return unique

    kept = {"__module__": found.__module__, "__qualname__": found.__qualname__, "__doc__": found.__doc__}
    derived = type(found.__name__, (found,), {**kept, "name": classmethod(renamed)})
    # A query that starts a second time in one session finds its class there.
    if not data_source_exists(spark, unique):
        spark.dataSource.register(derived)
    return unique


def _show_modules_to_stream_readers(context: SparkContext) -> None:
    """Let the process that holds a stream's reader find the user's modules.

    On the driver Spark tells that process (and no other) to look for them in a folder of its own below the
    one where they are, and puts nothing there.
    """
    files = Path(SparkFiles.getRootDirectory())
    folder = files / "streaming_job"
    folder.mkdir(exist_ok=True)
    for name in python_includes(context):
        with suppress(FileExistsError):
            (folder / name).symlink_to(files / name)
