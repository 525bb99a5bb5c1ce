"""The keys of a Kafka sink."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from headwater.connectors.decoding.schemas import AVRO_PLAIN
from headwater.connectors.kafka.servers import Servers, topic_name
from headwater.connectors.options import file_text, option_texts
from headwater.spec import SinkOptions
from headwater.spec.paths import absolute, project_root
from headwater.values import Duration, did_you_mean

# An Avro schema in a file, and how it differs from the columns.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The Spark types that an Avro primitive accepts, as in Spark's serializer.
_TAKES = {
    "boolean": ("boolean",),
    "int": ("int", "smallint", "tinyint", "date", "interval"),
    "long": ("bigint", "timestamp", "interval"),
    "float": ("float",),
    "double": ("double",),
    "string": ("string",),
    "bytes": ("binary", "decimal"),
}


@dataclass(frozen=True)
class AvroSchema:
    """An Avro record schema: its text and its fields."""

    file: str
    text: str
    fields: tuple[tuple[str, Any], ...]
    """Names and types as in the file."""


def read_schema(written: str, info: ValidationInfo) -> AvroSchema:
    """The schema in a file; ValueError if it is invalid."""
    path = Path(absolute(written.strip(), project_root(info)))
    text = file_text(path)
    try:
        schema = json.loads(text)
        if schema["type"] != "record":
            raise TypeError
        fields = tuple((each["name"], each["type"]) for each in schema["fields"])
        return AvroSchema(str(path), text, fields)
    except json.JSONDecodeError as error:
        raise ValueError(f"schema file {path} is not valid JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"schema file {path} does not contain an Avro record with fields") from error


def is_avro_name(name: str) -> bool:
    """Whether this is a valid field name."""
    return _NAME.fullmatch(name) is not None


def as_avro_name(name: str) -> str:
    """A valid field name similar to the given one."""
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if is_avro_name(cleaned) else f"_{cleaned}"


def misfits(schema: AvroSchema, columns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Differences between columns and schema in names and simple types, each with a hint."""
    found = {name.lower(): name for name in columns}
    fields = {name.lower(): name for name, _ in schema.fields}
    for name, type_ in schema.fields:
        if name.lower() not in found:
            # Spark's serializer does not fill in missing values, not even defaults.
            near = did_you_mean(name, columns, f"Add the column. Existing columns: {', '.join(columns)}.")
            yield f"field `{name}` has no matching column", near
            continue
        column = found[name.lower()]
        wanted = _primitive(type_)
        if wanted and not columns[column].startswith(_TAKES[wanted]):
            cast = f"Select it as `CAST({column} AS {AVRO_PLAIN[wanted]}) AS {column}`."
            yield f"column `{column}` is {columns[column]}, but its field is {wanted}", cast
    for name in columns:
        if name.lower() not in fields:
            names = [each for each, _ in schema.fields]
            near = did_you_mean(
                name, names, f"Add a field to the schema. Its fields are: {', '.join(names)}."
            )
            yield f"column `{name}` has no matching field", f"{near} Or exclude the column with `columns`."


def _primitive(type_: Any) -> str:
    """The primitive type of a nullable field; empty for other types and for unions of several."""
    if isinstance(type_, list):
        rest = [each for each in type_ if each != "null"]
        return _primitive(rest[0]) if len(rest) == 1 else ""
    return type_ if isinstance(type_, str) and type_ in _TAKES else ""


ENCODINGS = ("json", "avro")
_ONLY_WITH = {"columns": ENCODINGS, "schema_file": ("avro",), "schema_id": ("avro",)}

# Kafka settings that typed keys set; the same setting under `options` is an error.
PRODUCER = {"kafka.compression.type": "compression", "kafka.acks": "acks", "kafka.linger.ms": "linger"}
OF_SPARK = {"topic": "topic"}


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _acks(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return "all" if value == "-1" else value


Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_list),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Acks = Annotated[
    Literal["all", "1", "0"],
    BeforeValidator(_acks),
    WithJsonSchema({"enum": ["all", "1", "0", 1, 0, -1]}),
]
AvroField = Annotated[AvroSchema, WithJsonSchema({"type": "string"})]


