"""Rows of a test as plain Python values: read as a person wrote them, or as Spark gave them.

The form is the same on both ways: timestamps in UTC, structs and maps as dicts, arrays as lists. PySpark is
not loaded: types are told apart by their names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.scripted.times import BadRow, Cell, Reading, read_date, read_local_time, read_time, written
from headwater.values import Duration, nearest

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


# Single values of a row, read for the type of their column.

Reader = Callable[[Any, Any, Reading], Any]
"""Of a value as it was written, Spark's type of its column, and the reading."""

_BYTES = {"byte": 1, "short": 2, "integer": 4, "long": 8}
_TRUTHS = {"true": True, "false": False}
_WHOLE = re.compile(r"[-+]?[0-9]{1,40}")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORDS = {"nan": "nan", "infinity": "inf", "+infinity": "inf", "-infinity": "-inf"}
_MICROSECOND = timedelta(microseconds=1)


def read_scalar(value: Any, type: Any, reading: Reading) -> Any:
    """The value as plain Python, for a type that holds no others."""
    reader = _READERS.get(type.typeName())
    if reader is None:
        raise BadRow(f"values of type {type.simpleString()} can't be written in a test")
    return reader(value, type, reading)


def _boolean(value: Any, type: Any, reading: Reading) -> bool:
    found = _TRUTHS.get(value.strip().lower()) if isinstance(value, Cell) else value
    if not isinstance(found, bool):
        raise BadRow(f"{written(value)} is not true or false{_unquoted(value, _TRUTHS)}")
    return found


def _whole(value: Any, type: Any, reading: Reading) -> int:
    found = int(value) if isinstance(value, Cell) and _WHOLE.fullmatch(value.strip()) else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise BadRow(f"{written(value)} is not a whole number, such as 3{_unquoted(value, _WHOLE)}")
    limit = 2 ** (8 * _BYTES[type.typeName()] - 1)
    if not -limit <= found < limit:
        raise BadRow(f"{written(value)} does not fit {type.simpleString()}, {-limit} to {limit - 1}")
    return int(found)


def _float(value: Any, type: Any, reading: Reading) -> float:
    found = _double(value, type, reading)
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", found))[0]
    except OverflowError:
        raise BadRow(f"{written(value)} is too large for float; the largest is about 3.4e38") from None
    return narrow


