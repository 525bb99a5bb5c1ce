"""From where to where a Kafka source reads, resolved with the cluster before anything starts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from headwater.checkpoint.store import Note, NoteError
from headwater.connectors.contract import Context
from headwater.connectors.kafka import errors
from headwater.connectors.kafka.cluster import SECONDS, Cluster, ClusterError, Partition, Topic, topics_read
from headwater.connectors.kafka.source_options import (
    Edge,
    KafkaSource,
    Position,
    Where,
    milliseconds,
    spark_offset,
)
from headwater.errors import PipelineError, Problem
from headwater.values import BadRows, did_you_mean, quoted

Offsets = dict[Partition, Where]
_SPARK_KEYS = {"start": "startingOffsets", "end": "endingOffsets"}


def resolve_positions(cluster: Cluster, options: KafkaSource, context: Context, zone: str) -> dict[str, str]:
    """The options of Spark that say from where to where; PipelineError with all that does not fit."""
    keys = ("start", "end") if context.batch else () if context.goes_on else ("start",)
    topics = _topics(cluster, options, context)
    _refuse(_unknown(options, context, topics, keys))
    if context.goes_on:
        # Every query has its own note of where it began; Spark wants to be told some place all the same.
        return {_SPARK_KEYS["start"]: "earliest"}
    partitions = [
        (topic.name, number)
        for topic in topics.values()
        for number in (options.partitions[topic.name] if options.partitions else range(topic.partitions))
    ]
    positions = _Positions(cluster, options, context, zone, partitions)
    found = {key: positions.of(key) for key in keys}
    if context.batch:
        positions.refuse_empty_batch(found["start"], found["end"])
    for key in found:
        _refuse(positions.beyond(key))
    if not context.batch:
        found["start"] = positions.as_it_is_now(found["start"])
    return {_SPARK_KEYS[key]: _as_spark(value) for key, value in found.items()}


def _refuse(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise PipelineError.of(found)


def _topics(cluster: Cluster, options: KafkaSource, context: Context) -> dict[str, Topic]:
    found = topics_read(cluster, options)
    unknown, place = errors.KAFKA_TOPIC_NOT_FOUND, context.at("partitions" if options.partitions else "topic")
    told = {"name": context.name, "servers": options.servers}
    missing = [name for name, topic in found.items() if topic is None]
    known = cluster.names() if missing else []
    _refuse(unknown.at(place, topic=f"`{each}`", hint=_meant(each, known), **told) for each in missing)
    if not found:
        hint = "It has to match the whole name, and at each start there has to be one such topic."
        fits = f"that fits the pattern `{options.pattern}`"
        raise PipelineError(unknown.at(context.at("pattern"), topic=fits, hint=hint, **told))
    return {name: topic for name, topic in found.items() if topic is not None}


def _meant(topic: str, known: list[str]) -> str:
    shown = f"It has {quoted(known[:10])}{' and others' if len(known) > 10 else ''}."
    return did_you_mean(topic, known, shown if known else "It has none; make the topic first.")


def _unknown(
    options: KafkaSource, context: Context, topics: Mapping[str, Topic], keys: Iterable[str]
) -> Iterator[Problem]:
    """Topics and partitions that the keys name and that are not there, or are not read."""
    read = options.partitions or {}
    named = [("partitions", topic, number) for topic, numbers in read.items() for number in numbers]
    named += [(key, *each) for key in keys for each in getattr(options, key).named()]
    for key, topic, number in named:
        count = topics[topic].partitions if topic in topics else 0
        told = {"name": context.name, "topic": topic}
        if not count or (read and number is not None and number not in read[topic]):
            yield errors.KAFKA_TOPIC_NOT_READ.at(context.at(key), key=key, **told)
        elif number is not None and number >= count:
            params = {"partition": number, "partitions": count, **told}
            yield errors.KAFKA_PARTITION_NOT_FOUND.at(context.at(key), **params)


@dataclass(frozen=True)
class _Positions:
    """Where the partitions of a source are read from, and up to."""

    cluster: Cluster
    options: KafkaSource
    context: Context
    zone: str
    partitions: list[Partition]

    def of(self, key: str) -> Offsets | Edge:
        """Where each partition is read from, or up to; one word where it is the same edge everywhere.

        Spark wants every partition named once one is. Times become offsets here, so that all sinks of a
        source begin at the same message, and a time without one is told before the start.
        """
        place: Position = getattr(self.options, key)
        if place.is_edge:
            return place.others
        wanted = {each: place.of(*each) for each in self.partitions}
        times = {
            each: milliseconds(moment, self.zone)
            for each, moment in wanted.items()
            if isinstance(moment, datetime)
        }
        found = self.cluster.offsets(times) if times else {}
        quiet = [each for each, offset in found.items() if offset < 0]
        if place.none_after == "fail":
            _refuse(self._nothing_after(key, each, times[each]) for each in quiet)
        # A batch can't start at `latest`, and at the offset that this is it holds nothing of the partition.
        ends: Mapping[Partition, Where] = dict.fromkeys(quiet, "latest")
        if quiet and self.context.batch:
            ends = self.cluster.offsets(dict.fromkeys(quiet, "latest"))
        edges = {each: where for each, where in wanted.items() if not isinstance(where, datetime)}
        return {**edges, **found, **ends}

    def _nothing_after(self, key: str, partition: Partition, moment: int) -> Problem:
        at = datetime.fromtimestamp(moment / 1000, UTC).astimezone(ZoneInfo(self.zone))
        time = f"{at:%Y-%m-%d %H:%M:%S} {self.zone}"
        return errors.KAFKA_NO_OFFSET_FOR_TIMESTAMP.at(
            self.context.at(key), time=time, **self._told(partition)
        )

    def _told(self, partition: Partition) -> dict[str, object]:
        return {"name": self.context.name, "topic": partition[0], "partition": partition[1]}

    def as_it_is_now(self, found: Offsets | Edge) -> Offsets | Edge:
        """`latest` as the offset that it is now, or was at a start that not all queries came through.

        Each query would take another one, the later it starts, and miss what came before it. So would a
        quarantine that begins at `earliest` when Kafka has just deleted what another query dropped there.
        """
        edges = ("latest", "earliest") if self.context.bad_rows is BadRows.QUARANTINE else ("latest",)
        wanted: Offsets = dict.fromkeys(self.partitions, found) if isinstance(found, str) else found
        start = str(self.options.start)
        noted = read_start(self.context, start)
        moving = {each: where for each, where in wanted.items() if where in edges or each in noted}
        if not moving:
            return found
        if noted:
            ends = self.cluster.offsets(dict.fromkeys(moving, "latest"))
            # A partition that came since, also one of a topic made again, is read from its start, as it would
            # have been by a query that ran.
            known = {each: noted[each] for each in moving if each in noted and noted[each] <= ends[each]}
            return {**wanted, **dict.fromkeys(moving, "earliest"), **known}
        now = self.cluster.offsets(moving)
        note_start(self.context, start, now)
        return {**wanted, **now}

    def beyond(self, key: str) -> Iterator[Problem]:
        """Offsets that a partition does not have: Spark would wait for them, or fail on a loss."""
        place: Position = getattr(self.options, key)
        wanted = {each: where for each in self.partitions if isinstance(where := place.of(*each), int)}
        first = self.cluster.offsets(dict.fromkeys(wanted, "earliest")) if wanted else {}
        behind = self.cluster.offsets(dict.fromkeys(wanted, "latest")) if wanted else {}
        for each, offset in wanted.items():
            if not first[each] <= offset <= behind[each]:
                params = {"key": key, "offset": offset, "first": first[each], "next": behind[each]}
                yield errors.KAFKA_OFFSET_OUT_OF_RANGE.at(self.context.at(key), **params, **self._told(each))

    def refuse_empty_batch(self, start: Offsets | str, end: Offsets | str) -> None:
        """What Spark refuses of a batch with an assertion of Java."""
        starts = start if isinstance(start, dict) else dict.fromkeys(self.partitions, start)
        if "latest" in (start, *starts.values()):
            raise PipelineError(errors.KAFKA_RANGE_EMPTY.at(self.context.at("start"), name=self.context.name))
        for each, begins in starts.items():
            ends = end[each] if isinstance(end, dict) else end
            if isinstance(begins, int) and isinstance(ends, int) and begins > ends:
                params = {"start": begins, "end": ends, **self._told(each)}
                raise PipelineError(errors.KAFKA_RANGE_REVERSED.at(self.context.at("end"), **params))


def _as_spark(found: Offsets | Edge) -> str:
    if isinstance(found, str):
        return found
    return json.dumps(_by_topic({each: spark_offset(where) for each, where in found.items()}))


def _by_topic(offsets: Mapping[Partition, int]) -> dict[str, dict[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[partition] = offset
    return by_topic


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


def start_note(context: Context) -> Path:
    """Where `latest` was at a first start."""
    return context.directory.note("kafka", "starts", f"{context.name}.json")


def read_start(context: Context, start: str) -> dict[Partition, int]:
    """What was noted for the same `start`; nothing where every query has begun since."""
    file = start_note(context)
    try:
        noted = Note.at(file, _Start).read()
    except NoteError as error:
        what = f"where the queries of the source `{context.name}` begin"
        then = "queries that have not begun yet then begin with what is latest now"
        params = {"what": what, "file": str(file), "says": error.reason, "then": then}
        raise PipelineError(errors.KAFKA_RECORD_UNREADABLE.at(context.at("start"), **params)) from error
    offsets = noted.offsets if noted and noted.start == start else {}
    return {(topic, part): offset for topic, found in offsets.items() for part, offset in found.items()}


def note_start(context: Context, start: str, offsets: Mapping[Partition, int]) -> None:
    """Leave a note for the start of the run, which writes it before the first query starts."""
    file = start_note(context)
    context.keep(file, Note.at(file, _Start).text(_Start(start, _by_topic(offsets))))


_LOGIN = (
    "SaslAuthenticationException",
    "SslAuthenticationException",
    "AuthenticationException",
    "IllegalSaslStateException",
)
_SETTINGS = ("ConfigException", "InvalidConfigurationException", "IllegalArgumentException", "LoginException")
_NO_ANSWER = (
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "BrokerNotAvailableException",
    "CoordinatorNotAvailableException",
    "LeaderNotAvailableException",
)


def cluster_problem(
    error: ClusterError, options: KafkaSource, context: Context, seconds: int = SECONDS
) -> Problem:
    """What the cluster has against a source that waited so long for it, at the user's line."""
    params = {"name": context.name, "servers": options.servers, "says": error.says}
    if error.kind == "PatternSyntaxException":
        return errors.KAFKA_PATTERN_INVALID.at(context.at("pattern"), name=context.name, says=error.says)
    if "PBES2" in error.says:
        return errors.KAFKA_KEY_ENCRYPTION_UNSUPPORTED.at(context.at("tls"), name=context.name)
    if error.kind in _LOGIN:
        return errors.KAFKA_AUTHENTICATION_FAILED.at(
            context.at("sasl" if options.sasl else "servers"), **params
        )
    if error.kind.endswith("AuthorizationException"):
        return errors.KAFKA_NOT_AUTHORIZED.at(context.at("topic"), **params)
    if error.kind in _SETTINGS:
        return errors.KAFKA_SETTINGS_INVALID.at(context.at("servers"), name=context.name, says=error.says)
    if error.kind in _NO_ANSWER:
        return errors.KAFKA_UNREACHABLE.at(context.at("servers"), seconds=seconds, **params)
    return errors.KAFKA_REQUEST_FAILED.at(context.at("servers"), kind=error.kind, **params)
