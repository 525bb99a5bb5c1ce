"""Rows of a test as plain Python values: read as a person wrote them, or as Spark returned them.

The form is the same in both directions: timestamps in UTC, structs and maps as dicts, arrays as lists.
PySpark is not loaded: types are distinguished by their names.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.values import Duration, nearest

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class LocalDay:
    """The day and the time zone of times that are written without them."""

    day: date
    zone: tzinfo


class BadRow(Exception):
    """A value that does not match its column."""

    def __init__(self, says: str, column: str = "") -> None:
        super().__init__(f"{column}: {says}" if column else says)
        self.says = says
        """The problem and what is expected: a sentence without its period."""
        self.column = column
        """`address.city`, `tags[0]`; empty for the row as a whole."""


class Cell(str):
    """A text whose type only its column determines: a cell of a CSV file, a key of a mapping in YAML."""


def written(value: Any) -> str:
    """A value in the notation of a test, short enough for a message."""
    text = json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


# Times and days as people write them: `12:07`, `2026-01-01 12:07`, `2026-01-01T12:07:00Z`.

_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?"
_OFFSET = r"Z|[+-][0-9]{2}:?[0-9]{2}"
_WRITTEN_TIME = re.compile(rf"(?:(?P<day>{_DAY})(?:T| +))?{_CLOCK}(?: ?(?P<offset>{_OFFSET}))?")
_TIMES = "such as 12:07, 12:07:30.5, 2026-01-01 12:07 or 2026-01-01T12:07:00Z"


def read_time(value: Any, local: LocalDay) -> datetime:
    """A moment, in UTC; without a time zone or a day, it is in this zone and on this day."""
    found = _time(value, local)
    try:
        if found.tzinfo is not None:
            return found.astimezone(UTC)
        moment = found.replace(tzinfo=local.zone).astimezone(UTC)
        back = moment.astimezone(local.zone).replace(tzinfo=None)
    except OverflowError:
        raise BadRow(f"{written(value)} is before the year 1 or after 9999 in UTC") from None
    if back != found:
        forward = f"does not exist in {local.zone}, where clocks are set forward; add Z or an offset"
        raise BadRow(f"{written(value)} {forward}")
    return moment


def _local_time(value: Any, type: Any, local: LocalDay) -> datetime:
    """A time that stays without a time zone."""
    found = _time(value, local)
    if found.tzinfo is not None:
        raise BadRow(f"expected a time without a time zone, such as 2026-01-01 12:07, got {written(value)}")
    # Which of two equal times is meant depends on time zones only.
    return found.replace(fold=0)


def read_date(value: Any) -> date:
    """A day."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    found = _day(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadRow(f"expected a day such as 2026-01-01, got {written(value)}")
    return found


def _time(value: Any, local: LocalDay) -> datetime:
    """The written time, with its time zone if it has one."""
    match value:
        case datetime():
            return value
        case date():
            return datetime.combine(value, time())
        case time():
            return datetime.combine(local.day, value)
    found = _parsed_time(value.strip(), local.day) if isinstance(value, str) else None
    if found is None:
        raise BadRow(f"expected a time {_TIMES}, got {written(value)}")
    return found


def _parsed_time(text: str, default: date) -> datetime | None:
    if day := _day(text):
        return datetime.combine(day, time())
    found = _WRITTEN_TIME.fullmatch(text)
    day = _day(found["day"]) if found and found["day"] else default
    if found is None or day is None:
        return None
    microsecond = int((found["fraction"] or "").ljust(6, "0"))
    try:
        zone = datetime.strptime(found["offset"], "%z").tzinfo if found["offset"] else None
        clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0), microsecond, zone)
    except ValueError:
        return None
    return datetime.combine(day, clock)


def _day(text: str) -> date | None:
    try:
        return date(*map(int, text.split("-"))) if re.fullmatch(_DAY, text) else None
    except ValueError:
        return None


# Single values of a row, read for the type of their column.

