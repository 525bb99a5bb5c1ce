"""What can be said about the Kafka source."""

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
from headwater.values import Duration, Secret, nearest

# Where in its topics a Kafka source starts and ends: the words, offsets and times that users write.

Edge = Literal["earliest", "latest"]
Where = int | Edge
EDGES: tuple[Edge, ...] = ("earliest", "latest")
_SPARK = {"earliest": -2, "latest": -1}


@dataclass(frozen=True)
class Position:
    """Where partitions start or end: at an edge, but those that have an offset or a time of their own."""

    others: Edge
    offsets: Mapping[str, Mapping[int, Where]] = field(default_factory=dict, hash=False)
    times: datetime | Mapping[str, datetime | Mapping[int, datetime]] | None = field(default=None, hash=False)
    """The first message at or after a time: one for all, one for each topic, or one for each partition."""
    none_after: Literal["latest", "fail"] = "fail"
    """What to do with a partition that has no message at or after its time."""

    @property
    def is_edge(self) -> bool:
        return not self.offsets and self.times is None

    def of(self, topic: str, partition: int) -> Where | datetime:
        """The offset or the time of one partition, or the edge that it is at."""
        found: Any = self.offsets if self.times is None else self.times
        for key in (topic, partition):
            found = found.get(key) if isinstance(found, Mapping) else found
        return self.others if found is None else found

    def named(self) -> Iterator[tuple[str, int | None]]:
        """The topics and partitions that are named; None for a whole topic."""
        for topic, found in (self.times if isinstance(self.times, Mapping) else self.offsets).items():
            yield from ((topic, part) for part in (found if isinstance(found, Mapping) else [None]))

    def __str__(self) -> str:
        if self.is_edge:
            return self.others
        if self.times is None:
            return f"offsets {_in_words(self.offsets)}, others {self.others}"
        return f"time {_in_words(self.times)}, others {self.others}, none after {self.none_after}"


def spark_offset(where: Where) -> int:
    """An offset as Spark's JSON has it, where the edges are negative."""
    return where if isinstance(where, int) else _SPARK[where]


def milliseconds(moment: datetime, zone: str) -> int:
    """A time since 1970; one without a zone is in the pipeline's."""
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
        raise ValueError("`end` at earliest leaves nothing to read; write latest, offsets or a time")
    return place


def _place(written: object, key: str, others: Edge) -> Position:
    if isinstance(written, Position):
        return written
    if isinstance(written, str):
        return Position(_edge(written, key))
    if not isinstance(written, Mapping) or not written.keys() & {"offsets", "time"}:
        raise ValueError(_ways(key))
    kind = "offsets" if "offsets" in written else "time"
    takes = ("offsets", "others") if kind == "offsets" else ("none_after", "others", "time")
    for unknown in written.keys() - set(takes):
        raise ValueError(f"`{key}` by {kind} has no key `{unknown}`; it takes {', '.join(takes)}")
    rest = _edge(written.get("others", others), f"{key}.others")
    if kind == "time":
        return Position(rest, times=_times(written["time"], key), none_after=_none_after(written, key))
    wanted = f"`{key}.offsets` maps topics to offsets by partition; "
    wanted += 'write `{topic: {"0": 23, "1": latest}}`'
    offsets = {
        topic: {part: _offset(where, key) for part, where in _by_partition(each, wanted)}
        for topic, each in _by_topic(written["offsets"], wanted)
    }
    return Position(rest, offsets)


def _ways(key: str) -> str:
    edges = "earliest, latest" if key == "start" else "latest"
    return (
        f'`{key}` is {edges}, `{{offsets: {{topic: {{"0": 23}}}}}}` or '
        f'`{{time: "2026-01-31 12:00:00"}}`; write one of these'
    )


def _edge(written: object, key: str) -> Edge:
    for edge in EDGES:
        if written == edge:
            return edge
    meant = nearest(written, EDGES) if isinstance(written, str) else None
    if "." not in key and not meant:
        raise ValueError(_ways(key))
    hint = f"did you mean `{meant}`?" if meant else "write one of them"
    raise ValueError(f"`{key}` is earliest or latest, not `{written}`; {hint}")


