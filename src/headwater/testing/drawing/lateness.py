"""Which rows a batch dropped as late, told from what Spark counts and from the windows that came out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from math import gcd
from typing import Any

from headwater.testing.drawing.words import Calendar

MANY_WINDOWS = 1_000


class Fate(Enum):
    """What became of a row."""

    KEPT = "kept"
    BEHIND = "behind"
    """Behind the watermark: dropped in part, or it can't be told whether it was dropped."""
    DROPPED = "dropped"


@dataclass(frozen=True)
class Span:
    """The window of one output row, in microseconds, and the columns that tell it."""

    start: int
    end: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Windows:
    """The windows of a query as its output shows them."""

    length: int
    slide: int
    """Zero where windows begin with a row, as sessions do."""
    origin: int

    def ends(self, time: int) -> list[int]:
        """The ends of all windows that a row of this time belongs to."""
        if not self.slide:
            return [time + self.length]
        last = time - (time - self.origin) % self.slide
        return [start + self.length for start in range(last, time - self.length, -self.slide)]


def span_of(row: Mapping[str, Any], calendar: Calendar) -> Span | None:
    """A struct with start and end, or two columns of such names."""
    for name, value in row.items():
        if isinstance(value, Mapping) and _are_times(value.get("start"), value.get("end")):
            return _span(value["start"], value["end"], (name,), calendar)
        if name == "start" or name.endswith("_start"):
            pair = name.removesuffix("start") + "end"
            if _are_times(value, row.get(pair)):
                return _span(value, row[pair], (name, pair), calendar)
    return None


def _are_times(*values: Any) -> bool:
    return all(isinstance(value, datetime) for value in values)


def _span(start: datetime, end: datetime, columns: tuple[str, ...], calendar: Calendar) -> Span | None:
    span = Span(calendar.micros(start), calendar.micros(end), columns)
    return span if span.start < span.end else None


def windows_of(spans: Iterable[Span]) -> Windows | None:
    """The length and the slide that explain the windows seen; windows of several lengths are sessions."""
    seen = sorted({(span.start, span.end) for span in spans})
    if not seen:
        return None
    lengths = {end - start for start, end in seen}
    shortest, origin = min(lengths), seen[0][0]
    if len(lengths) > 1:
        return Windows(shortest, 0, origin)
    apart = gcd(*(start - origin for start, _ in seen))
    slide = gcd(apart, shortest) if apart == 0 or apart > shortest else apart
    return Windows(shortest, slide if shortest <= slide * MANY_WINDOWS else 0, origin)


def fates(times: Sequence[int], late: int, watermark: int | None, windows: Windows | None) -> list[Fate]:
    """What became of the rows of a batch.

    The watermark is the one of the batch before: Spark drops late rows by it, and by the batch's own one it
    only clears state. A row is called dropped only where that explains the number that Spark counted.
    """
    if watermark is None or not late:
        return [Fate.KEPT] * len(times)
    if windows is not None:
        ends = [windows.ends(time) for time in times]
        if _explained(ends, late, watermark):
            return [_fate_in(each, watermark) for each in ends]
    behind = [time <= watermark for time in times]
    told = Fate.DROPPED if sum(behind) == late else Fate.BEHIND
    return [told if each else Fate.KEPT for each in behind]


def _explained(ends: Sequence[Sequence[int]], late: int, watermark: int) -> bool:
    """Spark counts late rows once per window, and rows of one key and window as one at the least."""
    closed = [end for each in ends for end in each if end <= watermark]
    return len(set(closed)) <= late <= len(closed)


def _fate_in(ends: Sequence[int], watermark: int) -> Fate:
    closed = sum(end <= watermark for end in ends)
    if not closed:
        return Fate.KEPT
    return Fate.DROPPED if closed == len(ends) else Fate.BEHIND
