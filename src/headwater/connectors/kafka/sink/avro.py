"""An Avro schema in a file, and what it has against columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from headwater.spec.paths import absolute, project_root
from headwater.values import nearest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The types of Spark that an Avro primitive takes, as Spark's own serializer has it.
_TAKES = {
    "boolean": ("boolean",),
    "int": ("int", "smallint", "tinyint", "date", "interval"),
    "long": ("bigint", "timestamp", "interval"),
    "float": ("float",),
    "double": ("double",),
    "string": ("string",),
    "bytes": ("binary", "decimal"),
}
_CASTS = {"boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
          "string": "string", "bytes": "binary"}  # fmt: skip


@dataclass(frozen=True)
class AvroSchema:
    """The schema of a record: its text and its fields."""

    file: str
    text: str
    fields: tuple[tuple[str, Any], ...]
    """Names and types, as the file has them."""


@dataclass(frozen=True)
class Misfit:
    """One thing that a schema has against columns."""

    says: str
    hint: str
    """What would mend it, as a sentence."""


def read_schema(written: str, info: ValidationInfo) -> AvroSchema:
    """The schema in a file; ValueError says what is wrong with it."""
    path = Path(absolute(written.strip(), project_root(info)))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(f"there is no schema file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the schema file {path} can't be read: {error}") from error
    try:
        return AvroSchema(str(path), text, tuple(_fields(json.loads(text))))
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema file {path} is no JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the schema file {path} holds no Avro record with fields") from error


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if schema["type"] != "record":
        raise TypeError
    for each in schema["fields"]:
        yield each["name"], each["type"]


def is_avro_name(name: str) -> bool:
    """Whether a field can have this name."""
    return _NAME.fullmatch(name) is not None


def as_avro_name(name: str) -> str:
    """A name that a field can have, near to the given one."""
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if is_avro_name(cleaned) else f"_{cleaned}"


def misfits(schema: AvroSchema, columns: Mapping[str, str]) -> Iterator[Misfit]:
    """What stands between the columns and the schema, as far as names and plain types tell."""
    found = {name.lower(): name for name in columns}
    fields = {name.lower(): name for name, _ in schema.fields}
    for name, type_ in schema.fields:
        if name.lower() not in found:
            # Spark's serializer fills in nothing, a default neither.
            yield Misfit(f"no column is there for its field `{name}`", _near(name, columns, "columns"))
            continue
        column = found[name.lower()]
        wanted = _primitive(type_)
        if wanted and not columns[column].startswith(_TAKES[wanted]):
            cast = f"Select it as `CAST({column} AS {_CASTS[wanted]}) AS {column}`."
            yield Misfit(f"the column `{column}` is {columns[column]}, and its field is {wanted}", cast)
    for name in columns:
        if name.lower() not in fields:
            near = _near(name, [each for each, _ in schema.fields], "fields")
            yield Misfit(f"it has no field for the column `{name}`", f"{near} Or leave it out by `columns`.")


def _near(name: str, known: Collection[str], what: str) -> str:
    meant = nearest(name, known)
    return f"Did you mean `{meant}`?" if meant else f"Its {what} are: {', '.join(known)}."


def _primitive(type_: Any) -> str:
    """The primitive that a field holds besides null; empty for what is none, or has several."""
    if isinstance(type_, list):
        rest = [each for each in type_ if each != "null"]
        return _primitive(rest[0]) if len(rest) == 1 else ""
    return type_ if isinstance(type_, str) and type_ in _TAKES else ""
