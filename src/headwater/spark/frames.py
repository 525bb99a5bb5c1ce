"""DataFrames asked for what PySpark does not hand out: their text, and their rows as whole partitions."""

from __future__ import annotations

from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame

from headwater.spark.private import java_frame


def shown(rows: DataFrame, count: int, truncate: int) -> str:
    """The text that `show()` prints (`showString`)."""
    return str(java_frame(rows).showString(count, truncate, False))


def pickled_partitions(rows: DataFrame, serializer: object) -> RDD[Any]:
    """The rows pickled by the JVM (`javaToPython`), read partition by partition with a serializer."""
    context = rows.sparkSession.sparkContext
    return RDD(java_frame(rows).javaToPython(), context, serializer)  # type: ignore[arg-type]
