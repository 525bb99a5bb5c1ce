"""The half of a connector that talks to Spark, and the way of its code to the executors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors import Context, all_connectors
from headwater.spec import SinkSpec

_OWN = __name__.partition(".")[0]


def spark_module(connector: str) -> Any:
    """The half that talks to Spark, loaded by name.

    What a package from outside hands to Spark is sent whole, not by name: the executors need not have the
    package, and could not import it, since importing it imports Headwater.
    """
    module = import_module(all_connectors()[connector].spark)
    package = package_of(module)
    if package.__name__ != _OWN:
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    return module


def outgoing(rows: DataFrame, sink: SinkSpec, context: Context) -> DataFrame:
    """The rows as a sink's connector writes them, where it makes others of them."""
    make = getattr(spark_module(sink.connector), "outgoing", None)
    return make(rows, sink.options, context) if make else rows


def package_of(module: ModuleType) -> ModuleType:
    """The outermost package that a module is in; a folder that several packages share is none."""
    parts = module.__name__.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts)))
    return next((sys.modules[name] for name in names if sys.modules[name].__file__), module)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread for a while.

    A writer looks for a Python data source in that one, whichever session its DataFrame belongs to.
    """
    java: Any = spark._jvm
    with active_kept(java):
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
        yield


@contextmanager
def active_kept(java: Any) -> Iterator[None]:
    """Whatever becomes the active session of this thread meanwhile: after it, it is the one of before."""
    sessions = java.org.apache.spark.sql.classic.SparkSession
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