class KafkaSink(Servers, SinkOptions):
    """Writes each row as a message."""

    also_called = {**PRODUCER, **OF_SPARK, "format": "value", "value.format": "value", "key_column": "key"}

    topic: Annotated[str, AfterValidator(topic_name)] | None = Field(
        default=None,
        min_length=1,
        description="Topic for all rows. Overrides `topic_column` and a column `topic`.",
    )
    topic_column: str | None = Field(
        default=None, description="String column that contains the topic of each row."
    )
    key: str | list[str] | None = Field(
        default=None,
        description="String or binary column to use as the message key, or a list of columns to write as JSON. "
        "Default: no key.",
    )
    value: str | None = Field(
        default=None,
        description="`json` or `avro` to encode all columns (or those in `columns`), or the name of a string or "
        "binary column. Default: the column `value`, with the columns `key`, `topic`, `partition` and "
        "`headers` if they exist.",
    )
    columns: Columns | None = Field(
        default=None,
        description="With `value: json` or `value: avro`: columns to encode. Default: all columns.",
    )
    schema_file: AvroField | None = Field(
        default=None,
        description="With `value: avro`: file with the Avro schema. Default: Spark derives it from the columns.",
    )
    schema_id: int | None = Field(
        default=None,
        ge=0,
        lt=2**31,
        description="With `schema_file`: ID of the schema in a schema registry, written before each value in "
        "the registry's wire format. The schema must already be registered.",
    )
    headers: str | dict[str, str] | None = Field(
        default=None,
        description="Message headers: a mapping of header names to string or binary columns, or one column of "
        "type `array<struct<key:string,value:binary>>`. Default: no headers.",
    )
    partition: str | None = Field(
        default=None,
        description="Int column that contains the partition of each row. If it is null, Kafka chooses by key.",
    )
    dedup_headers: bool = Field(
        default=False,
        description="Add headers (query, batch and row) by which consumers can drop duplicate messages.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = Field(
        default=None, description="Compression of the messages. Default: Kafka's, which is `none`."
    )
    acks: Acks = Field(
        default="all",
        description="Acknowledgments to wait for: all in-sync replicas, the leader (`1`), or none (`0`). With "
        "less than `all`, rows can be lost.",
    )
    linger: Duration | None = Field(
        default=None,
        description="How long to wait for more messages to send in one request. Default: Kafka's.",
    )

    @field_validator("schema_file", mode="before")
    @classmethod
    def _schema(cls, written: Any, info: ValidationInfo) -> Any:
        return read_schema(written, info) if isinstance(written, str) else written

    @model_validator(mode="after")
    def _fits(self) -> KafkaSink:
        if isinstance(self.key, list) and not self.key:
            raise ValueError("`key` is an empty list; remove it to write messages without a key")
        for key, encodings in _ONLY_WITH.items():
            if getattr(self, key) is not None and self.value not in encodings:
                choice = " or ".join(f"`value: {each}`" for each in encodings)
                raise ValueError(f"`{key}` requires {choice}; remove it, or set `value`")
        if self.schema_id is not None and self.schema_file is None:
            raise ValueError("`schema_id` requires `schema_file`; set it to the file of the schema")
        for option in self.options:
            own = {**PRODUCER, **OF_SPARK}.get(option.lower())
            if own:
                raise ValueError(f"`{option}` under `options` is not supported; set the key `{own}` instead")
        return self


def producer_settings(sink: KafkaSink) -> dict[str, str]:
    """The typed keys as settings of the Kafka producer."""
    said = {option: getattr(sink, key) for option, key in PRODUCER.items()}
    # Kafka expects times in milliseconds, without a unit.
    return {option: value.removesuffix("ms") for option, value in option_texts(said).items()}
