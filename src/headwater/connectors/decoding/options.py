"""What can be said about bytes that are to become columns; a source of bytes inherits these keys."""

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
"""The columns of Kafka's messages as Spark gives them."""

_ONE_COLUMN = ("raw", "text")
_OTHER_KEYS = re.compile(r"(^|[<,:])map<(?!string\b)")
_NESTED = ("array<", "map<", "struct<", "variant", "binary")

# Keys that only some formats take; a key that would do nothing is refused.
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
"""What decides whether bytes can be read; a file with the columns may change while its name stays."""


class Registry(BaseModel):
    """Where the schemas are that messages name by a number: a server, or a folder of files."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    url: str | None = Field(
        default=None, pattern="^https?://", description="The address of a schema registry."
    )
    user: str | None = Field(default=None, description="url: the user name.")
    password: Password | None = Field(default=None, description="url: the password, as `${secret:NAME}`.")
    folder: ProjectPath | None = Field(
        default=None, description="A folder with a file `<id>.avsc` for each schema."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Registry:
        if (self.url is None) == (self.folder is None):
            raise ValueError("write either `url`, the address of a registry, or `folder`")
        if (self.user is None) != (self.password is None):
            raise ValueError("`user` and `password` go together")
        if "@" in (self.url or ""):
            raise ValueError("`user` and `password` are keys of their own; leave them out of `url`")
        if self.user and self.folder:
            raise ValueError("`user` and `password` do nothing beside `folder`; leave them out")
        return self


class Decoding(BaseModel):
    """How one run of bytes becomes columns."""

    format: Format | None = Field(
        default=None, description="How the bytes are written; json where there is a `schema`, else raw."
    )
    columns_said: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="The columns: a mapping of names to types, a DDL string, or a `.ddl` or `.json` file; "
        "`not null` after a type makes a column required.",
    )
    column: str | None = Field(
        default=None, min_length=1, description="The name of the column, where there is just one."
    )
    delimiter: str | None = Field(
        default=None, min_length=1, description="csv: what stands between two values."
    )
    null_value: str | None = Field(default=None, description="csv: the text that stands for null.")
    timestamp_format: str | None = Field(default=None, description="csv, json: the pattern of timestamps.")
    date_format: str | None = Field(default=None, description="csv, json: the pattern of dates.")
    schema_file: ProjectPath | None = Field(
        default=None, description="avro: the file (`.avsc`) with the schema of the columns."
    )
    registry: Registry | None = Field(
        default=None,
        description="avro: each message names its schema by a number; where the schemas are: "
        "`{url: …, user: …, password: …}` or `{folder: …}`.",
    )
    descriptor: ProjectPath | None = Field(
        default=None, description="protobuf: the descriptor file (`protoc --include_imports -o`)."
    )
    message: str | None = Field(
        default=None, description="protobuf: the message, with its package: `shop.Order`."
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
                    f"`{said}` does nothing for the format {self.written_as}; "
                    f"it is a key of {', '.join(formats)}"
                )
        _complete(self)
        # Whatever is wrong with a file is told when the pipeline is read.
        _ = self.read_columns
        return self

    @property
    def written_as(self) -> Format:
        """The format, told or not."""
        return self.format or ("json" if self.columns_said else "raw")

    @property
    def is_one_column(self) -> bool:
        return self.written_as in _ONE_COLUMN

    @property
    def in_python(self) -> bool:
        """Whether the bytes are read by a function in Python, since Spark has none for them that is safe."""
        return self.written_as in ("avro", "protobuf")

    @property
    def read_columns(self) -> Schema | None:
        """The columns in the bytes; None where the bytes, or their text, are the one column."""
        if self.columns_said or self.is_one_column:
            return self.columns_said
        if self.written_as == "avro":
            return avro_columns(self.schema_file or "")
        return protobuf_columns(self.descriptor or "", self.message or "")


def _complete(decoding: Decoding) -> None:
    """Whether all is said that the format needs, and only what it can read."""
    said = decoding.columns_said is not None
    match decoding.written_as:
        case "json" | "csv" if not said:
            raise ValueError(f"`format: {decoding.written_as}` needs the columns; write `schema:`")
        case "avro" if decoding.registry is None and (said or decoding.schema_file is None):
            raise ValueError(
                "avro without a `registry` is read by the schema in `schema_file`, and by no other"
            )
        case "avro" if said == (decoding.schema_file is not None):
            raise ValueError("with a `registry` write the wanted columns: either `schema` or `schema_file`")
        case "protobuf" if decoding.descriptor is None or decoding.message is None:
            raise ValueError("`format: protobuf` needs `descriptor`, a file, and `message`, a name in it")
    for column in decoding.columns_said.columns if decoding.columns_said else ():
        if decoding.written_as == "csv" and column.type.startswith(_NESTED):
            raise ValueError(f"`{column.name}` is {column.type}, which a line of csv can't hold")
        # Whatever the format, maps are read from objects of JSON.
        if _OTHER_KEYS.search(column.type):
            raise ValueError(
                f"`{column.name}` is {column.type}; the keys of maps are read as text: write map<string,…>, "
                "and cast them in a table"
            )


class Key(Decoding):
    """How the keys of messages become a column."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @property
    def name(self) -> str:
        return self.column or "key"

    @property
    def type(self) -> str:
        """The type of the column: text, bytes, or a struct of what stands in the key."""
        columns = self.read_columns
        if columns is None:
            return "string" if self.written_as == "text" else "binary"
        return f"struct<{','.join(f'{quoted(each.name)}:{each.type}' for each in columns.columns)}>"


