"""What `dev` prints: lines for people, or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import typer

from headwater.checks.outline import per_second
from headwater.cli.json_output import print_json_line
from headwater.dev.postgres import ServerStarted, ServerStopped
from headwater.dev.topics import STDIN, BrokerStarted, BrokerStopped, Feed, Produced, TopicReady
from headwater.errors import UsageError
from headwater.errors.catalogue.environment import (
    DEV_OPTIONS_CONFLICT,
    PRODUCE_FILE_UNREADABLE,
    PRODUCE_RATE_INVALID,
    TOPICS_INVALID,
)
from headwater.events import Emit, Event, Notice
from headwater.values import count_of

USUAL = "127.0.0.1:9092"
PIPELINE = Path("pipeline.yml")


def view_of(*, as_json: bool) -> Emit:
    """Shows each event as it comes."""
    if as_json:
        return lambda event: print_json_line(event.to_json())
    return lambda event: typer.echo(text_of(event))


def text_of(event: Event) -> str:
    """An event in words."""
    match event:
        case BrokerStarted():
            return (
                f"Kafka is running at {event.bootstrap_servers}. Data and broker.log are in {event.data_dir}.\n"
                f"In another terminal:\n  {next_command(event.bootstrap_servers)}\n"
                "Press Ctrl-C to stop. The data is kept."
            )
        case TopicReady(made=True):
            return f"Created topic {event.topic} with {count_of(event.partitions, 'partition')}."
        case TopicReady():
            return f"Topic {event.topic} exists, with {count_of(event.partitions, 'partition')}."
        case Produced():
            return f"Sent {count_of(event.messages, 'message')} to {event.topic}."
        case ServerStarted():
            return (
                f"PostgreSQL is running at {event.url}. Data and postgres.log are in {event.data_dir}.\n"
                "Press Ctrl-C to stop. The data is kept."
            )
        case BrokerStopped() | ServerStopped():
            return f"Stopped. The data is in {event.data_dir}."
        case Notice():
            return event.text
        case _:
            raise TypeError(f"no words for {event}")


def next_command(servers: str) -> str:
    """The next command: run the pipeline in this directory, or send messages."""
    if PIPELINE.is_file():
        # The default of the template.
        elsewhere = "" if servers == USUAL else f"KAFKA_BOOTSTRAP_SERVERS={servers} "
        return f"{elsewhere}headwater run {PIPELINE}"
    return f"headwater dev kafka --bootstrap-server {servers} --produce FILE --topic NAME --rate 100/s"


# The command line of `dev`, as values.

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def refuse_contradictions(
    *,
    produce: str | None,
    alone: Mapping[str, object],
    servers: str | None,
    started: Mapping[str, object],
    asked: bool,
) -> None:
    """Raise UsageError for options that contradict each other."""
    lost = [name for name, value in alone.items() if value and produce is None]
    if lost:
        raise _wrong(f"`{lost[0]}` requires `--produce`")
    if produce is not None and not alone["--topic"]:
        raise _wrong("`--produce` requires `--topic`")
    if produce == STDIN and alone["--repeat"]:
        raise _wrong("`--repeat` requires a file: standard input cannot be sent again")
    given = [name for name, value in started.items() if value is not None]
    if servers and given:
        raise _wrong(f"`{given[0]}` does not apply to the running broker of `--bootstrap-server`")
    if servers and not asked:
        raise _wrong("`--bootstrap-server` requires `--produce` or `--topics`")


def topics_of(text: str | None) -> dict[str, int]:
    """`impressions:2,clicks` as numbers of partitions by name."""
    found: dict[str, int] = {}
    for part in text.split(",") if text is not None else ():
        name, colon, count = part.strip().partition(":")
        if not _TOPIC.fullmatch(name):
            raise UsageError(TOPICS_INVALID.at(None, text=text, says=f"`{name}` is not a valid topic name"))
        if colon and not (count.isascii() and count.isdigit() and 0 < int(count) <= 1000):
            says = f"`{count}` is not a number of partitions from 1 to 1,000"
            raise UsageError(TOPICS_INVALID.at(None, text=text, says=says))
        found[name] = int(count) if colon else 1
    return found


def feed_of(
    produce: str | None, topic: str | None, rate: str | None, key: str | None, *, repeat: bool
) -> Feed | None:
    """What `--produce` and the options around it ask for."""
    if produce is None or topic is None:
        return None
    if not _TOPIC.fullmatch(topic):
        raise _wrong(f"`{topic}` is not a valid topic name for `--topic`")
    if produce != STDIN and not Path(produce).is_file():
        reason = "it is a directory" if Path(produce).is_dir() else "file not found"
        raise UsageError(PRODUCE_FILE_UNREADABLE.at(None, file=produce, reason=reason))
    return Feed(produce, topic, _rate(rate), key, repeat)


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = per_second(text)
        if not found:
            raise ValueError("expected a rate above 0")
    except ValueError as error:
        raise UsageError(PRODUCE_RATE_INVALID.at(None, text=text, says=str(error))) from error
    return found


def _wrong(says: str) -> UsageError:
    return UsageError(DEV_OPTIONS_CONFLICT.at(None, says=says))
