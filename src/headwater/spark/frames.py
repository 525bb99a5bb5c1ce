"""Access to DataFrames that PySpark does not offer: their text, their rows by partition, Arrow schemas."""

from __future__ import annotations

from enum import Enum
from inspect import signature
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.spark.private import JavaObject, instance_of, java_frame, java_library, java_session, jvm_of

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


# Java and Scala functions for SQL: loads, classifies and registers their classes.

_INPUTS = {
    "java.lang.Boolean": "BOOLEAN", "java.lang.Byte": "BYTE", "java.lang.Short": "SHORT",
    "java.lang.Integer": "INT", "java.lang.Long": "LONG", "java.lang.Float": "FLOAT",
    "java.lang.Double": "DOUBLE", "java.lang.String": "STRING", "java.math.BigDecimal": "DECIMAL",
    "java.sql.Date": "DATE", "java.sql.Timestamp": "TIMESTAMP", "java.time.LocalDate": "LOCALDATE",
    "java.time.Instant": "INSTANT", "byte[]": "BINARY",
}  # fmt: skip
"""What an Aggregator takes, and the encoder that Spark has for it."""

_MOST_ARGUMENTS = 22


class JavaFunction(Enum):
    """What kind of function a class is."""

    AGGREGATOR = "Aggregator"
    OLD_AGGREGATE = "UserDefinedAggregateFunction"
    UDF = "UDF"


def is_built_in(spark: SparkSession, name: str) -> bool:
    """Whether Spark has a function of this name itself (`FunctionRegistry.builtin`)."""
    catalyst = jvm_of(spark).org.apache.spark.sql.catalyst
    return bool(
        catalyst.analysis.FunctionRegistry.builtin().functionExists(catalyst.FunctionIdentifier(name))
    )


def load_class(spark: SparkSession, name: str) -> JavaObject:
    """A class that Spark's class loader finds (`Utils.classForName`); Py4JJavaError if there is none."""
    return jvm_of(spark).org.apache.spark.util.Utils.classForName(name, True, False)


def function_kind(spark: SparkSession, java_class: JavaObject) -> JavaFunction | None:
    """What a class implements of Spark's interfaces for functions."""

    def extends(base: str) -> bool:
        return bool(java_library(spark).lang.Class.forName(base).isAssignableFrom(java_class))

    if extends("org.apache.spark.sql.expressions.Aggregator"):
        return JavaFunction.AGGREGATOR
    if extends("org.apache.spark.sql.expressions.UserDefinedAggregateFunction"):
        return JavaFunction.OLD_AGGREGATE
    numbers = range(_MOST_ARGUMENTS + 1)
    is_udf = any(extends(f"org.apache.spark.sql.api.java.UDF{number}") for number in numbers)
    return JavaFunction.UDF if is_udf else None


def aggregator_input(java_class: JavaObject) -> str | None:
    """The type that an Aggregator takes, which its declaration names first; None if it does not tell."""
    superclass = java_class.getGenericSuperclass()
    taken = superclass.getActualTypeArguments()[0] if hasattr(superclass, "getActualTypeArguments") else None
    return str(taken.getTypeName()) if taken is not None else None


def has_encoder(taken: str) -> bool:
    """Whether Spark has an encoder for what an Aggregator takes."""
    return taken in _INPUTS


def register_aggregator(spark: SparkSession, name: str, java_class: JavaObject, taken: str) -> None:
    """Make an Aggregator known to SQL (`functions.udaf`, and `udf().register` of the JVM's session)."""
    sql = jvm_of(spark).org.apache.spark.sql
    encoder = getattr(sql.Encoders, _INPUTS[taken])()
    made = sql.functions.udaf(instance_of(spark, java_class), encoder)
    java_session(spark).udf().register(name, made)