def _double(value: Any, type: Any, reading: Reading) -> float:
    found = _float_of(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise BadRow(f"{written(value)} is not a number, such as 1.5 or NaN{_unquoted(value, _NUMBER)}")
    try:
        return float(found)
    except OverflowError:
        raise BadRow(f"{written(value)} is too large for {type.simpleString()}") from None


def _float_of(text: str) -> float | None:
    word = text.strip()
    if word.lower() in _WORDS:
        return float(_WORDS[word.lower()])
    return float(word) if isinstance(text, Cell) and _NUMBER.fullmatch(word) else None


def _decimal(value: Any, type: Any, reading: Reading) -> Decimal:
    number = _decimal_of(value)
    if number is None or not number.is_finite():
        raise BadRow(f"{written(value)} is not a decimal number, such as 12.50")
    exactly = Context(prec=type.precision, traps=[InvalidOperation, Inexact])
    try:
        return number.quantize(Decimal(1).scaleb(-type.scale), context=exactly)
    except (InvalidOperation, Inexact):
        before = type.precision - type.scale
        raise BadRow(
            f"{written(value)} does not fit {type.simpleString()}: "
            f"{before} digits before the point and {type.scale} after it"
        ) from None


def _decimal_of(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        # The shortest text of a float is what was written; its exact binary value is not.
        return Decimal(repr(float(value)) if isinstance(value, float) else value)
    except InvalidOperation:
        return None


def _text(value: Any, type: Any, reading: Reading) -> str:
    if isinstance(value, bool | int | float):
        raise BadRow(f'{written(value)} is not text: quote it, as in "{written(value)}"')
    if not isinstance(value, str):
        raise BadRow(f'{written(value)} is not text, such as "owl"')
    _encoded(value)
    return str(value)


def _binary(value: Any, type: Any, reading: Reading) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise BadRow(f'{written(value)} is not bytes: write text, such as "owl", or bytes in Python')
    return _encoded(value)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise BadRow(f"the text holds {half}, one half of a character, which is no text") from None


def _interval(value: Any, type: Any, reading: Reading) -> timedelta:
    found = _length(value) if isinstance(value, str) else value
    if not isinstance(found, timedelta):
        raise BadRow(f'{written(value)} is not a length of time, such as "10 minutes" or "1 hour 30 minutes"')
    if not -(2**63) <= found // _MICROSECOND < 2**63:
        raise BadRow(f"{written(value)} is longer than Spark can hold")
    return found


def _length(text: str) -> timedelta | None:
    """A duration, which may stand after a minus."""
    sign = -1 if text.lstrip().startswith("-") else 1
    try:
        return sign * timedelta(milliseconds=Duration.parse(text.lstrip(" -")).milliseconds)
    except ValueError:
        return None


def _unquoted(value: Any, known: re.Pattern[str] | Mapping[str, Any]) -> str:
    """A hint where something was quoted that means what is wanted without its quotes."""
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
    "date": lambda value, type, reading: read_date(value),
    "timestamp": lambda value, type, reading: read_time(value, reading),
    "timestamp_ntz": lambda value, type, reading: read_local_time(value, reading),
    "daytimeinterval": _interval,
}

__all__ = [
    "BadRow",
    "Cell",
    "NotANumber",
    "Reading",
    "canonical",
    "plain",
    "read_date",
    "read_row",
    "read_time",
]

_MOST_NAMES = 12


class NotANumber(Enum):
    """Stands for NaN where values are compared, since NaN does not equal itself."""

    NAN = "NaN"


def read_row(
    values: Mapping[str, Any] | Sequence[Any], schema: StructType, reading: Reading
) -> dict[str, Any]:
    """The row with exactly the columns of the schema; BadRow says what does not fit."""
    return _read_struct(values, schema, reading, "")


def plain(value: Any, type: DataType) -> Any:
    """A value as pyarrow gives it, in the form that `read_row` makes."""
    made = _PLAIN.get(type.typeName())
    return made(value, type) if made and value is not None else value


def canonical(value: Any, type: DataType) -> Hashable:
    """A value in either form, such that equal values are equal and can be counted."""
    made = _CANONICAL.get(type.typeName(), _hashable)
    return made(value, type) if value is not None else None


def _read(value: Any, type: Any, nullable: bool, reading: Reading, path: str) -> Any:
    if value is None:
        if not nullable:
            raise BadRow("it has no value, and it can't be null", path)
        return None
    if nested := _NESTED.get(type.typeName()):
        if isinstance(value, Cell):
            raise BadRow(f"{type.simpleString()} does not fit one cell; use a .jsonl file", path)
        return nested(value, type, reading, path)
    try:
        return read_scalar(value, type, reading)
    except BadRow as bad:
        raise BadRow(bad.says, path) from None


def _read_struct(values: Any, type: Any, reading: Reading, path: str) -> dict[str, Any]:
    given = _by_column(values, type.names, path)
    return {
        field.name: _read(
            given.get(field.name), field.dataType, field.nullable, reading, _below(path, field.name)
        )
        for field in type.fields
    }


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _by_column(values: Any, names: list[str], path: str) -> dict[str, Any]:
    """The values by the names of the schema, however they were written."""
    if isinstance(values, Mapping):
        return _matched(values.items(), names, path)
    if not isinstance(values, list | tuple):
        wanted = "{" + ", ".join(f"{name}: …" for name in names) + "}"
        raise BadRow(f"{written(values)} is not a row: write {wanted}, or a list of these values", path)
    if fields := getattr(values, "__fields__", None):
        # A Row of PySpark knows the names of its values.
        return _matched(zip(fields, values, strict=True), names, path)
    if len(values) != len(names):
        raise BadRow(f"the list has {_some(len(values), 'value')} for {_columns(names, path)}", path)
    return dict(zip(names, values, strict=True))


def _matched(pairs: Any, names: list[str], path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = _name(str(key), names, path)
        if name in found:
            raise BadRow(f'"{name}" is given twice', path)
        found[name] = value
    return found


def _name(key: str, names: list[str], path: str) -> str:
    """The column that a key means: as in Spark, case matters only where columns differ by nothing else."""
    alike = [name for name in names if name == key] or [name for name in names if name.lower() == key.lower()]
    if len(set(alike)) == 1:
        return alike[0]
    if alike:
        raise BadRow(f'"{key}" may mean {" or ".join(alike)}: write it in the same case', path)
    close = nearest(key, names)
    hint = f'the nearest is "{close}"' if close else f"it has {_columns(names, path)}"
    raise BadRow(f'there is no {_kind(path)} "{key}": {hint}', path)


def _columns(names: list[str], path: str) -> str:
    listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    return f"{_some(len(names), _kind(path))} ({listed})"


def _kind(path: str) -> str:
    return "field" if path else "column"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read_array(values: Any, type: Any, reading: Reading, path: str) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise BadRow(f"{written(values)} is not a list, such as [1, 2]", path)
    return [
        _read(value, type.elementType, type.containsNull, reading, f"{path}[{index}]")
        for index, value in enumerate(values)
    ]


def _read_map(values: Any, type: Any, reading: Reading, path: str) -> dict[Any, Any]:
    if not isinstance(values, Mapping):
        raise BadRow(f"{written(values)} is not a mapping, such as {{a: 1, b: 2}}", path)
    if type.keyType.typeName() in _NESTED:
        raise BadRow(f"values of type {type.simpleString()} can't be written in a test", path)
    found: dict[Any, Any] = {}
    for written_key, value in values.items():
        # YAML and JSON keep every key as a text, whatever it means.
        loose = Cell(written_key) if isinstance(written_key, str) else written_key
        key = _read(loose, type.keyType, False, reading, f"{path}[{written_key}]")
        if key in found:
            raise BadRow(f"the key {written(written_key)} is given twice", path)
        found[key] = _read(value, type.valueType, type.valueContainsNull, reading, f"{path}[{written_key}]")
    return found


_NESTED: Mapping[str, Callable[[Any, Any, Reading, str], Any]] = {
    "struct": _read_struct,
    "array": _read_array,
    "map": _read_map,
}


def _in_utc(value: datetime, type: Any) -> datetime:
    return value.astimezone(UTC)


def _plain_map(value: Any, type: Any) -> Any:
    pairs = [(plain(key, type.keyType), plain(item, type.valueType)) for key, item in _pairs(value)]
    # Structs, arrays and maps can't be keys of a dict.
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


def _number(value: float, type: Any) -> Hashable:
    return NotANumber.NAN if value != value else value


def _canonical_map(value: Any, type: Any) -> Hashable:
    return frozenset(
        (canonical(key, type.keyType), canonical(item, type.valueType)) for key, item in _pairs(value)
    )


def _hashable(value: Any, type: Any) -> Hashable:
    """Of types that Arrow shows by their parts, such as variant."""
    if isinstance(value, Mapping):
        return tuple((name, _hashable(item, type)) for name, item in value.items())
    return tuple(_hashable(item, type) for item in value) if isinstance(value, list) else value


_CANONICAL: Mapping[str, Callable[[Any, Any], Hashable]] = {
    "float": _number,
    "double": _number,
    "timestamp": _in_utc,
    "binary": lambda value, type: bytes(value),
    "array": lambda value, type: tuple(canonical(item, type.elementType) for item in value),
    "map": _canonical_map,
    "struct": lambda value, type: tuple(
        (field.name, canonical(value.get(field.name), field.dataType)) for field in type
    ),
}
