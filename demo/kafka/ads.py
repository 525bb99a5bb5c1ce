"""The messages of the demo and the expected results, both generated from a fixed seed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

SEED = 2026
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPAN = timedelta(minutes=10)
CAMPAIGNS = ("spring", "summer", "autumn", "winter")
CLICKED = 0.3
IN_TIME = timedelta(minutes=1)
LATEST = timedelta(seconds=90)
BROKEN = 0.03
DISORDER = timedelta(seconds=20)
# Long after all other messages: these advance both watermarks past the last minute and close it.
CLOSING = START + SPAN + timedelta(hours=1)

Revenue = Counter[tuple[str, str, int, Decimal]]
"""Rows of minute, campaign, clicks and revenue, with their number of occurrences."""


@dataclass(frozen=True)
class Message:
    """A message for a topic; `broken` messages are malformed."""

    topic: str
    key: str
    value: bytes
    broken: bool = False


@dataclass(frozen=True)
class Day:
    """All messages in the order they are sent, and the revenue per minute and campaign."""

    messages: tuple[Message, ...]
    revenue: Revenue

    def count(self, topic: str, *, broken: bool) -> int:
        return sum(1 for each in self.messages if each.topic == topic and each.broken == broken)


def day(impressions: int) -> Day:
    """This many impressions with their clicks, plus three percent malformed messages."""
    chance = random.Random(SEED)
    sent: list[tuple[datetime, Message]] = []
    counts: Counter[tuple[str, str]] = Counter()
    sums: Counter[tuple[str, str]] = Counter()
    for number in range(impressions):
        at = START + SPAN * number / impressions
        campaign, price = chance.choice(CAMPAIGNS), chance.randint(50, 2000)
        sent.append((_sent(at, chance), _impression(f"i{number:06}", campaign, at, price)))
        if chance.random() < CLICKED:
            clicked = at + chance.random() * LATEST
            sent.append((_sent(clicked, chance), _click(f"c{number:06}", f"i{number:06}", clicked)))
            if clicked <= at + IN_TIME:
                minute = (at.strftime("%Y-%m-%d %H:%M"), campaign)
                counts[minute] += 1
                sums[minute] += price
    sent += [(at, broken) for at, _ in sent if chance.random() < BROKEN for broken in [_broken(chance)]]
    sent.sort(key=lambda each: each[0])
    closing = (
        _impression("closing", "none", CLOSING, 0),
        _click("closing", "nothing", CLOSING),
    )
    revenue = Counter((*key, counts[key], Decimal(sums[key]) / 10_000) for key in counts)
    return Day((*(message for _, message in sent), *closing), revenue)


def totals(revenue: Revenue) -> Iterator[tuple[str, int, Decimal]]:
    """Clicks and revenue of each campaign over all minutes."""
    for campaign in sorted({campaign for _, campaign, _, _ in revenue}):
        rows = [row for row in revenue.elements() if row[1] == campaign]
        yield campaign, sum(row[2] for row in rows), sum((row[3] for row in rows), Decimal())


def _sent(at: datetime, chance: random.Random) -> datetime:
    """When a message is sent: not in the order of event time."""
    return at + chance.random() * DISORDER


def _impression(name: str, campaign: str, at: datetime, price: int) -> Message:
    # The price is an integer in ten-thousandths, because a sum of fractions would be rounded.
    row = {"impression_id": name, "campaign": campaign, "at": _time(at), "price": price / 10_000}
    return _message("impressions", name, row)


def _click(name: str, impression: str, at: datetime) -> Message:
    row = {"click_id": name, "impression_id": impression, "clicked_at": _time(at)}
    return _message("clicks", impression, row)


def _message(topic: str, key: str, row: dict[str, Any]) -> Message:
    return Message(topic, key, json.dumps(row).encode())


def _broken(chance: random.Random) -> Message:
    topic, value = chance.choice(
        (
            ("impressions", b'{"impression_id": "x1", "campaign": "spring", "at": "2026-01'),
            (
                "impressions",
                b'{"impression_id": "x2", "campaign": "spring", "at": "2026-01-01T12:00:00Z", '
                b'"price": "free"}',
            ),
            ("impressions", b"\xff\xfe\x00 no text at all"),
            ("clicks", b'{"click_id": "x3", "impression_id": "i000001", "clicked_at": "yesterday"}'),
            ("clicks", b"GET /favicon.ico"),
        )
    )
    return Message(topic, f"broken {chance.random()}", value, broken=True)


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
