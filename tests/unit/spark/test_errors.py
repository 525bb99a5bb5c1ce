"""Spark's failures that reach code of ours on the driver are told as Spark's, not as the user's."""

from __future__ import annotations

from pathlib import Path

from headwater.spark.errors import as_spark_said, condition_of, python_failure, sentence_of

ROOT = Path("/home/ada")
FAILURE = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/pyspark/sql/utils.py", line 162, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
{frame}pyspark.errors.exceptions.captured.ArithmeticException: [CAST_INVALID_INPUT] No number. SQLSTATE: 22018
== SQL (line 1, position 8) ==
SELECT cast(v as int) FROM nums
"""
OWN = '  File "/home/ada/out.py", line 3, in write\n    batch.count()\n'


def test_what_our_own_code_handed_on_is_sparks() -> None:
    failed = Exception(FAILURE.format(frame=""))
    said = as_spark_said(failed, ROOT)
    assert (condition_of(said), sentence_of(said)) == ("CAST_INVALID_INPUT", "No number")
    assert python_failure(said, ROOT) is None
    assert said.__cause__ is failed


def test_what_the_users_code_handed_on_stays_there() -> None:
    failed = Exception(FAILURE.format(frame=OWN))
    assert as_spark_said(failed, ROOT) is failed
    found = python_failure(failed, ROOT)
    assert found is not None
    assert str(found[1]) == "/home/ada/out.py:3:1"


def test_another_failure_stays_as_it_is() -> None:
    failed = Exception("[CAST_INVALID_INPUT] It is no number.")
    assert as_spark_said(failed, ROOT) is failed
