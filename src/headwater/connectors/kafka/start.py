"""From where to where a Kafka source reads, settled with the cluster before anything starts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from headwater.checkpoint.store import Note, NoteError
from headwater.connectors.contract import Context
from headwater.connectors.kafka import errors
from headwater.connectors.kafka.cluster import SECONDS, Broker, BrokerError, Partition, Topic, topics_read
from headwater.connectors.kafka.source_options import (
    At,
    AtOffsets,
    AtTimes,
    Edge,
    KafkaSource,
    Place,
    Where,
    named_in,
    spark_offset,
)
from headwater.errors import PipelineError, Problem
from headwater.values import BadRows, nearest

# Where `latest` was at a first start, or `earliest`, kept until every query of the source has begun.
#
# Queries start one after another, and a crash may come between two of them; and a continuous query writes
# down nothing before its first epoch. Without the note those that begin later would begin elsewhere, and
# pass over what was sent meanwhile.
#
# .headwater/kafka/starts/<source>.json
#
# {"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7}}}


@dataclass(frozen=True)
class _Start:
    """Where partitions were when `start` was resolved."""

    start: str
    offsets: dict[str, dict[int, int]]


def noted_start(context: Context, start: str) -> dict[Partition, int]:
    """What was noted for the same `start`; nothing where every query has begun since."""
    file = context.directory.start_note
    try:
        noted = Note.at(file, _Start).read()
    except NoteError as error:
        params = {"file": str(file), "name": context.name, "says": error.reason}
        raise PipelineError(errors.KAFKA_START_UNREADABLE.at(context.at("start"), **params)) from error
    offsets = noted.offsets if noted and noted.start == start else {}
    return {(topic, part): offset for topic, found in offsets.items() for part, offset in found.items()}


def note_start(context: Context, start: str, offsets: Mapping[Partition, int]) -> None:
    """Leave a note for the start of the run, which writes it before the first query starts."""
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[partition] = offset
    file = context.directory.start_note
    context.keep(file, Note.at(file, _Start).text(_Start(start, by_topic)))


_LOGIN = (
    "SaslAuthenticationException",
    "SslAuthenticationException",
    "AuthenticationException",
    "IllegalSaslStateException",
)
_SETTINGS = ("ConfigException", "InvalidConfigurationException", "IllegalArgumentException", "LoginException")
_RIGHTS = "AuthorizationException"
_NO_ANSWER = (
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "BrokerNotAvailableException",
    "CoordinatorNotAvailableException",
    "LeaderNotAvailableException",
)
_SPARK_KEYS = {"start": "startingOffsets", "end": "endingOffsets"}


def settle(broker: Broker, options: KafkaSource, context: Context, zone: str) -> dict[str, str]:
    """The options of Spark that say from where to where; PipelineError with all that does not fit.

    The cluster is asked for what the source names.
    """
    topics = _topics(broker, options, context)
    problems = [*_unknown(options, context, topics)]
    if problems:
        raise PipelineError.of(problems)
    if context.goes_on:
        # Every query has its own note of where it began; Spark wants to be told some place all the same.
        return {_SPARK_KEYS["start"]: "earliest"}
    partitions = list(read_partitions(options, topics.values()))
    found = {
        key: _offsets(broker, getattr(options, key), partitions, context, key=key, zone=zone)
        for key in _keys(context)
    }
    if context.batch:
        _refuse_nothing(found, options, context)
    for key in found:
        _refuse_beyond(broker, getattr(options, key), partitions, context, key=key)
    if not context.batch:
        found["start"] = _as_it_is_now(broker, options, found["start"], partitions, context)
    return {_SPARK_KEYS[key]: _as_spark(value) for key, value in found.items()}


def _keys(context: Context) -> tuple[str, ...]:
    """The keys that say from where to where, as far as they count."""
    if context.batch:
        return ("start", "end")
    return () if context.goes_on else ("start",)


def read_partitions(options: KafkaSource, topics: Iterable[Topic]) -> Iterator[Partition]:
    """Every partition that the source reads."""
    for topic in topics:
        numbers = options.partitions[topic.name] if options.partitions else range(topic.partitions)
        yield from ((topic.name, number) for number in numbers)


def broker_problem(
    error: BrokerError, options: KafkaSource, context: Context, seconds: int = SECONDS
) -> Problem:
    """What the cluster has against a source that waited so long for it, at the user's line."""
    params = {"name": context.name, "servers": options.servers, "says": error.says}
    if error.kind == "PatternSyntaxException":
        return errors.KAFKA_PATTERN.at(context.at("pattern"), name=context.name, says=error.says)
    if "PBES2" in error.says:
        return errors.KAFKA_KEY_FORM.at(context.at("tls"), name=context.name)
    if error.kind in _LOGIN:
        return errors.KAFKA_LOGIN.at(context.at("sasl" if options.sasl else "servers"), **params)
    if error.kind.endswith(_RIGHTS):
        return errors.KAFKA_REFUSED.at(context.at("topic"), **params)
    if error.kind in _SETTINGS:
        return errors.KAFKA_SETTINGS.at(context.at("servers"), name=context.name, says=error.says)
    if error.kind in _NO_ANSWER:
        return errors.KAFKA_UNREACHABLE.at(context.at("servers"), seconds=seconds, **params)
    return errors.KAFKA_TROUBLE.at(context.at("servers"), kind=error.kind, **params)


