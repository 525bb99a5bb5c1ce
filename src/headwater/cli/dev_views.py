"""What `dev` shows: lines for people, or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import typer

from headwater.checks.outline import per_second
from headwater.cli.render import print_json_line
from headwater.dev.topics import STDIN, BrokerStarted, BrokerStopped, Feed, Produced, TopicReady
from headwater.errors import UsageProblem
from headwater.errors.catalogue.environment import (
    DEV_OPTIONS_CONFLICT,
    PRODUCE_FILE_UNREADABLE,
    PRODUCE_RATE_INVALID,
    TOPICS_INVALID,
)
from headwater.events import Emit, Event, Notice

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
        case Notice():
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


# What is written on the command line of `dev`, as values.

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def refuse_contradictions(
    *,
    produce: str | None,
    alone: Mapping[str, object],
    servers: str | None,
    started: Mapping[str, object],
    asked: bool,
) -> None:
    """UsageProblem for options that say nothing beside each other."""
    lost = [name for name, value in alone.items() if value and produce is None]
    if lost:
        raise _wrong(f"`{lost[0]}` says something about `--produce`, which is not there")
    if produce is not None and not alone["--topic"]:
        raise _wrong("`--produce` needs `--topic`, the topic that the messages go to")
    if produce == STDIN and alone["--repeat"]:
        raise _wrong("standard input can't be sent again, so `--repeat` needs a file")
    given = [name for name, value in started.items() if value is not None]
    if servers and given:
        raise _wrong(f"`{given[0]}` is for a broker that is started here, `--servers` names one that runs")
    if servers and not asked:
        raise _wrong("`--servers` starts nothing, so `--produce` or `--topics` must say what to do there")


def topics_of(text: str | None) -> dict[str, int]:
    """`impressions:2,clicks` as numbers of partitions by name."""
    found: dict[str, int] = {}
    for part in text.split(",") if text is not None else ():
        name, colon, count = part.strip().partition(":")
        if not _TOPIC.fullmatch(name):
            raise UsageProblem(TOPICS_INVALID.at(None, text=text, says=f"`{name}` is no name of a topic"))
        if colon and not (count.isascii() and count.isdigit() and 0 < int(count) <= 1000):
            says = f"`{count}` is no number of partitions from 1 to 1000"
            raise UsageProblem(TOPICS_INVALID.at(None, text=text, says=says))
        found[name] = int(count) if colon else 1
    return found


def feed_of(
    produce: str | None, topic: str | None, rate: str | None, key: str | None, *, repeat: bool
) -> Feed | None:
    """What `--produce` and the options around it ask for."""
    if produce is None or topic is None:
        return None
    if not _TOPIC.fullmatch(topic):
        raise _wrong(f"`--topic {topic}` is no name of a topic")
    if produce != STDIN and not Path(produce).is_file():
        reason = "it is a folder" if Path(produce).is_dir() else "there is no such file"
        raise UsageProblem(PRODUCE_FILE_UNREADABLE.at(None, file=produce, reason=reason))
    return Feed(produce, topic, _rate(rate), key, repeat)


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = per_second(text)
        if not found:
            raise ValueError("nothing would be sent")
    except ValueError as error:
        raise UsageProblem(PRODUCE_RATE_INVALID.at(None, text=text, says=str(error))) from error
    return found


def _wrong(says: str) -> UsageProblem:
    return UsageProblem(DEV_OPTIONS_CONFLICT.at(None, says=says))
