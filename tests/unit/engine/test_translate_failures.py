"""What a failed query says: recorded texts of Spark, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.translate import failure_problem
from headwater.errors import Problem
from tests.unit.specs import spec_of

ROOT = Path("/home/ada")
PIPELINE = """
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      shares: SELECT value / (value - 2) AS share FROM orders
    sinks:
      out: {reads: shares, connector: console}
"""
ZERO = (
    "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL "
    'instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012\n'
)
QUOTED = (
    "== SQL (line 1, position 8) ==\n"
    "SELECT value / (value - 2) AS share FROM orders\n"
    "       ^^^^^^^^^^^^^^^^^^^\n"
)
CALLED = '== DataFrame ==\n"divide" was called from\n/home/ada/shares.py:12\n'
PLAN = "\n=== Streaming Query ===\nIdentifier: out [id = 6fded7e9]\nCurrent State: ACTIVE\n"
TASK = (
    "Job aborted due to stage failure: Task 0 in stage 16.0 failed {times} times, most recent failure: "
    "Lost task 0.{last} in stage 16.0 (TID 14) ({host}): "
)
LOST = "ExecutorLostFailure (executor 2 exited caused by a running task) Reason: Container killed"
STACK = "\tat org.apache.spark.api.python.PythonRunner.read(PythonRunner.scala:678)\n"
PROXY = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/pyspark/sql/utils.py", line 162, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
  File "/home/ada/out.py", line 3, in write
    batch.write.save()
    ^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3/site-packages/py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
"""


class Failed(Exception):
    """A failure as PySpark hands it on, with the stack of its cause in Java."""

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self._stackTrace: str = ""
        self._cause: Failed | None = Failed("") if cause else None
        if self._cause:
            self._cause._stackTrace = cause


def problem_of(error: Exception) -> Problem:
    spec = spec_of(PIPELINE)
    return failure_problem(error, spec.sinks[0], spec.tables, ROOT, Path("/run/failures.log"))


def test_condition_sentence_and_sql_are_told_at_the_line_of_the_sql() -> None:
    problem = problem_of(Failed(ZERO + QUOTED + PLAN))
    assert problem.code == "HW-QUERY-FAILED"
    says = str(problem.params["says"])
    assert says.startswith("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to ")
    assert says.endswith("to bypass this error. The expression is `value / (value - 2)`")
    assert str(problem.place) == "pipeline.yml:4:18"


def test_a_column_of_python_is_told_at_its_line() -> None:
    problem = problem_of(Failed(ZERO + CALLED + PLAN))
    assert str(problem.params["says"]).startswith("[DIVIDE_BY_ZERO] Division by zero.")
    assert str(problem.place) == "/home/ada/shares.py:12:1"
    elsewhere = problem_of(Failed(ZERO + CALLED.replace("/home/ada", "/usr/lib") + PLAN))
    assert str(elsewhere.place) == "pipeline.yml:6:3"


