"""DataFrames asked for what PySpark does not hand out: their text, their rows by partition, Arrow."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import RDD
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.spark.private import java_frame

_TAKES_ZONE = "timezone" in signature(to_arrow_schema).parameters
"""Since 4.2."""


def shown(rows: DataFrame, count: int, truncate: int) -> str:
    """The text that `show()` prints (`showString`)."""
    return str(java_frame(rows).showString(count, truncate, False))


def pickled_partitions(rows: DataFrame, serializer: object) -> RDD[Any]:
    """The rows pickled by the JVM (`javaToPython`), read partition by partition with a serializer."""
    context = rows.sparkSession.sparkContext
    return RDD(java_frame(rows).javaToPython(), context, serializer)  # type: ignore[arg-type]


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema as Arrow has it, with times in UTC (`to_arrow_schema`, whose parameters change)."""
    in_utc: dict[str, Any] = {"timezone": "UTC"} if _TAKES_ZONE else {"timestamp_utc": True}
    return to_arrow_schema(schema, **in_utc)
