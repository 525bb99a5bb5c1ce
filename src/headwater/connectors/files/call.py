"""File sources and sinks in a Python declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from headwater.connectors.connector import ConnectorCall, Options, connector
from headwater.values import Duration

Format = Literal["avro", "csv", "json", "orc", "parquet", "text", "xml"]


def files(
    *,
    path: str | Sequence[str],
    format: Format,
    schema: str | Mapping[str, Any] | None = None,
    infer_schema: bool | None = None,
    max_files_per_batch: int | None = None,
    max_bytes_per_batch: int | str | None = None,
    latest_first: bool | None = None,
    max_file_age: str | Duration | None = None,
    file_name_only: bool | None = None,
    clean_up: Literal["archive", "delete"] | None = None,
    archive_dir: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    multi_line: bool | None = None,
    row_tag: str | None = None,
    timestamp_format: str | None = None,
    date_format: str | None = None,
    encoding: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    compression: str | None = None,
    manifest: bool | None = None,
    compaction: Mapping[str, int | str | Duration] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Declare a source or sink of files in a directory."""
    return connector("files", **locals())
