from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.dev.broker import knows_itself


def metadata(*ports: int) -> bytes:
    """What a broker says that knows of brokers on these ports."""
    brokers = b"".join(
        struct.pack(">ih4sih", number, 4, b"host", port, -1) for number, port in enumerate(ports)
    )
    return struct.pack(">ii", 1, len(ports)) + brokers


@contextmanager
def server(answer: bytes | None) -> Iterator[int]:
    """A server that answers one request, or hangs up; its port stands for 0 in the answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                (size,) = struct.unpack(">i", connection.recv(4))
                connection.recv(size)
                if answer is not None:
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(port)
        thread.join()


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert not knows_itself("127.0.0.1", port)


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request", metadata(), metadata(1, 2)])
def test_another_answer_is_not_one(answer: bytes | None) -> None:
    with server(answer) as port:
        assert not knows_itself("127.0.0.1", port)


def test_a_broker_that_lists_itself_serves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                answer = metadata(1, port)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert knows_itself("127.0.0.1", port)
        thread.join()