def _renamed(written: object) -> object:
    """`[topic, offset]` keeps the names, `{offset: kafka_offset}` gives new ones."""
    if isinstance(written, str):
        written = [written]
    if isinstance(written, list | tuple):
        written = {each: each for each in written}
    for name in written if isinstance(written, dict) else ():
        if name not in MESSAGE_COLUMNS:
            meant = nearest(str(name), MESSAGE_COLUMNS)
            hint = f"did you mean `{meant}`?" if meant else f"they are {', '.join(MESSAGE_COLUMNS)}"
            raise ValueError(f"`{name}` is no column of Kafka's messages; {hint}")
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
    """How messages become rows: the value, the key, and what Kafka adds."""

    key: Key | None = Field(
        default=None, description="How keys are written, and the name of their column: the keys of a value."
    )
    kafka_columns: Kept | None = Field(
        default=None,
        description="Columns of Kafka's own to keep: `[topic, offset]`, or with new names "
        "`{offset: kafka_offset}`.",
    )
    tombstones: Literal["bad", "drop", "keep"] = Field(
        default="bad",
        description="What becomes of a message without a value: a bad row, none, or one of nulls.",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Decoded:
        if self.column and not self.is_one_column:
            raise ValueError(
                f"`column` does nothing for the format {self.written_as}, whose columns have names of their "
                "own; leave it out"
            )
        seen: set[str] = set()
        for column in self._columns():
            if column.name.lower() in seen:
                raise ValueError(
                    f"two columns are called `{column.name}`; give one another name, with `column` or in "
                    "`kafka_columns`"
                )
            seen.add(column.name.lower())
        return self

    @property
    def whole_messages(self) -> bool:
        """Whether nothing was said, so that messages are what Spark gives."""
        return self.written_as == "raw" and not (self.key or self.column or self.kafka_columns is not None)

    @property
    def columns(self) -> Schema:
        """All columns of a row, in order: the key, what is in the value, what Kafka adds."""
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
            # Bad rows that are kept have nulls, whatever is required.
            yield from (Column(column.name, column.type) for column in read.columns)
        for name, new in (self.kafka_columns or {}).items():
            yield Column(new, MESSAGE_COLUMNS[name])


_REGISTRY = re.compile(rf"{REGISTRY_SCHEMA_UNAVAILABLE.code}\t(\S+)\t([^\n]*)")
"""What the reader of numbered Avro raises on an executor."""


def registry_failure(message: str, sink: SinkSpec) -> Problem | None:
    """A registry that did not answer while a query ran."""
    gone = _REGISTRY.search(message)
    if gone is None:
        return None
    params = {"sink": sink.name, "place": gone[1], "reason": gone[2].rstrip(".")}
    return REGISTRY_SCHEMA_UNAVAILABLE.at(sink.position, **params)


def ask_again(directory: SourceDirectory) -> None:
    """Forget which numbers were unknown, so that the registry is asked for them once more."""
    for note in directory.registry.glob("*/[0-9]*"):
        if note.read_text("utf-8") == UNKNOWN:
            note.unlink()
