"""Topics of a broker: made, grown, deleted; each function returns when the broker shows the change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwater.errors import EnvironmentProblem
from headwater.errors.catalogue.dev import BROKER_REFUSED, KAFKA_CLIENT_MISSING

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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
    return EnvironmentProblem(BROKER_REFUSED.at(servers=servers, what=what, reason=text.rstrip(".")))


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
