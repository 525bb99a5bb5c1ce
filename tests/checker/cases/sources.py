"""What the queries of the cases read: streams of files that come in two batches, and static tables.

Every stream ends with one row of 14:00, far later than all others: the watermark passes them in the batch
without rows that follows, and every window that a row before 14:00 is in has closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import headwater as hw

DELAY = "10 minutes"
CLOSED = "timestamp'2026-01-01 13:50:00'"
"""The watermark after the second batch."""


@dataclass(frozen=True)
class Source:
    """A source: its columns, and the rows of each file; a static one has all in one."""

    schema: str
    files: tuple[tuple[Mapping[str, Any], ...], ...]
    static: bool = False
    watermark: str = ""
    """The column that carries one; the delay is `DELAY`."""


def at(time: str) -> str:
    return f"2026-01-01T{time}:00Z"


def _event(time: str, word: str, n: int) -> dict[str, Any]:
    return {"at": at(time), "word": word, "n": n}


EVENTS = (
    (_event("12:01", "owl", 1), _event("12:03", "finch", 2), _event("12:11", "owl", 3)),
    (
        _event("12:08", "finch", 4),
        _event("12:12", "owl", 3),
        _event("12:11", "owl", 3),
        _event("14:00", "heron", 6),
    ),
)
"""The rows of a batch are judged by the watermark of the one before: none is late. One comes twice."""


def _shown(time: str, ad: int) -> dict[str, Any]:
    return {"shown_at": at(time), "ad": ad}


def _clicked(time: str, ad: int, by: str) -> dict[str, Any]:
    return {"clicked_at": at(time), "clicked_ad": ad, "by": by}


SHOWN = (
    (_shown("12:00", 1), _shown("12:01", 2), _shown("12:02", 3)),
    (_shown("12:05", 4), _shown("14:00", 9)),
)
CLICKED = (
    (_clicked("12:02", 1, "ann"), _clicked("12:03", 7, "bob")),
    (_clicked("12:06", 2, "cem"), _clicked("12:07", 4, "dee"), _clicked("14:00", 8, "eve")),
)

_EVENT_COLUMNS = "at timestamp, word string, n int"
_SHOWN_COLUMNS = "shown_at timestamp, ad int"
_CLICKED_COLUMNS = "clicked_at timestamp, clicked_ad int, by string"
_WORDS = (
    {"word": "owl", "family": "strigidae"},
    {"word": "heron", "family": "ardeidae"},
    {"word": "emu", "family": "casuariidae"},
)

SOURCES = {
    "events": Source(_EVENT_COLUMNS, EVENTS),
    "marked": Source(_EVENT_COLUMNS, EVENTS, watermark="at"),
    "shown": Source(_SHOWN_COLUMNS, SHOWN),
    "shown_marked": Source(_SHOWN_COLUMNS, SHOWN, watermark="shown_at"),
    "clicked": Source(_CLICKED_COLUMNS, CLICKED),
    "clicked_marked": Source(_CLICKED_COLUMNS, CLICKED, watermark="clicked_at"),
    "words": Source("word string, family string", (_WORDS,), static=True),
}

CLOCKS = {
    "ticks": hw.rate(rows_per_second=20, num_partitions=1),
    "counted": hw.rate_per_batch(rows_per_batch=3, num_partitions=1),
}
"""Streams of a clock: they have no batch form, and no end."""
