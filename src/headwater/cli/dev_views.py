"""What `dev` shows: lines for people, or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from headwater.cli.render import print_json_line
from headwater.dev.happenings import BrokerStarted, BrokerStopped, Produced, TopicReady
from headwater.events import Event, Said

USUAL = "127.0.0.1:9092"
PIPELINE = Path("pipeline.yml")


def view_of(*, as_json: bool) -> Callable[[Event], None]:
    """Shows each event as it comes."""
    return (lambda event: print_json_line(event.to_json())) if as_json else _show


def _show(event: Event) -> None:
    sys.stdout.write(f"{text_of(event)}\n")
    sys.stdout.flush()


def text_of(event: Event) -> str:
    """An event in words."""
    match event:
        case BrokerStarted():
            return (
                f"Kafka answers at {event.servers}; data and broker.log are in {event.folder}.\n"
                f"In another terminal:\n  {next_command(event.servers)}\n"
                "Ctrl-C stops it; the data stays."
            )
        case TopicReady(made=True):
            return f"Made topic {event.topic} with {_partitions(event.partitions)}."
        case TopicReady():
            return f"Topic {event.topic} is there, with {_partitions(event.partitions)}."
        case Produced():
            return f"Sent {event.messages} message{'s' if event.messages != 1 else ''} to {event.topic}."
        case BrokerStopped():
            return f"Stopped; the data is in {event.folder}."
        case Said():
            return event.text
        case _:
            raise TypeError(f"no words for {event}")


def next_command(servers: str) -> str:
    """What to type next: the pipeline that is here, or messages."""
    if PIPELINE.is_file():
        # What the template reads from, if nothing is said.
        elsewhere = "" if servers == USUAL else f"KAFKA_SERVERS={servers} "
        return f"{elsewhere}headwater run {PIPELINE}"
    return f"headwater dev kafka --servers {servers} --produce FILE --topic NAME --rate 100/s"


def _partitions(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"
