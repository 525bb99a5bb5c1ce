"""Tables of a catalog on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.catalog.options import CatalogSource
from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.errors import PipelineError
from headwater.errors.catalogue.connectors import CATALOG_NO_TABLE
from headwater.values import nearest

_NOT_THERE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    # What Spark says when the first of three names is no catalog.
    "REQUIRES_SINGLE_PART_NAMESPACE",
)


def read_stream(spark: SparkSession, options: CatalogSource, context: Context) -> DataFrame:
    """Rows as they are added to the table."""
    return _read(spark, spark.readStream.options(**plain(options)).table, options, context)


def read_batch(spark: SparkSession, options: CatalogSource, context: Context) -> DataFrame:
    """The rows that the table holds."""
    return _read(spark, spark.read.options(**plain(options)).table, options, context)


def _read(
    spark: SparkSession, table: Callable[[str], DataFrame], options: CatalogSource, context: Context
) -> DataFrame:
    try:
        return table(options.table)
    except AnalysisException as error:
        if not str(error.getCondition()).startswith(_NOT_THERE):
            raise
        problem = CATALOG_NO_TABLE.at(
            context.at("table"), name=context.name, table=options.table, hint=_hint(spark, options.table)
        )
        raise PipelineError(problem) from error


def _hint(spark: SparkSession, table: str) -> str:
    """The table that was most likely meant, of those that the database has."""
    database, _, name = table.rpartition(".")
    try:
        rows: list[Any] = spark.sql(f"SHOW TABLES IN {database}").collect()
    except AnalysisException:
        return f"Spark knows no database {database} here."
    meant = nearest(name, [row["tableName"] for row in rows])
    return f"Did you mean {database}.{meant}?" if meant else f"{database} has no table like it."
