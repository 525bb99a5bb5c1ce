"""The keys of a Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from headwater.connectors.decoding.options import Decoded
from headwater.connectors.kafka.servers import Servers, topic_name
from headwater.spec import SourceOptions
from headwater.values import Duration, Secret, nearest, quoted
from headwater.values.renamed import renamed

# Start and end positions as users write them: keywords, offsets and timestamps.

Edge = Literal["earliest", "latest"]
Where = int | Edge
EDGES: tuple[Edge, ...] = ("earliest", "latest")
_SPARK = {"earliest": -2, "latest": -1}
_POSITION_KEYS = ("default", "fallback", "offsets", "timestamp")


@dataclass(frozen=True)
class Position:
    """Start or end positions: an edge for all partitions except those with their own offset or time."""

    others: Edge
    offsets: Mapping[str, Mapping[int, Where]] = field(default_factory=dict, hash=False)
    times: datetime | Mapping[str, datetime | Mapping[int, datetime]] | None = field(default=None, hash=False)
    """The first message at or after a time: one time for all, per topic, or per partition."""
    fallback: Literal["latest", "fail"] = "fail"
    """How to handle a partition without a message at or after its time."""

    @property
    def is_edge(self) -> bool:
        return not self.offsets and self.times is None

    def of(self, topic: str, partition: int) -> Where | datetime:
        """The offset, time or edge of one partition."""
        found: Any = self.offsets if self.times is None else self.times
        for key in (topic, partition):
            found = found.get(key) if isinstance(found, Mapping) else found
        return self.others if found is None else found

    def named(self) -> Iterator[tuple[str, int | None]]:
        """The topics and partitions that it names; None for a whole topic."""
        for topic, found in (self.times if isinstance(self.times, Mapping) else self.offsets).items():
            yield from ((topic, part) for part in (found if isinstance(found, Mapping) else [None]))

    def __str__(self) -> str:
        if self.is_edge:
            return self.others
        if self.times is None:
            return f"offsets {_in_words(self.offsets)}, default {self.others}"
        return f"timestamp {_in_words(self.times)}, default {self.others}, fallback {self.fallback}"


def spark_offset(where: Where) -> int:
    """An offset as in Spark's JSON, where edges are negative numbers."""
    return where if isinstance(where, int) else _SPARK[where]


def milliseconds(moment: datetime, zone: str) -> int:
    """Milliseconds since 1970; a time without a zone uses the time zone of the pipeline."""
    known = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
    return round(known.timestamp() * 1000)


def _in_words(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_in_words(each)}" for key, each in sorted(value.items())) + "}"
    return str(value)


def _start(written: object) -> Position:
    return _place(written, "start", "earliest")


def _end(written: object) -> Position:
    place = _place(written, "end", "latest")
    offsets = [where for found in place.offsets.values() for where in found.values()]
    if "earliest" in (place.others, *offsets):
        raise ValueError("`end: earliest` leaves no messages to read; use `latest`, offsets or a timestamp")
    return place


def _place(written: object, key: str, others: Edge) -> Position:
    if isinstance(written, Position):
        return written
    if isinstance(written, str):
        return Position(_edge(written, key))
    if isinstance(written, Mapping):
        for old, new in ((each, renamed(each, _POSITION_KEYS)) for each in written):
            if new:
                raise ValueError(f"`{key}.{old}` was renamed to `{key}.{new}`; write `{new}`")
    if not isinstance(written, Mapping) or not written.keys() & {"offsets", "timestamp"}:
        raise ValueError(_ways(key))
    kind = "offsets" if "offsets" in written else "timestamp"
    takes = ("offsets", "default") if kind == "offsets" else ("default", "fallback", "timestamp")
    for unknown in written.keys() - set(takes):
        raise ValueError(f"unknown key `{unknown}` in `{key}`; use {quoted(takes, last=' and ')}")
    rest = _edge(written.get("default", others), f"{key}.default")
    if kind == "timestamp":
        return Position(rest, times=_times(written["timestamp"], key), fallback=_fallback(written, key))
    wanted = f"`{key}.offsets` must map topics to offsets by partition; "
    wanted += 'write `{topic: {"0": 23, "1": latest}}`'
    offsets = {
        topic: {part: _offset(where, key) for part, where in _by_partition(each, wanted)}
        for topic, each in _by_topic(written["offsets"], wanted)
    }
    return Position(rest, offsets)


def _ways(key: str) -> str:
    edges = "`earliest`, `latest`" if key == "start" else "`latest`"
    return (
        f"expected {edges}, offsets or a timestamp; write for example "
        f'`{key}: {{offsets: {{topic: {{"0": 23}}}}}}` or `{key}: {{timestamp: "2026-01-31 12:00:00"}}`'
    )


