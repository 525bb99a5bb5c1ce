"""The results of the Nexmark queries, computed with plain Python over all events: what a correct engine returns.

A query in append mode returns a window when the watermark has passed its end, so the last windows are missing. A
query in update mode is compared by the last row of each key.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bench.nexmark.generator import SIDE_INPUT_ROWS
from bench.nexmark.queries import Query

Row = tuple[Any, ...]
Event = Mapping[str, Any]

_ZERO = datetime(1970, 1, 1)
_WINDOW, _SLIDE, _GAP, _DELAY = (timedelta(seconds=seconds) for seconds in (10, 2, 10, 4))


class Auctions:
    """All events by kind, with their times as values."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.people: list[dict[str, Any]] = []
        self.auctions: list[dict[str, Any]] = []
        self.bids: list[dict[str, Any]] = []
        for event in events:
            for kind, found in (("person", self.people), ("auction", self.auctions), ("bid", self.bids)):
                if kind in event:
                    found.append(_timed(event[kind]))


def _timed(fields: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: datetime.fromisoformat(fields[name]) for name in ("dateTime", "expires") if name in fields}
    return {**fields, **times}


def expected(query: Query, events: Auctions) -> Counter[Row]:
    """The rows of a query, without the columns that depend on the time of the run."""
    return Counter(_RESULTS[query.name](events))


def _watermark(*streams: Sequence[Mapping[str, Any]]) -> datetime:
    """The watermark after all events: the slowest of the streams."""
    slowest: datetime = min(max(row["dateTime"] for row in stream) for stream in streams)
    return slowest - _DELAY


def _start(time: datetime, length: timedelta) -> datetime:
    return time - (time - _ZERO) % length


def _picked(rows: Iterable[Mapping[str, Any]], *names: str) -> Iterator[Row]:
    return (tuple(row[name] for name in names) for row in rows)


def _q0(events: Auctions) -> Iterator[Row]:
    return _picked(events.bids, "auction", "bidder", "price", "dateTime", "extra")


def _euros(bid: Mapping[str, Any]) -> Decimal:
    return Decimal("0.908") * int(bid["price"])


def _q1(events: Auctions) -> Iterator[Row]:
    converted = ({**bid, "price": _euros(bid)} for bid in events.bids)
    return _picked(converted, "auction", "bidder", "price", "dateTime", "extra")


def _q2(events: Auctions) -> Iterator[Row]:
    return _picked((bid for bid in events.bids if bid["auction"] % 123 == 0), "auction", "price")


def _q3(events: Auctions) -> Iterator[Row]:
    people = {person["id"]: person for person in events.people if person["state"] in ("OR", "ID", "CA")}
    for auction in events.auctions:
        if auction["category"] == 10 and auction["seller"] in people:
            person = people[auction["seller"]]
            yield person["name"], person["city"], person["state"], auction["id"]


def _q5(events: Auctions) -> Iterator[Row]:
    counts: dict[datetime, Counter[int]] = defaultdict(Counter)
    for bid in events.bids:
        start = _start(bid["dateTime"], _SLIDE)
        while start + _WINDOW > bid["dateTime"]:
            counts[start][bid["auction"]] += 1
            start -= _SLIDE
    for start, count in counts.items():
        if start + _WINDOW <= _watermark(events.bids):
            yield from ((auction, num) for auction, num in count.items() if num == max(count.values()))


def _q7(events: Auctions) -> Iterator[Row]:
    highest: dict[datetime, int] = defaultdict(int)
    for bid in events.bids:
        start = _start(bid["dateTime"], _WINDOW)
        highest[start] = max(highest[start], bid["price"])
    for bid in events.bids:
        start = _start(bid["dateTime"], _WINDOW)
        if start + _WINDOW <= _watermark(events.bids) and bid["price"] == highest[start]:
            yield bid["auction"], bid["price"], bid["bidder"], bid["dateTime"], bid["extra"]


def _q8(events: Auctions) -> Iterator[Row]:
    opened = {(auction["seller"], _start(auction["dateTime"], _WINDOW)) for auction in events.auctions}
    for person in events.people:
        start = _start(person["dateTime"], _WINDOW)
        closed = start + _WINDOW <= _watermark(events.people, events.auctions)
        if closed and (person["id"], start) in opened:
            yield person["id"], person["name"], start


