"""Single values of a row, read for the type of their column."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from headwater.engine.scripted.reading import BadRow, Cell, Reading, written
from headwater.engine.scripted.times import read_date, read_local_time, read_time
from headwater.values import Duration

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
