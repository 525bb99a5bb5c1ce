"""Functions for SQL: the user's own Python, and classes from a jar."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from tests.java_classes import LENGTH, make_jar
from tests.pipelines import capture, captured, feed, run_until_idle, write

PIPELINE = """
name: functions
jars: [texts.jar]
functions:
  length_of: {java_class: example.Length}
  shout: {python: "texts.py:shout"}
  twice: {python: "texts.py:twice", returns: string}
  doubled: {python: "texts.py:doubled"}
sources:
  words: {connector: files, path: in, format: json, schema: {word: string}}
tables:
  said: SELECT length_of(word), shout(word), twice(word), doubled(word) FROM words
sinks:
  said: {reads: said, connector: foreach_batch, function: "capture.py:said"}
"""
TEXTS = """
import pandas as pd
from pyspark.sql.functions import pandas_udf, udf


@udf("string")
def shout(word):
    return word.upper()


def twice(word):
    return word + word


@pandas_udf("bigint")
def doubled(word: pd.Series) -> pd.Series:
    return word.str.len() * 2
"""


def test_sql_calls_functions_of_python_and_of_a_jar(spark: SparkSession, tmp_path: Path) -> None:
    make_jar(tmp_path / "texts.jar", {"Length.java": LENGTH})
    write(tmp_path, TEXTS, "texts.py")
    feed(tmp_path / "in", "1", [{"word": "owl"}, {"word": "goose"}])
    capture(tmp_path, "said")

    run_until_idle(write(tmp_path, PIPELINE))

    assert captured(tmp_path, "said") == [
        Counter({(3, "OWL", "owlowl", 6): 1, (5, "GOOSE", "goosegoose", 10): 1})
    ]


WRONG = """
name: wrong
functions:
  missing: {java_class: example.Nothing}
  no_function: {java_class: java.lang.String}
  untyped: {python: "texts.py:twice"}
  typed_twice: {python: "texts.py:shout", returns: string}
  count: {python: "texts.py:shout"}
sources:
  words: {connector: rate}
sinks:
  show: {reads: words, connector: console}
"""


@pytest.mark.usefixtures("spark")
def test_functions_that_are_none_are_refused_together(tmp_path: Path) -> None:
    write(tmp_path, TEXTS, "texts.py")

    findings = check(write(tmp_path, WRONG)).findings

    told = [
        (f.problem.code, f.problem.params["name"], f.problem.place and f.problem.place.line) for f in findings
    ]
    assert told == [
        ("HW-CLASS-NOT-FOUND", "missing", 4),
        ("HW-CLASS-NOT-A-FUNCTION", "no_function", 5),
        ("HW-FUNCTION-RETURN-TYPE", "untyped", 6),
        ("HW-FUNCTION-RETURN-TYPE", "typed_twice", 7),
        ("HW-FUNCTION-NAME-CONFLICT", "count", 8),
    ]