def _topics(broker: Broker, options: KafkaSource, context: Context) -> dict[str, Topic]:
    found = topics_read(broker, options)
    missing = [name for name, topic in found.items() if topic is None]
    if missing:
        known = broker.names()
        key = "partitions" if options.partitions else "topic"
        raise PipelineError.of(
            errors.KAFKA_UNKNOWN_TOPIC.at(
                context.at(key),
                servers=options.servers,
                topic=each,
                name=context.name,
                hint=_meant(each, known),
            )
            for each in missing
        )
    if not found:
        hint = "It has to match the whole name, and at each start there has to be one such topic."
        raise PipelineError(
            errors.KAFKA_NO_TOPIC_FITS.at(
                context.at("pattern"),
                servers=options.servers,
                pattern=options.pattern,
                name=context.name,
                hint=hint,
            )
        )
    return {name: topic for name, topic in found.items() if topic is not None}


def _meant(topic: str, known: list[str]) -> str:
    near = nearest(topic, known)
    if near:
        return f"Did you mean `{near}`?"
    shown = ", ".join(f"`{name}`" for name in known[:10]) + (" and others" if len(known) > 10 else "")
    return f"It has {shown}." if known else "It has none; make the topic first."


def _unknown(options: KafkaSource, context: Context, topics: Mapping[str, Topic]) -> Iterator[Problem]:
    """Topics and partitions that the keys name and that are not there, or are not read."""
    for topic, numbers in (options.partitions or {}).items():
        for number in numbers:
            yield from _no_partition("partitions", topics[topic], number, context)
    for key in _keys(context):
        for topic, named in named_in(getattr(options, key)):
            if topic not in topics or (
                options.partitions and named is not None and named not in options.partitions[topic]
            ):
                yield errors.KAFKA_NOT_READ.at(context.at(key), name=context.name, topic=topic, key=key)
            elif named is not None:
                yield from _no_partition(key, topics[topic], named, context)


def _no_partition(key: str, topic: Topic, number: int, context: Context) -> Iterator[Problem]:
    if number >= topic.partitions:
        yield errors.KAFKA_UNKNOWN_PARTITION.at(
            context.at(key),
            name=context.name,
            partition=number,
            topic=topic.name,
            partitions=topic.partitions,
        )


def _offsets(
    broker: Broker, place: Place, partitions: list[Partition], context: Context, *, key: str, zone: str
) -> dict[Partition, Where] | str:
    """Where each partition is read from, or up to; one word where it is the same edge everywhere.

    Spark wants every partition named once one is. Times become offsets here, so that all sinks of a source
    begin at the same message, and a time without one is told before the start.
    """
    if isinstance(place, At):
        return place.edge
    if isinstance(place, AtOffsets):
        return {each: place.of(*each) for each in partitions}
    wanted = {each: place.of(*each, zone) for each in partitions}
    found = broker.offsets({each: moment for each, moment in wanted.items() if isinstance(moment, int)})
    _refuse_none_after(place, wanted, found, context, key=key, zone=zone)
    quiet = [each for each, offset in found.items() if offset < 0]
    # A batch can't start at `latest`, and at the offset that this is it holds nothing of the partition.
    ends = broker.offsets(dict.fromkeys(quiet, "latest")) if quiet and context.batch else {}
    settled: dict[Partition, Where] = {}
    for each, moment in wanted.items():
        offset = ends.get(each, found.get(each))
        settled[each] = ("latest" if offset < 0 else offset) if offset is not None else _edge(moment)
    return settled


