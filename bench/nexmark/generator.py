"""Generates Nexmark events by the benchmark's published rules; equal seeds give equal events.

Of every 50 events, 1 is a new person, 3 are new auctions and 46 are bids. Events are 0.1 ms apart (10,000 per
second of event time) and in order. An event is a JSON object on one line:

    {"event_type": 0, "person":  {"id": …, "name": …, "emailAddress": …, "creditCard": …, "city": …, "state": …,
                                  "dateTime": "2015-07-15T00:00:00.000", "extra": …}}
    {"event_type": 1, "auction": {"id": …, "itemName": …, "description": …, "initialBid": …, "reserve": …,
                                  "dateTime": …, "expires": …, "seller": …, "category": …, "extra": …}}
    {"event_type": 2, "bid":     {"auction": …, "bidder": …, "price": …, "channel": …, "url": …,
                                  "dateTime": …, "extra": …}}

Times are in UTC and have no zone. Ids and prices are integers. For the same seed, fewer events are a prefix of more.

- `lines(number, seed)` yields the events as JSON text, for Kafka.
- `rows(number, seed)` yields the same events as dictionaries. Times are strings, as in the files.
- `write_files(directory, number, events_per_file, seed)` writes `events-00000.json`, `events-00001.json`, …

All three accept `rate`, the events per second of event time.
- `write_side_input(path)` writes the table that q13 joins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

RATE = 10_000
"""Events per second of event time."""
FIRST_EVENT = np.datetime64("2015-07-15T00:00:00.000", "ms")
PERSON, AUCTION, BID = 0, 1, 2
PER_50 = {PERSON: 1, AUCTION: 3, BID: 46}
"""How many of 50 events are of each type."""
SCHEMA = (
    "event_type int, "
    "person struct<id: bigint, name: string, emailAddress: string, creditCard: string, city: string, "
    "state: string, dateTime: timestamp, extra: string>, "
    "auction struct<id: bigint, itemName: string, description: string, initialBid: bigint, reserve: bigint, "
    "dateTime: timestamp, expires: timestamp, seller: bigint, category: bigint, extra: string>, "
    "bid struct<auction: bigint, bidder: bigint, price: bigint, channel: string, url: string, "
    "dateTime: timestamp, extra: string>"
)
"""The events as a Spark schema."""
SIDE_INPUT_ROWS = 10_000

_PEOPLE, _AUCTIONS, _EPOCH = PER_50[PERSON], PER_50[AUCTION], 50
_FIRST_ID, _FIRST_CATEGORY, _CATEGORIES = 1000, 10, 5
# One of `_HOT_ROUND` ids is hot. Of two bids, one is for a hot auction; of four auctions and four bids, three are by
# a hot seller and a hot bidder.
_HOT_ROUND, _HOT_AUCTIONS, _HOT_SELLERS, _HOT_BIDDERS, _HOT_CHANNELS = 100, 2, 4, 4, 2
_ACTIVE_PEOPLE, _AUCTIONS_IN_FLIGHT, _LEAD = 1000, 100, 10
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100
_CHANNELS = 10_000
_HOT_CHANNEL_NAMES = ("Google", "Facebook", "Baidu", "Apple")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
_FIRST_NAMES = (
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
)  # fmt: skip
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
# Random numbers are reseeded for each chunk, so that an event depends only on the seed and its number.
_CHUNK = 200 * _EPOCH
_POOL = 1 << 20

Numbers = npt.NDArray[np.int64]


def rows(number: int, seed: int = 0, rate: int = RATE) -> Iterator[dict[str, Any]]:
    """The first `number` events, as dictionaries that equal the lines of the files."""
    return map(json.loads, lines(number, seed, rate))


def lines(number: int, seed: int = 0, rate: int = RATE) -> Iterator[str]:
    """The first `number` events, as JSON without line breaks."""
    for first in range(0, number, _CHUNK):
        yield from _chunk(first, min(_CHUNK, number - first), seed, rate).to_pylist()


def write_files(
    directory: Path, number: int, events_per_file: int, seed: int = 0, rate: int = RATE
) -> Sequence[Path]:
    """Write the first `number` events as files of JSON lines; the modification times follow the order of the names."""
    if events_per_file % _EPOCH:
        raise ValueError(f"events_per_file: expected a multiple of {_EPOCH}, got {events_per_file}")
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    pending: list[pa.StringArray] = []
    for first in range(0, number, _CHUNK):
        pending.append(_chunk(first, min(_CHUNK, number - first), seed, rate))
        last = first + _CHUNK >= number
        events = pa.concat_arrays(pending)
        while len(events) >= events_per_file or (last and len(events)):
            path = directory / f"events-{len(written):05d}.json"
            _write(path, events.slice(0, events_per_file))
            # Spark reads the oldest file first, and two files written in one millisecond have no order.
            os.utime(path, (1_700_000_000 + len(written),) * 2)
            written.append(path)
            events = events.slice(events_per_file)
        pending = [events]
    return written


def write_side_input(path: Path) -> None:
    """Write the table of q13: keys from 0 to 9,999, each with its own number as value."""
    path.write_text("".join(f"{key},{key}\n" for key in range(SIDE_INPUT_ROWS)))


def _write(path: Path, events: pa.StringArray) -> None:
    ended = pc.binary_join_element_wise(events, "", "\n")
    _, offsets, data = ended.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)
    with path.open("wb") as file:
        file.write(memoryview(data)[ends[ended.offset] : ends[ended.offset + len(ended)]])


def _chunk(first: int, number: int, seed: int, rate: int) -> pa.StringArray:
    """Events `first` to `first + number`, as JSON. The chunk is generated as a whole and then cut."""
    random = np.random.default_rng([seed, first // _CHUNK])
    events = np.arange(first, first + _CHUNK, dtype=np.int64)
    offsets = events % _EPOCH
    is_person, is_bid = offsets < _PEOPLE, offsets >= _PEOPLE + _AUCTIONS
    is_auction = ~is_person & ~is_bid
    kinds = (
        (is_person, _people(events[is_person], random, rate)),
        (is_auction, _auctions(events[is_auction], random, rate)),
        (is_bid, _bids(events[is_bid], random, rate)),
    )
    # The position of each event in the three arrays, one behind the other.
    positions = np.empty(_CHUNK, dtype=np.int64)
    before = 0
    for where, array in kinds:
        positions[where] = np.arange(before, before + len(array))
        before += len(array)
    return pa.concat_arrays([array for _, array in kinds]).take(pa.array(positions[:number]))


def _people(events: Numbers, random: np.random.Generator, rate: int) -> pa.StringArray:
    count = len(events)
    names = [
        f"{_FIRST_NAMES[first]} {_LAST_NAMES[last]}"
        for first, last in zip(
            random.integers(len(_FIRST_NAMES), size=count),
            random.integers(len(_LAST_NAMES), size=count),
            strict=True,
        )
    ]
    users, domains = _strings(count, 7, random), _strings(count, 5, random)
    emails = [f"{user}@{domain}.com" for user, domain in zip(users, domains, strict=True)]
    cards = [" ".join(f"{part:04d}" for part in card) for card in random.integers(10_000, size=(count, 4))]
    cities = [_CITIES[city] for city in random.integers(len(_CITIES), size=count)]
    states = [_STATES[state] for state in random.integers(len(_STATES), size=count)]
    sizes = [8 + sum(map(len, texts)) for texts in zip(names, emails, cards, cities, states, strict=True)]
    return _objects(
        PERSON,
        "person",
        id=_last_person(events) + _FIRST_ID,
        name=names,
        emailAddress=emails,
        creditCard=cards,
        city=cities,
        state=states,
        dateTime=_times(events, rate),
        extra=_extras(np.array(sizes), _PERSON_BYTES, random),
    )


def _auctions(events: Numbers, random: np.random.Generator, rate: int) -> pa.StringArray:
    count = len(events)
    people = _last_person(events)
    hot = random.integers(_HOT_SELLERS, size=count) > 0
    sellers = np.where(hot, people // _HOT_ROUND * _HOT_ROUND, _active_person(people, random))
    prices = _prices(count, random)
    # On average, an auction lasts until the next 100 auctions have started.
    horizon = _AUCTIONS_IN_FLIGHT * _EPOCH // _AUCTIONS * 1000 // rate
    lengths = 1 + random.integers(max(2 * horizon, 1), size=count)
    names, descriptions = _strings(count, 20, random), _strings(count, 100, random)
    sizes = [48 + len(name) + len(text) for name, text in zip(names, descriptions, strict=True)]
    return _objects(
        AUCTION,
        "auction",
        id=_last_auction(events) + _FIRST_ID,
        itemName=names,
        description=descriptions,
        initialBid=prices,
        reserve=prices + _prices(count, random),
        dateTime=_times(events, rate),
        expires=_times(events, rate, lengths),
        seller=sellers + _FIRST_ID,
        category=_FIRST_CATEGORY + random.integers(_CATEGORIES, size=count),
        extra=_extras(np.array(sizes), _AUCTION_BYTES, random),
    )


def _bids(events: Numbers, random: np.random.Generator, rate: int) -> pa.StringArray:
    count = len(events)
    auctions, people = _last_auction(events), _last_person(events)
    oldest = np.maximum(auctions - _AUCTIONS_IN_FLIGHT, 0)
    in_flight = oldest + random.integers(auctions - oldest + 1 + _LEAD)
    hot_auction = random.integers(_HOT_AUCTIONS, size=count) > 0
    # The hot bidder is the second of 100 people, because the first is the hot seller.
    hot_bidder = random.integers(_HOT_BIDDERS, size=count) > 0
    hot_channel = random.integers(_HOT_CHANNELS, size=count) > 0
    channels, urls = _channels()
    channel = pa.array(
        np.where(
            hot_channel,
            _CHANNELS + random.integers(len(_HOT_CHANNEL_NAMES), size=count),
            random.integers(_CHANNELS, size=count),
        )
    )
    return _objects(
        BID,
        "bid",
        auction=np.where(hot_auction, auctions // _HOT_ROUND * _HOT_ROUND, in_flight) + _FIRST_ID,
        bidder=np.where(hot_bidder, people // _HOT_ROUND * _HOT_ROUND + 1, _active_person(people, random))
        + _FIRST_ID,
        price=_prices(count, random),
        channel=channels.take(channel),
        url=urls.take(channel),
        dateTime=_times(events, rate),
        extra=_extras(np.full(count, 32), _BID_BYTES, random),
    )


def _last_person(events: Numbers) -> Numbers:
    """The number of the newest person at each event, counted from 0."""
    return events // _EPOCH * _PEOPLE + np.minimum(events % _EPOCH, _PEOPLE - 1)


def _last_auction(events: Numbers) -> Numbers:
    """The number of the newest auction at each event, counted from 0. The events must not be people."""
    return events // _EPOCH * _AUCTIONS + np.minimum(events % _EPOCH - _PEOPLE, _AUCTIONS - 1)


def _active_person(people: Numbers, random: np.random.Generator) -> Numbers:
    """One of the last 1,000 people, or one of the next 10, who do not exist yet."""
    active = np.minimum(people + 1, _ACTIVE_PEOPLE)
    return people + 1 - active + random.integers(active + _LEAD)


def _prices(count: int, random: np.random.Generator) -> Numbers:
    """Cents, spread evenly over the orders of magnitude from 1 to 1,000,000 dollars."""
    return np.rint(10.0 ** (random.random(count) * 6) * 100).astype(np.int64)


def _times(events: Numbers, rate: int, later: Numbers | int = 0) -> pa.StringArray:
    return pa.array(np.datetime_as_string(FIRST_EVENT + events * 1000 // rate + later, unit="ms"))


@cache
def _pool(special: str) -> str:
    """Random letters to cut strings from; one of 13 characters is the special one."""
    random = np.random.default_rng([_POOL, ord(special or "-")])
    letters = random.integers(26, size=_POOL, dtype=np.uint8) + ord("a")
    if special:
        letters[random.integers(13, size=_POOL) == 0] = ord(special)
    return letters.tobytes().decode("ascii")


def _cuts(lengths: Numbers, random: np.random.Generator, pool: str) -> list[str]:
    starts = random.integers(_POOL - lengths)
    return [
        pool[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]


def _strings(count: int, longest: int, random: np.random.Generator, special: str = " ") -> list[str]:
    """Words of 3 to `longest` - 1 characters, before spaces at both ends are cut."""
    lengths = random.integers(3, longest, size=count)
    return [text.strip() for text in _cuts(lengths, random, _pool(special))]


def _extras(sizes: Numbers, desired: int, random: np.random.Generator) -> list[str]:
    """Text that fills events of these sizes up to the desired average, give or take 20 %."""
    rest = np.maximum(desired - sizes, 0)
    delta = np.rint(rest * 0.2).astype(np.int64)
    lengths = rest - delta + random.integers(np.maximum(2 * delta, 1))
    return _cuts(lengths, random, _pool(""))


@cache
def _channels() -> tuple[pa.StringArray, pa.StringArray]:
    """Names and addresses of the 10,000 channels and of the hot ones; nine of ten common addresses have an id."""
    random = np.random.default_rng(_CHANNELS)
    total = _CHANNELS + len(_HOT_CHANNEL_NAMES)
    parts = [_strings(total, 5, random, "_") for _ in range(3)]
    urls = [
        f"https://www.nexmark.com/{first}/{second}/{third}/item.htm?query=1"
        for first, second, third in zip(*parts, strict=True)
    ]
    identified = (random.integers(10, size=_CHANNELS) > 0).tolist()
    numbers = random.choice(1 << 31, size=_CHANNELS, replace=False).tolist()
    for channel, (has_id, number) in enumerate(zip(identified, numbers, strict=True)):
        if has_id:
            urls[channel] += f"&channel_id={number}"
    names = [f"channel-{channel}" for channel in range(_CHANNELS)]
    return pa.array([*names, *_HOT_CHANNEL_NAMES]), pa.array(urls)


def _objects(event_type: int, kind: str, **fields: Numbers | list[str] | pa.StringArray) -> pa.StringArray:
    """One JSON object per event. No text contains a character that JSON escapes."""
    parts: list[pa.StringArray | str] = [f'{{"event_type":{event_type},"{kind}":{{']
    for position, (name, values) in enumerate(fields.items()):
        array = values if isinstance(values, pa.Array) else pa.array(values)
        quote = '"' if pa.types.is_string(array.type) else ""
        parts += [f'{"," if position else ""}"{name}":{quote}', array.cast(pa.string()), quote]
    return pc.binary_join_element_wise(*parts, "}}", "")
