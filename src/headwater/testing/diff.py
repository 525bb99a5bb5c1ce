"""Two multisets of rows compared, exactly."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from headwater.loaders.yaml_nodes import resolve
from headwater.scripted.values import NotANumber, canonical
from headwater.testing.results import RowDiff, Values
from headwater.values import Duration

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# Values, rows and differences as a person would write them in a test.

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
    # Where clocks were put back, they show a time a second time.
    twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
    return shown + (local.strftime("%z") if twice else "")


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


__all__ = ["compare", "describe", "show"]

_MOST_PAIRS = 200 * 200

_Row = tuple[Hashable, Values]
"""A row in canonical form, and as it is."""


def compare(expected: Sequence[Values], got: Sequence[Values], schema: StructType) -> RowDiff | None:
    """What is different, or None; the order of neither side matters, every repetition does."""
    wanted = [(canonical(row, schema), row) for row in expected]
    found = [(canonical(row, schema), row) for row in got]
    missing, unexpected = list(_beyond(wanted, found)), list(_beyond(found, wanted))
    if not missing and not unexpected:
        return None
    # Spark promises no order of rows, and the same difference should always look the same.
    unexpected.sort(key=lambda row: _order(row[0]))
    pairs = _pairs(missing, unexpected)
    return RowDiff(
        columns=tuple(schema.names),
        missing=_without(missing, {first for first, _ in pairs}),
        unexpected=_without(unexpected, {second for _, second in pairs}),
        changed=tuple((missing[first][1], unexpected[second][1]) for first, second in pairs),
        same=len(wanted) - len(missing),
    )


def _beyond(rows: list[_Row], others: list[_Row]) -> Iterator[_Row]:
    """The rows that the others do not hold, or do not hold as often."""
    spare = Counter(key for key, _ in others)
    for key, row in rows:
        if spare[key] > 0:
            spare[key] -= 1
        else:
            yield key, row


def _without(rows: list[_Row], taken: set[int]) -> tuple[Values, ...]:
    return tuple(row for index, (_, row) in enumerate(rows) if index not in taken)


def _pairs(missing: list[_Row], unexpected: list[_Row]) -> list[tuple[int, int]]:
    """The rows that most likely stand for each other, by their places; the closest are paired first."""
    if len(missing) * len(unexpected) > _MOST_PAIRS:
        return []
    near = sorted(
        (-agreeing, first, second)
        for first, (wanted, _) in enumerate(missing)
        for second, (found, _) in enumerate(unexpected)
        if (agreeing := _agreeing(wanted, found))
    )
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    for _, first, second in near:
        if first not in chosen and second not in taken:
            chosen[first] = second
            taken.add(second)
    return sorted(chosen.items())


def _agreeing(wanted: Any, found: Any) -> int:
    """How many columns hold the same; none do if only nulls are the same."""
    same = [pair[1] for pair, other in zip(wanted, found, strict=True) if pair == other]
    return len(same) if any(value is not None for value in same) else 0


def _order(value: Any) -> tuple[Any, ...]:
    """Sorts canonical values of one type: null first, NaN last."""
    if value is None:
        return (0,)
    if value is NotANumber.NAN:
        return (2,)
    if isinstance(value, tuple):
        return (1, tuple(_order(item) for item in value))
    if isinstance(value, frozenset):
        return (1, tuple(sorted(_order(item) for item in value)))
    return (1, value)
