"""A failed query says what Spark says of the cause, and nothing of the machinery around it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.errors import Problem
from tests.pipelines import feed, run_until_idle, write

PIPELINE = """
name: orders
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int, text: string}}
tables:
  share: SELECT id / (id - 2) AS x FROM orders
  number: SELECT CAST(text AS int) AS x FROM orders
  day: SELECT to_date(text, 'yyyy-MM-dd') AS x FROM orders
  crash: {python: "code.py:crash"}
  column: {python: "code.py:column"}
sinks:
"""
SINKS = {
    "share": "{reads: share, connector: noop}",
    "number": "{reads: number, connector: files, path: number, format: json}",
    "day": "{reads: day, connector: noop}",
    "crash": "{reads: crash, connector: noop}",
    "column": "{reads: column, connector: noop}",
    "declined": '{reads: orders, connector: foreach_batch, function: "code.py:declined"}',
    "driver": '{reads: orders, connector: foreach_batch, function: "code.py:driver"}',
}
CODE = """\
import os

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType


class Declined(Exception):
    pass


def crash(orders):
    return orders.select(F.udf(lambda number: os._exit(3), IntegerType())("id"))


def column(orders):
    return orders.select((F.col("id") / (F.col("id") - 2)).alias("x"))


def declined(batch, batch_id):
    raise Declined("the card\\nhas expired")


def driver(batch, batch_id):
    batch.write.format("jdbc").option("url", "jdbc:nothing://x").option("dbtable", "t").save()
"""
NOISE = re.compile(r"Job aborted|Lost task|py4j|\bo\d+\.|org\.apache|hw_[0-9a-f]|Traceback|SQLSTATE|\tat ")


ZERO = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`"
TOLD = {
    "share": (ZERO, "The expression is `id / (id - 2)`", "pipeline.yml:6:17"),
    "number": (
        '[CAST_INVALID_INPUT] The value \'x y\' of the type "STRING" cannot be cast to "INT"',
        "The expression is `CAST(text AS int)`",
        "pipeline.yml:7:18",
    ),
    "day": ("[CANNOT_PARSE_TIMESTAMP] Text 'x y' could not be parsed", "", "pipeline.yml:12:3"),
    "crash": ("crashed", "crashed", "pipeline.yml:12:3"),
    "column": (ZERO, "to bypass this error", "code.py:16:1"),
    "declined": ("code.Declined: the card has expired", "expired", "code.py:20:1"),
    "driver": ("SQLException: No suitable driver", "driver", "code.py:24:1"),
}
"""How what is told begins and ends, and where."""


@pytest.mark.parametrize(
    "sink",
    [
        *("number", "driver"),
        *(pytest.param(name, marks=pytest.mark.soak) for name in SINKS if name not in ("number", "driver")),
    ],
)
@pytest.mark.feature("F3", part="what a failure says")
def test_the_useful_half_of_what_spark_says(context: SparkContext, tmp_path: Path, sink: str) -> None:
    file = write(tmp_path, PIPELINE + f"  {sink}: {SINKS[sink]}\n")
    write(tmp_path, CODE, "code.py")
    feed(tmp_path / "in", "1", [{"id": 2, "text": "x y"}])
    result = run_until_idle(file, restarts=False)
    problem: Any = result.queries[sink].problem
    assert isinstance(problem, Problem)
    assert result.exit_code == 1
    assert not NOISE.search(problem.message), problem.message
    says = str(problem.params.get("says") or problem.params["error"])
    begin, end, place = TOLD[sink]
    assert says.startswith(begin)
    assert says.endswith(end)
    assert str(problem.place) == str(tmp_path / place)