Reader = Callable[[Any, Any, LocalDay], Any]
"""Arguments: a value as written, Spark's type of its column, and the default day."""

_BYTES = {"byte": 1, "short": 2, "integer": 4, "long": 8}
_TRUTHS = {"true": True, "false": False}
_WHOLE = re.compile(r"[-+]?[0-9]{1,40}")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORDS = {word: float(word) for word in ("nan", "infinity", "+infinity", "-infinity")}
_MICROSECOND = timedelta(microseconds=1)


def _boolean(value: Any, type: Any, local: LocalDay) -> bool:
    found = _TRUTHS.get(value.strip().lower()) if isinstance(value, Cell) else value
    if not isinstance(found, bool):
        raise BadRow(f"expected a boolean, got {written(value)}{_unquoted(value, _TRUTHS)}")
    return found


def _whole(value: Any, type: Any, local: LocalDay) -> int:
    found = int(value) if isinstance(value, Cell) and _WHOLE.fullmatch(value.strip()) else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise BadRow(f"expected an integer such as 3, got {written(value)}{_unquoted(value, _WHOLE)}")
    limit = 2 ** (8 * _BYTES[type.typeName()] - 1)
    if not -limit <= found < limit:
        raise BadRow(f"{written(value)} is out of range for {type.simpleString()}: {-limit} to {limit - 1}")
    return int(found)


def _float(value: Any, type: Any, local: LocalDay) -> float:
    found = _double(value, type, local)
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", found))[0]
    except OverflowError:
        raise BadRow(f"{written(value)} is too large for float; the maximum is about 3.4e38") from None
    return narrow


def _double(value: Any, type: Any, local: LocalDay) -> float:
    found = value
    if isinstance(value, str):
        word = value.strip().lower()
        number = isinstance(value, Cell) and _NUMBER.fullmatch(word)
        found = float(word) if number else _WORDS.get(word)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise BadRow(f"expected a number such as 1.5 or NaN, got {written(value)}{_unquoted(value, _NUMBER)}")
    try:
        return float(found)
    except OverflowError:
        raise BadRow(f"{written(value)} is too large for {type.simpleString()}") from None


def _decimal(value: Any, type: Any, local: LocalDay) -> Decimal:
    number = Decimal("NaN")
    if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool):
        with suppress(InvalidOperation):
            # The shortest text of a float is what was written; its exact binary value is not.
            number = Decimal(repr(float(value)) if isinstance(value, float) else value)
    if not number.is_finite():
        raise BadRow(f"expected a decimal number such as 12.50, got {written(value)}")
    exactly = Context(prec=type.precision, traps=[InvalidOperation, Inexact])
    try:
        return number.quantize(Decimal(1).scaleb(-type.scale), context=exactly)
    except (InvalidOperation, Inexact):
        before = type.precision - type.scale
        raise BadRow(
            f"{written(value)} is out of range for {type.simpleString()}: "
            f"{before} digits before the decimal point and {type.scale} after it"
        ) from None


def _text(value: Any, type: Any, local: LocalDay) -> str:
    if isinstance(value, bool | int | float):
        raise BadRow(f'expected a string, got {written(value)}: quote it, as in "{written(value)}"')
    if not isinstance(value, str):
        raise BadRow(f'expected a string such as "owl", got {written(value)}')
    _encoded(value)
    return str(value)


def _binary(value: Any, type: Any, local: LocalDay) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise BadRow(f'expected a string such as "owl", or bytes in Python, got {written(value)}')
    return _encoded(value)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise BadRow(f"invalid string: it contains {half}, one half of a surrogate pair") from None


def _interval(value: Any, type: Any, local: LocalDay) -> timedelta:
    found = value
    if isinstance(value, str):
        # A duration may have a minus sign.
        sign = -1 if value.lstrip().startswith("-") else 1
        with suppress(ValueError):
            found = sign * timedelta(milliseconds=Duration.parse(value.lstrip(" -")).milliseconds)
    if not isinstance(found, timedelta):
        raise BadRow(f'expected a duration such as "10 minutes" or "1 hour 30 minutes", got {written(value)}')
    if not -(2**63) <= found // _MICROSECOND < 2**63:
        raise BadRow(f"{written(value)} is too long for Spark")
    return found


