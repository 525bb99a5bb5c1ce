"""The schemas that Avro was written with, made safe against broken bytes; sent to the executors by value."""

from __future__ import annotations

from typing import Any


class UnsafeSchema(Exception):
    """A few bytes by this schema could take all memory, or the whole stack."""


def read_schema(declared: list[Any]) -> Any:
    """The last of some schemas, to read with; each may use the names in those before it."""
    import fastavro

    named: dict[str, Any] = {}
    for each in declared:
        schema = _safe(fastavro.parse_schema(each, named), named)
    return schema


class _Choices(list[Any]):
    """The types of a union or the symbols of an enum, of which fastavro counts negative ones from the end.

    Its compiled reader adds the length before it asks for such a one; with a length of zero it asks for the
    number in the bytes.
    """

    def __len__(self) -> int:
        return 0

    def __getitem__(self, number: Any) -> Any:
        if number < 0:
            raise IndexError(number)
        return list.__getitem__(self, number)


def _safe(schema: Any, named: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """The schema with its choices guarded; UnsafeSchema where nothing may be read by it.

    What is used again is there by its name, and was looked at where it is declared.
    """
    if isinstance(schema, list):
        return _Choices(_safe(each, named, inside) for each in schema)
    if isinstance(schema, str):
        if schema in inside:
            raise UnsafeSchema(f"{schema} has itself inside")
        return schema
    for field in schema.get("fields", ()):
        field["type"] = _safe(field["type"], named, (*inside, schema["name"]))
    if "symbols" in schema:
        schema["symbols"] = _Choices(schema["symbols"])
    for key in ("items", "values"):
        if key in schema:
            schema[key] = _safe(schema[key], named, inside)
    # Of items without bytes, five bytes can say that there are millions.
    if schema["type"] == "array" and not _takes_bytes(schema["items"], named):
        raise UnsafeSchema("it has an array whose items take no bytes")
    return schema


def _takes_bytes(schema: Any, named: dict[str, Any]) -> bool:
    """Whether each value of a type takes at least one byte."""
    if isinstance(schema, str):
        return _takes_bytes(named[schema], named) if schema in named else schema != "null"
    if isinstance(schema, list):
        return True
    if "fields" in schema:
        return any(_takes_bytes(field["type"], named) for field in schema["fields"])
    return bool(schema["type"] != "null" and schema.get("size") != 0)
