"""What can be said about the Kafka sink."""

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

# An Avro schema in a file, and what it has against columns.

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


@dataclass(frozen=True)
class AvroSchema:
    """The schema of a record: its text and its fields."""

    file: str
    text: str
    fields: tuple[tuple[str, Any], ...]
    """Names and types, as the file has them."""


def read_schema(written: str, info: ValidationInfo) -> AvroSchema:
    """The schema in a file; ValueError says what is wrong with it."""
    path = Path(absolute(written.strip(), project_root(info)))
    text = file_text(path)
    try:
        schema = json.loads(text)
        if schema["type"] != "record":
            raise TypeError
        fields = tuple((each["name"], each["type"]) for each in schema["fields"])
        return AvroSchema(str(path), text, fields)
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema file {path} is no JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the schema file {path} holds no Avro record with fields") from error


def is_avro_name(name: str) -> bool:
    """Whether a field can have this name."""
    return _NAME.fullmatch(name) is not None


def as_avro_name(name: str) -> str:
    """A name that a field can have, near to the given one."""
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if is_avro_name(cleaned) else f"_{cleaned}"


def misfits(schema: AvroSchema, columns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What stands between the columns and the schema, as far as names and plain types tell; what to do."""
    found = {name.lower(): name for name in columns}
    fields = {name.lower(): name for name, _ in schema.fields}
    for name, type_ in schema.fields:
        if name.lower() not in found:
            # Spark's serializer fills in nothing, a default neither.
            near = did_you_mean(name, columns, f"Its columns are: {', '.join(columns)}.")
            yield f"no column is there for its field `{name}`", near
            continue
        column = found[name.lower()]
        wanted = _primitive(type_)
        if wanted and not columns[column].startswith(_TAKES[wanted]):
            cast = f"Select it as `CAST({column} AS {AVRO_PLAIN[wanted]}) AS {column}`."
            yield f"the column `{column}` is {columns[column]}, and its field is {wanted}", cast
    for name in columns:
        if name.lower() not in fields:
            names = [each for each, _ in schema.fields]
            near = did_you_mean(name, names, f"Its fields are: {', '.join(names)}.")
            yield f"it has no field for the column `{name}`", f"{near} Or leave it out by `columns`."


def _primitive(type_: Any) -> str:
    """The primitive that a field holds besides null; empty for what is none, or has several."""
    if isinstance(type_, list):
        rest = [each for each in type_ if each != "null"]
        return _primitive(rest[0]) if len(rest) == 1 else ""
    return type_ if isinstance(type_, str) and type_ in _TAKES else ""


ENCODINGS = ("json", "avro")
_ONLY_WITH = {"columns": ENCODINGS, "schema_file": ("avro",), "schema_id": ("avro",)}

# What typed keys say in Kafka's words; the same under `options` would be two words for one thing.
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
    """Messages into a topic, made from the columns of each row."""

    also_called = {**PRODUCER, **OF_SPARK, "format": "value", "value.format": "value", "key_column": "key"}

    topic: Annotated[str, AfterValidator(topic_name)] | None = Field(
        default=None, min_length=1, description="The topic; it wins over `topic_column` and a column `topic`."
    )
    topic_column: str | None = Field(
        default=None, description="A column of text that names the topic of each row."
    )
    key: str | list[str] | None = Field(
        default=None,
        description="The column that is the key, of text or bytes; or a list of columns, written as JSON.",
    )
    value: str | None = Field(
        default=None,
        description="`json` or `avro`: all columns, or those under `columns`. Else the column that is the "
        "value, of text or bytes. Without it: the column `value`, and beside it those named `key`, `topic`, "
        "`partition` and `headers`.",
    )
    columns: Columns | None = Field(
        default=None, description="With `value: json` or `avro`: the columns that it holds."
    )
    schema_file: AvroField | None = Field(
        default=None,
        description="With `value: avro`: a file with the Avro schema; without one, Spark makes it from the "
        "columns.",
    )
    schema_id: int | None = Field(
        default=None,
        ge=0,
        lt=2**31,
        description="With `value: avro` and `schema_file`: the schema's id in a registry, written before "
        "each value in the registry's wire format. The schema has to be registered already.",
    )
    headers: str | dict[str, str] | None = Field(
        default=None,
        description="Columns by the names of headers; or one column of "
        "`array<struct<key:string,value:binary>>`.",
    )
    partition: str | None = Field(
        default=None, description="A column of int that tells the partition; where it is null, the key does."
    )
    dedup_header: bool = Field(
        default=False,
        description="Add headers by which readers tell a message that was written twice: query, batch and "
        "row.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = Field(
        default=None, description="How messages are compressed; Kafka's own default is `none`."
    )
    acks: Acks = Field(
        default="all",
        description="Which brokers have to have a message: all replicas in sync, the leader alone (1), or "
        "none (0); with less than `all`, rows may be lost.",
    )
    linger: Duration | None = Field(
        default=None, description="How long a message may wait for others to be sent with it."
    )

    @field_validator("schema_file", mode="before")
    @classmethod
    def _schema(cls, written: Any, info: ValidationInfo) -> Any:
        return read_schema(written, info) if isinstance(written, str) else written

    @model_validator(mode="after")
    def _fits(self) -> KafkaSink:
        if isinstance(self.key, list) and not self.key:
            raise ValueError("`key` is an empty list; leave it out for messages without a key")
        for key, encodings in _ONLY_WITH.items():
            if getattr(self, key) is not None and self.value not in encodings:
                choice = " or ".join(f"`value: {each}`" for each in encodings)
                raise ValueError(f"`{key}` does nothing without {choice}")
        if self.schema_id is not None and self.schema_file is None:
            raise ValueError("`schema_id` is the id of a schema; name its file as `schema_file`")
        for option in self.options:
            own = {**PRODUCER, **OF_SPARK}.get(option.lower())
            if own:
                raise ValueError(f"`{option}` under `options` has a key of its own; write `{own}: …`")
        return self


def producer_settings(sink: KafkaSink) -> dict[str, str]:
    """What the typed keys say to Kafka's producer, in its own words."""
    said = {option: getattr(sink, key) for option, key in PRODUCER.items()}
    # Kafka takes times in milliseconds without a unit.
    return {option: value.removesuffix("ms") for option, value in option_texts(said).items()}
