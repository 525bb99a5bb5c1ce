"""Pipelines whose functions import modules beside them: in a script, and beside each other."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines import feed, rows_of, run_until_idle, write
from tests.processes import program

RULES = "LIMIT = {limit}\n\n\ndef over(number):\n    return number > LIMIT\n"

ALERTS = """
import os

from pyspark.sql.functions import udf

import lib.rules


@udf("boolean")
def over(number):
    return lib.rules.over(number)


@udf("string")
def place(number):
    from lib.rules import LIMIT

    return f"{LIMIT} {os.getcwd()}"


def alerts(numbers):
    return numbers.where(over("id")).select("id", place("id").alias("place"))
"""

YAML = """
name: alerts
sources:
  numbers: {connector: files, path: in, format: json, schema: {id: int}}
tables:
  alerts: {python: "alerts.py:alerts"}
sinks:
  alerts: {reads: alerts, connector: files, path: out, format: json}
"""

PYTHON = """
import os

import headwater as hw
from pyspark.sql.functions import udf
from pyspark.sql.types import BooleanType, StringType

from lib import rules

p = hw.Pipeline("alerts", run_dir="of_python")
p.source("numbers", hw.files(path="in", format="json", schema="id int"))
p.sink("alerts", hw.files(path="out", format="json"), reads="alerts")


@udf(BooleanType())
def over(number):
    return rules.over(number)


@udf(StringType())
def place(number):
    from lib.rules import LIMIT

    return f"{LIMIT} {os.getcwd()}"


@p.table
def alerts(numbers):
    return numbers.where(over("id")).select("id", place("id").alias("place"))


if __name__ == "__main__":
    run = p.start(master="local[2]", until_idle=True)
    run.raise_for_failure()
"""

SCHEMA = "id int, place string"


def project(folder: Path, limit: int, form: str) -> Path:
    """A pipeline file, with the code that it needs beside it and the numbers 0 to 5 in two files."""
    write(folder / "lib", RULES.format(limit=limit), "rules.py")
    feed(folder / "in", "1", [{"id": number} for number in range(3)])
    feed(folder / "in", "2", [{"id": number} for number in range(3, 6)])
    if form == "python":
        return write(folder, PYTHON, "pipeline.py")
    write(folder, ALERTS, "alerts.py")
    return write(folder, YAML)


@pytest.mark.feature("C1.3", part="a script of one's own")
def test_a_script_that_starts_its_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    script = project(tmp_path, 3, "python")
    # From another folder, so that no worker finds the modules by where it happens to be.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with program(elsewhere, sys.executable, script) as run:
        assert run.wait() == 0, run.told
    rows = rows_of(spark, tmp_path / "out", schema=SCHEMA)
    assert Counter((number, place.split()[0]) for number, place in rows.elements()) == Counter(
        [(4, "3"), (5, "3")]
    )


@pytest.mark.feature("C1.3", part="two projects with a module of one name in one process")
def test_projects_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    for name, limit, form in (("one", 2, "yaml"), ("two", 4, "python"), ("three", 3, "yaml")):
        assert run_until_idle(project(tmp_path / name, limit, form)).exit_code == 0
        rows = rows_of(spark, tmp_path / name / "out", schema=SCHEMA)
        expected = Counter((number, str(limit)) for number in range(6) if number > limit)
        assert Counter((number, place.split()[0]) for number, place in rows.elements()) == expected
