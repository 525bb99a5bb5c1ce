"""Python data sources that Spark would search for: installed packages are imported, no file of the user's.

At the first format that it does not know, Spark imports every module `pyspark_*` on its workers' path. That
includes the current directory, where a file with such a name may well be a program.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from headwater.spark.private import JavaObject, jvm_of, private_field, scala_object, session_state

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
