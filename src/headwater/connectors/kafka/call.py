"""Kafka topics in a Python declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from headwater.connectors.connector import ConnectorCall, Options, connector
from headwater.values import Duration, Secret


def kafka(
    *,
    bootstrap_servers: str,
    topic: str | Sequence[str] | None = None,
    topic_pattern: str | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    start: str | Mapping[str, Any] | None = None,
    end: str | Mapping[str, Any] | None = None,
    max_rows_per_batch: int | None = None,
    min_rows_per_batch: int | None = None,
    max_wait: str | Duration | None = None,
    min_partitions: int | None = None,
    max_rows_per_partition: int | None = None,
    on_data_loss: Literal["fail", "warn"] | None = None,
    on_topic_recreated: Literal["fail", "earliest"] | None = None,
    group_id: str | None = None,
    group_id_prefix: str | None = None,
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
    metadata_columns: Sequence[str] | Mapping[str, str] | None = None,
    tombstones: Literal["bad", "drop", "keep"] | None = None,
    key: str | Sequence[str] | Mapping[str, Any] | None = None,
    topic_column: str | None = None,
    value: str | None = None,
    columns: str | Sequence[str] | None = None,
    schema_id: int | None = None,
    headers: str | Mapping[str, str] | None = None,
    partition: str | None = None,
    dedup_headers: bool | None = None,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None,
    acks: Literal["all", "1", "0"] | None = None,
    linger: str | Duration | None = None,
    tls: Mapping[str, str | bool | Secret] | None = None,
    sasl: Mapping[str, str | Secret] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """Declare a source or sink of Kafka topics."""
    return connector("kafka", **locals())
