"""The short texts of a picture: times, rows and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.testing.results import TestResult

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