def _unquoted(value: Any, known: re.Pattern[str] | Mapping[str, Any]) -> str:
    """A hint if a quoted value would be valid without its quotes."""
    if not isinstance(value, str) or isinstance(value, Cell):
        return ""
    fits = known.fullmatch(value) if isinstance(known, re.Pattern) else value in known
    return f": write {value} without quotes" if fits else ""


_READERS: Mapping[str, Reader] = {
    "boolean": _boolean,
    **dict.fromkeys(_BYTES, _whole),
    "float": _float,
    "double": _double,
    "decimal": _decimal,
    **dict.fromkeys(("string", "char", "varchar"), _text),
    "binary": _binary,
    "date": lambda value, type, local: read_date(value),
    "timestamp": lambda value, type, local: read_time(value, local),
    "timestamp_ntz": _local_time,
    "daytimeinterval": _interval,
}

_MOST_NAMES = 12


class NotANumber(Enum):
    """Represents NaN when values are compared, because NaN does not equal itself."""

    NAN = "NaN"


def read_row(
    values: Mapping[str, Any] | Sequence[Any], schema: StructType, local: LocalDay
) -> dict[str, Any]:
    """The row with exactly the columns of the schema; BadRow reports what does not match."""
    return _read_struct(values, schema, local, "")


def plain(value: Any, type: DataType) -> Any:
    """A value from pyarrow, in the form that `read_row` returns."""
    made = _PLAIN.get(type.typeName())
    return made(value, type) if made and value is not None else value


def canonical(value: Any, type: DataType) -> Hashable:
    """A value in either form, such that equal values are equal and hashable."""
    made = _CANONICAL.get(type.typeName(), _hashable)
    return made(value, type) if value is not None else None


def _read(value: Any, type: Any, nullable: bool, local: LocalDay, path: str) -> Any:
    if value is None:
        if not nullable:
            raise BadRow("the value is missing, but the column cannot be null", path)
        return None
    if nested := _NESTED.get(type.typeName()):
        if isinstance(value, Cell):
            raise BadRow(f"{type.simpleString()} cannot be written in one cell; use a .jsonl file", path)
        return nested(value, type, local, path)
    reader = _READERS.get(type.typeName())
    if reader is None:
        raise BadRow(f"tests do not support values of type {type.simpleString()}", path)
    try:
        return reader(value, type, local)
    except BadRow as bad:
        raise BadRow(bad.says, path) from None


def _read_struct(values: Any, type: Any, local: LocalDay, path: str) -> dict[str, Any]:
    given = _by_column(values, type.names, path)
    return {
        each.name: _read(
            given.get(each.name), each.dataType, each.nullable, local, f"{path}.{each.name}".lstrip(".")
        )
        for each in type.fields
    }


def _by_column(values: Any, names: list[str], path: str) -> dict[str, Any]:
    """The values by the names of the schema, in whichever form they were written."""
    if isinstance(values, Mapping):
        return _matched(values.items(), names, path)
    if not isinstance(values, list | tuple):
        wanted = "{" + ", ".join(f"{name}: …" for name in names) + "}"
        raise BadRow(f"expected {wanted}, or a list of these values, got {written(values)}", path)
    if fields := getattr(values, "__fields__", None):
        # A PySpark Row has the names of its values.
        return _matched(zip(fields, values, strict=True), names, path)
    if len(values) != len(names):
        raise BadRow(f"the list has {_some(len(values), 'value')} for {_columns(names, path)}", path)
    return dict(zip(names, values, strict=True))


