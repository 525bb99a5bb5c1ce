"""The rows that a query keeps between batches, read from its checkpoint by Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headwater.engine.build import SPARK_ERRORS
from headwater.engine.connector_code import active
from headwater.engine.spark_errors import sentence_of
from headwater.errors import PipelineError
from headwater.errors.catalogue.testing import TEST_STATE, TEST_STATE_PART
from headwater.values import scrub

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