def _none_after(written: Mapping[str, Any], key: str) -> Literal["latest", "fail"]:
    if key == "end" and "none_after" in written:
        raise ValueError(
            "`none_after` is for `start`: an end without a message after it is latest; leave it out"
        )
    match written.get("none_after", "fail" if key == "start" else "latest"):
        case "latest":
            return "latest"
        case "fail":
            return "fail"
        case given:
            raise ValueError(f"`{key}.none_after` is latest or fail, not `{given}`; write one of them")


def _offset(written: object, key: str) -> Where:
    if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
        return written
    if written in EDGES:
        return _edge(written, key)
    raise ValueError(
        f"an offset in `{key}` is a whole number from 0 on, earliest or latest, not `{written}`; mend it"
    )


def _times(written: object, key: str) -> datetime | dict[str, datetime | Mapping[int, datetime]]:
    if not isinstance(written, Mapping):
        return _time(written, key)
    wanted = f'`{key}.time` is a time, or maps topics to times; write `{{topic: "2026-01-31 12:00:00"}}`'
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
            f"`{written}` in `{key}` is no time; write one as 2026-01-31 12:00:00, with +01:00 behind it "
            "where it is not in the pipeline's time zone"
        ) from None


def _by_topic(written: object, wanted: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(written, Mapping) or not written:
        raise ValueError(wanted)
    yield from ((str(topic), found) for topic, found in written.items())


def _by_partition(written: object, wanted: str) -> Iterator[tuple[int, Any]]:
    yield from ((partition_number(each), found) for each, found in _by_topic(written, wanted))


def partition_number(written: object) -> int:
    """A partition as users write it: a number, or a text of digits."""
    if isinstance(written, bool) or not str(written).isascii() or not str(written).isdigit():
        raise ValueError(f"`{written}` is no partition; partitions are whole numbers from 0 on")
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
    "maxTriggerDelay": "longest_wait",
}
PER_TASK = {"minPartitions": "min_partitions", "maxRecordsPerPartition": "rows_per_partition"}
GROUPS = {"kafka.group.id": "group", "groupIdPrefix": "group_prefix"}
"""Options of Spark, each with the key that says it word for word."""
BATCH_KEYS = (*PER_BATCH.values(), *PER_TASK.values())
"""Keys that say how large batches and their tasks are; they do nothing where tasks don't end."""
_NAMES = {
    **PER_BATCH,
    **PER_TASK,
    **GROUPS,
    "subscribe": "topic",
    "subscribePattern": "pattern",
    "assign": "partitions",
    "startingOffsets": "start",
    "startingTimestamp": "start",
    "startingOffsetsByTimestamp": "start",
    "startingOffsetsByTimestampStrategy": "start",
    "endingOffsets": "end",
    "endingTimestamp": "end",
    "endingOffsetsByTimestamp": "end",
    "failOnDataLoss": "on_data_loss",
    "includeHeaders": "kafka_columns",
}
ALWAYS_SAID = {option.lower(): key for option, key in _NAMES.items()}
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
    listed = {topic: each if isinstance(each, list | tuple) else [each] for topic, each in written.items()}
    for topic, numbers in listed.items():
        if not numbers:
            raise ValueError(f"`partitions` names none of `{topic}`; write such as [0, 1], or leave it out")
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
        default=Position("earliest"),
        description="Where a first start begins: `earliest`, `latest`, `{offsets: …}` or `{time: …}`.",
    )
    end: EndField = Field(
        default=Position("latest"),
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
        least, most = self.min_rows_per_batch, self.max_rows_per_batch
        if least and most and least > most:
            raise ValueError(
                f"`min_rows_per_batch` is {least} and `max_rows_per_batch` {most}; mend one of them"
            )
        if self.longest_wait and least is None:
            raise ValueError(
                "`longest_wait` does nothing without `min_rows_per_batch`; write both, or neither"
            )
        if self.group and self.group_prefix:
            raise ValueError("`group_prefix` does nothing beside `group`; leave one of them out")
        for option in self.options:
            key = ALWAYS_SAID.get(option.lower())
            if key:
                raise ValueError(f"`options` has `{option}`, which the key `{key}` says; write the key")
        return self


def places(options: KafkaSource) -> tuple[str, ...]:
    """The topics; the servers may change while the topics stay the same."""
    if options.topic:
        return tuple(f"kafka:{topic}" for topic in sorted(options.topic))
    if options.pattern:
        return (f"kafka:/{options.pattern}/",)
    found = (options.partitions or {}).items()
    return tuple(f"kafka:{topic}[{', '.join(map(str, numbers))}]" for topic, numbers in sorted(found))
