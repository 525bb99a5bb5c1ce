"""What a sink's place holds before the start, where its connector can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.engine.build import SPARK_ERRORS, columns_of
from headwater.engine.connector_code import spark_module
from headwater.engine.spark_errors import sentence_of
from headwater.spec import SinkSpec


@dataclass(frozen=True)
class HeldRows:
    """The rows of earlier runs: their schema, the newest batch, and what is wrong with them."""

    schema: Mapping[str, str] = field(default_factory=dict)
    batch: int | None = None
    outside: str = ""
    unreadable: str = ""


def held_by(spark: SparkSession, sink: SinkSpec, frame: DataFrame) -> HeldRows:
    """Ask the sink's connector; what can't be read is told, since it stops readers and not this query."""
    module = spark_module(sink.connector)
    batch, outside = None, ""
    try:
        batch = _asked(module, "held_batch", spark, sink.options)
        outside = _asked(module, "held_outside", sink.options) or ""
        schema = _asked(module, "held_schema", spark, sink.options, frame.schema)
    except SPARK_ERRORS as error:
        return HeldRows({}, batch, outside, sentence_of(error))
    return HeldRows(columns_of(schema) if schema else {}, batch, outside)


def _asked(module: Any, question: str, *given: Any) -> Any:
    """The answer of a connector that knows the question, else None."""
    ask = getattr(module, question, None)
    return ask(*given) if ask else None
