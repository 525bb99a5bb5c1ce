"""A context is stopped whatever its JVM answers: the JVM may die between the look at it and the question."""

from __future__ import annotations

import warnings

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from headwater.spark.jvm import Jvm


class DeadJvm:
    """The Java half of a context whose JVM died a moment ago, and is not reaped yet: nobody answers."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    def stop(self) -> None:
        self.asked += 1
        raise self.error


class Server:
    """What the context holds in this process."""

    shut_down = 0

    def shutdown(self) -> None:
        self.shut_down += 1


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset by peer"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("SparkContext does not exist in the JVM"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_jvm_that_dies_while_it_is_asked(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Threads that end with an error fail a test, so nothing may be raised in the one that stops."""
    context, dead, server = object.__new__(SparkContext), DeadJvm(error), Server()
    monkeypatch.setattr(context, "_jsc", dead, raising=False)
    monkeypatch.setattr(context, "_accumulatorServer", server, raising=False)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    with warnings.catch_warnings(record=True) as told:
        Jvm(context, owned=True).stop(timeout=10)
    assert (dead.asked, server.shut_down, told) == (1, 1, [])
    assert SparkContext._active_spark_context is None
    assert context._jsc is None
