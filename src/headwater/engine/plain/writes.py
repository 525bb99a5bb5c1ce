"""Writes of finished rows, caught: PySpark's classes are changed in this process, for good."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pyspark import RDD
from pyspark.sql import Catalog, DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter

from headwater.engine.plain.shadows import Shadows
from headwater.engine.writing_calls import (
    FILES,
    INTO_TABLES,
    MAKES_TABLE,
    OF_CATALOGS,
    OF_FRAMES,
    OF_RDDS,
    parsed,
    writing_statement,
)
from headwater.values import Position
from headwater.values.own_code import own_place


def catch_writes(shadows: Shadows) -> None:
    """Let nothing of Spark's write: what would be there afterwards is a shadow, which can be read."""
    _catch_writers(shadows)
    _catch_tables(shadows)
    _catch_row_functions()
    _catch_sql(shadows)


def _catch_writers(shadows: Shadows) -> None:
    def save(writer: Any, path: str | None = None, *_: Any, **options: Any) -> None:
        shadows.path_written(path or options.get("path") or _option(writer, "path"), writer._df, _here())

    def save_as_table(writer: Any, name: str, *_: Any, **options: Any) -> None:
        shadows.table_written(name, writer._df, _here())

    def jdbc(writer: Any, url: str, table: str, *_: Any, **options: Any) -> None:
        return None

    named = {"save": save, "saveAsTable": save_as_table, "insertInto": save_as_table, "jdbc": jdbc}
    for name, part in {**named, **dict.fromkeys(FILES, save)}.items():
        setattr(DataFrameWriter, name, part)


def _catch_tables(shadows: Shadows) -> None:
    begin: Callable[..., None] = DataFrameWriterV2.__init__

    def begun(writer: Any, df: DataFrame, table: str) -> None:
        begin(writer, df, table)
        writer._headwater_table = table

    def write(writer: Any, *_: Any) -> None:
        shadows.table_written(writer._headwater_table, writer._df, _here())

    def create_table(
        catalog: Any,
        tableName: str,  # noqa: N803 - PySpark's name
        path: Any = None,
        source: Any = None,
        schema: Any = None,
        *_: Any,
        **__: Any,
    ) -> DataFrame:
        spark = catalog._sparkSession
        frame: DataFrame = spark.createDataFrame([], schema if schema is not None else "value string")
        shadows.table_written(tableName, frame, _here())
        return frame

    setattr(DataFrameWriterV2, "__init__", begun)  # noqa: B010 - mypy has a word against the assignment
    for name in INTO_TABLES:
        setattr(DataFrameWriterV2, name, write)
    for name in OF_CATALOGS:
        setattr(Catalog, name, create_table)
    setattr(MergeIntoWriter, "merge", lambda writer: None)  # noqa: B010


def _catch_row_functions() -> None:
    """Functions that are called with rows for what they do elsewhere; on a stream Spark refuses them."""
    for name in OF_FRAMES:
        original = getattr(ClassicDataFrame, name)

        def called(frame: Any, function: Any, original: Any = original) -> None:
            if frame.isStreaming:
                original(frame, function)

        setattr(ClassicDataFrame, name, called)
    for name in OF_RDDS:
        setattr(RDD, name, lambda rdd, *given, **options: None)


def _catch_sql(shadows: Shadows) -> None:
    run = SparkSession.sql

    def sql(spark: Any, sqlQuery: str, *given: Any, **named: Any) -> DataFrame:  # noqa: N803 - PySpark's name
        statement = writing_statement(spark, sqlQuery)
        if statement is None:
            return run(spark, sqlQuery, *given, **named)
        kind, table = statement
        if kind in MAKES_TABLE and table:
            frame = _made_by(spark, sqlQuery, kind)
            if frame is not None:
                shadows.table_written(table, frame, _here())
        # A statement returns no rows and no columns.
        nothing: DataFrame = spark.range(0).select()
        return nothing

    setattr(SparkSession, "sql", sql)  # noqa: B010


def _made_by(spark: Any, text: str, kind: str) -> DataFrame | None:
    """The rows that a new table would hold: those of its query, or none."""
    plan = parsed(spark, text)
    jvm = spark._jvm
    if kind.endswith("AsSelect"):
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan.query())
        return ClassicDataFrame(rows, spark)
    columns = plan.tableSchema()
    return spark.createDataFrame([], _schema(columns)) if columns.size() else None


def _schema(java: Any) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(java.toDDL())


def _option(writer: Any, name: str) -> str | None:
    found = writer._jwrite.getClass().getDeclaredField("extraOptions")
    found.setAccessible(True)
    value = found.get(writer._jwrite).get(name)
    return str(value.get()) if value.isDefined() else None


def _here() -> Position | None:
    return own_place(sys._getframe(2))
