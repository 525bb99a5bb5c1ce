"""The Kafka demo: starts a broker, sends messages, runs the pipeline until it has caught up, and prints the results.

    python -m demo.kafka.run [IMPRESSIONS]

Each start empties work/. The exit code is 1 if the results differ from those of the generator.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from demo.kafka.ads import Day, Message, Revenue, day, totals
from headwater.api.quarantine import show
from headwater.api.results import RunResult
from headwater.api.run import Output, run
from headwater.dev import Broker
from headwater.dev.topics import create_topic
from headwater.errors import HeadwaterError
from headwater.events import Event, QueryProgress
from headwater.quarantine import QuarantinedRow
from headwater.runtime import RunOptions

HERE = Path(__file__).resolve().parent
IMPRESSIONS = 4_000
TOPICS = {"impressions": 2, "clicks": 2}
FIRST = 3
"""Number of rows to print from each quarantine."""

Places = Counter[tuple[str, int, int, bytes]]


def say(line: str = "") -> None:
    """Print a line and flush it."""
    print(line, flush=True)


def send(servers: str, messages: Iterable[Message]) -> Places:
    """Send the messages. Returns topic, partition, offset and bytes of the malformed ones."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    places: Places = Counter()

    def keep(error: Any, message: Any) -> None:
        _taken(error)
        places[message.topic(), message.partition(), message.offset(), message.value()] += 1

    for each in messages:
        heard = keep if each.broken else _taken
        producer.produce(each.topic, key=each.key, value=each.value, on_delivery=heard)
        producer.poll(0)
    producer.flush()
    return places


def _taken(error: Any, message: Any = None) -> None:
    if error is not None:
        raise RuntimeError(f"could not send a message: {error}")


def play(demo: Path, servers: str) -> RunResult:
    """Run the pipeline of the demo in a directory until it has caught up."""
    os.environ["KAFKA_BOOTSTRAP_SERVERS"] = servers
    (result,) = run([demo / "pipeline.yml"], RunOptions(until_idle=True), Output(told, say))
    return result


def told(event: Event) -> None:
    """Print a line for each batch that read rows."""
    if isinstance(event, QueryProgress) and event.rows_in:
        say(f"  {event.query}: batch {event.batch_id}, {event.rows_in:,} rows in")


def found_revenue(folder: Path) -> Revenue:
    """The rows that the pipeline wrote."""
    lines = (line for file in folder.glob("*.json") for line in file.read_text("utf-8").splitlines())
    rows = (json.loads(line, parse_float=Decimal) for line in lines)
    return Counter(
        (row["minute"][:16].replace("T", " "), row["campaign"], row["clicks"], Decimal(row["revenue"]))
        for row in rows
    )


def show_all(revenue: Revenue, result: RunResult, aside: dict[str, tuple[QuarantinedRow, ...]]) -> None:
    """Print the revenue, the counts, and the first rows of each quarantine."""
    say(f"\n{'campaign':<12}{'clicks':>8}{'revenue':>12}")
    for campaign, clicks, money in totals(revenue):
        say(f"{campaign:<12}{clicks:>8}{money:>12.4f}")
    say("\nmessages")
    for source, counts in result.queries["revenue"].sources.items():
        say(f"  {source}: {counts['read']} read, {counts['good']} good, {counts['bad']} bad")
    for source, rows in aside.items():
        say(f"\nquarantined from {source}, the first {FIRST} of {len(rows)}:")
        for row in rows[:FIRST]:
            say(f"  {row.where}: {row.reason}{f' ({row.detail})' if row.detail else ''}")
            say(f"    {row.value!r}")


def differences(
    today: Day,
    places: Places,
    result: RunResult,
    revenue: Revenue,
    aside: dict[str, tuple[QuarantinedRow, ...]],
) -> list[str]:
    """The results of the pipeline that differ from those of the generator."""
    wrong = []
    if revenue != today.revenue:
        more, fewer = (revenue - today.revenue).total(), (today.revenue - revenue).total()
        wrong.append(f"revenue: {more} unexpected rows, {fewer} missing")
    counts = result.queries["revenue"].sources
    for topic in TOPICS:
        good, bad = today.count(topic, broken=False), today.count(topic, broken=True)
        if counts[topic] != {"read": good + bad, "good": good, "bad": bad}:
            wrong.append(f"{topic}: counted {counts[topic]}, expected {good} good and {bad} bad")
    found = Counter(
        (row.topic or "", row.partition or 0, row.offset or 0, row.value or b"")
        for rows in aside.values()
        for row in rows
    )
    if found != places:
        wrong.append(f"quarantine: {(found - places).total()} unexpected, {(places - found).total()} missing")
    return wrong


def play_on(servers: str, demo: Path, impressions: int) -> int:
    """Run the demo in a directory on a broker, print and verify the results. Returns the exit code."""
    today = day(impressions)
    for topic, count in TOPICS.items():
        create_topic(servers, topic, count)
    places = send(servers, today.messages)
    say(f"Sent {len(today.messages)} messages to {servers}, {places.total()} of them malformed.")
    say("Starting Spark. The run exits once all messages are processed …")
    result = play(demo, servers)
    revenue = found_revenue(demo / "work" / "revenue")
    aside = {topic: show(demo / "pipeline.yml", topic) for topic in TOPICS}
    show_all(revenue, result, aside)
    wrong = differences(today, places, result, revenue, aside)
    say("\n" + ("\n".join(f"DIFFERENT {each}" for each in wrong) or "All results match the generated data."))
    return int(bool(wrong) or result.exit_code != 0)


def main(demo: Path, impressions: int) -> int:
    """Run the demo in a directory on its own broker. Returns the exit code."""
    shutil.rmtree(demo / "work", ignore_errors=True)
    say("Starting a local Kafka broker …")
    with Broker(demo / "work" / "broker", notify=lambda problem: say(problem.message)) as broker:
        return play_on(broker.servers, demo, impressions)


if __name__ == "__main__":
    try:
        sys.exit(main(HERE, int(sys.argv[1]) if len(sys.argv) > 1 else IMPRESSIONS))
    except HeadwaterError as error:
        sys.exit(f"{error}")