def _as_it_is_now(
    broker: Broker,
    options: KafkaSource,
    found: dict[Partition, Where] | str,
    partitions: list[Partition],
    context: Context,
) -> dict[Partition, Where] | str:
    """`latest` as the offset that it is now, or was at a start that not all queries came through.

    Each query would take another one, the later it starts, and miss what came before it. So would a
    quarantine that begins at `earliest` when Kafka has just deleted what another query dropped from there.
    """
    edges = ("latest", "earliest") if context.bad_rows is BadRows.QUARANTINE else ("latest",)
    wanted = found if isinstance(found, dict) else dict.fromkeys(partitions, _word(found))
    noted = noted_start(context, str(options.start))
    moving = {each: where for each, where in wanted.items() if where in edges or each in noted}
    if not moving:
        return found
    if noted:
        ends = broker.offsets(dict.fromkeys(moving, "latest"))
        # A partition that came since, also one of a topic made again, is read from its start, as it would
        # have been by a query that ran.
        return {**wanted, **{each: _at_most(noted.get(each), ends[each]) for each in moving}}
    now = broker.offsets(moving)
    note_start(context, str(options.start), now)
    return {**wanted, **now}


def _at_most(noted: int | None, end: int) -> Where:
    return noted if noted is not None and noted <= end else "earliest"


def _refuse_beyond(
    broker: Broker, place: Place, partitions: list[Partition], context: Context, *, key: str
) -> None:
    """Offsets that a partition does not have: Spark would wait for them, or fail on a loss that is none."""
    wanted: dict[Partition, int] = {}
    if isinstance(place, AtOffsets):
        wanted = {each: where for each in partitions if isinstance(where := place.of(*each), int)}
    if not wanted:
        return
    first = broker.offsets(dict.fromkeys(wanted, "earliest"))
    behind = broker.offsets(dict.fromkeys(wanted, "latest"))
    problems = [
        errors.KAFKA_OFFSET_BEYOND.at(
            context.at(key),
            name=context.name,
            key=key,
            offset=offset,
            topic=each[0],
            partition=each[1],
            first=first[each],
            next=behind[each],
        )
        for each, offset in wanted.items()
        if not first[each] <= offset <= behind[each]
    ]
    if problems:
        raise PipelineError.of(problems)


def _word(edge: str) -> Edge:
    return "latest" if edge == "latest" else "earliest"


def _edge(moment: Where) -> Where:
    assert not isinstance(moment, int), "a partition without an offset has no time"
    return moment


def _refuse_none_after(
    place: AtTimes,
    wanted: Mapping[Partition, int | str],
    found: Mapping[Partition, int],
    context: Context,
    *,
    key: str,
    zone: str,
) -> None:
    if place.none_after == "latest":
        return
    problems = [
        errors.KAFKA_NOTHING_AFTER.at(
            context.at(key),
            name=context.name,
            time=_shown(int(wanted[each]), zone),
            topic=each[0],
            partition=each[1],
        )
        for each, offset in found.items()
        if offset < 0
    ]
    if problems:
        raise PipelineError.of(problems)


def _shown(moment: int, zone: str) -> str:
    at = datetime.fromtimestamp(moment / 1000, UTC).astimezone(ZoneInfo(zone))
    return f"{at:%Y-%m-%d %H:%M:%S} {zone}"


def _refuse_nothing(
    found: Mapping[str, dict[Partition, Where] | str], options: KafkaSource, context: Context
) -> None:
    """What Spark refuses of a batch with an assertion of Java."""
    start, end = found["start"], found["end"]
    starts = start.values() if isinstance(start, dict) else [start]
    if "latest" in starts:
        raise PipelineError(errors.KAFKA_BATCH_LATEST.at(context.at("start"), name=context.name))
    for (topic, partition), begins in start.items() if isinstance(start, dict) else ():
        ends = end[topic, partition] if isinstance(end, dict) else end
        if isinstance(begins, int) and isinstance(ends, int) and begins > ends:
            raise PipelineError(
                errors.KAFKA_BATCH_TURNED.at(
                    context.at("end"),
                    name=context.name,
                    start=begins,
                    end=ends,
                    topic=topic,
                    partition=partition,
                )
            )


def _as_spark(found: dict[Partition, Where] | str) -> str:
    if isinstance(found, str):
        return found
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), where in found.items():
        by_topic.setdefault(topic, {})[str(partition)] = spark_offset(where)
    return json.dumps(by_topic)
