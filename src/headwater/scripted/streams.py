"""A stream whose rows are put in by hand, on Spark's own MemoryStream."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.engine.builder import SPARK_ERRORS
from headwater.errors import PipelineError
from headwater.errors.catalogue.testing import TEST_STATE, TEST_STATE_PART
from headwater.scripted.values import plain
from headwater.spark.errors import sentence_of
from headwater.spark.frames import arrow_schema
from headwater.spark.memory import MemoryStream
from headwater.spark.session import active
from headwater.values import scrub

Rows = Sequence[Mapping[str, Any]]


class ScriptedStream:
    """One streaming source of one query: what is added at once reaches the query in one batch.

    The offset that Spark stores is the number of additions, so a stream that is made anew for a restart and
    gets the same additions again goes on where the old one was.
    """

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._spark = spark
        self.schema = schema
        self._stream = MemoryStream(spark, schema)
        self.frame = self._stream.frame

    def add(self, rows: Rows) -> None:
        """Rows for the next batch; none at all leave no trace."""
        if rows:
            self._stream.add(frame_of(self._spark, rows, self.schema))


def frame_of(spark: SparkSession, rows: Rows, schema: StructType) -> DataFrame:
    """A finished DataFrame of rows in the form of `scripted.values`, which stand in its plan."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(schema))
    # Spark makes the session of a new DataFrame the active one; the user's own has to stay that.
    with active(spark):
        return spark.createDataFrame(table, schema)


def rows_of(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """The rows of a finished DataFrame, in the form of `scripted.values`."""
    fields = frame.schema.fields
    return tuple(
        {field.name: plain(row[field.name], field.dataType) for field in fields}
        for row in frame.toArrow().to_pylist()
    )


# The rows that a query keeps between batches, read from its checkpoint by Spark.

_SIDES = ("left", "right")
_JOIN = "symmetricHashJoin"
_OPTIONS = re.compile(r"\s+(?:for|with) StateSourceOptions|StateSourceOptions")


def state_rows(
    spark: SparkSession, sink: str, checkpoint: Path, part: str | None, operators: Sequence[str]
) -> DataFrame:
    """The state after the last committed batch; `operators` are those of the query, in Spark's order.

    A part is an operator by its number, a side of a join, a variable of transformWithState, or a number and
    one of these: `1 left`.
    """
    words = str(part).split() if part is not None else []
    _refuse_ambiguous(sink, words, operators)
    # Spark loads what it needs for reading state when somebody first asks for its queries.
    _ = spark.streams.active
    reader = spark.read.format("statestore")
    for word in words:
        key = "joinSide" if word in _SIDES else "operatorId" if word.isdigit() else "stateVarName"
        reader = reader.option(key, word)
    try:
        with active(spark):
            return reader.load(str(checkpoint)).drop("partition_id").localCheckpoint()
    except SPARK_ERRORS as error:
        # What follows are options of Spark's reader, which no test sets.
        says = _OPTIONS.split(scrub(sentence_of(error)))[0].rstrip(". ")
        raise PipelineError(TEST_STATE.at(None, name=sink, says=says)) from error


def _refuse_ambiguous(sink: str, words: Sequence[str], operators: Sequence[str]) -> None:
    """Where a query keeps several kinds of state, a part has to be named, and one that is there."""
    numbers = [int(word) for word in words if word.isdigit()]
    number = numbers[0] if numbers else 0
    sided = any(word in _SIDES for word in words)
    known = number < len(operators) and sided == (operators[number] == _JOIN)
    if (numbers or len(operators) == 1) and known:
        return
    parts = [
        f"{number} {side}".strip()
        for number, name in enumerate(operators)
        for side in (_SIDES if name == _JOIN else ("",))
    ]
    listed = ", ".join(f"{number} ({name})" for number, name in enumerate(operators)) or "none"
    first = f'"{parts[0]}"' if parts else '"0"'
    raise PipelineError(TEST_STATE_PART.at(None, name=sink, parts=listed, first=first))
