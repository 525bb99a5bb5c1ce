"""What can be said about the Kafka source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from headwater.connectors.decoding.options import Decoded
from headwater.connectors.kafka.positions import At, EndField, Place, StartField, partition_number
from headwater.connectors.kafka.servers import Servers, topic_name
from headwater.spec import SourceOptions
from headwater.values import Duration, Secret

STREAM_KEYS = (
    "max_rows_per_batch",
    "min_rows_per_batch",
    "longest_wait",
    "on_new_topic",
)
BATCH_KEYS = (
    "max_rows_per_batch",
    "min_rows_per_batch",
    "longest_wait",
    "min_partitions",
    "rows_per_partition",
)
"""Keys that say how large batches and their tasks are; they do nothing where tasks don't end."""
ALWAYS_SAID = {
    "subscribe": "topic",
    "subscribepattern": "pattern",
    "assign": "partitions",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "startingoffsetsbytimestamp": "start",
    "startingoffsetsbytimestampstrategy": "start",
    "endingoffsets": "end",
    "endingtimestamp": "end",
    "endingoffsetsbytimestamp": "end",
    "failondataloss": "on_data_loss",
    "maxoffsetspertrigger": "max_rows_per_batch",
    "minoffsetspertrigger": "min_rows_per_batch",
    "maxtriggerdelay": "longest_wait",
    "minpartitions": "min_partitions",
    "maxrecordsperpartition": "rows_per_partition",
    "includeheaders": "kafka_columns",
    "groupidprefix": "group_prefix",
    "kafka.group.id": "group",
}
"""Options of Spark that a key says, in lower case: said twice, one would win in silence."""


def _as_list(value: object) -> object:
    if isinstance(value, str) and "," in value:
        raise ValueError(f"`{value}` is no name of a topic; write several topics as a list: [a, b]")
    return [value] if isinstance(value, str) else value


Topics = Annotated[
    tuple[Annotated[str, AfterValidator(topic_name)], ...],
    BeforeValidator(_as_list),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


def _numbers(written: object) -> object:
    if not isinstance(written, dict):
        return written
    return {topic: _partitions(topic, numbers) for topic, numbers in written.items()}


def _partitions(topic: object, written: object) -> object:
    listed = written if isinstance(written, list | tuple) else [written]
    if not listed:
        raise ValueError(f"`partitions` names none of `{topic}`; write such as [0, 1], or leave it out")
    return tuple(sorted({partition_number(each) for each in listed}))


Partitions = Annotated[
    dict[Annotated[str, AfterValidator(topic_name)], tuple[int, ...]],
    BeforeValidator(_numbers),
    Field(min_length=1),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    ),
]


class KafkaSource(Decoded, Servers, SourceOptions):
    """Messages of one or more topics."""

    also_called = {
        **ALWAYS_SAID,
        "auto.offset.reset": "start",
        "scan.startup.mode": "start",
        "consumer_group": "group",
        "group.id": "group",
        "value.format": "format",
    }

    topic: Topics | None = Field(default=None, description="The topic, or a list of topics.")
    pattern: str | None = Field(
        default=None,
        min_length=1,
        description="A regular expression of Java for the whole names of topics, also of later ones.",
    )
    partitions: Partitions | None = Field(
        default=None, description="Some partitions of topics: `{clicks: [0, 1]}`."
    )
    start: StartField = Field(
        default=At("earliest"),
        description="Where a first start begins: `earliest`, `latest`, `{offsets: …}` or `{time: …}`.",
    )
    end: EndField = Field(
        default=At("latest"),
        description="As finished data: where reading ends: `latest`, `{offsets: …}` or `{time: …}`.",
    )
    max_rows_per_batch: int | None = Field(default=None, gt=0, description="At most so many rows in a batch.")
    min_rows_per_batch: int | None = Field(
        default=None, gt=0, description="Wait with a batch until there are so many rows, or `longest_wait`."
    )
    longest_wait: Duration | None = Field(
        default=None, description="How long `min_rows_per_batch` may hold rows back; 15 minutes unless told."
    )
    min_partitions: int | None = Field(
        default=None, gt=0, description="Split a batch into at least so many tasks."
    )
    rows_per_partition: int | None = Field(
        default=None, gt=0, description="Split a batch so that no task has more rows."
    )
    on_data_loss: Literal["fail", "warn"] = Field(
        default="fail", description="What to do when Kafka has deleted messages that were not read yet."
    )
    on_new_topic: Literal["fail", "earliest"] = Field(
        default="fail",
        description="What to do when a topic was deleted and made again: stop, or read the new one from its "
        "start.",
    )
    group: str | None = Field(
        default=None, min_length=1, description="The consumer group, where the brokers allow only some."
    )
    group_prefix: str | None = Field(
        default=None, min_length=1, description="How the group ids that Spark makes begin."
    )

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        yield from super().secrets()
        registries = {("registry",): self.registry, ("key", "registry"): self.key and self.key.registry}
        for route, registry in registries.items():
            if registry and registry.password:
                yield (*route, "password"), registry.password

    @model_validator(mode="after")
    def _fits(self) -> KafkaSource:
        given = [key for key in ("topic", "pattern", "partitions") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                "exactly one of `topic`, `pattern` and `partitions` says what is read; "
                + ("write one of them" if not given else f"leave all but one of {', '.join(given)} out")
            )
        _limits(self)
        for option in self.options:
            key = ALWAYS_SAID.get(option.lower())
            if key:
                raise ValueError(f"`options` has `{option}`, which the key `{key}` says; write the key")
        return self


def _limits(source: KafkaSource) -> None:
    least, most = source.min_rows_per_batch, source.max_rows_per_batch
    if least and most and least > most:
        raise ValueError(f"`min_rows_per_batch` is {least} and `max_rows_per_batch` {most}; mend one of them")
    if source.longest_wait and least is None:
        raise ValueError("`longest_wait` does nothing without `min_rows_per_batch`; write both, or neither")
    if source.group and source.group_prefix:
        raise ValueError("`group_prefix` does nothing beside `group`; leave one of them out")


def places(options: KafkaSource) -> tuple[str, ...]:
    """The topics; the servers may change while the topics stay the same."""
    if options.topic:
        return tuple(f"kafka:{topic}" for topic in sorted(options.topic))
    if options.pattern:
        return (f"kafka:/{options.pattern}/",)
    found = (options.partitions or {}).items()
    return tuple(f"kafka:{topic}[{', '.join(map(str, numbers))}]" for topic, numbers in sorted(found))


def named_in(place: Place) -> tuple[tuple[str, int | None], ...]:
    """The topics and partitions that a start or an end names."""
    return () if isinstance(place, At) else tuple(place.named())