def _edge(written: object, key: str) -> Edge:
    for edge in EDGES:
        if written == edge:
            return edge
    meant = nearest(written, EDGES) if isinstance(written, str) else None
    if "." not in key and not meant:
        raise ValueError(_ways(key))
    hint = f"did you mean `{meant}`?" if meant else f"set `{key}` to one of them"
    raise ValueError(f"expected `earliest` or `latest` for `{key}`, got `{written}`; {hint}")


def _fallback(written: Mapping[str, Any], key: str) -> Literal["latest", "fail"]:
    if key == "end" and "fallback" in written:
        raise ValueError(
            "`fallback` applies only to `start`, because `end` falls back to `latest`; remove it"
        )
    match written.get("fallback", "fail" if key == "start" else "latest"):
        case "latest":
            return "latest"
        case "fail":
            return "fail"
        case given:
            raise ValueError(
                f"expected `latest` or `fail` for `{key}.fallback`, got `{given}`; use one of them"
            )


def _offset(written: object, key: str) -> Where:
    if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
        return written
    if written in EDGES:
        return _edge(written, key)
    raise ValueError(f"`{written}` is not a valid offset; use a non-negative integer, `earliest` or `latest`")


def _times(written: object, key: str) -> datetime | dict[str, datetime | Mapping[int, datetime]]:
    if not isinstance(written, Mapping):
        return _time(written, key)
    wanted = f"`{key}.timestamp` must be a timestamp, or map topics to timestamps; "
    wanted += 'write `{topic: "2026-01-31 12:00:00"}`'
    return {
        topic: {part: _time(moment, key) for part, moment in _by_partition(each, wanted)}
        if isinstance(each, Mapping)
        else _time(each, key)
        for topic, each in _by_topic(written, wanted)
    }


def _time(written: object, key: str) -> datetime:
    if isinstance(written, datetime):
        return written
    if isinstance(written, date):
        return datetime.combine(written, time())
    try:
        return datetime.fromisoformat(str(written).strip())
    except ValueError:
        raise ValueError(
            f"`{written}` is not a timestamp; write a timestamp such as 2026-01-31 12:00:00, with an offset such "
            "as +01:00 if it is not in the time zone of the pipeline"
        ) from None


def _by_topic(written: object, wanted: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(written, Mapping) or not written:
        raise ValueError(wanted)
    yield from ((str(topic), found) for topic, found in written.items())


def _by_partition(written: object, wanted: str) -> Iterator[tuple[int, Any]]:
    yield from ((partition_number(each), found) for each, found in _by_topic(written, wanted))


def partition_number(written: object) -> int:
    """A partition as users write it: a number, or a string of digits."""
    if isinstance(written, bool) or not str(written).isascii() or not str(written).isdigit():
        raise ValueError(f"`{written}` is not a partition number; use a non-negative integer")
    return int(str(written))


_SCHEMA = {"anyOf": [{"type": "string", "enum": ["earliest", "latest"]}, {"type": "object"}]}
StartField = Annotated[
    Position,
    BeforeValidator(_start),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(_SCHEMA),
]
EndField = Annotated[
    Position,
    BeforeValidator(_end),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string", "enum": ["latest"]}, {"type": "object"}]}),
]

PER_BATCH = {
    "maxOffsetsPerTrigger": "max_rows_per_batch",
    "minOffsetsPerTrigger": "min_rows_per_batch",
    "maxTriggerDelay": "max_wait",
}
PER_TASK = {"minPartitions": "min_partitions", "maxRecordsPerPartition": "max_rows_per_partition"}
GROUPS = {"kafka.group.id": "group_id", "groupIdPrefix": "group_id_prefix"}
"""Spark options, each with the key that sets it unchanged."""
BATCH_KEYS = (*PER_BATCH.values(), *PER_TASK.values())
"""Keys that limit batches and their tasks; they have no effect on tasks that run continuously."""
_NAMES = {
    **PER_BATCH,
    **PER_TASK,
    **GROUPS,
    "subscribe": "topic",
    "subscribePattern": "topic_pattern",
    "assign": "partitions",
    "startingOffsets": "start",
    "startingTimestamp": "start",
    "startingOffsetsByTimestamp": "start",
    "startingOffsetsByTimestampStrategy": "start",
    "endingOffsets": "end",
    "endingTimestamp": "end",
    "endingOffsetsByTimestamp": "end",
    "failOnDataLoss": "on_data_loss",
    "includeHeaders": "metadata_columns",
}
ALWAYS_SAID = {option.lower(): key for option, key in _NAMES.items()}
"""Spark options that a key sets, in lower case. If set twice, one would silently override the other."""


def _as_list(value: object) -> object:
    if isinstance(value, str) and "," in value:
        raise ValueError(f"`{value}` is not a valid topic name; write several topics as a list: `[a, b]`")
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
    listed = {topic: each if isinstance(each, list | tuple) else [each] for topic, each in written.items()}
    for topic, numbers in listed.items():
        if not numbers:
            raise ValueError(f"`partitions` is empty for topic `{topic}`; write a list such as `[0, 1]`")
    return {topic: tuple(sorted(set(map(partition_number, each)))) for topic, each in listed.items()}


Partitions = Annotated[
    dict[Annotated[str, AfterValidator(topic_name)], tuple[int, ...]],
    BeforeValidator(_numbers),
    Field(min_length=1),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    ),
]


