"""Avro's types in Spark's words, told from a schema file without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.spec import Schema
from headwater.spec.schema import Column
from headwater.spec.types import quoted

_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("string", "uuid"): "string",
}
_WIDER = {frozenset({"int", "bigint"}): "bigint", frozenset({"float", "double"}): "double"}


def avro_text(path: str) -> str:
    """The text of a schema file; ValueError where it can't be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(f"there is no schema file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the schema file {path} can't be read: {error}") from error


def avro_columns(path: str) -> Schema:
    """The columns of the record in a schema file; ValueError where it is none."""
    try:
        declared = json.loads(avro_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema file {path} is no JSON: {error}") from error
    try:
        return _Types().columns(declared)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the schema file {path} is no Avro schema: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"in the schema file {path}: {error}") from error


class _Types:
    """Reads one schema; a type has a name, by which it may be used again."""

    def __init__(self) -> None:
        self.named: dict[str, str | None] = {}

    def columns(self, declared: Any) -> Schema:
        if not isinstance(declared, dict) or declared.get("type") != "record":
            raise ValueError("a record is wanted")
        self._remember(declared, None)
        fields = declared["fields"]
        if not fields:
            raise ValueError("the record has no fields")
        return Schema(tuple(Column(field["name"], self.type(field["type"])) for field in fields))

    def type(self, declared: Any) -> str:
        if isinstance(declared, list):
            return self._union(declared)
        if isinstance(declared, str):
            return _PLAIN.get(declared) or self._again(declared)
        match declared["type"]:
            case "record":
                return self._record(declared)
            case "array":
                return f"array<{self.type(declared['items'])}>"
            case "map":
                return f"map<string,{self.type(declared['values'])}>"
            case "fixed" if declared["size"] == 0:
                raise ValueError(f"the fixed type `{declared['name']}` has no bytes")
            case "enum" | "fixed":
                return self._remember(declared, self._simple(declared))
            case str():
                return self._simple(declared)
            case inner:
                return self.type(inner)

    def _record(self, declared: dict[str, Any]) -> str:
        self._remember(declared, None)
        if not declared["fields"]:
            raise ValueError(f"the record `{declared['name']}` has no fields")
        fields = (f"{quoted(field['name'])}:{self.type(field['type'])}" for field in declared["fields"])
        return self._remember(declared, f"struct<{','.join(fields)}>")

    def _simple(self, declared: dict[str, Any]) -> str:
        plain, logical = declared["type"], declared.get("logicalType", "")
        if logical == "decimal":
            return f"decimal({declared['precision']},{declared.get('scale', 0)})"
        if logical in ("time-millis", "time-micros"):
            raise ValueError(f"there are no columns of the type {logical}; leave `logicalType` out of it")
        return _LOGICAL.get((plain, logical)) or _PLAIN.get(plain) or self._again(plain)

    def _union(self, branches: list[Any]) -> str:
        types = {self.type(branch) for branch in branches if branch != "null"}
        found = next(iter(types)) if len(types) == 1 else _WIDER.get(frozenset(types))
        if found is None:
            raise ValueError("a column has one type; a union of several besides null can't be read")
        return found

    def _remember(self, declared: dict[str, Any], type_: str | None) -> str:
        name, space = declared["name"], declared.get("namespace")
        self.named[name] = type_
        self.named[f"{space}.{name}" if space else name] = type_
        return type_ or ""

    def _again(self, name: str) -> str:
        if name not in self.named:
            raise ValueError(f"there is no type `{name}`")
        found = self.named[name]
        if found is None:
            raise ValueError(f"`{name}` has itself inside, which columns can't have")
        return found
