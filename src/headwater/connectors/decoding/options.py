"""The keys for decoding bytes into columns; sources of bytes inherit them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from headwater.connectors.decoding.executors import UNKNOWN
from headwater.connectors.decoding.schemas import REGISTRY_SCHEMA_UNAVAILABLE, avro_columns, protobuf_columns
from headwater.connectors.options import Password, SchemaField, read_schema
from headwater.errors import Problem
from headwater.run_directory import SourceDirectory
from headwater.spec import Schema, SinkSpec
from headwater.spec.paths import ProjectPath
from headwater.spec.schema import Column, quoted
from headwater.values import nearest
from headwater.values import quoted as _quoted

Format = Literal["avro", "csv", "json", "protobuf", "raw", "text"]

MESSAGE_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns of Kafka messages in Spark."""

_ONE_COLUMN = ("raw", "text")
_OTHER_KEYS = re.compile(r"(^|[<,:])map<(?!string\b)")
_NESTED = ("array<", "map<", "struct<", "variant", "binary")

# Keys that only some formats support; with other formats they are an error.
_FORMATS = {
    "columns_said": ("avro", "csv", "json", "protobuf"),
    "delimiter": ("csv",),
    "null_value": ("csv",),
    "timestamp_format": ("csv", "json"),
    "date_format": ("csv", "json"),
    "schema_file": ("avro",),
    "registry": ("avro",),
    "descriptor": ("protobuf",),
    "message": ("protobuf",),
    "tombstones": ("avro", "csv", "json", "protobuf"),
}

VALIDITY_KEYS = (*_FORMATS, "format", "key", "read_columns")
"""What determines whether bytes are valid; a schema file can change while its name stays the same."""


class Registry(BaseModel):
    """The schema registry for messages that contain schema IDs: a server, or a directory of files."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    url: str | None = Field(default=None, pattern="^https?://", description="URL of the schema registry.")
    user: str | None = Field(default=None, description="User name for the registry.")
    password: Password | None = Field(
        default=None, description="Password for the registry, as `${secret:NAME}`."
    )
    directory: ProjectPath | None = Field(
        default=None, description="Directory with a file `<id>.avsc` for each schema, instead of `url`."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Registry:
        if (self.url is None) == (self.directory is None):
            raise ValueError("exactly one of `url` and `directory` is required; set one of them")
        if (self.user is None) != (self.password is None):
            raise ValueError("`user` and `password` require each other; set both, or neither")
        if "@" in (self.url or ""):
            raise ValueError("`url` must not contain a login; use the keys `user` and `password`")
        if self.user and self.directory:
            raise ValueError("`user` and `password` have no effect with `directory`; remove them")
        return self


class Decoding(BaseModel):
    """How to decode a message key or value into columns."""

    format: Format | None = Field(
        default=None, description="Format of the bytes. Default: `json` if `schema` is set, otherwise `raw`."
    )
    columns_said: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="Columns: a mapping of names to types, a DDL string, or the path of a `.ddl`, `.sql` or "
        "`.json` file. `not null` after a type makes a column required.",
    )
    column: str | None = Field(
        default=None,
        min_length=1,
        description="`raw`, `text`: name of the column. Default: `value`; for a message key, `key`.",
    )
    delimiter: str | None = Field(
        default=None, min_length=1, description="CSV: separator between values. Default: `,`."
    )
    null_value: str | None = Field(
        default=None, description="CSV: string that represents null. Default: the empty string."
    )
    timestamp_format: str | None = Field(
        default=None, description="CSV, JSON: pattern of timestamps. Default: Spark's."
    )
    date_format: str | None = Field(
        default=None, description="CSV, JSON: pattern of dates. Default: Spark's."
    )
    schema_file: ProjectPath | None = Field(
        default=None, description="Avro: file (`.avsc`) with the schema of the columns."
    )
    registry: Registry | None = Field(
        default=None,
        description="Avro: schema registry for messages that contain a schema ID: "
        "`{url: …, user: …, password: …}` or `{directory: …}`.",
    )
    descriptor: ProjectPath | None = Field(
        default=None,
        description="Protobuf: descriptor file, created with `protoc --include_imports -o FILE`.",
    )
    message: str | None = Field(
        default=None, description="Protobuf: message type with its package, such as `shop.Order`."
    )

    @field_validator("columns_said", mode="before")
    @classmethod
    def _read_columns(cls, written: Any, info: ValidationInfo) -> Schema:
        return read_schema(written, info, validated=True)

    @model_validator(mode="after")
    def _decoding_fits(self) -> Decoding:
        for key, formats in _FORMATS.items():
            if key in self.model_fields_set and self.written_as not in formats:
                said = "schema" if key == "columns_said" else key
                raise ValueError(
                    f"`{said}` is not supported with format `{self.written_as}`, only "
                    f"{_quoted(formats, last=' and ')}; remove `{said}`"
                )
        _complete(self)
        # Read the file now, so problems with it are reported when the pipeline is loaded.
        _ = self.read_columns
        return self

    @property
    def written_as(self) -> Format:
        """The format, set or by default."""
        return self.format or ("json" if self.columns_said else "raw")

    @property
    def is_one_column(self) -> bool:
        return self.written_as in _ONE_COLUMN

    @property
    def in_python(self) -> bool:
        """Whether a Python function decodes the bytes, because Spark has no safe one."""
        return self.written_as in ("avro", "protobuf")

    @property
    def read_columns(self) -> Schema | None:
        """The columns in the bytes; None if the bytes, or their text, are the only column."""
        if self.columns_said or self.is_one_column:
            return self.columns_said
        if self.written_as == "avro":
            return avro_columns(self.schema_file or "")
        return protobuf_columns(self.descriptor or "", self.message or "")


def _complete(decoding: Decoding) -> None:
    """Check that the keys that the format needs are set, and that it supports the types."""
    said = decoding.columns_said is not None
    match decoding.written_as:
        case "json" | "csv" if not said:
            raise ValueError(f"`format: {decoding.written_as}` requires the columns; set `schema`")
        case "avro" if decoding.registry is None and (said or decoding.schema_file is None):
            raise ValueError(
                "`format: avro` without `registry` requires `schema_file` and no `schema`; set `schema_file`"
            )
        case "avro" if said == (decoding.schema_file is not None):
            raise ValueError("`registry` requires the expected columns; set either `schema` or `schema_file`")
        case "protobuf" if decoding.descriptor is None or decoding.message is None:
            raise ValueError("`format: protobuf` requires `descriptor` and `message`; set both")
    for column in decoding.columns_said.columns if decoding.columns_said else ():
        if decoding.written_as == "csv" and column.type.startswith(_NESTED):
            raise ValueError(
                f"CSV does not support the type of column `{column.name}` ({column.type}); use a simple type"
            )
        # In all formats, maps are read from JSON objects.
        if _OTHER_KEYS.search(column.type):
            raise ValueError(
                f"column `{column.name}` is {column.type}, but map keys must be strings; use `map<string,…>` "
                "and cast the keys in a table"
            )


class Key(Decoding):
    """How to decode message keys into a column."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @property
    def name(self) -> str:
        return self.column or "key"

    @property
    def type(self) -> str:
        """The type of the column: string, binary, or a struct of the fields in the key."""
        columns = self.read_columns
        if columns is None:
            return "string" if self.written_as == "text" else "binary"
        return f"struct<{','.join(f'{quoted(each.name)}:{each.type}' for each in columns.columns)}>"


