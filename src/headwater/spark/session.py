"""What only the JVM's half of a session can do: be the active one, be copied, take a jar while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from headwater.spark.private import (
    JavaObject,
    java_library,
    java_session,
    jvm_of,
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
    """A schema with strings for char and varchar (`CharVarcharUtils`), as rows come out of every source."""
    lengths = jvm_of(spark).org.apache.spark.sql.catalyst.util.CharVarcharUtils
    found = lengths.replaceCharVarcharWithStringInSchema(java_schema(spark, schema))
    return StructType.fromJson(json.loads(found.json()))


def data_source_exists(spark: SparkSession, name: str) -> bool:
    """Whether a Python data source of this name is registered (`sessionState.dataSourceManager`)."""
    return bool(session_state(spark).dataSourceManager().dataSourceExists(name))
