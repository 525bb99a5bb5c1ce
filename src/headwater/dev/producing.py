"""Sending the lines of a file as messages, at a rate of choice."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from headwater.dev.topics import kafka_client, refused
from headwater.errors import UsageProblem
from headwater.errors.catalogue.dev import PRODUCE_FILE

STDIN = "-"
_DELIVERY_SECONDS = 30
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Feed:
    """What to send where: each line of the file is a message, sent as it stands, broken or not."""

    file: str
    topic: str
    per_second: float | None = None
    """None: as fast as the broker takes them."""
    key: str | None = None
    """The field of a JSON object that becomes the key; a line without it is sent without a key."""
    repeat: bool = False


def produce(feed: Feed, servers: str, look: Callable[[], None], done: Callable[[int], None]) -> None:
    """Send all lines and wait until the broker has them; `look` is called now and then.

    `done` hears how many the broker took, also when the sending is broken off.
    """
    sender = _Sender(servers, feed.topic)
    began = time.monotonic()
    try:
        for number, line in enumerate(_lines(feed)):
            if feed.per_second:
                sender.wait_until(began + number / feed.per_second, look)
            sender.send(line, key_of(line, feed.key))
            if number % 1000 == 0:
                look()
    finally:
        sender.flush()
        done(sender.taken)
    sender.refuse_failure()


def key_of(line: bytes, field: str | None) -> bytes | None:
    """The field of a line of JSON as a message's key; None where it has none."""
    if field is not None:
        # A line may be broken on purpose: no JSON, half a letter, brackets without an end.
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            value = row.get(field) if isinstance(row, dict) else None
            if value is not None:
                return (value if isinstance(value, str) else json.dumps(value)).encode()
    return None


def _lines(feed: Feed) -> Iterator[bytes]:
    """The lines that hold something, without their ends; again and again where that is wished."""
    while True:
        with _opened(feed.file) as file:
            empty = True
            for line in file:
                if line.strip():
                    empty = False
                    yield line.rstrip(b"\r\n")
        if not feed.repeat or empty:
            return


def _opened(file: str) -> BinaryIO:
    if file == STDIN:
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise UsageProblem(PRODUCE_FILE.at(None, file=file, reason=error.strerror or str(error))) from error


class _Sender:
    """A producer that keeps order and remembers the first failure."""

    def __init__(self, servers: str, topic: str) -> None:
        self._kafka = kafka_client()
        self._servers, self._topic = servers, topic
        self._failure: Any = None
        self.taken = 0
        self._producer = self._kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": _DELIVERY_SECONDS * 1000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def send(self, value: bytes, key: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value=value, key=key, on_delivery=self._delivered)
                break
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
            except self._kafka.KafkaException as error:
                raise self._refused(error) from error
        self._producer.poll(0)
        self.refuse_failure()

    def wait_until(self, moment: float, look: Callable[[], None]) -> None:
        while (left := moment - time.monotonic()) > 0:
            look()
            self._producer.poll(min(left, _POLL_SECONDS))

    def flush(self) -> None:
        self._producer.flush()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.taken += 1
        elif self._failure is None:
            self._failure = self._kafka.KafkaException(error)

    def refuse_failure(self) -> None:
        if self._failure is not None:
            raise self._refused(self._failure) from self._failure

    def _refused(self, error: Any) -> Exception:
        return refused(self._servers, f"take a message for {self._topic}", error)
