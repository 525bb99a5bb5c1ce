"""SVG as strings: elements, numbers and escaping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from xml.sax.saxutils import escape, quoteattr
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.testing.results import TestResult

INK = "#1f2937"
FAINT = "#6b7280"
GRID = "#e5e7eb"
RED = "#c81e1e"
LETTER = 0.6
"""The width of an average letter, in sizes of the font."""
# XML has no way to write these characters at all.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """To a tenth of a pixel; adding zero takes the sign off a zero."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def element(tag: str, content: str = "", /, **attributes: str | float) -> str:
    """One element; the content is SVG already, and `font_size` means `font-size`, `class_` means `class`."""
    texts = {name: value if isinstance(value, str) else number(value) for name, value in attributes.items()}
    written = "".join(
        f" {name.strip('_').replace('_', '-')}={quoteattr(clean(text))}" for name, text in texts.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def clean(text: str) -> str:
    return _UNWRITABLE.sub("�", text)


def words(text: str) -> str:
    """Text as content of an element."""
    return escape(clean(text))


def label(x: float, y: float, text: str, /, **attributes: str | float) -> str:
    return element("text", words(text), x=x, y=y, **attributes)


def haloed(x: float, y: float, text: str, /, **attributes: str | float) -> str:
    """Text that stays readable on top of lines."""
    halo: dict[str, str | float] = {"paint_order": "stroke", "stroke": "#fff", "stroke_width": 3}
    return label(x, y, text, **halo, stroke_linejoin="round", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def path_through(points: Iterable[tuple[float, float]], **attributes: str | float) -> str:
    written = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return element("polyline", points=written, fill="none", **attributes)


def group(parts: Iterable[str], **attributes: str | float) -> str:
    return element("g", "\n" + "\n".join(parts) + "\n", **attributes)


def width_of(text: str, size: float) -> float:
    """About how wide a text is; fonts differ, so rather too much."""
    return len(text) * size * LETTER


# The short texts of a picture: times, rows and values.

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
LONGEST_LABEL = 18
LONGEST_VALUE = 14


@dataclass(frozen=True)
class Calendar:
    """The zone in which times are shown, and the day that needs no saying."""

    zone: tzinfo
    zone_name: str
    day: date

    def micros(self, time: datetime) -> int:
        """A time as a number; one without a zone is meant in the zone of the picture."""
        known = time if time.tzinfo else time.replace(tzinfo=self.zone)
        return (known - EPOCH) // timedelta(microseconds=1)

    def local(self, micros: int) -> datetime:
        return (EPOCH + timedelta(microseconds=micros)).astimezone(self.zone)

    def offset(self, micros: int) -> int:
        """How far the zone's clock is ahead of UTC."""
        return (self.local(micros).utcoffset() or timedelta()) // timedelta(microseconds=1)

    def short(self, micros: int) -> str:
        """`12:07`, with the day only where it is another one."""
        local = self.local(micros)
        return clock(local) if local.date() == self.day else f"{self.dated(local.date())} {clock(local)}"

    def dated(self, day: date) -> str:
        """`2 Jan`, with the year only where it is another one."""
        written = f"{day.day} {MONTHS[day.month - 1]}"
        return written if day.year == self.day.year else f"{written} {day.year}"


def calendar_of(result: TestResult) -> Calendar:
    """Zones that only Spark knows, such as `GMT+3`, are shown in UTC."""
    day = date.fromisoformat(result.day)
    try:
        return Calendar(ZoneInfo(result.zone), result.zone, day)
    except (ZoneInfoNotFoundError, ValueError):
        return Calendar(UTC, "UTC", day)


def clock(local: datetime) -> str:
    """Hours and minutes, and as much more as there is."""
    if local.microsecond:
        return local.strftime("%H:%M:%S.%f").rstrip("0")
    return local.strftime("%H:%M:%S" if local.second else "%H:%M")


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def value_text(value: Any, calendar: Calendar) -> str:
    """A value in a few letters."""
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return calendar.short(calendar.micros(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return " ".join(value_text(each, calendar) for each in value.values())
    return cut(" ".join(str(value).split()), LONGEST_VALUE)


def row_label(time: int, row: Mapping[str, Any], calendar: Calendar) -> str:
    """The time of a row and the first of its values that is not a time: `12:07 owl`."""
    named = (each for each in row.values() if each is not None and not isinstance(each, datetime))
    first = next(named, None)
    shown = calendar.short(time)
    return shown if first is None else cut(f"{shown} {value_text(first, calendar)}", LONGEST_LABEL)
