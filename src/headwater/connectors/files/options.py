"""The keys of files sources and sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
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
from headwater.values import Duration, nearest, quoted
from headwater.values.sizes import Size

Format = Literal["avro", "csv", "json", "orc", "parquet", "text", "xml"]

# Spark options that select files in a directory.
CHOOSING = ("pathglobfilter", "modifiedafter", "modifiedbefore", "maxfileage", "filenameonly")

# Keys that only some formats support; with other formats they are an error.
READ_FORMATS = {
    "header": ("csv",),
    "delimiter": ("csv",),
    "multi_line": ("csv", "json"),
    "row_tag": ("xml",),
    "timestamp_format": ("csv", "json", "xml"),
    "date_format": ("csv", "json", "xml"),
    "encoding": ("csv", "json", "xml"),
}
VALIDITY_KEYS = (*READ_FORMATS, "format", "columns", "options")
"""The keys that determine whether a row is valid."""
WRITE_FORMATS = {
    "header": ("csv",),
    "delimiter": ("csv",),
    "row_tag": ("xml",),
    "timestamp_format": ("csv", "json", "xml"),
    "date_format": ("csv", "json", "xml"),
}


# The codecs that Spark can write; text formats also accept the class name of a codec.
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
            allowed_in = quoted(formats, last=" and ")
            raise ValueError(
                f"`{key}` is not supported with format `{format_}`, only {allowed_in}; remove `{key}`"
            )


def _known_codec(sink: FilesSink) -> None:
    codec, known = sink.compression, CODECS[sink.format]
    is_class = known is _TEXT_CODECS and "." in (codec or "")
    if codec is None or codec.lower() in known or is_class:
        return
    meant = nearest(codec, known)
    hint = f"did you mean `{meant}`?" if meant else f"use one of {', '.join(known)}"
    raise ValueError(f"format `{sink.format}` does not support `compression: {codec}`; {hint}")


def _only_local(sink: FilesSink) -> None:
    key = "manifest" if sink.manifest else "compaction" if sink.compaction else None
    if key and is_uri(sink.path):
        raise ValueError(
            f"`{key}` requires a local directory, because it replaces files atomically, "
            f"but `path` is {sink.path}; remove `{key}`"
        )


def _only_compactable(sink: FilesSink) -> None:
    if sink.compaction is None:
        return
    for option in sink.options:
        if option.lower() == "retention" or (
            option.lower() in ("encoding", "charset") and sink.format in ("csv", "json", "xml")
        ):
            raise ValueError(f"`compaction` does not support the option `{option}`; remove one of them")


def _cleanable(source: FilesSource) -> None:
    for option in source.options:
        if option.lower() == "cleansource":
            says = "is not supported, because it removes files that other sinks have not read; use `clean_up`"
            raise ValueError(f"option `{option}` {says} instead")
    if (source.clean_up == "archive") != (source.archive_dir is not None):
        raise ValueError("`clean_up: archive` and `archive_dir` require each other; set both, or neither")
    for path in (*source.path, source.archive_dir or "") if source.clean_up else ():
        if is_uri(path):
            raise ValueError(f"`clean_up` supports only local directories, got {path}; remove `clean_up`")


_SPARK_OPTIONS = {
    "header": "header",
    "sep": "delimiter",
    "rowTag": "row_tag",
    "timestampFormat": "timestamp_format",
    "dateFormat": "date_format",
    "multiLine": "multi_line",
    "encoding": "encoding",
    "compression": "compression",
}
"""Spark options of the formats, each with the key that sets it."""
# Names of the keys in Spark and elsewhere, if they differ by more than case and punctuation.
_PLACES = {"directory": "path", "folder": "path", "location": "path", "paths": "path"}


class _Files(ConnectorOptions):
    """What sources and sinks share."""

    def given(self, option: str) -> str:
        """The value of a Spark option under `options`, ignoring case; empty if it is not set."""
        return str({key.lower(): value for key, value in self.options.items()}.get(option.lower(), ""))

    def spark_options(self) -> dict[str, str]:
        """The settings of the format as Spark options."""
        said = {option: getattr(self, key, None) for option, key in _SPARK_OPTIONS.items()}
        said = {option: value for option, value in said.items() if value or value == ""}
        if getattr(self, "format", "") == "csv" and "escape" not in map(str.lower, self.options):
            # As in RFC 4180, a quote inside quotes is doubled; Spark's default is a backslash before it.
            said["escape"] = '"'
        return {**option_texts(said), **plain(self)}


class FilesSource(_Files, SourceOptions):
    """Reads new files from directories. Each file is read once."""

    also_called = {
        **_PLACES,
        "charset": "encoding",
        "cleanSource": "clean_up",
        "columns": "schema",
        "maxBytesPerTrigger": "max_bytes_per_batch",
        "maxFilesPerTrigger": "max_files_per_batch",
        "sep": "delimiter",
        "sourceArchiveDir": "archive_dir",
    }

    path: Paths = Field(
        description="Directory, file or glob, or a list of them. Relative to the pipeline file."
    )
    format: Format = Field(description="File format.")
    columns: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="Columns: a mapping of names to types, a DDL string, or the path of a `.ddl`, `.sql` or "
        "`.json` file. Required unless `infer_schema` is true; text files default to `value string`.",
    )
    infer_schema: bool = Field(
        default=False,
        description="Infer the schema from the existing files at the first start, and store it for later starts.",
    )
    max_files_per_batch: int | None = Field(
        default=None,
        gt=0,
        description="Maximum number of new files per batch, for each path. Default: no limit.",
    )
    max_bytes_per_batch: Size | None = Field(
        default=None,
        description="Maximum size of new files per batch, for each path, such as `512 MB`. Default: no limit.",
    )
    latest_first: bool = Field(default=False, description="Process the newest files first.")
    max_file_age: Duration | None = Field(
        default=None,
        description="After the first batch, ignore files that are older than the newest file by more than this. "
        "Default: no limit.",
    )
    file_name_only: bool = Field(
        default=False,
        description="Identify files by name only: `a/x.json` and `b/x.json` count as the same file.",
    )
    clean_up: Literal["archive", "delete"] | None = Field(
        default=None,
        description="Archive or delete a file after every sink that reads it has committed it. "
        "Default: files stay.",
    )
    archive_dir: ProjectPath | None = Field(
        default=None, description="Directory for archived files. Required with `clean_up: archive`."
    )
    header: bool = Field(default=False, description="CSV: the first line contains column names.")
    delimiter: str | None = Field(
        default=None, min_length=1, description="CSV: separator between values. Default: `,`."
    )
    multi_line: bool = Field(default=False, description="CSV, JSON: a row can span several lines.")
    row_tag: str | None = Field(
        default=None, description="XML: the element that contains one row. Required for XML."
    )
    timestamp_format: str | None = Field(
        default=None, description="CSV, JSON, XML: pattern of timestamps. Default: Spark's."
    )
    date_format: str | None = Field(
        default=None, description="CSV, JSON, XML: pattern of dates. Default: Spark's."
    )
    encoding: str | None = Field(
        default=None, description="CSV, JSON, XML: character encoding. Default: UTF-8."
    )

    _root: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._root = Path((context or {}).get("root", Path.cwd()))

    @property
    def globs(self) -> tuple[str, ...]:
        """The paths as globs; special characters in the path of the project itself are escaped."""
        return tuple(as_glob(path, self._root) for path in self.path)

    def spark_options(self) -> dict[str, str]:
        # A header that does not match the schema fails the query; by default, Spark ignores the header and
        # assigns values by position.
        strict = {"enforceSchema": "false"} if self.header else {}
        # A row that does not match its schema fails the query; by default, Spark replaces it with nulls.
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
            raise ValueError("`schema` and `infer_schema: true` are mutually exclusive; remove one of them")
        if self.columns is None and not self.infer_schema and self.format != "text":
            raise ValueError(
                "`schema` is required; write `schema: {…}`, or set `infer_schema: true` to infer it"
            )
        if self.infer_schema and self.format == "text":
            raise ValueError("text files have one column, `value string`; remove `infer_schema`")
        # One column contains the lines; the others come from key=value directories.
        if self.format == "text" and self.columns and "string" not in (c.type for c in self.columns.columns):
            raise ValueError("text files require a string column; write `schema: {value: string}`")
        if self.format == "xml" and not self.row_tag:
            raise ValueError(
                "XML files require `row_tag`; set it to the row element, such as `row_tag: bird`"
            )
        if self.max_files_per_batch and self.max_bytes_per_batch:
            raise ValueError(
                "`max_files_per_batch` and `max_bytes_per_batch` are mutually exclusive; remove one of them"
            )
        limit = "max_files_per_batch" if self.max_files_per_batch else "max_bytes_per_batch"
        if self.latest_first and self.max_file_age and getattr(self, limit):
            raise ValueError(
                f"`max_file_age` has no effect with `latest_first` and `{limit}`, because Spark then reads "
                "old files in later batches; remove one of the three"
            )
        _cleanable(self)
        return self


RETENTION = Duration.parse("1 hour")
"""How long replaced files stay by default, also after `compaction` was removed from the sink."""


class Compaction(BaseModel):
    """Merges small files of a sink into larger ones, without changing what readers see."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    min_files: int = Field(
        gt=1, description="Compact a directory once it contains this many small files. At least 2."
    )
    target_size: Size = Field(
        default=128 << 20,
        description="Approximate size of a compacted file, such as `128 MB` (the default).",
    )
    retention: Duration = Field(
        default=RETENTION,
        description="How long to keep the original files for readers that are still using them.",
    )


