"""What only the JVM's half of a session can do: be the active one, be copied, take a jar while it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import DataType, StructType

from headwater.spark.private import (
    JavaObject,
    java_library,
    java_session,
    jvm_of,
    private_field,
    scala_object,
    session_state,
)

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""Spark's state store on RocksDB."""
FASTER_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""The file manager of checkpoints that checks and then renames."""


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread for a while (`classic.SparkSession.setActiveSession`).

    A writer looks for a Python data source in that one, whichever session its DataFrame belongs to.
    """
    with active_kept(spark):
        _sessions(spark).setActiveSession(java_session(spark))
        yield


@contextmanager
def active_kept(spark: SparkSession) -> Iterator[None]:
    """Whatever becomes the active session of this thread meanwhile: after it, it is the one of before."""
    sessions = _sessions(spark)
    before, in_python = sessions.getActiveSession(), SparkSession._activeSession
    try:
        yield
    finally:
        # PySpark keeps a note of its own, besides that of the JVM.
        SparkSession._activeSession = in_python
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _sessions(spark: SparkSession) -> JavaObject:
    return jvm_of(spark).org.apache.spark.sql.classic.SparkSession


def copy_of(spark: SparkSession) -> SparkSession:
    """A session with the same settings, views and functions (`cloneSession`); its changes are its own."""
    return SparkSession(spark.sparkContext, java_session(spark).cloneSession())


def add_jar(spark: SparkSession, jar: str) -> None:
    """Make a running session see a jar (`sessionState.resourceLoader`)."""
    session_state(spark).resourceLoader().addJar(jar)


def see_added_jars(spark: SparkSession) -> None:
    """Let this thread of the JVM see the jars that a session got late (`sharedState.jarClassLoader`)."""
    loader = java_session(spark).sharedState().jarClassLoader()
    java_library(spark).lang.Thread.currentThread().setContextClassLoader(loader)


def is_static_setting(spark: SparkSession, key: str) -> bool:
    """Whether only a new JVM takes a setting (`SQLConf.isStaticConfigKey`)."""
    return bool(jvm_of(spark).org.apache.spark.sql.internal.SQLConf.isStaticConfigKey(key))


def offset_metadata(spark: SparkSession, milliseconds: int) -> str:
    """The line of settings of a new batch as Spark writes it in `offsets/N` (`OffsetSeqMetadata`)."""
    checkpointing = jvm_of(spark).org.apache.spark.sql.execution.streaming.checkpointing
    made = scala_object(checkpointing, "OffsetSeqMetadata").apply(0, milliseconds, java_session(spark).conf())
    return str(made.json())


def table_provider(spark: SparkSession, table: str) -> str | None:
    """The format of a table of Spark's own catalog (`sessionState.catalog`); None where it has none."""
    state = session_state(spark)
    found = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(table)).provider()
    return str(found.get()) if found.isDefined() else None


def java_schema(spark: SparkSession, schema: DataType) -> JavaObject:
    """A schema as the JVM has it (`parseDataType`)."""
    return java_session(spark).parseDataType(schema.json())


def without_lengths(spark: SparkSession, schema: DataType) -> StructType:
    """A schema with strings for char and varchar (`CharVarcharUtils`), as every source returns rows."""
    lengths = jvm_of(spark).org.apache.spark.sql.catalyst.util.CharVarcharUtils
    found = lengths.replaceCharVarcharWithStringInSchema(java_schema(spark, schema))
    return StructType.fromJson(json.loads(found.json()))


def data_source_exists(spark: SparkSession, name: str) -> bool:
    """Whether a Python data source of this name is registered (`sessionState.dataSourceManager`)."""
    return bool(session_state(spark).dataSourceManager().dataSourceExists(name))


# Python data sources that Spark would search for: installed packages are imported, no file of the user's.
#
# At the first format that it does not know, Spark imports every module `pyspark_*` on its workers' path. That
# includes the current directory, where a file with such a name may well be a program.

_NO_SUCH_PART = (Py4JError, TypeError)
_PREFIX = "pyspark_"
_WRITERS = (
    "org.apache.spark.sql.sources.StreamSinkProvider",
    "org.apache.spark.sql.execution.datasources.FileFormat",
    "org.apache.spark.sql.connector.catalog.TableProvider",
)
_INSTALLED = {"site-packages", "dist-packages"}


def prevent_search(context: SparkContext) -> None:
    """Let the JVM act as if Spark had searched for Python data sources and found none."""
    jvm: Any = context._jvm
    # A private part of Spark: a version that has none of this name still starts, and searches.
    with suppress(*_NO_SUCH_PART):
        nothing = scala_object(jvm.scala.collection.immutable, "Map").empty()
        getattr(_all_sources(jvm), "dataSourceBuilders_$eq")(jvm.scala.Option.apply(nothing))


def register_installed(spark: SparkSession) -> None:
    """Register what Spark's search would have found among the installed packages."""
    installed = [place for place in sys.path if _INSTALLED & set(Path(place).parts)]
    for module in iter_modules(installed):
        if module.name.startswith(_PREFIX):
            # Spark, too, skips a package that cannot be imported.
            with suppress(Exception):
                source = import_module(module.name).DefaultSource
                if issubclass(source, DataSource):
                    spark.dataSource.register(source)


def class_of(spark: SparkSession, format: str) -> JavaObject:
    """The Java class behind a format; one of SPARK_ERRORS if there is none. Spark searches nothing for it."""
    jvm = jvm_of(spark)
    sessions, conf = jvm.org.apache.spark.sql.SparkSession, session_state(spark).conf()
    active = sessions.getActiveSession()
    # Spark asks the active session for Python data sources; without one it looks at Java's alone.
    sessions.clearActiveSession()
    try:
        return jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(format, conf)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())


def writes_streams(spark: SparkSession, java_class: JavaObject) -> bool:
    """Whether the class of a format is one of those with which Spark can write a stream."""
    jvm = jvm_of(spark)
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    bases = (jvm.java.lang.Class.forName(name, False, loader) for name in _WRITERS)
    return any(base.isAssignableFrom(java_class) for base in bases)


def may_be_python(spark: SparkSession, format: str) -> bool:
    """Whether a format is a registered Python data source, or one that Spark's search might yet find."""
    try:
        return _is_registered(spark, format)
    except _NO_SUCH_PART:
        return True


def _is_registered(spark: SparkSession, format: str) -> bool:
    own = private_field(session_state(spark).dataSourceManager(), "runtimeDataSourceBuilders")
    if own.containsKey(format.lower()):
        return True
    found = _all_sources(jvm_of(spark)).dataSourceBuilders()
    if found.isDefined():
        return bool(found.get().contains(format.lower()))
    return any(module.name.startswith(_PREFIX) for module in iter_modules([*sys.path, ""]))


def _all_sources(jvm: JavaObject) -> JavaObject:
    """What Spark keeps of its search, once in a JVM."""
    return scala_object(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager")
