"""What of PySpark writes rows or makes tables: methods by their class, and statements of SQL."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

FILES = ("csv", "json", "orc", "parquet", "text", "xml")
"""Of a DataFrameWriter, like `save`."""
INTO_TABLES = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
"""Of a DataFrameWriterV2."""
OF_CATALOGS = ("createTable", "createExternalTable")
OF_FRAMES = ("foreach", "foreachPartition")
"""Functions that are called with rows for what they do elsewhere; on a stream Spark refuses them."""
OF_RDDS = (
    "saveAsHadoopDataset",
    "saveAsHadoopFile",
    "saveAsNewAPIHadoopDataset",
    "saveAsNewAPIHadoopFile",
    "saveAsPickleFile",
    "saveAsSequenceFile",
    "saveAsTextFile",
)
MAKES_TABLE = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
_STATEMENTS = frozenset(
    {
        *MAKES_TABLE,
        "CompoundBody",
        "CreateTableLikeCommand",
        "DeleteFromTable",
        "DropPartitions",
        "DropTable",
        "InsertIntoDir",
        "InsertIntoStatement",
        "LoadData",
        "MergeIntoTable",
        "OptimizeTableCommand",
        "TruncatePartition",
        "TruncateTable",
        "UpdateTable",
        "VacuumTableCommand",
    }
)
"""Spark's names for what SQL can do to rows and tables that stay."""
_COMMENTS = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_STATEMENT = re.compile(
    rf"{_COMMENTS}(?:INSERT|MERGE|DELETE|UPDATE|TRUNCATE|LOAD|DROP\s+TABLE|"
    r"(?:CREATE|REPLACE)\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?TABLE)\b",
    re.IGNORECASE | re.DOTALL,
)


def writing_statement(spark: Any, text: str) -> tuple[str, str] | None:
    """Spark's name for a statement that would change what stays, and the table that it makes."""
    try:
        plan = parsed(spark, text)
    except (PySparkException, Py4JError):
        # A text with places for values in it, or one that is wrong, which Spark is to say.
        return ("", "") if _STATEMENT.match(text) else None
    found = _writing(plan)
    if found is None:
        return None
    kind = str(found.getClass().getSimpleName())
    return kind, _table_name(found) if kind in MAKES_TABLE else ""


def parsed(spark: Any, text: str) -> Any:
    """The plan of a text of SQL, as Spark's parser reads it."""
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
