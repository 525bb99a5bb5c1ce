"""Connectors as typed constructors, so that editors complete them and mypy checks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from headwater.values import Duration, Secret

Format = Literal["avro", "csv", "json", "orc", "parquet", "text", "xml"]
Options = Mapping[str, str | int | float | bool | Secret]


@dataclass(frozen=True)
class ConnectorCall:
    """A connector and its keys, not yet judged: that needs to know the pipeline's folder."""

    connector: str
    keys: Mapping[str, Any] = field(default_factory=dict)


def connector(name: str, /, **keys: Any) -> ConnectorCall:
    """Any installed connector by name, with the keys of its reference page."""
    return ConnectorCall(name, {key: value for key, value in keys.items() if value is not None})


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
    archive_to: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    multiline: bool | None = None,
    row_tag: str | None = None,
    timestamp_format: str | None = None,
    date_format: str | None = None,
    encoding: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    compression: str | None = None,
    manifest: bool | None = None,
    compact_after: int | None = None,
    compact_to: int | str | None = None,
    keep_compacted: str | Duration | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Files in a folder, as a source or as a sink."""
    return connector("files", **locals())


def kafka(
    *,
    servers: str,
    topic: str | Sequence[str] | None = None,
    pattern: str | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    start: str | Mapping[str, Any] | None = None,
    end: str | Mapping[str, Any] | None = None,
    max_rows_per_batch: int | None = None,
    min_rows_per_batch: int | None = None,
    longest_wait: str | Duration | None = None,
    min_partitions: int | None = None,
    rows_per_partition: int | None = None,
    on_data_loss: Literal["fail", "warn"] | None = None,
    on_new_topic: Literal["fail", "earliest"] | None = None,
    group: str | None = None,
    group_prefix: str | None = None,
    format: Literal["avro", "csv", "json", "protobuf", "raw", "text"] | None = None,
    schema: str | Mapping[str, Any] | None = None,
    column: str | None = None,
    delimiter: str | None = None,
    null_value: str | None = None,
    timestamp_format: str | None = None,
    date_format: str | None = None,
    schema_file: str | None = None,
    registry: Mapping[str, str | Secret] | None = None,
    descriptor: str | None = None,
    message: str | None = None,
    kafka_columns: Sequence[str] | Mapping[str, str] | None = None,
    tombstones: Literal["bad", "drop", "keep"] | None = None,
    key: str | Sequence[str] | Mapping[str, Any] | None = None,
    topic_column: str | None = None,
    value: str | None = None,
    columns: str | Sequence[str] | None = None,
    schema_id: int | None = None,
    headers: str | Mapping[str, str] | None = None,
    partition: str | None = None,
    dedup_header: bool | None = None,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None,
    acks: Literal["all", "1", "0"] | None = None,
    linger: str | Duration | None = None,
    tls: Mapping[str, str | bool | Secret] | None = None,
    sasl: Mapping[str, str | Secret] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Topics of a Kafka cluster, as a source or as a sink."""
    return connector("kafka", **locals())


def rate(
    *,
    rows_per_second: int | None = None,
    ramp_up: str | Duration | None = None,
    partitions: int | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """So many rows per second, made by a clock."""
    return connector("rate", **locals())


def rate_per_batch(
    *,
    rows_per_batch: int,
    partitions: int | None = None,
    start: str | datetime | None = None,
    step: str | Duration | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """A fixed number of rows in each batch."""
    return connector("rate_per_batch", **locals())


def socket(
    *, host: str, port: int, arrival_time: bool | None = None, options: Options | None = None
) -> ConnectorCall:
    """Lines of text from a socket; for trying things out."""
    return connector("socket", **locals())


def catalog(*, table: str, options: Options | None = None) -> ConnectorCall:
    """A table of a Spark catalog."""
    return connector("catalog", **locals())


def python(
    *,
    class_: str | type,
    schema: str | Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """A class of yours, written for Spark's Python Data Source API, as a source or as a sink."""
    return connector("python", **{"class": class_, "schema": schema, "options": options})


def console(
    *, rows: int | None = None, truncate: bool | None = None, options: Options | None = None
) -> ConnectorCall:
    """The rows of each batch, printed on the terminal."""
    return connector("console", **locals())


def noop(*, options: Options | None = None) -> ConnectorCall:
    """Compute every row and keep none."""
    return connector("noop", **locals())


def foreach(
    *,
    function: str | Callable[[Any], Any] | None = None,
    object: str | type | None = None,
) -> ConnectorCall:
    """A function or an object of yours, called with each row on the executors."""
    return connector("foreach", **locals())


def memory() -> ConnectorCall:
    """A table in the memory of this process, queried with `run.sql`."""
    return connector("memory", **locals())


def foreach_batch(*, function: str | Callable[[Any, int], Any]) -> ConnectorCall:
    """A function of yours, called with each batch and its id."""
    return connector("foreach_batch", **locals())
