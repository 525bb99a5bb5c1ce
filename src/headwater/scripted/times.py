"""Times and days as people write them in tests: `12:07`, `2026-01-01 12:07`, `2026-01-01T12:07:00Z`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any

# How the rows of a test are read, and what is said about one that can't be.

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Reading:
    """The day and the zone of times that are written without them."""

    day: date
    zone: tzinfo


class BadRow(Exception):
    """A value that does not fit its column."""

    def __init__(self, says: str, column: str = "") -> None:
        super().__init__(f"{column}: {says}" if column else says)
        self.says = says
        """What is wrong and what is wanted: a sentence without its full stop."""
        self.column = column
        """`address.city`, `tags[0]`; empty where the row as a whole is meant."""


class Cell(str):
    """A text of which only its column tells the kind: a cell of a csv file, a key of a mapping in YAML."""


def written(value: Any) -> str:
    """A value as one would write it in a test, short enough for a sentence."""
    text = json.dumps(value, default=_other, ensure_ascii=False, skipkeys=True)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _other(value: Any) -> str:
    return str(value)


_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?"
_OFFSET = r"Z|[+-][0-9]{2}:?[0-9]{2}"
_WRITTEN_DAY = re.compile(_DAY)
_WRITTEN_TIME = re.compile(rf"(?:(?P<day>{_DAY})(?:T| +))?{_CLOCK}(?: ?(?P<offset>{_OFFSET}))?")
_TIMES = "such as 12:07, 12:07:30.5, 2026-01-01 12:07 or 2026-01-01T12:07:00Z"


def read_time(value: Any, reading: Reading) -> datetime:
    """A moment, in UTC; what has no zone is in the zone of the reading, what has no day on its day."""
    return _moment(_in_parts(value, reading), value, reading.zone)


def read_local_time(value: Any, reading: Reading) -> datetime:
    """A time that stays without a zone."""
    local = _in_parts(value, reading)
    if local.tzinfo is not None:
        raise BadRow(f"{written(value)} has a zone, and this is a time without one, such as 2026-01-01 12:07")
    # Which of two equal times is meant is a question of zones only.
    return local.replace(fold=0)


def read_date(value: Any) -> date:
    """A day."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    found = _day(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadRow(f"{written(value)} is not a day, such as 2026-01-01")
    return found


def _in_parts(value: Any, reading: Reading) -> datetime:
    """The written time, with its zone if it has one."""
    match value:
        case datetime():
            return value
        case date():
            return datetime.combine(value, time())
        case time():
            return datetime.combine(reading.day, value)
        case str():
            found = _parsed(value.strip(), reading.day)
        case _:
            found = None
    if found is None:
        raise BadRow(f"{written(value)} is not a time, {_TIMES}")
    return found


def _parsed(text: str, default: date) -> datetime | None:
    if day := _day(text):
        return datetime.combine(day, time())
    found = _WRITTEN_TIME.fullmatch(text)
    day = _day(found["day"]) if found and found["day"] else default
    if found is None or day is None:
        return None
    microsecond = int((found["fraction"] or "").ljust(6, "0"))
    try:
        clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0), microsecond)
        return datetime.combine(day, clock, _offset(found["offset"]))
    except ValueError:
        return None


def _day(text: str) -> date | None:
    if not _WRITTEN_DAY.fullmatch(text):
        return None
    try:
        return date(*(int(part) for part in text.split("-")))
    except ValueError:
        return None


def _offset(text: str | None) -> tzinfo | None:
    return datetime.strptime(text, "%z").tzinfo if text else None


def _moment(found: datetime, value: Any, zone: tzinfo) -> datetime:
    try:
        if found.tzinfo is not None:
            return found.astimezone(UTC)
        moment = found.replace(tzinfo=zone).astimezone(UTC)
        back = moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise BadRow(f"{written(value)} is before the year 1 or after 9999 in UTC") from None
    if back != found:
        raise BadRow(
            f"{written(value)} does not exist in {zone}: clocks go forward there; add Z or an offset"
        )
    return moment