def _q10(events: Auctions) -> Iterator[Row]:
    for bid in events.bids:
        time = bid["dateTime"]
        yield (
            bid["auction"],
            bid["bidder"],
            bid["price"],
            time,
            bid["extra"],
            f"{time:%Y-%m-%d}",
            f"{time:%H-%M}",
        )


def _q11(events: Auctions) -> Iterator[Row]:
    times: dict[int, list[datetime]] = defaultdict(list)
    for bid in events.bids:
        times[bid["bidder"]].append(bid["dateTime"])
    for bidder, bids in times.items():
        sessions: list[list[datetime]] = []
        for time in bids:
            if not sessions or time > sessions[-1][-1] + _GAP:
                sessions.append([])
            sessions[-1].append(time)
        for session in sessions:
            if session[-1] + _GAP <= _watermark(events.bids):
                yield bidder, len(session), session[0], session[-1] + _GAP


def _q12(events: Auctions) -> Iterator[Row]:
    yield from Counter(bid["bidder"] for bid in events.bids).items()


def _q13(events: Auctions) -> Iterator[Row]:
    for bid in events.bids:
        key = bid["auction"] % SIDE_INPUT_ROWS
        yield bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], str(key)


def _q14(events: Auctions) -> Iterator[Row]:
    for bid in events.bids:
        price, hour = _euros(bid), bid["dateTime"].hour
        if not 1_000_000 < price < 50_000_000:
            continue
        kind = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
        count = bid["extra"].count("c")
        yield bid["auction"], bid["bidder"], price, kind, bid["dateTime"], bid["extra"], count


def _q17(events: Auctions) -> Iterator[Row]:
    prices: dict[tuple[int, str], list[int]] = defaultdict(list)
    for bid in events.bids:
        prices[bid["auction"], f"{bid['dateTime']:%Y-%m-%d}"].append(bid["price"])
    for (auction, day), bids in prices.items():
        low, high = sum(price < 10_000 for price in bids), sum(price >= 1_000_000 for price in bids)
        ranks = (low, len(bids) - low - high, high)
        yield (auction, day, len(bids), *ranks, min(bids), max(bids), sum(bids) // len(bids), sum(bids))


def _q18(events: Auctions) -> Iterator[Row]:
    names = ("price", "channel", "url", "dateTime", "extra")
    last: dict[tuple[int, int], dict[str, Any]] = {}
    for bid in events.bids:
        key = (bid["auction"], bid["bidder"])
        if key not in last or _order(bid) > _order(last[key]):
            last[key] = bid
    for key, bid in last.items():
        yield (*key, *(bid[name] for name in names))


def _order(bid: Mapping[str, Any]) -> Row:
    return tuple(bid[name] for name in ("dateTime", "price", "channel", "url", "extra"))


def _q20(events: Auctions) -> Iterator[Row]:
    auctions = {auction["id"]: auction for auction in events.auctions if auction["category"] == 10}
    ours = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
    theirs = (
        "itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category", "extra",
    )  # fmt: skip
    for bid in events.bids:
        if bid["auction"] in auctions:
            auction = auctions[bid["auction"]]
            yield (*(bid[name] for name in ours), *(auction[name] for name in theirs))


def _q21(events: Auctions) -> Iterator[Row]:
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    for bid in events.bids:
        found = re.search(r"(?:&|^)channel_id=([^&]*)", bid["url"])
        channel = known.get(bid["channel"].lower(), found.group(1) if found else "")
        if channel:
            yield bid["auction"], bid["bidder"], bid["price"], bid["channel"], channel


def _q22(events: Auctions) -> Iterator[Row]:
    for bid in events.bids:
        yield (bid["auction"], bid["bidder"], bid["price"], bid["channel"], *bid["url"].split("/")[3:6])


_RESULTS: Mapping[str, Callable[[Auctions], Iterator[Row]]] = {
    "q0": _q0,
    "q1": _q1,
    "q2": _q2,
    "q3": _q3,
    "q5": _q5,
    "q7": _q7,
    "q8": _q8,
    "q10": _q10,
    "q11": _q11,
    "q12": _q12,
    "q13": _q13,
    "q14": _q14,
    "q17": _q17,
    "q18": _q18,
    "q20": _q20,
    "q21": _q21,
    "q22": _q22,
}
