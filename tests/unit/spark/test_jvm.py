"""A JVM that goes away: the accumulator server notices, and its context is stopped all the same."""

from __future__ import annotations

import socket
import struct
import warnings
from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer, _start_update_server

from headwater.spark.jvm import Jvm, expect_closed_connections
from headwater.spark.private import stopped_in_jvm

TOKEN = "token"
SECONDS = 20.0


@pytest.fixture
def server() -> Iterator[AccumulatorTCPServer]:
    started = _start_update_server(TOKEN, False)
    assert isinstance(started, AccumulatorTCPServer)
    expect_closed_connections(started)
    yield started
    started.shutdown()


def connect(server: AccumulatorTCPServer, token: str = TOKEN) -> socket.socket:
    """A connection as the JVM makes it: the token, and no updates."""
    host, port = server.socket.getsockname()
    connection = socket.create_connection((host, port), SECONDS)
    connection.sendall(token.encode() + struct.pack("!i", 0))
    return connection


def close(connection: socket.socket) -> None:
    """Close a connection that the server has answered."""
    assert connection.recv(1) == b"\x01"
    connection.close()


def test_a_jvm_that_is_gone_prints_nothing(
    server: AccumulatorTCPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    close(connect(server))
    # The server has one thread: when it answers again, it is done with the connection before.
    close(connect(server))
    assert capsys.readouterr().err == ""


def test_what_is_wrong_is_still_reported(
    server: AccumulatorTCPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(server, "other").close()
    close(connect(server))
    assert (
        "The value of the provided token to the AccumulatorServer is not correct" in capsys.readouterr().err
    )


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


def test_a_context_that_another_thread_has_stopped_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pipelines share a context, and the first that notices its end lets go of its Java half."""
    context = object.__new__(SparkContext)
    monkeypatch.setattr(context, "_jsc", None, raising=False)
    assert stopped_in_jvm(context)
