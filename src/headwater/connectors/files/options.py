"""What can be said about files, and what files can do."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from headwater.connectors.files.schema_files import read_schema
from headwater.spec import Connector, Delivery, Schema, SinkOptions, SinkSide, SourceOptions, SourceSide
from headwater.spec.paths import ProjectPath
from headwater.values import Duration

Format = Literal["csv", "json", "orc", "parquet", "text", "xml"]

_SIZE = re.compile(r"(\d+)\s*(b|kb|mb|gb|tb)?$", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}

# Keys that only some formats take; a key that would do nothing is refused.
READ_FORMATS = {
    "header": ("csv",),
    "delimiter": ("csv",),
    "multiline": ("csv", "json"),
    "row_tag": ("xml",),
    "timestamp_format": ("csv", "json", "xml"),
    "date_format": ("csv", "json", "xml"),
    "encoding": ("csv", "json", "xml"),
}
WRITE_FORMATS = {
    "header": ("csv",),
    "delimiter": ("csv",),
    "row_tag": ("xml",),
    "timestamp_format": ("csv", "json", "xml"),
    "date_format": ("csv", "json", "xml"),
}


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = _SIZE.match(value.strip())
    if match is None:
        raise ValueError(f"`{value}` is not a size; write 512 MB, 10 GB or a number of bytes")
    return int(match[1]) * _UNITS[(match[2] or "b").lower()]


Size = Annotated[
    int,
    BeforeValidator(_bytes),
    Field(gt=0),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "examples": ["512 MB"]}),
]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Paths = Annotated[
    tuple[ProjectPath, ...],
    BeforeValidator(_as_list),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
SchemaField = Annotated[
    Schema,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
]


def _only_for(model: SourceOptions | SinkOptions, allowed: dict[str, tuple[str, ...]], format_: str) -> None:
    for key, formats in allowed.items():
        if key in model.model_fields_set and format_ not in formats:
            raise ValueError(f"`{key}` does nothing for {format_} files; it is a key of {', '.join(formats)}")


class FilesSource(SourceOptions):
    """Files that appear in a folder; each is read once."""

    path: Paths = Field(
        description="A folder, a file or a glob, or a list of them; relative to the pipeline file."
    )
    format: Format = Field(description="The format of the files.")
    columns: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="The columns: a mapping of names to types, a DDL string, or a `.ddl` or `.json` file.",
    )
    infer_schema: bool = Field(
        default=False,
        description="Work the schema out from the files that are there at the first start, and keep it.",
    )
    max_files_per_batch: int | None = Field(
        default=None, gt=0, description="Most new files in one batch, of each path."
    )
    max_bytes_per_batch: Size | None = Field(
        default=None, description="Most bytes of new files in one batch, of each path, such as 512 MB."
    )
    latest_first: bool = Field(default=False, description="Read the newest files first.")
    max_file_age: Duration | None = Field(
        default=None,
        description="After the first batch, files older than the newest by more than this are passed over.",
    )
    file_name_only: bool = Field(
        default=False, description="Tell files apart by name alone: a/x.json and b/x.json are one file."
    )
    header: bool = Field(default=False, description="csv: the first line holds column names.")
    delimiter: str | None = Field(default=None, description="csv: what stands between two values.")
    multiline: bool = Field(default=False, description="csv, json: a row may span lines.")
    row_tag: str | None = Field(default=None, description="xml: the element that is a row.")
    timestamp_format: str | None = Field(
        default=None, description="csv, json, xml: the pattern of timestamps."
    )
    date_format: str | None = Field(default=None, description="csv, json, xml: the pattern of dates.")
    encoding: str | None = Field(default=None, description="csv, json, xml: the character set.")

    @field_validator("columns", mode="before")
    @classmethod
    def _read_columns(cls, written: Any, info: ValidationInfo) -> Schema:
        return read_schema(written, info)

    @model_validator(mode="after")
    def _fits(self) -> FilesSource:
        _only_for(self, READ_FORMATS, self.format)
        if self.columns and self.infer_schema:
            raise ValueError("give either `schema` or `infer_schema: true`, not both")
        if self.columns is None and not self.infer_schema and self.format != "text":
            raise ValueError(
                "a schema is required; write `schema:`, or `infer_schema: true` to have it inferred"
            )
        if self.infer_schema and self.format == "text":
            raise ValueError("text files have one column, `value string`; leave `infer_schema` out")
        if self.format == "xml" and not self.row_tag:
            raise ValueError("xml files need `row_tag`, the element that is a row")
        if self.max_files_per_batch and self.max_bytes_per_batch:
            raise ValueError(
                "Spark takes one limit: `max_files_per_batch` or `max_bytes_per_batch`, not both"
            )
        return self


class FilesSink(SinkOptions):
    """A folder of files; readers through Spark see each row once."""

    path: ProjectPath = Field(description="The folder to write; relative to the pipeline file.")
    format: Format = Field(description="The format of the files.")
    partition_by: Names = Field(default=(), description="Columns that become key=value folders.")
    compression: str | None = Field(
        default=None, description="The codec, such as gzip, snappy, zstd or none."
    )
    header: bool = Field(default=False, description="csv: write column names as the first line.")
    delimiter: str | None = Field(default=None, description="csv: what stands between two values.")
    row_tag: str | None = Field(default=None, description="xml: the element that is a row.")
    timestamp_format: str | None = Field(
        default=None, description="csv, json, xml: the pattern of timestamps."
    )
    date_format: str | None = Field(default=None, description="csv, json, xml: the pattern of dates.")

    @model_validator(mode="after")
    def _fits(self) -> FilesSink:
        _only_for(self, WRITE_FORMATS, self.format)
        return self


def _read_places(options: FilesSource) -> tuple[str, ...]:
    return options.path


def _written_places(options: FilesSink) -> tuple[str, ...]:
    return (options.path,)


CONNECTOR = Connector(
    name="files",
    summary="Files in a folder: csv, json, orc, parquet, text, xml.",
    spark="headwater.connectors.files.spark",
    source=SourceSide(options=FilesSource, replayable=True, places=_read_places),
    sink=SinkSide(
        options=FilesSink,
        modes=frozenset({"append"}),
        delivery=Delivery.IDEMPOTENT,
        stores=True,
        passes_over=True,
        places=_written_places,
    ),
)
