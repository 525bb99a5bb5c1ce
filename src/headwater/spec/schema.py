"""Schemas as users write them (a mapping, a DDL string, a file), in one canonical form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.spec.types import canonical_type, parse_columns, quoted


@dataclass(frozen=True)
class Column:
    """A column: its name, its canonical Spark type, whether it may be null."""

    name: str
    type: str
    nullable: bool = True

    @property
    def ddl(self) -> str:
        return f"{quoted(self.name)} {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True)
class Schema:
    """Columns in order; two spellings of one schema are equal."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, declared: object) -> Schema:
        """A schema from a mapping of names to types or from a DDL string; ValueError otherwise."""
        if isinstance(declared, Schema):
            return declared
        if isinstance(declared, str):
            return cls._checked(Column(*column) for column in parse_columns(declared))
        if isinstance(declared, Mapping):
            return cls._checked(_column(name, written) for name, written in declared.items())
        raise ValueError("a schema is a mapping of columns to types, a DDL string, or the name of a file")

    @classmethod
    def of_spark_json(cls, text: str) -> Schema:
        """A schema from the JSON that Spark writes for a StructType."""
        try:
            return cls._checked(_json_column(field) for field in json.loads(text)["fields"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError("this is not the JSON that Spark writes for a schema") from error

    @classmethod
    def _checked(cls, columns: Any) -> Schema:
        columns = tuple(columns)
        if not columns:
            raise ValueError("a schema needs at least one column")
        seen: set[str] = set()
        for column in columns:
            if column.name.lower() in seen:
                raise ValueError(f"the column `{column.name}` stands twice in the schema")
            seen.add(column.name.lower())
        return cls(columns)

    @property
    def ddl(self) -> str:
        """The schema as a DDL string that Spark reads."""
        return ", ".join(column.ddl for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _column(name: str, written: object) -> Column:
    if isinstance(written, str):
        ((_, type_, nullable),) = _one_column(name, written)
        return Column(name, type_, nullable)
    return Column(name, _nested(name, written))


def _one_column(name: str, written: str) -> list[tuple[str, str, bool]]:
    parsed = parse_columns(f"{quoted(name)} {written}")
    if len(parsed) != 1:
        raise ValueError(f"the type of `{name}` is `{written}`: one type is wanted here")
    return parsed


def _nested(name: str, written: object) -> str:
    """A mapping is a struct, a list of one is an array."""
    if isinstance(written, str):
        return canonical_type(written)
    if isinstance(written, Mapping) and written:
        fields = (f"{quoted(key)}:{_nested(key, inner)}" for key, inner in written.items())
        return f"struct<{','.join(fields)}>"
    if isinstance(written, list) and len(written) == 1:
        return f"array<{_nested(name, written[0])}>"
    raise ValueError(
        f"`{name}` has no type; write one such as string, a mapping (struct) or a list of one type (array)"
    )


def _json_column(field: dict[str, Any]) -> Column:
    return Column(field["name"], _json_type(field["type"]), field.get("nullable", True))


def _json_type(written: Any) -> str:
    if isinstance(written, str):
        return canonical_type(written)
    if written["type"] == "array":
        return f"array<{_json_type(written['elementType'])}>"
    if written["type"] == "map":
        return f"map<{_json_type(written['keyType'])},{_json_type(written['valueType'])}>"
    fields = (f"{quoted(field['name'])}:{_json_type(field['type'])}" for field in written["fields"])
    return f"struct<{','.join(fields)}>"
