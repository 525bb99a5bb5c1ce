"""Whether a broker answers: asked in Kafka's own protocol, so that no client library is needed."""

from __future__ import annotations

import socket
import struct

_METADATA, _VERSION = 3, 1
_CLIENT = b"headwater"
_SECONDS = 2.0


def knows_itself(host: str, port: int) -> bool:
    """Whether the broker there lists a broker on this port: then it serves clients."""
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connection:
            connection.sendall(_request())
            return port in _ports(_answer(connection))
    except (OSError, struct.error):
        return False


def _request() -> bytes:
    header = struct.pack(f">hhih{len(_CLIENT)}s", _METADATA, _VERSION, 1, len(_CLIENT), _CLIENT)
    no_topics = struct.pack(">i", 0)
    return struct.pack(">i", len(header + no_topics)) + header + no_topics


def _answer(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data


def _ports(answer: bytes) -> list[int]:
    """The ports of the brokers that a metadata answer lists."""
    count, at = struct.unpack_from(">i", answer, 4)[0], 8
    ports = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at + 4)
        at += 6 + length
        port, rack = struct.unpack_from(">ih", answer, at)
        ports.append(port)
        at += 6 + max(rack, 0)
    return ports