class FilesSink(_Files, SinkOptions):
    """Writes files to a directory. Spark readers see each row exactly once."""

    also_called = {
        **_PLACES,
        "codec": "compression",
        "partition_columns": "partition_by",
        "partitioned_by": "partition_by",
        "sep": "delimiter",
    }

    path: ProjectPath = Field(description="Output directory. Relative to the pipeline file.")
    format: Format = Field(description="File format.")
    partition_by: Names = Field(
        default=(), description="Columns to partition by, stored as `key=value` directories."
    )
    compression: str | None = Field(
        default=None,
        description="Compression codec, such as `gzip` or `snappy`. Default: Spark's default for the format.",
    )
    header: bool = Field(default=False, description="CSV: write column names as the first line.")
    delimiter: str | None = Field(
        default=None, min_length=1, description="CSV: separator between values. Default: `,`."
    )
    row_tag: str | None = Field(
        default=None, description="XML: the element that contains one row. Default: `ROW`."
    )
    timestamp_format: str | None = Field(
        default=None, description="CSV, JSON, XML: pattern of timestamps. Default: Spark's."
    )
    date_format: str | None = Field(
        default=None, description="CSV, JSON, XML: pattern of dates. Default: Spark's."
    )
    manifest: bool = Field(
        default=False,
        description="Maintain a list of committed files in `_headwater/` for readers other than Spark.",
    )
    compaction: Compaction | None = Field(
        default=None,
        description="Merge small files into larger ones while the query runs. Default: no compaction.",
    )

    @model_validator(mode="after")
    def _fits(self) -> FilesSink:
        if Path(self.path).is_file():
            raise ValueError(f"{self.path} is a file; set `path` to a directory")
        _only_for(self, WRITE_FORMATS, self.format)
        _known_codec(self)
        _only_local(self)
        _only_compactable(self)
        return self
