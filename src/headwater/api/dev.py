"""`headwater dev`: a Kafka broker or a PostgreSQL server in the foreground, and messages for the broker."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from headwater.dev import Broker, PostgresServer
from headwater.dev.postgres import ServerStarted, ServerStopped
from headwater.dev.topics import (
    BrokerStarted,
    BrokerStopped,
    Feed,
    Produced,
    TopicReady,
    create_topic,
    kafka_client,
    partitions,
    produce,
)
from headwater.events import Emit, Notice

_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 8.0
"""How long to wait for the first response: an unreachable broker is reported soon."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class KafkaOptions:
    """The options of `dev kafka`. With `servers`, no broker starts: topics and messages go to the given one."""

    folder: Path
    port: int
    topics: Mapping[str, int] = field(default_factory=dict)
    feed: Feed | None = None
    servers: str | None = None


class _Asked(Exception):
    """A signal requested the end."""


def kafka(options: KafkaOptions, emit: Emit) -> int:
    """Run a broker until a signal arrives, or send messages to a running one; returns the exit code."""
    if options.topics or options.feed:
        # Checked before anything starts.
        kafka_client()
    with _ends_by_signal(), ExitStack() as held:
        broker = None if options.servers else held.enter_context(_broker(options, emit))
        look = broker.refuse_end if broker else lambda: None
        _fill(options, broker.servers if broker else str(options.servers), emit, look)
        while broker:
            look()
            time.sleep(_LOOK_SECONDS)
    return 0


@contextmanager
def _broker(options: KafkaOptions, emit: Emit) -> Iterator[Broker]:
    broker = Broker(options.folder, port=options.port, notify=lambda problem: emit(Notice.of(problem)))
    try:
        broker.start()
        folder, log = str(options.folder), str(broker.log)
        emit(BrokerStarted(bootstrap_servers=broker.servers, data_dir=folder, log=log, pid=broker.pid))
        yield broker
    except _Asked:
        broker.stop()
        emit(BrokerStopped(data_dir=str(options.folder)))
        raise
    finally:
        broker.stop()


def _fill(options: KafkaOptions, servers: str, emit: Emit, look: Callable[[], None]) -> None:
    """Create the missing topics, and send the messages."""
    feed = options.feed
    if not options.topics and not feed:
        return
    there = partitions(servers, _ANSWER_SECONDS)
    wanted = {**({feed.topic: 1} if feed else {}), **options.topics}
    for topic, count in wanted.items():
        if topic not in there:
            create_topic(servers, topic, count)
        emit(TopicReady(topic=topic, partitions=there.get(topic, count), made=topic not in there))
    if feed:
        produce(feed, servers, look, lambda count: emit(Produced(topic=feed.topic, messages=count)))


@contextmanager
def _ends_by_signal() -> Iterator[None]:
    """The first signal ends the block; later signals have no effect."""

    def asked(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise _Asked

    # `nohup` asks for just this: that a closed terminal means nothing.
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked) for number in heard}
    try:
        yield
    except _Asked:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def postgres(folder: Path, port: int, emit: Emit) -> int:
    """Run a PostgreSQL server until a signal arrives; returns the exit code."""
    with _ends_by_signal(), _server(folder, port, emit) as server:
        for _ in itertools.repeat(None):  # until a signal
            server.refuse_end()
            time.sleep(_LOOK_SECONDS)
    return 0


@contextmanager
def _server(folder: Path, port: int, emit: Emit) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, port=port)
    try:
        server.start()
        emit(ServerStarted(url=server.url, data_dir=str(folder), log=str(server.log), pid=server.pid))
        yield server
    except _Asked:
        server.stop()
        emit(ServerStopped(data_dir=str(folder)))
        raise
    finally:
        server.stop()