@pytest.mark.parametrize(
    ("text", "cause", "says"),
    [
        (
            TASK.format(times=1, last=0, host="localhost executor driver")
            + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n"
            + STACK,
            "",
            "crashed",
        ),
        (
            TASK.format(times=4, last=3, host="10.0.0.7 executor 2")
            + "org.apache.spark.SparkArithmeticException: "
            + "[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003\n"
            + STACK,
            "",
            "[ARITHMETIC_OVERFLOW] long overflow",
        ),
        (
            TASK.format(times=1, last=0, host="10.0.0.7 executor 2")
            + "java.lang.OutOfMemoryError: Java heap space\n"
            + STACK,
            "",
            "OutOfMemoryError: Java heap space",
        ),
        (
            TASK.format(times=4, last=3, host="10.0.0.7 executor 2") + LOST,
            "",
            LOST,
        ),
        (
            "Job aborted due to stage failure: Total size of results is above spark.driver.maxResultSize",
            "",
            "Total size of results is above spark.driver.maxResultSize",
        ),
        (
            "[TASK_WRITE_FAILED] Task failed while writing rows to file:/out. SQLSTATE: 58030" + PLAN,
            "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.\n"
            + STACK
            + "Caused by: java.lang.RuntimeException: outer\n"
            + STACK
            + "Caused by: org.apache.spark.SparkArithmeticException: "
            + ZERO
            + QUOTED
            + "\n"
            + STACK,
            ZERO.partition(" SQLSTATE")[0].rstrip(".") + ". The expression is `value / (value - 2)`",
        ),
        (
            "File file:/out/_spark_metadata does not exist" + PLAN,
            "java.io.FileNotFoundException: File file:/out/_spark_metadata does not exist\n" + STACK,
            "FileNotFoundException: File file:/out/_spark_metadata does not exist",
        ),
        (
            "Task failed" + PLAN + "Project [A]\n",
            "org.apache.spark.SparkException: Task failed\n",
            "Task failed",
        ),
        (
            "Java heap space" + PLAN,
            "java.lang.OutOfMemoryError: Java heap space\n",
            "OutOfMemoryError: Java heap space",
        ),
        (
            "An error occurred while calling o10819.execute.\n: java.lang.StackOverflowError\n" + STACK,
            "",
            "StackOverflowError",
        ),
        (
            "[CANNOT_PARSE_TIMESTAMP] Text 'x y' could not be parsed at index 0. SQLSTATE: 22007" + PLAN,
            "",
            "[CANNOT_PARSE_TIMESTAMP] Text 'x y' could not be parsed at index 0",
        ),
    ],
)
def test_what_stands_around_the_failure_is_left_out(text: str, cause: str, says: str) -> None:
    problem = problem_of(Failed(text, cause))
    of_process = {"crashed": ("HW-WORKER-DIED", True), "OutOfMemoryE": ("HW-OUT-OF-MEMORY", False)}
    code, retryable = next(
        (found for begin, found in of_process.items() if says.startswith(begin)), ("HW-QUERY-FAILED", False)
    )
    assert (problem.code, problem.entry.retryable) == (code, retryable)
    assert problem.params["says"] == says


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        ("ValueError: no room\n", "ValueError: no room"),
        ("KeyError\n\n" + STACK, "KeyError"),
        ("RuntimeError: no\n  room\nat all.\n\n" + STACK, "RuntimeError: no room at all"),
        ("hw_a360e6a944bb6a61.cards.Declined: expired\n", "cards.Declined: expired"),
        (
            "pyspark.errors.exceptions.captured.ArithmeticException: " + ZERO + QUOTED,
            "ArithmeticException: " + ZERO.partition(" SQLSTATE")[0].rstrip("."),
        ),
        (
            "pyspark.errors.exceptions.captured.AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A "
            "column `nope` cannot be resolved. SQLSTATE: 42703;\n'Project ['nope]\n+- LocalRelation [id#1]\n",
            "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nope` cannot be resolved",
        ),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o9091.save.\n"
            ": java.sql.SQLException: No suitable driver\n" + STACK,
            "SQLException: No suitable driver",
        ),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o9091.save.\n"
            ": org.apache.spark.SparkException: "
            + TASK.format(times=1, last=0, host="localhost executor driver")
            + "org.apache.spark.SparkException: Connection refused\n"
            + STACK,
            "Connection refused",
        ),
    ],
)
def test_what_the_users_code_raised(raised: str, error: str) -> None:
    problem = problem_of(Failed(PROXY + raised + PLAN))
    assert (problem.code, problem.params["error"]) == ("HW-QUERY-CODE-FAILED", error)
    assert str(problem.place) == "/home/ada/out.py:3:1"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("ConnectionRefusedError: [Errno 111] Connection refused", "HW-USER-CONNECTION-FAILED"),
        ("TimeoutError: timed out", "HW-USER-CONNECTION-FAILED"),
        ("requests.exceptions.ConnectionError: no route", "HW-USER-CONNECTION-FAILED"),
        ("httpx.ConnectError: refused", "HW-USER-CONNECTION-FAILED"),
        ("socket.gaierror: [Errno -2] Name or service not known", "HW-USER-CONNECTION-FAILED"),
        ("requests.exceptions.ConnectTimeout: late", "HW-USER-CONNECTION-FAILED"),
        ("sqlalchemy.exc.OperationalError: (psycopg.OperationalError) gone", "HW-USER-CONNECTION-FAILED"),
        ("psycopg.OperationalError: server closed the connection", "HW-USER-CONNECTION-FAILED"),
        ("pymysql.err.OperationalError: (2006, 'gone away')", "HW-USER-CONNECTION-FAILED"),
        # It also means that a table is missing.
        ("sqlite3.OperationalError: no such table: t", "HW-QUERY-CODE-FAILED"),
        ("ValueError: ConnectionError is only quoted", "HW-QUERY-CODE-FAILED"),
        ("MemoryError", "HW-OUT-OF-MEMORY"),
    ],
)
def test_errors_of_connections_in_user_code_are_retryable(raised: str, code: str) -> None:
    problem = problem_of(Failed(PROXY + raised + "\n" + PLAN))
    assert (problem.code, problem.entry.retryable) == (code, code == "HW-USER-CONNECTION-FAILED")
    assert str(problem.place) == "/home/ada/out.py:3:1"


def test_a_task_of_foreach_batch_that_loses_its_process_can_be_retried() -> None:
    task = TASK.format(times=1, last=0, host="localhost executor driver")
    problem = problem_of(
        Failed(
            "Exception thrown in awaitResult: An exception was raised by the Python Proxy. Return Message: "
            "Traceback (most recent call last):\n"
            '  File "/home/ada/shares.py", line 12, in write\n    batch.mapInArrow(load, "n int").collect()\n'
            "py4j.protocol.Py4JJavaError: An error occurred while calling o12.collectToPython.\n"
            f": org.apache.spark.SparkException: {task}"
            f"org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n{STACK}"
        )
    )
    assert (problem.code, problem.params["says"], problem.entry.retryable) == (
        "HW-WORKER-DIED",
        "crashed",
        True,
    )
