"""Tables of a Spark catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from headwater.connectors.connector import Connector, ConnectorCall, Options, Source, connector
from headwater.connectors.contract import Context
from headwater.connectors.options import plain
from headwater.errors import Entry, PipelineError, name_entries
from headwater.spec import SourceOptions
from headwater.values import nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = r"(?:`(?:[^`]|``)+`|[^`.\s]+)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")
_QUALIFIED = re.compile(rf"{_PART}(?:\.{_PART})+")

CATALOG_TABLE_NOT_FOUND = Entry(
    "The source `{name}` reads the table {table}, which no catalog of this Spark has.",
    "{hint} Tables of another process are there only through a catalog that outlives it: "
    "set one under `spark:`, see the guide on catalog tables.",
)


class CatalogSource(SourceOptions):
    """A table that a Spark catalog knows: what is added to it, or with `static: true` what it holds."""

    also_called = {"name": "table", "toTable": "table"}

    table: str = Field(description="The table with its database, and its catalog if it is another.")

    @field_validator("table")
    @classmethod
    def _qualified(cls, name: str) -> str:
        name = name.strip()
        if not _NAME.fullmatch(name):
            raise ValueError(f"`{name}` does not name a table; write database.table, such as shop.orders")
        if not _QUALIFIED.fullmatch(name):
            # Alone it could also mean a source or table of this pipeline, which Spark would find first.
            raise ValueError(f"`{name}` says no database; write default.{name}")
        return name


_NOT_THERE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    # What Spark says when the first of three names is no catalog.
    "REQUIRES_SINGLE_PART_NAMESPACE",
)


class CatalogReader(Source[CatalogSource]):
    """Rows of a table, as they are added or as they are."""

    options = CatalogSource
    replayable = True

    def places(self, options: CatalogSource) -> tuple[str, ...]:
        return (options.table,)

    def read_stream(self, spark: SparkSession, options: CatalogSource, context: Context) -> DataFrame:
        return _read(spark, spark.readStream.options(**plain(options)).table, options, context)

    def read_batch(self, spark: SparkSession, options: CatalogSource, context: Context) -> DataFrame:
        return _read(spark, spark.read.options(**plain(options)).table, options, context)


def _read(
    spark: SparkSession, table: Callable[[str], DataFrame], options: CatalogSource, context: Context
) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return table(options.table)
    except AnalysisException as error:
        if not str(error.getCondition()).startswith(_NOT_THERE):
            raise
        problem = CATALOG_TABLE_NOT_FOUND.at(
            context.at("table"), name=context.name, table=options.table, hint=_hint(spark, options.table)
        )
        raise PipelineError(problem) from error


def _hint(spark: SparkSession, table: str) -> str:
    """The table that was most likely meant, of those that the database has."""
    from pyspark.errors import AnalysisException

    database, _, name = table.rpartition(".")
    try:
        rows: list[Any] = spark.sql(f"SHOW TABLES IN {database}").collect()
    except AnalysisException:
        return f"Spark knows no database {database} here."
    meant = nearest(name, [row["tableName"] for row in rows])
    return f"Did you mean {database}.{meant}?" if meant else f"{database} has no table like it."


CONNECTOR = Connector(
    "catalog", "A table of a Spark catalog.", source=CatalogReader(), errors=name_entries(globals())
)


def catalog(*, table: str, options: Options | None = None) -> ConnectorCall:
    """A table of a Spark catalog."""
    return connector("catalog", **locals())
