"""Values, rows and differences as a person would write them in a test."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from headwater.loaders.yaml_nodes import resolve
from headwater.testing.results import RowDiff, Values
from headwater.values import Duration

MOST_LINES = 20

_NUMBER_WORDS = {"nan", "infinity", "-infinity", "+infinity"}
_LIKE_TIME = re.compile(r"[0-9]+(?:[-:][0-9]+)+.*")
_BREAKS = re.compile(r"[,{}\[\]\"'#\x00-\x1f\x7f]|: |:$|^[-?&*!|>%@`] ?")
_MILLISECOND = timedelta(milliseconds=1)


def show(value: Any, zone: tzinfo | str, day: date | str) -> str:
    """The value as one would write it: `12:07` on the default day in the zone, `null`, `{a: 1}`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case datetime():
            return _time(value, zone, day)
        case Mapping():
            pairs = (f"{show(key, zone, day)}: {show(item, zone, day)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(show(item, zone, day) for item in value) + "]"
        case _:
            return _scalar(value)


def _scalar(value: Any) -> str:
    match value:
        case float():
            return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        case Decimal():
            return format(value, "f")
        case timedelta():
            return _length(value)
        case bytes():
            return _bytes(value)
        case _:
            return str(value)


def _text(text: str) -> str:
    """The text, in quotes where it would be taken for something else."""
    mistaken = (
        text != text.strip()
        or not isinstance(resolve(text), str)
        or text.lower() in _NUMBER_WORDS
        or _LIKE_TIME.fullmatch(text)
        or _BREAKS.search(text)
    )
    return json.dumps(text, ensure_ascii=False) if mistaken else text


def _bytes(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    return _text(text) if text.isprintable() and (text or not value) else f"0x{value.hex()}"


def _length(value: timedelta) -> str:
    milliseconds, rest = divmod(abs(value), _MILLISECOND)
    sign = "-" if value < timedelta() else ""
    return f"{sign}{abs(value)}" if rest else f"{sign}{Duration(milliseconds)}"


def _time(value: datetime, zone: tzinfo | str, day: date | str) -> str:
    local = value.astimezone(ZoneInfo(zone) if isinstance(zone, str) else zone) if value.tzinfo else value
    clock = local.strftime("%H:%M:%S.%f").rstrip("0").removesuffix(".") if local.microsecond else ""
    clock = clock or local.strftime("%H:%M:%S" if local.second else "%H:%M")
    shown = clock if local.date().isoformat() == str(day) else f"{local.date().isoformat()} {clock}"
    return shown + (local.strftime("%z") if _comes_twice(local) else "")


def _comes_twice(local: datetime) -> bool:
    """Clocks were put back, and show this time a second time."""
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def describe(diff: RowDiff, zone: tzinfo | str, day: date | str) -> list[str]:
    """The differences in lines: how many of each kind, then the rows."""

    def row(values: Values) -> str:
        return show({name: values.get(name) for name in diff.columns}, zone, day)

    def change(pair: tuple[Values, Values]) -> str:
        return f"{row(pair[0])}   {_changes(*pair, diff.columns, zone, day)}"

    return [
        "  " + _counts(diff),
        *_listed("- missing     ", "missing", map(row, diff.missing)),
        *_listed("+ unexpected  ", "unexpected", map(row, diff.unexpected)),
        *_listed("~ changed     ", "changed", map(change, diff.changed)),
    ]


def _counts(diff: RowDiff) -> str:
    kinds = {"missing": diff.missing, "unexpected": diff.unexpected, "changed": diff.changed}
    same = f"{diff.same or 'no'} {'row' if diff.same == 1 else 'rows'} as expected"
    return ", ".join([same, *(f"{len(rows)} {kind}" for kind, rows in kinds.items() if rows)])


def _listed(head: str, kind: str, rows: Iterable[str]) -> Iterator[str]:
    """One line for each row that is different; equal ones are counted."""
    times: dict[str, int] = {}
    for row in rows:
        times[row] = times.get(row, 0) + 1
    for row, count in list(times.items())[:MOST_LINES]:
        yield f"  {head}{row}" + (f"   ({count} times)" if count > 1 else "")
    if rest := sum(list(times.values())[MOST_LINES:]):
        yield f"  … and {rest} more {kind}"


def _changes(
    expected: Values, got: Values, columns: Iterable[str], zone: tzinfo | str, day: date | str
) -> str:
    return "; ".join(
        f"{name}: expected {show(expected.get(name), zone, day)}, got {show(got.get(name), zone, day)}"
        for name in columns
        if not _same(expected.get(name), got.get(name))
    )


def _same(one: Any, other: Any) -> bool:
    """Equal, and NaN equals NaN."""
    match one, other:
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case _:
            return bool(one == other)
