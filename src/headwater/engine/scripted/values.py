"""Rows of a test as plain Python values: read as a person wrote them, or as Spark gave them.

The form is the same on both ways: timestamps in UTC, structs and maps as dicts, arrays as lists. PySpark is
not loaded: types are told apart by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.engine.scripted.reading import BadRow, Cell, Reading, written
from headwater.engine.scripted.scalars import read_scalar
from headwater.engine.scripted.times import read_date, read_time
from headwater.values import nearest

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

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
