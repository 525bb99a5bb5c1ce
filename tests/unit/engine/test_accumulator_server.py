"""PySpark's accumulator server when the JVM at the other end goes away."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from pyspark.accumulators import AccumulatorTCPServer, _start_update_server

from headwater.spark.jvm import expect_closed_connections

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
