"""What can be said about files, and what files can do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from headwater.connectors.options import SchemaField, option_texts, plain, read_schema
from headwater.spec import ConnectorOptions, Schema, SinkOptions, SourceOptions
from headwater.spec.paths import ProjectPath, as_glob, is_uri
from headwater.values import Duration, nearest

Format = Literal["avro", "csv", "json", "orc", "parquet", "text", "xml"]

_SIZE = re.compile(r"(\d+)\s*(b|kb|mb|gb|tb)?$", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}

# Options of Spark that choose among the files of a folder.
CHOOSING = ("pathglobfilter", "modifiedafter", "modifiedbefore", "maxfileage", "filenameonly")

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
VALIDITY_KEYS = (*READ_FORMATS, "format", "columns", "options")
"""What decides whether a row can be read."""
WRITE_FORMATS = {
    "header": ("csv",),
    "delimiter": ("csv",),
    "row_tag": ("xml",),
    "timestamp_format": ("csv", "json", "xml"),
    "date_format": ("csv", "json", "xml"),
}


# What Spark can write; text formats take the name of a codec's class as well.
_TEXT_CODECS = ("none", "uncompressed", "bzip2", "deflate", "gzip", "lz4", "snappy")
CODECS = {
    "avro": ("uncompressed", "bzip2", "deflate", "snappy", "xz", "zstandard"),
    "csv": _TEXT_CODECS,
    "json": _TEXT_CODECS,
    "orc": ("none", "uncompressed", "brotli", "lz4", "lzo", "snappy", "zlib", "zstd"),
    "parquet": ("none", "uncompressed", "brotli", "gzip", "lz4", "lz4_raw", "lzo", "snappy", "zstd"),
    "text": _TEXT_CODECS,
    "xml": _TEXT_CODECS,
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


def _only_for(model: SourceOptions | SinkOptions, allowed: dict[str, tuple[str, ...]], format_: str) -> None:
    for key, formats in allowed.items():
        if key in model.model_fields_set and format_ not in formats:
            raise ValueError(f"`{key}` does nothing for {format_} files; it is a key of {', '.join(formats)}")


def _known_codec(sink: FilesSink) -> None:
    codec, known = sink.compression, CODECS[sink.format]
    is_class = known is _TEXT_CODECS and "." in (codec or "")
    if codec is None or codec.lower() in known or is_class:
        return
    meant = nearest(codec, known)
    hint = f"did you mean `{meant}`?" if meant else f"write one of {', '.join(known)}"
    raise ValueError(f"`compression` is `{codec}`, which {sink.format} files do not have; {hint}")


def _only_local(sink: FilesSink) -> None:
    key = "manifest" if sink.manifest else "compact_after" if sink.compact_after else None
    if key and is_uri(sink.path):
        raise ValueError(
            f"`{key}` needs a folder of the local file system, where a file is replaced in one step, "
            f"and `path` is {sink.path}; leave it out"
        )


def _only_compactable(sink: FilesSink) -> None:
    if sink.compact_after is None:
        for key in {"compact_to", "keep_compacted"} & sink.model_fields_set:
            raise ValueError(f"`{key}` does nothing without `compact_after`; write how many files are many")
        return
    for option in sink.options:
        if option.lower() == "retention" or (
            option.lower() in ("encoding", "charset") and sink.format in ("csv", "json", "xml")
        ):
            raise ValueError(f"`compact_after` can't go with the option `{option}`; leave one of them out")


def _cleanable(source: FilesSource) -> None:
    for option in source.options:
        if option.lower() == "cleansource":
            says = "takes files away that another sink has not read yet; write `clean_up` instead"
            raise ValueError(f"`{option}` {says}")
    if (source.clean_up == "archive") != (source.archive_to is not None):
        raise ValueError("`clean_up: archive` and `archive_to`, the folder to move files to, go together")
    for path in (*source.path, source.archive_to or "") if source.clean_up else ():
        if is_uri(path):
            raise ValueError(f"`clean_up` works in folders of the local file system, and {path} is none")


_SPARK_OPTIONS = {
    "header": "header",
    "sep": "delimiter",
    "rowTag": "row_tag",
    "timestampFormat": "timestamp_format",
    "dateFormat": "date_format",
    "multiLine": "multiline",
    "encoding": "encoding",
    "compression": "compression",
}
"""Spark's options of the formats, each with the key that says it."""
# What Spark and others call the keys, where the names differ by more than case and punctuation.
_PLACES = {"directory": "path", "folder": "path", "location": "path", "paths": "path"}


class _Files(ConnectorOptions):
    """What both sides say to Spark."""

    def given(self, option: str) -> str:
        """What `options` says of an option of Spark, in letters of any case; empty for nothing."""
        return str({key.lower(): value for key, value in self.options.items()}.get(option.lower(), ""))

    def spark_options(self) -> dict[str, str]:
        """All that is said of the format, in Spark's words."""
        said = {option: getattr(self, key, None) for option, key in _SPARK_OPTIONS.items()}
        said = {option: value for option, value in said.items() if value or value == ""}
        if getattr(self, "format", "") == "csv" and "escape" not in map(str.lower, self.options):
            # As in RFC 4180, a quote inside quotes is doubled; Spark's own default is a backslash before it.
            said["escape"] = '"'
        return {**option_texts(said), **plain(self)}


