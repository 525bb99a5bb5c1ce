"""What a script has told a `DataStreamWriter`, read off its Java half: whoever set it, it is there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from headwater.engine.build import SPARK_ERRORS
from headwater.values import Duration

_TRIGGER = re.compile(r"(\w+)Trigger(?:\((\d+)\))?")
_WORDS = {"ProcessingTime": "every", "Continuous": "continuous", "RealTime": "real time"}


@dataclass(frozen=True)
class Written:
    """Where and how a stream would be written, in plain values."""

    format: str
    mode: str = "append"
    trigger: str = "unpaced"
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """The query's own name; empty where it has none."""
    table: str = ""
    """The table of `toTable`."""
    partitioned_by: tuple[str, ...] = ()


def written_by(writer: Any, path: str | None = None, table: str = "") -> Written:
    """What a PySpark writer would start."""
    options = _options(_field(writer, "extraOptions"))
    if path is not None:
        options = {**options, "path": path}
    partitioned = _field(writer, "partitioningColumns")
    format = str(_field(writer, "source"))
    return Written(
        format=table_format(writer._spark, table, format) if table else format,
        mode=str(_field(writer, "outputMode").toString()).lower(),
        trigger=trigger_text(str(_field(writer, "trigger").toString())),
        options=options,
        name=options.get("queryname", ""),
        table=table,
        partitioned_by=_names(partitioned.get()) if partitioned.isDefined() else (),
    )


def table_format(spark: SparkSession, table: str, new: str) -> str:
    """The format of a table that is there; one that is not is made in the format of the writer.

    Of a table in another catalog than Spark's own only that catalog knows.
    """
    state = spark._jsparkSession.sessionState()
    try:
        found = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(table)).provider()
        return str(found.get()) if found.isDefined() else new
    except SPARK_ERRORS:
        own = table.count(".") < 2 or table.startswith("spark_catalog.")
        return new if own else "table"


def trigger_text(java: str) -> str:
    """A trigger of Spark's as a pipeline file writes it; Spark's own text for one that is not known."""
    found = _TRIGGER.fullmatch(java)
    if found is None:
        return java
    kind, milliseconds = found[1], int(found[2] or 0)
    if kind == "ProcessingTime" and milliseconds == 0:
        return "unpaced"
    if kind in _WORDS:
        return f"{_WORDS[kind]} {_duration(milliseconds)}"
    return {"OneTime": "once", "AvailableNow": "available now"}.get(kind, java)


def _duration(milliseconds: int) -> str:
    return str(Duration.parse(f"{milliseconds} milliseconds"))


def _field(writer: Any, name: str) -> Any:
    # The fields are private; neither Scala nor PySpark has another way to ask a writer what it was told.
    java = writer._jwrite
    found = java.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found.get(java)


def _options(java: Any) -> dict[str, str]:
    """Spark's map of options, whose keys pass over case."""
    pairs = java.toSeq()
    found = (pairs.apply(index) for index in range(pairs.size()))
    return {str(pair._1()): str(pair._2()) for pair in found}


def _names(sequence: Any) -> tuple[str, ...]:
    return tuple(str(sequence.apply(index)) for index in range(sequence.size()))
