"""Topics of a broker, and the lines of a file as messages for them, at a rate of choice."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from headwater.errors import EnvironmentProblem, UsageProblem
from headwater.errors.catalogue.environment import (
    BROKER_REQUEST_FAILED,
    KAFKA_CLIENT_MISSING,
    PRODUCE_FILE_UNREADABLE,
)
from headwater.events import Event

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


# Topics of a broker: made, grown, deleted; each function returns when the broker shows the change.

SECONDS = 30.0
_LOOK_SECONDS = 0.02


def kafka_client() -> Any:
    """The package confluent_kafka; EnvironmentProblem where it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise EnvironmentProblem(KAFKA_CLIENT_MISSING.at()) from error
    return confluent_kafka


def admin(servers: str) -> AdminClient:
    """A client for a broker's topics."""
    # The library writes its own complaints to standard error; ours say the same.
    client: AdminClient = kafka_client().admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return client


def partitions(servers: str, seconds: float = SECONDS) -> dict[str, int]:
    """The broker's topics with their numbers of partitions, its own left out."""
    try:
        listed = admin(servers).list_topics(timeout=seconds)
    except kafka_client().KafkaException as error:
        raise refused(servers, "list its topics", error) from error
    return {name: len(topic.partitions) for name, topic in listed.topics.items() if not name.startswith("__")}


def create_topic(servers: str, name: str, count: int = 1, settings: Mapping[str, str] | None = None) -> None:
    """A new topic with this many partitions."""
    new = kafka_client().admin.NewTopic(name, count, 1, config=dict(settings or {}))
    _ask(servers, f"make the topic {name}", lambda client: client.create_topics([new]))
    _until(servers, f"make the topic {name}", lambda shown: shown.get(name) == count)


def delete_topic(servers: str, name: str) -> None:
    """Delete a topic with all of its messages."""
    _ask(servers, f"delete the topic {name}", lambda client: client.delete_topics([name]))
    _until(servers, f"delete the topic {name}", lambda shown: name not in shown)


def add_partitions(servers: str, name: str, count: int) -> None:
    """Let a topic have this many partitions."""
    new = kafka_client().admin.NewPartitions(name, count)
    _ask(servers, f"add partitions to {name}", lambda client: client.create_partitions([new]))
    _until(servers, f"add partitions to {name}", lambda shown: shown.get(name) == count)


def refused(servers: str, what: str, error: Any) -> EnvironmentProblem:
    """The error for a client's exception."""
    said = error.args[0]
    text = said.str() if hasattr(said, "str") else str(said)
    return EnvironmentProblem(BROKER_REQUEST_FAILED.at(servers=servers, what=what, reason=text.rstrip(".")))


def _ask(servers: str, what: str, question: Callable[[AdminClient], Mapping[str, Any]]) -> None:
    # Held until the answers are there: a client that is let go of takes its questions back.
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
            raise refused(servers, what, TimeoutError(f"it does not show within {SECONDS:g} seconds"))
        time.sleep(_LOOK_SECONDS)


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
        raise UsageProblem(
            PRODUCE_FILE_UNREADABLE.at(None, file=file, reason=error.strerror or str(error))
        ) from error


class _Sender:
    """A producer that keeps order and remembers the first failure."""

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
        return refused(self._servers, f"take a message for {self._topic}", error)


# What `headwater dev` tells while it works.


@dataclass(frozen=True, kw_only=True)
class BrokerStarted(Event):
    """A broker answers."""

    kind: ClassVar[str] = "broker_started"
    servers: str
    folder: str
    log: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class TopicReady(Event):
    """A topic is there; `made` says whether it is new."""

    kind: ClassVar[str] = "topic_ready"
    topic: str
    partitions: int
    made: bool


@dataclass(frozen=True, kw_only=True)
class Produced(Event):
    """The broker has all of these messages."""

    kind: ClassVar[str] = "produced"
    topic: str
    messages: int


@dataclass(frozen=True, kw_only=True)
class BrokerStopped(Event):
    """The broker has ended in order; its data stays."""

    kind: ClassVar[str] = "broker_stopped"
    folder: str
