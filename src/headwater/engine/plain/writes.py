"""Writes of finished rows, caught: PySpark's classes are changed in this process, for good."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from pyspark import RDD
from pyspark.sql import Catalog, DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter

from headwater.engine.build import SPARK_ERRORS
from headwater.engine.plain.shadows import Shadows
from headwater.values import Position
from headwater.values.own_code import own_place

_FILES = ("csv", "json", "orc", "parquet", "text", "xml")
_INTO_TABLES = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_OF_RDDS = (
    "saveAsHadoopDataset",
    "saveAsHadoopFile",
    "saveAsNewAPIHadoopDataset",
    "saveAsNewAPIHadoopFile",
    "saveAsPickleFile",
    "saveAsSequenceFile",
    "saveAsTextFile",
)
_STATEMENTS = frozenset(
    {
        "CompoundBody",
        "CreateTable",
        "CreateTableAsSelect",
        "CreateTableLikeCommand",
        "DeleteFromTable",
        "DropPartitions",
        "DropTable",
        "InsertIntoDir",
        "InsertIntoStatement",
        "LoadData",
        "MergeIntoTable",
        "OptimizeTableCommand",
        "ReplaceTable",
        "ReplaceTableAsSelect",
        "TruncatePartition",
        "TruncateTable",
        "UpdateTable",
        "VacuumTableCommand",
    }
)
"""Spark's names for what SQL can do to rows and tables that stay."""
_MAKES_TABLE = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
_COMMENTS = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_STATEMENT = re.compile(
    rf"{_COMMENTS}(?:INSERT|MERGE|DELETE|UPDATE|TRUNCATE|LOAD|DROP\s+TABLE|"
    r"(?:CREATE|REPLACE)\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?TABLE)\b",
    re.IGNORECASE | re.DOTALL,
)


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
    for name, part in {**named, **dict.fromkeys(_FILES, save)}.items():
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
    for name in _INTO_TABLES:
        setattr(DataFrameWriterV2, name, write)
    for name in ("createTable", "createExternalTable"):
        setattr(Catalog, name, create_table)
    setattr(MergeIntoWriter, "merge", lambda writer: None)  # noqa: B010


def _catch_row_functions() -> None:
    """Functions that are called with rows for what they do elsewhere; on a stream Spark refuses them."""
    for name in ("foreach", "foreachPartition"):
        original = getattr(ClassicDataFrame, name)

        def called(frame: Any, function: Any, original: Any = original) -> None:
            if frame.isStreaming:
                original(frame, function)

        setattr(ClassicDataFrame, name, called)
    for name in _OF_RDDS:
        setattr(RDD, name, lambda rdd, *given, **options: None)


def _catch_sql(shadows: Shadows) -> None:
    run = SparkSession.sql

    def sql(spark: Any, sqlQuery: str, *given: Any, **named: Any) -> DataFrame:  # noqa: N803 - PySpark's name
        statement = _statement(spark, sqlQuery)
        if statement is None:
            return run(spark, sqlQuery, *given, **named)
        kind, table = statement
        if kind in _MAKES_TABLE and table:
            frame = _made_by(spark, sqlQuery, kind)
            if frame is not None:
                shadows.table_written(table, frame, _here())
        # A statement returns no rows and no columns.
        nothing: DataFrame = spark.range(0).select()
        return nothing

    setattr(SparkSession, "sql", sql)  # noqa: B010


def _statement(spark: Any, text: str) -> tuple[str, str] | None:
    """Spark's name for a statement that would change what stays, and the table that it makes."""
    try:
        plan = _parsed(spark, text)
    except SPARK_ERRORS:
        # A text with places for values in it, or one that is wrong, which Spark is to say.
        return ("", "") if _STATEMENT.match(text) else None
    found = _writing(plan)
    if found is None:
        return None
    kind = str(found.getClass().getSimpleName())
    return kind, _table_name(found) if kind in _MAKES_TABLE else ""


def _parsed(spark: Any, text: str) -> Any:
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def _writing(plan: Any) -> Any | None:
    """The first node that writes; WITH and several INSERTs of one FROM stand above theirs."""
    if str(plan.getClass().getSimpleName()) in _STATEMENTS:
        return plan
    below = plan.children()
    found = (_writing(below.apply(index)) for index in range(below.size()))
    return next((each for each in found if each is not None), None)


def _table_name(plan: Any) -> str:
    parts = plan.name().nameParts()
    return ".".join(str(parts.apply(index)) for index in range(parts.size()))


def _made_by(spark: Any, text: str, kind: str) -> DataFrame | None:
    """The rows that a new table would hold: those of its query, or none."""
    plan = _parsed(spark, text)
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