class FilesSource(_Files, SourceOptions):
    """Files that appear in a folder; each is read once."""

    also_called = {
        **_PLACES,
        "charset": "encoding",
        "cleanSource": "clean_up",
        "columns": "schema",
        "maxBytesPerTrigger": "max_bytes_per_batch",
        "maxFilesPerTrigger": "max_files_per_batch",
        "sep": "delimiter",
        "sourceArchiveDir": "archive_to",
    }

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
    clean_up: Literal["archive", "delete"] | None = Field(
        default=None,
        description="What becomes of a file when every sink that reads it has committed it.",
    )
    archive_to: ProjectPath | None = Field(
        default=None, description="archive: the folder that finished files are moved to."
    )
    header: bool = Field(default=False, description="csv: the first line holds column names.")
    delimiter: str | None = Field(
        default=None, min_length=1, description="csv: what stands between two values."
    )
    multiline: bool = Field(default=False, description="csv, json: a row may span lines.")
    row_tag: str | None = Field(default=None, description="xml: the element that is a row.")
    timestamp_format: str | None = Field(
        default=None, description="csv, json, xml: the pattern of timestamps."
    )
    date_format: str | None = Field(default=None, description="csv, json, xml: the pattern of dates.")
    encoding: str | None = Field(default=None, description="csv, json, xml: the character set.")

    _root: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._root = Path((context or {}).get("root", Path.cwd()))

    @property
    def globs(self) -> tuple[str, ...]:
        """The paths as globs: the name of the directory that contains the project is never one."""
        return tuple(as_glob(path, self._root) for path in self.path)

    def spark_options(self) -> dict[str, str]:
        # Names in the first line that are not those of the schema stop the query; Spark's own default reads
        # the values by their places, whatever stands above them.
        strict = {"enforceSchema": "false"} if self.header else {}
        # A row that does not fit its schema stops the query; Spark's own default turns it into nulls.
        strict |= {"mode": "FAILFAST"} if self.format in ("csv", "json", "xml") else {}
        return {**strict, **super().spark_options()}

    @field_validator("columns", mode="before")
    @classmethod
    def _read_columns(cls, written: Any, info: ValidationInfo) -> Schema:
        return read_schema(written, info, validated=True)

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
        # Some column holds the lines; the others come from key=value folders.
        if self.format == "text" and self.columns and "string" not in (c.type for c in self.columns.columns):
            raise ValueError("a line of a text file is a string; write `schema: {value: string}`")
        if self.format == "xml" and not self.row_tag:
            raise ValueError("xml files need `row_tag`; write the element that is a row: `row_tag: bird`")
        if self.max_files_per_batch and self.max_bytes_per_batch:
            raise ValueError(
                "Spark takes one limit: `max_files_per_batch` or `max_bytes_per_batch`, not both"
            )
        limit = "max_files_per_batch" if self.max_files_per_batch else "max_bytes_per_batch"
        if self.latest_first and self.max_file_age and getattr(self, limit):
            raise ValueError(
                f"`max_file_age` does nothing beside `latest_first` and `{limit}`: "
                "Spark then reads old files in later batches; leave one of the three out"
            )
        _cleanable(self)
        return self


class FilesSink(_Files, SinkOptions):
    """A folder of files; readers through Spark see each row once."""

    also_called = {
        **_PLACES,
        "codec": "compression",
        "partition_columns": "partition_by",
        "partitioned_by": "partition_by",
        "sep": "delimiter",
    }

    path: ProjectPath = Field(description="The folder to write; relative to the pipeline file.")
    format: Format = Field(description="The format of the files.")
    partition_by: Names = Field(default=(), description="Columns that become key=value folders.")
    compression: str | None = Field(
        default=None, description="The codec, such as gzip or snappy; each format has its own."
    )
    header: bool = Field(default=False, description="csv: write column names as the first line.")
    delimiter: str | None = Field(
        default=None, min_length=1, description="csv: what stands between two values."
    )
    row_tag: str | None = Field(default=None, description="xml: the element that is a row.")
    timestamp_format: str | None = Field(
        default=None, description="csv, json, xml: the pattern of timestamps."
    )
    date_format: str | None = Field(default=None, description="csv, json, xml: the pattern of dates.")
    manifest: bool = Field(
        default=False,
        description="Keep a list of the committed files in `_headwater/`, for readers other than Spark.",
    )
    compact_after: int | None = Field(
        default=None,
        gt=1,
        description="Rewrite small files as larger ones when so many lie in one folder.",
    )
    compact_to: Size | None = Field(
        default=None, description="About how large a rewritten file is; 128 MB unless told."
    )
    keep_compacted: Duration = Field(
        default=Duration.parse("1 hour"),
        description="How long files that were rewritten stay, for readers that began before.",
    )

    @model_validator(mode="after")
    def _fits(self) -> FilesSink:
        if Path(self.path).is_file():
            raise ValueError(f"{self.path} is a file; write the name of a folder")
        _only_for(self, WRITE_FORMATS, self.format)
        _known_codec(self)
        _only_local(self)
        _only_compactable(self)
        return self
