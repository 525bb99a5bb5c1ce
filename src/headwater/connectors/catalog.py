"""The catalog connector: tables of a Spark catalog."""

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
    "Source `{name}`: table {table} not found in the Spark catalog.",
    "{hint} To read tables that other processes created, configure a persistent catalog under `spark:`.",
)


class CatalogSource(SourceOptions):
    """Streams the rows added to a catalog table, or reads the whole table with `static: true`."""

    also_called = {"name": "table", "toTable": "table"}

    table: str = Field(
        description="Table as `database.table`, or `catalog.database.table` for another catalog."
    )

    @field_validator("table")
    @classmethod
    def _qualified(cls, name: str) -> str:
        name = name.strip()
        if not _NAME.fullmatch(name):
            raise ValueError(f"`{name}` is not a table name; write database.table, such as shop.orders")
        if not _QUALIFIED.fullmatch(name):
            # Without a database, Spark would resolve it to a source or table of this pipeline.
            raise ValueError(f"table `{name}` has no database; write default.{name}")
        return name


_NOT_THERE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    # Spark's error if the first of three names is not a catalog.
    "REQUIRES_SINGLE_PART_NAMESPACE",
)


class CatalogReader(Source[CatalogSource]):
    """Reads a table as a stream or as a whole."""

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
    """A hint with the most similar table of the database."""
    from pyspark.errors import AnalysisException

    database, _, name = table.rpartition(".")
    try:
        rows: list[Any] = spark.sql(f"SHOW TABLES IN {database}").collect()
    except AnalysisException:
        return f"Check the name: database {database} not found."
    meant = nearest(name, [row["tableName"] for row in rows])
    return (
        f"Did you mean {database}.{meant}?" if meant else f"Check the name: {database} has no similar table."
    )


CONNECTOR = Connector(
    "catalog", "Reads a table of a Spark catalog.", source=CatalogReader(), errors=name_entries(globals())
)


def catalog(*, table: str, options: Options | None = None) -> ConnectorCall:
    """Declare a source that reads a table of a Spark catalog."""
    return connector("catalog", **locals())
