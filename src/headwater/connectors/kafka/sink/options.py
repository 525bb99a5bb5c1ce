"""What can be said about the Kafka sink."""

from __future__ import annotations

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

from headwater.connectors.kafka.names import topic_name
from headwater.connectors.kafka.servers import Servers
from headwater.connectors.kafka.sink.avro import AvroSchema, read_schema
from headwater.spec import Delivery, SinkOptions
from headwater.values import Duration

ENCODINGS = ("json", "avro")

# What typed keys say in Kafka's words; the same under `options` would be two words for one thing.
PRODUCER = {
    "kafka.compression.type": "compression",
    "kafka.acks": "acks",
    "kafka.linger.ms": "linger",
}
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
        _only_with(self, ENCODINGS, "columns")
        _only_with(self, ("avro",), "schema_file", "schema_id")
        if self.schema_id is not None and self.schema_file is None:
            raise ValueError("`schema_id` is the id of a schema; name its file as `schema_file`")
        _said_once(self)
        return self


def _only_with(sink: KafkaSink, encodings: tuple[str, ...], *keys: str) -> None:
    for key in keys:
        if getattr(sink, key) is not None and sink.value not in encodings:
            choice = " or ".join(f"`value: {each}`" for each in encodings)
            raise ValueError(f"`{key}` does nothing without {choice}")


def _said_once(sink: KafkaSink) -> None:
    for option in sink.options:
        key = {**PRODUCER, **OF_SPARK}.get(option.lower())
        if key:
            raise ValueError(f"`{option}` under `options` has a key of its own; write `{key}: …`")


def producer_settings(sink: KafkaSink) -> dict[str, str]:
    """What the typed keys say to Kafka's producer, in its own words."""
    said = {
        "kafka.compression.type": sink.compression,
        "kafka.acks": sink.acks,
        "kafka.linger.ms": None if sink.linger is None else str(sink.linger.milliseconds),
    }
    return {option: value for option, value in said.items() if value is not None}


def delivery_by(sink: KafkaSink) -> Delivery | None:
    """What the keys change about the delivery."""
    if sink.acks != "all":
        return Delivery.UNCONFIRMED
    return Delivery.MARKED if sink.dedup_header else None