def _renamed(written: object) -> object:
    """`[topic, offset]` keeps the names, `{offset: kafka_offset}` renames columns."""
    if isinstance(written, str):
        written = [written]
    if isinstance(written, list | tuple):
        written = {each: each for each in written}
    for name in written if isinstance(written, dict) else ():
        if name not in MESSAGE_COLUMNS:
            meant = nearest(str(name), MESSAGE_COLUMNS)
            hint = f"did you mean `{meant}`?" if meant else f"use one of {', '.join(MESSAGE_COLUMNS)}"
            raise ValueError(f"`{name}` is not a metadata column of Kafka messages; {hint}")
    return written


Kept = Annotated[
    dict[str, str],
    BeforeValidator(_renamed),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"enum": list(MESSAGE_COLUMNS)}},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        }
    ),
]


class Decoded(Decoding):
    """How to decode messages into rows: the value, the key and the Kafka metadata."""

    key: Key | None = Field(
        default=None,
        description="How to decode message keys, such as `{format: text, column: id}`. Default: no key column.",
    )
    metadata_columns: Kept | None = Field(
        default=None,
        description="Kafka metadata columns to add: a list such as `[topic, offset]`, or a mapping to new names "
        "such as `{offset: kafka_offset}`. Default: none.",
    )
    tombstones: Literal["bad", "drop", "keep"] = Field(
        default="bad",
        description="How to treat a message without a value: as a `bad` row, `drop` it, or `keep` it as a row of "
        "nulls.",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Decoded:
        if self.column and not self.is_one_column:
            raise ValueError(
                f"`column` is not supported with format `{self.written_as}`, which names its own columns; "
                "remove it"
            )
        seen: set[str] = set()
        for column in self._columns():
            if column.name.lower() in seen:
                raise ValueError(
                    f"duplicate column `{column.name}`; rename one of them with `column` or in "
                    "`metadata_columns`"
                )
            seen.add(column.name.lower())
        return self

    @property
    def whole_messages(self) -> bool:
        """Whether no decoding is configured, so rows are the messages as Spark returns them."""
        return self.written_as == "raw" and not (self.key or self.column or self.metadata_columns is not None)

    @property
    def columns(self) -> Schema:
        """All columns of a row, in order: the key, the value, the metadata."""
        return Schema(tuple(self._columns()))

    def _columns(self) -> Iterator[Column]:
        if self.whole_messages:
            yield from (Column(name, type_) for name, type_ in MESSAGE_COLUMNS.items())
            return
        if self.key:
            yield Column(self.key.name, self.key.type)
        read = self.read_columns
        if read is None:
            yield Column(self.column or "value", "string" if self.written_as == "text" else "binary")
        else:
            # Bad rows that are kept contain nulls, even in required columns.
            yield from (Column(column.name, column.type) for column in read.columns)
        for name, new in (self.metadata_columns or {}).items():
            yield Column(new, MESSAGE_COLUMNS[name])


_REGISTRY = re.compile(rf"{REGISTRY_SCHEMA_UNAVAILABLE.code}\t(\S+)\t([^\n]*)")
"""What the Avro reader with a registry raises on an executor."""


def registry_failure(message: str, sink: SinkSpec) -> Problem | None:
    """The problem of a registry that did not respond while a query ran."""
    gone = _REGISTRY.search(message)
    if gone is None:
        return None
    params = {"sink": sink.name, "place": gone[1], "reason": gone[2].rstrip(".")}
    return REGISTRY_SCHEMA_UNAVAILABLE.at(sink.position, **params)


def ask_again(directory: SourceDirectory) -> None:
    """Forget which schema IDs were unknown, so the registry is asked for them again."""
    for note in directory.registry.glob("*/[0-9]*"):
        if note.read_text("utf-8") == UNKNOWN:
            note.unlink()
