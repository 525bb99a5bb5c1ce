"""Manages the topics of a broker, and sends the lines of a file as messages at a given rate."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from headwater.errors import SetupError, UsageError
from headwater.errors.catalogue.environment import (
    BROKER_REQUEST_FAILED,
    KAFKA_CLIENT_MISSING,
    PRODUCE_FILE_UNREADABLE,
)
from headwater.events import Event

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


# Creates, extends and deletes topics; each function returns when the broker shows the change.

SECONDS = 30.0
_LOOK_SECONDS = 0.02


def kafka_client() -> Any:
    """The package confluent_kafka; raises SetupError if it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise SetupError(KAFKA_CLIENT_MISSING.at()) from error
    return confluent_kafka


def admin(servers: str) -> AdminClient:
    """A client for the topics of a broker."""
    # The library logs its errors to standard error; Headwater reports them itself.
    client: AdminClient = kafka_client().admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return client


def partitions(servers: str, seconds: float = SECONDS) -> dict[str, int]:
    """The topics of the broker with their numbers of partitions, without internal topics."""
    try:
        listed = admin(servers).list_topics(timeout=seconds)
    except kafka_client().KafkaException as error:
        raise refused(servers, "list its topics", error) from error
    return {name: len(topic.partitions) for name, topic in listed.topics.items() if not name.startswith("__")}


def create_topic(servers: str, name: str, count: int = 1, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic with this number of partitions."""
    new = kafka_client().admin.NewTopic(name, count, 1, config=dict(settings or {}))
    _ask(servers, f"create the topic {name}", lambda client: client.create_topics([new]))
    _until(servers, f"create the topic {name}", lambda shown: shown.get(name) == count)


def delete_topic(servers: str, name: str) -> None:
    """Delete a topic with all of its messages."""
    _ask(servers, f"delete the topic {name}", lambda client: client.delete_topics([name]))
    _until(servers, f"delete the topic {name}", lambda shown: name not in shown)


def add_partitions(servers: str, name: str, count: int) -> None:
    """Increase the number of partitions of a topic."""
    new = kafka_client().admin.NewPartitions(name, count)
    _ask(servers, f"add partitions to {name}", lambda client: client.create_partitions([new]))
    _until(servers, f"add partitions to {name}", lambda shown: shown.get(name) == count)


def refused(servers: str, what: str, error: Any) -> SetupError:
    """The error for an exception of the client."""
    said = error.args[0]
    text = said.str() if hasattr(said, "str") else str(said)
    return SetupError(BROKER_REQUEST_FAILED.at(servers=servers, what=what, reason=text.rstrip(".")))


def _ask(servers: str, what: str, question: Callable[[AdminClient], Mapping[str, Any]]) -> None:
    # Keep a reference until all responses arrive: a client that is garbage-collected cancels its requests.
    client = admin(servers)
    for answer in question(client).values():
        try:
            answer.result(timeout=SECONDS)
        except kafka_client().KafkaException as error:
            raise refused(servers, what, error) from error


def _until(servers: str, what: str, shown: Callable[[dict[str, int]], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not shown(partitions(servers)):
        if time.monotonic() > deadline:
            raise refused(servers, what, TimeoutError(f"the change did not appear within {SECONDS:g} s"))
        time.sleep(_LOOK_SECONDS)


STDIN = "-"
_DELIVERY_SECONDS = 30
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Feed:
    """What to send where: each line of the file is a message, sent unchanged even if malformed."""

    file: str
    topic: str
    per_second: float | None = None
    """None: as fast as the broker accepts them."""
    key: str | None = None
    """The field of a JSON object that becomes the key; a line without it is sent without a key."""
    repeat: bool = False


def produce(feed: Feed, servers: str, look: Callable[[], None], done: Callable[[int], None]) -> None:
    """Send all lines and wait until the broker has acknowledged them; `look` is called periodically.

    `done` receives the number of acknowledged messages, even if sending is aborted.
    """
    sender, began = _Sender(servers, feed.topic), time.monotonic()
    try:
        for number, line in enumerate(_lines(feed)):
            if feed.per_second:
                sender.wait_until(began + number / feed.per_second, look)
            sender.send(line, key_of(line, feed.key))
            if number % 1000 == 0:
                look()
    finally:
        sender.producer.flush()
        done(sender.taken)
    sender.refuse_failure()


def key_of(line: bytes, field: str | None) -> bytes | None:
    """The field of a JSON line as the key of the message; None if it has none."""
    if field is not None:
        # A line can be malformed on purpose: invalid JSON, a truncated character, unclosed brackets.
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            value = row.get(field) if isinstance(row, dict) else None
            if value is not None:
                return (value if isinstance(value, str) else json.dumps(value)).encode()
    return None


def _lines(feed: Feed) -> Iterator[bytes]:
    """The non-empty lines without line endings; repeated forever with `repeat`."""
    while True:
        empty = True
        with _opened(feed.file) as file:
            for line in file:
                if line.strip():
                    empty = False
                    yield line.rstrip(b"\r\n")
        if not feed.repeat or empty:
            return


def _opened(file: str) -> BinaryIO:
    try:
        return sys.stdin.buffer if file == STDIN else open(file, "rb")
    except OSError as error:
        raise UsageError(
            PRODUCE_FILE_UNREADABLE.at(None, file=file, reason=error.strerror or str(error))
        ) from error


class _Sender:
    """A producer that preserves order and stores the first failure."""

    def __init__(self, servers: str, topic: str) -> None:
        self._kafka = kafka_client()
        self._servers, self._topic = servers, topic
        self._failure: Any = None
        self.taken = 0
        self.producer = self._kafka.Producer(
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
                self.producer.produce(self._topic, value=value, key=key, on_delivery=self._delivered)
                break
            except BufferError:
                self.producer.poll(_POLL_SECONDS)
            except self._kafka.KafkaException as error:
                raise self._refused(error) from error
        self.producer.poll(0)
        self.refuse_failure()

    def wait_until(self, moment: float, look: Callable[[], None]) -> None:
        while (left := moment - time.monotonic()) > 0:
            look()
            self.producer.poll(min(left, _POLL_SECONDS))

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.taken += 1
        elif self._failure is None:
            self._failure = self._kafka.KafkaException(error)

    def refuse_failure(self) -> None:
        if self._failure is not None:
            raise self._refused(self._failure) from self._failure

    def _refused(self, error: Any) -> Exception:
        return refused(self._servers, f"accept a message for {self._topic}", error)


# The events of `headwater dev`.


@dataclass(frozen=True, kw_only=True)
class BrokerStarted(Event):
    """A broker is ready."""

    kind: ClassVar[str] = "broker_started"
    bootstrap_servers: str
    data_dir: str
    log: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class TopicReady(Event):
    """A topic exists; `made` means that it was created now."""

    kind: ClassVar[str] = "topic_ready"
    topic: str
    partitions: int
    made: bool


@dataclass(frozen=True, kw_only=True)
class Produced(Event):
    """The broker has acknowledged all of these messages."""

    kind: ClassVar[str] = "produced"
    topic: str
    messages: int


@dataclass(frozen=True, kw_only=True)
class BrokerStopped(Event):
    """The broker has shut down gracefully; its data is kept."""

    kind: ClassVar[str] = "broker_stopped"
    data_dir: str
