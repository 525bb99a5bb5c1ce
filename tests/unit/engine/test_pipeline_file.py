"""Pipelines from Python files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.pipeline_file import load
from headwater.errors import HeadwaterError, Problem

DECLARED = """
import headwater as hw

p = hw.Pipeline("first")
p.source("clicks", hw.rate())
p.sink("out", hw.noop(), reads="clicks")
"""
NEEDS_SPARK = """
from pyspark.sql.functions import udf


@udf("double")
def half(value):
    return value / 2
"""


def problem(file: str | Path) -> Problem:
    with pytest.raises(HeadwaterError) as error:
        load(file)
    (only,) = error.value.problems
    return only


def write(folder: Path, text: str) -> Path:
    file = folder / "pipeline.py"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_one_pipeline_of_a_file(tmp_path: Path) -> None:
    file = write(tmp_path, DECLARED + "\nsame = p\n")
    assert (load(file).name, load(file).root) == ("first", tmp_path)


def test_one_of_several(tmp_path: Path) -> None:
    file = write(
        tmp_path, DECLARED + DECLARED.replace("p.", "q.").replace("p =", "q =").replace("first", "other")
    )
    assert (problem(file).code, problem(file).params["names"]) == ("HW-PIPELINE-AMBIGUOUS", "p, q")
    assert (load(f"{file}:p").name, load(f"{file}:q").name) == ("first", "other")
    assert problem(f"{file}:r").code == "HW-PIPELINE-AMBIGUOUS"


def test_no_pipeline(tmp_path: Path) -> None:
    assert problem(write(tmp_path, "p = 3\n")).code == "HW-PIPELINE-NOT-FOUND"


def test_no_file(tmp_path: Path) -> None:
    assert problem(tmp_path / "none.py").code == "HW-CODE-FILE-NOT-FOUND"


def test_a_file_that_fails_is_told_at_its_line(tmp_path: Path) -> None:
    found = problem(write(tmp_path, DECLARED + "\n1 / 0\n"))
    assert (found.code, found.place.line if found.place else 0) == ("HW-CODE-FAILED", 8)


def test_a_file_that_needs_a_running_spark_is_told_the_way_out(tmp_path: Path) -> None:
    found = problem(write(tmp_path, NEEDS_SPARK + DECLARED))
    assert (found.code, found.place.line if found.place else 0) == ("HW-CODE-NEEDS-SPARK", 5)


def test_a_wrong_declaration_is_told_at_its_line(tmp_path: Path) -> None:
    found = problem(write(tmp_path, DECLARED.replace("noop()", "connector('nop')")))
    assert (found.code, found.place.line if found.place else 0) == ("HW-CONNECTOR-NOT-FOUND", 6)