def _matched(pairs: Iterable[tuple[Any, Any]], names: list[str], path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = _name(str(key), names, path)
        if name in found:
            raise BadRow(f'"{name}" appears twice', path)
        found[name] = value
    return found


def _name(key: str, names: list[str], path: str) -> str:
    """The column that a key means: as in Spark, case matters only if columns differ by nothing else."""
    alike = [name for name in names if name == key] or [name for name in names if name.lower() == key.lower()]
    if len(set(alike)) == 1:
        return alike[0]
    if alike:
        raise BadRow(f'"{key}" is ambiguous: {" or ".join(alike)}; use the same case', path)
    close = nearest(key, names)
    hint = f'the closest is "{close}"' if close else f"expected one of {_columns(names, path)}"
    raise BadRow(f'unknown {_kind(path)} "{key}": {hint}', path)


def _columns(names: list[str], path: str) -> str:
    listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    return f"{_some(len(names), _kind(path))} ({listed})"


def _kind(path: str) -> str:
    return "field" if path else "column"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read_array(values: Any, type: Any, local: LocalDay, path: str) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise BadRow(f"expected a list such as [1, 2], got {written(values)}", path)
    return [
        _read(value, type.elementType, type.containsNull, local, f"{path}[{index}]")
        for index, value in enumerate(values)
    ]


def _read_map(values: Any, type: Any, local: LocalDay, path: str) -> dict[Any, Any]:
    if not isinstance(values, Mapping):
        raise BadRow(f"expected a mapping such as {{a: 1, b: 2}}, got {written(values)}", path)
    if type.keyType.typeName() in _NESTED:
        raise BadRow(f"tests do not support values of type {type.simpleString()}", path)
    found: dict[Any, Any] = {}
    for written_key, value in values.items():
        # YAML and JSON store every key as a string, whatever its type.
        loose = Cell(written_key) if isinstance(written_key, str) else written_key
        key = _read(loose, type.keyType, False, local, f"{path}[{written_key}]")
        if key in found:
            raise BadRow(f"duplicate key {written(written_key)}", path)
        found[key] = _read(value, type.valueType, type.valueContainsNull, local, f"{path}[{written_key}]")
    return found


_NESTED: Mapping[str, Callable[[Any, Any, LocalDay, str], Any]] = {
    "struct": _read_struct,
    "array": _read_array,
    "map": _read_map,
}


def _in_utc(value: datetime, type: Any) -> datetime:
    return value.astimezone(UTC)


def _plain_map(value: Any, type: Any) -> Any:
    pairs = [(plain(key, type.keyType), plain(item, type.valueType)) for key, item in _pairs(value)]
    # Structs, arrays and maps cannot be keys of a dict.
    return pairs if type.keyType.typeName() in _NESTED else dict(pairs)


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, Mapping) else value


_PLAIN: Mapping[str, Callable[[Any, Any], Any]] = {
    "timestamp": _in_utc,
    "binary": lambda value, type: bytes(value),
    "array": lambda value, type: [plain(item, type.elementType) for item in value],
    "map": _plain_map,
    "struct": lambda value, type: {field.name: plain(value[field.name], field.dataType) for field in type},
}


def _canonical_map(value: Any, type: Any) -> Hashable:
    return frozenset(
        (canonical(key, type.keyType), canonical(item, type.valueType)) for key, item in _pairs(value)
    )


def _hashable(value: Any, type: Any) -> Hashable:
    """For types that Arrow shows by their parts, such as variant."""
    if isinstance(value, Mapping):
        return tuple((name, _hashable(item, type)) for name, item in value.items())
    return tuple(_hashable(item, type) for item in value) if isinstance(value, list) else value


_CANONICAL: Mapping[str, Callable[[Any, Any], Hashable]] = {
    **dict.fromkeys(("float", "double"), lambda value, type: NotANumber.NAN if value != value else value),
    "timestamp": _in_utc,
    "binary": lambda value, type: bytes(value),
    "array": lambda value, type: tuple(canonical(item, type.elementType) for item in value),
    "map": _canonical_map,
    "struct": lambda value, type: tuple(
        (field.name, canonical(value.get(field.name), field.dataType)) for field in type
    ),
}
