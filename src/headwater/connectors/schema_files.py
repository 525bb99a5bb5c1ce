"""A schema given in the pipeline file or in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import ValidationInfo, WithJsonSchema

from headwater.spec import Schema
from headwater.spec.paths import absolute, project_root

SUFFIXES = (".ddl", ".sql", ".json")
SchemaField = Annotated[
    Schema,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
]


def read_schema(written: Any, info: ValidationInfo, *, judged: bool = False) -> Schema:
    """The schema, wherever it stands. A name without spaces that ends in .ddl, .sql or .json is a file.

    A column may be `not null` where each row is `judged`.
    """
    schema = _from_file(written, project_root(info)) if _is_file(written) else Schema.of(written)
    for column in schema.columns:
        if not column.nullable and not judged:
            raise ValueError(
                f"`{column.name}` is `not null`, which a source can't hold its rows to; "
                "leave it out and write a table with WHERE … IS NOT NULL"
            )
    return schema


def _is_file(written: Any) -> bool:
    return isinstance(written, str) and " " not in written.strip() and written.strip().endswith(SUFFIXES)


def _from_file(name: str, root: Path) -> Schema:
    path = Path(absolute(name.strip(), root))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(f"there is no schema file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the schema file {path} can't be read: {error}") from error
    try:
        return Schema.of_spark_json(text) if path.suffix == ".json" else Schema.of(text)
    except ValueError as error:
        raise ValueError(f"in the schema file {path}: {error}") from error
