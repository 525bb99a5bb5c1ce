"""Messages of a real broker in tests, sent and read back by a client that is not Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.dev.topics import create_topic, partitions

SECONDS = 30.0


@dataclass(frozen=True)
class Message:
    """A message to send; `partition` -1 lets the client choose, `timestamp` is in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int = -1
    timestamp: int = 0


@dataclass(frozen=True)
class Record:
    """A message as it was read back."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def json(self) -> Any:
        return json.loads(self.value or b"null")


def fresh_topic(servers: str, count: int = 1, prefix: str = "t", **settings: str) -> str:
    """A new empty topic with a name of its own; settings such as `retention_ms="1000"`."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    create_topic(servers, name, count, {key.replace("_", "."): value for key, value in settings.items()})
    return name


def produce(
    servers: str,
    topic: str,
    messages: Iterable[Message | Mapping[str, Any] | bytes | str],
    partition: int = -1,
    **settings: Any,
) -> list[tuple[int, int]]:
    """Send messages and wait until the broker has them all; each one's partition and offset.

    A mapping is sent as JSON, a string as UTF-8. Keyword arguments are the client's settings, `.` as `_`.
    """
    producer = Producer(_client(servers, settings))
    places: list[tuple[int, int]] = []
    failures: list[Any] = []
    wanted = [_message(each, partition) for each in messages]
    for number, message in enumerate(wanted):
        places.append((-1, -1))

        def keep(error: Any, sent: Any, number: int = number) -> None:
            if error:
                failures.append(error)
            else:
                places[number] = (sent.partition(), sent.offset())

        while True:
            try:
                producer.produce(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp=message.timestamp,
                    on_delivery=keep,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(SECONDS)
    assert not failures, failures[:3]
    assert not left, f"{left} messages were not taken within {SECONDS:g} seconds"
    return places


def consume(servers: str, topic: str, *, committed_only: bool = False, **settings: Any) -> list[Record]:
    """All messages that the topic holds now, by partition and offset."""
    isolation = "read_committed" if committed_only else "read_uncommitted"
    consumer = Consumer(
        {
            **_client(servers, settings),
            "group.id": f"read-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def last_per_key(records: Iterable[Record]) -> dict[bytes | None, bytes | None]:
    """The last value of each key, in the order of the offsets."""
    return {record.key: record.value for record in records}


def _read(consumer: Consumer, topic: str) -> list[Record]:
    listed = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in listed])
    found: list[Record] = []
    unfinished = set(listed)
    while unfinished:
        message = consumer.poll(SECONDS)
        assert message is not None, f"no message came within {SECONDS:g} seconds"
        error = message.error()
        if error is not None and error.name() == "_PARTITION_EOF":
            unfinished.discard(message.partition())
        else:
            assert error is None, error
            found.append(_record(message))
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _record(message: Any) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def _message(given: Message | Mapping[str, Any] | bytes | str, partition: int) -> Message:
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return Message(given.encode(), partition=partition)
    if isinstance(given, bytes):
        return Message(given, partition=partition)
    return Message(json.dumps(given).encode(), partition=partition)


def _client(servers: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    own = {key.replace("_", "."): value for key, value in settings.items()}
    return {"bootstrap.servers": servers, "allow.auto.create.topics": False, **own}


def offsets(servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """The first and the next offset of each partition."""
    consumer = Consumer({**_client(servers, {}), "group.id": "offsets"})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=SECONDS)
            for number in range(partitions(servers)[topic])
        }
    finally:
        consumer.close()
