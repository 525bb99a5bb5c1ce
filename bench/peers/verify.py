"""Compares the rows of a peer with those that plain Python computes, as multisets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from bench.nexmark.expected import Auctions, Row, expected
from bench.nexmark.generator import lines, rows
from bench.nexmark.queries import Query

EVENTS, RATE, SEED = 5_000, 50, 7
"""The input: 100 seconds of event time, so that windows close."""
WINDOWED = ("q5", "q7", "q8", "q11")
FAR = "2015-07-16T00:00:00.000"
"""A time after all windows."""
QUIX_SECONDS = 30
"""Quix Streams closes a session 24 seconds after its last event, and not at the end of its input."""


class Differs(Exception):
    """The rows of a peer are not those of the query."""


def small_events() -> Iterator[str]:
    """The events of the comparison."""
    return lines(EVENTS, SEED, RATE)


def check(query: Query, file: Path, *, closes: bool = True) -> int:
    """Compare the rows in a file with the right ones; `closes`: the peer closes all windows at the end of its input.

    Returns the number of rows, or raises Differs.
    """
    right = all_rows(query)
    got = result(query, (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()))
    missing, extra = right - got, got - right
    if not closes and query.name in WINDOWED:
        missing = Counter({row: number for row, number in missing.items() if row[-1] < _last_certain()})
    if missing or extra or not got:
        raise Differs(
            f"{query.name}: {missing.total()} rows are missing, such as {next(iter(missing), None)}; "
            f"{extra.total()} are wrong, such as {next(iter(extra), None)}"
        )
    return got.total()


def all_rows(query: Query) -> Counter[Row]:
    """The right rows, with all windows closed."""
    later = [{kind: _later(kind)} for kind in ("person", "auction", "bid")] if query.name in WINDOWED else []
    events = Auctions(chain(_events(), later))
    return Counter({_plain(row): number for row, number in expected(query, events).items()})


def result(query: Query, changes: Iterable[tuple[str, list[Any]]]) -> Counter[Row]:
    """The rows after all changes; in update mode, the last row of each key."""
    if query.mode == "append":
        return Counter(_plain(row) for kind, row in changes)
    # In both queries with updates, the key is the first two columns.
    last = {tuple(row[:2]): _plain(row) for kind, row in changes if kind in ("+I", "+U")}
    return Counter(last.values())


def _later(kind: str) -> dict[str, Any]:
    """An event after all windows, which closes them; its own window stays open."""
    event = next(each[kind] for each in _events() if kind in each)
    return {**event, "dateTime": FAR}


@cache
def _events() -> list[dict[str, Any]]:
    return list(rows(EVENTS, SEED, RATE))


def _last_certain() -> str:
    """The end of the windows that a peer has certainly closed."""
    last = max(
        fields["dateTime"] for event in _events() for fields in event.values() if isinstance(fields, dict)
    )
    seconds = datetime.fromisoformat(last).timestamp() - QUIX_SECONDS
    return datetime.fromtimestamp(seconds).isoformat(timespec="milliseconds")


def _plain(row: Iterable[Any]) -> Row:
    """The row in one form: times as text with milliseconds, prices with three digits."""
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return (
                datetime.fromisoformat(value).isoformat(timespec="milliseconds")
                if value[:3] == "201"
                else value
            )
        except ValueError:
            return value
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return round(float(value), 3) if isinstance(value, float | Decimal | int) else value
