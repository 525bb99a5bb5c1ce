"""What `headwater dev` tells while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headwater.events import Event


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
