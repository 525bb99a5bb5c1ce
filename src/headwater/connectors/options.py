"""Options on their way to Spark: the only place where a connector's secret is revealed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from headwater.spec import ConnectorOptions, Schema
from headwater.spec.paths import absolute, project_root
from headwater.values import Secret
from headwater.values.secrets import hide

TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's options for all digits of a time; by itself it cuts them to milliseconds."""


def plain(options: ConnectorOptions) -> dict[str, str]:
    """The passed-through options as text."""
    return {
        key: revealed(value) if isinstance(value, Secret) else value for key, value in options.options.items()
    }


def revealed(secret: Secret) -> str:
    """A secret as Spark gets it; from now on it is hidden in every text."""
    return secret.reveal()


def hidden(text: str) -> None:
    """Hide a text that Spark gets, and that has a secret in it, in every text from now on."""
    hide(text)


# A password among a connector's keys.


def _only_secret(value: object) -> object:
    # The value is not in the message: it is most likely the password itself.
    if not isinstance(value, Secret):
        raise ValueError("for a password write ${secret:NAME} and set NAME in the environment")
    return value


Password = Annotated[Secret, BeforeValidator(_only_secret)]
"""Never the text itself; `Password | None` where it may be left out."""


# A schema given in the pipeline file or in a file of its own.

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