class KafkaSource(Decoded, Servers, SourceOptions):
    """Reads messages from one or more topics."""

    also_called = {
        **ALWAYS_SAID,
        "auto.offset.reset": "start",
        "scan.startup.mode": "start",
        "consumer_group": "group_id",
        "group.id": "group_id",
        "value.format": "format",
    }

    topic: Topics | None = Field(
        default=None,
        description="Topic, or a list of topics. Set exactly one of `topic`, `topic_pattern` and `partitions`.",
    )
    topic_pattern: str | None = Field(
        default=None,
        min_length=1,
        description="Java regular expression that matches whole topic names. Includes topics created later.",
    )
    partitions: Partitions | None = Field(
        default=None, description="Partitions to read, by topic, such as `{clicks: [0, 1]}`."
    )
    start: StartField = Field(
        default=Position("earliest"),
        description="Where the first start reads from: `earliest`, `latest`, `{offsets: …}` or "
        "`{timestamp: …}`. Later starts resume from the checkpoint.",
    )
    end: EndField = Field(
        default=Position("latest"),
        description="Where a batch run or a static source stops reading: `latest`, `{offsets: …}` or "
        "`{timestamp: …}`.",
    )
    max_rows_per_batch: int | None = Field(
        default=None, gt=0, description="Maximum number of messages per batch. Default: no limit."
    )
    min_rows_per_batch: int | None = Field(
        default=None,
        gt=0,
        description="Delay a batch until this many messages are available or `max_wait` has passed. "
        "Default: no delay.",
    )
    max_wait: Duration | None = Field(
        default=None, description="Maximum delay with `min_rows_per_batch`. Default: 15 minutes."
    )
    min_partitions: int | None = Field(
        default=None,
        gt=0,
        description="Split each batch into at least this many tasks. Default: one task per Kafka partition.",
    )
    max_rows_per_partition: int | None = Field(
        default=None,
        gt=0,
        description="Split each batch so that no task reads more messages than this. Default: no limit.",
    )
    on_data_loss: Literal["fail", "warn"] = Field(
        default="fail",
        description="If Kafka deleted unread messages: `fail` the query, or `warn` and continue.",
    )
    on_topic_recreated: Literal["fail", "earliest"] = Field(
        default="fail",
        description="If a topic was deleted and recreated: `fail` the query, or read the new topic from "
        "`earliest`.",
    )
    group_id: str | None = Field(
        default=None,
        min_length=1,
        description="Consumer group ID, if the brokers allow only certain IDs. Default: generated by Spark.",
    )
    group_id_prefix: str | None = Field(
        default=None,
        min_length=1,
        description="Prefix of the consumer group IDs that Spark generates. Default: Spark's.",
    )

    def secrets(self) -> Iterator[tuple[tuple[str, ...], Secret]]:
        yield from super().secrets()
        registries = {("registry",): self.registry, ("key", "registry"): self.key and self.key.registry}
        for route, registry in registries.items():
            if registry and registry.password:
                yield (*route, "password"), registry.password

    @model_validator(mode="after")
    def _fits(self) -> KafkaSource:
        given = [key for key in ("topic", "topic_pattern", "partitions") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                "exactly one of `topic`, `topic_pattern` and `partitions` is required; "
                + ("set one of them" if not given else f"remove all but one of {quoted(given)}")
            )
        least, most = self.min_rows_per_batch, self.max_rows_per_batch
        if least and most and least > most:
            raise ValueError(
                f"`min_rows_per_batch` ({least:,}) is greater than `max_rows_per_batch` ({most:,}); "
                "fix one of them"
            )
        if self.max_wait and least is None:
            raise ValueError("`max_wait` requires `min_rows_per_batch`; set both, or neither")
        if self.group_id and self.group_id_prefix:
            raise ValueError("`group_id_prefix` has no effect with `group_id`; remove one of them")
        for option in self.options:
            key = ALWAYS_SAID.get(option.lower())
            if key:
                raise ValueError(f"`{option}` under `options` is not supported; set the key `{key}` instead")
        return self


def places(options: KafkaSource) -> tuple[str, ...]:
    """The topics; the brokers may change while the topics stay the same."""
    if options.topic:
        return tuple(f"kafka:{topic}" for topic in sorted(options.topic))
    if options.topic_pattern:
        return (f"kafka:/{options.topic_pattern}/",)
    found = (options.partitions or {}).items()
    return tuple(f"kafka:{topic}[{', '.join(map(str, numbers))}]" for topic, numbers in sorted(found))
