"""Resolves the start and end offsets of a Kafka source with the cluster, before any query starts."""

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
    """The Spark options for the start and end offsets; PipelineError with all problems found."""
    keys = ("start", "end") if context.batch else () if context.resumes else ("start",)
    topics = _topics(cluster, options, context)
    _refuse(_unknown(options, context, topics, keys))
    if context.resumes:
        # Every query resumes from its checkpoint, but Spark requires a start position anyway.
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
    told = {"name": context.name, "servers": options.bootstrap_servers}
    missing = [name for name, topic in found.items() if topic is None]
    known = cluster.names() if missing else []
    _refuse(unknown.at(place, topic=f"`{each}`", hint=_meant(each, known), **told) for each in missing)
    if not found:
        hint = "Create a topic first, or correct `topic_pattern`; it must match the whole topic name."
        fits = f"matching `{options.topic_pattern}`"
        raise PipelineError(unknown.at(context.at("topic_pattern"), topic=fits, hint=hint, **told))
    return {name: topic for name, topic in found.items() if topic is not None}


def _meant(topic: str, known: list[str]) -> str:
    shown = f"Use one of its topics: {quoted(known[:10])}{' and others' if len(known) > 10 else ''}."
    return did_you_mean(
        topic, known, shown if known else "Create the topic first; the cluster has no topics."
    )


def _unknown(
    options: KafkaSource, context: Context, topics: Mapping[str, Topic], keys: Iterable[str]
) -> Iterator[Problem]:
    """Topics and partitions that the keys name, but that do not exist or are not read."""
    read = options.partitions or {}
    named = [("partitions", topic, number) for topic, numbers in read.items() for number in numbers]
    named += [(key, *each) for key in keys for each in getattr(options, key).named()]
    for key, topic, number in named:
        count = topics[topic].partitions if topic in topics else 0
        told = {"name": context.name, "topic": topic}
        if not count or (read and number is not None and number not in read[topic]):
            yield errors.KAFKA_TOPIC_NOT_READ.at(context.at(key), key=key, **told)
        elif number is not None and number >= count:
            hint = (
                f"Use a partition from 0 to {count - 1}." if count > 1 else "Use partition 0, the only one."
            )
            yield errors.KAFKA_PARTITION_NOT_FOUND.at(context.at(key), partition=number, hint=hint, **told)


@dataclass(frozen=True)
class _Positions:
    """The start and end positions of the partitions of a source."""

    cluster: Cluster
    options: KafkaSource
    context: Context
    zone: str
    partitions: list[Partition]

    def of(self, key: str) -> Offsets | Edge:
        """The start or end of each partition; a single word if it is the same edge for all of them.

        Spark requires all partitions once one is named. Times are resolved to offsets here, so all sinks of
        a source start at the same message, and a time without a message is reported before the start.
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
        if place.fallback == "fail":
            _refuse(self._nothing_after(key, each, times[each]) for each in quiet)
        # A batch cannot start at `latest`, so it starts at the offset that `latest` is now.
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
        """`latest` as the current offset, or as the offset of an earlier start that did not complete.

        Otherwise each query would resolve `latest` when it starts and miss earlier messages. The same
        applies to a quarantine that starts at `earliest` while Kafka deletes messages.
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
            # A partition that was added since, or belongs to a recreated topic, is read from its beginning,
            # as a running query would have read it.
            known = {each: noted[each] for each in moving if each in noted and noted[each] <= ends[each]}
            return {**wanted, **dict.fromkeys(moving, "earliest"), **known}
        now = self.cluster.offsets(moving)
        note_start(self.context, start, now)
        return {**wanted, **now}

    def beyond(self, key: str) -> Iterator[Problem]:
        """Offsets outside the range of a partition: Spark would wait for them, or report data loss."""
        place: Position = getattr(self.options, key)
        wanted = {each: where for each in self.partitions if isinstance(where := place.of(*each), int)}
        first = self.cluster.offsets(dict.fromkeys(wanted, "earliest")) if wanted else {}
        behind = self.cluster.offsets(dict.fromkeys(wanted, "latest")) if wanted else {}
        for each, offset in wanted.items():
            if not first[each] <= offset <= behind[each]:
                params = {"key": key, "offset": offset, "first": first[each], "next": behind[each]}
                yield errors.KAFKA_OFFSET_OUT_OF_RANGE.at(self.context.at(key), **params, **self._told(each))

    def refuse_empty_batch(self, start: Offsets | str, end: Offsets | str) -> None:
        """Reject ranges on which Spark would fail with a Java assertion."""
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


# The resolved `latest` (or `earliest`) of a first start, stored until every query of the source has started.
#
# Queries start one after another, and a crash can happen between two of them. A continuous query stores
# nothing before its first epoch. Without this record, queries that start later would start at different
# offsets and skip messages.
#
# .headwater/kafka/starts/<source>.json
#
# {"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7}}}


@dataclass(frozen=True)
class _Start:
    """The offsets of the partitions when `start` was resolved."""

    start: str
    offsets: dict[str, dict[int, int]]


def start_note(context: Context) -> Path:
    """The file with the resolved start offsets."""
    return context.directory.note("kafka", "starts", f"{context.name}.json")


def read_start(context: Context, start: str) -> dict[Partition, int]:
    """The stored offsets for the same `start`; empty once every query has started."""
    file = start_note(context)
    try:
        noted = Note.at(file, _Start).read()
    except NoteError as error:
        what = f"the start offsets of source `{context.name}`"
        then = "Queries that have not started yet then start at the current offsets"
        params = {"what": what, "file": str(file), "says": error.reason, "then": then}
        raise PipelineError(errors.KAFKA_RECORD_UNREADABLE.at(context.at("start"), **params)) from error
    offsets = noted.offsets if noted and noted.start == start else {}
    return {(topic, part): offset for topic, found in offsets.items() for part, offset in found.items()}


def note_start(context: Context, start: str, offsets: Mapping[Partition, int]) -> None:
    """Store the offsets; the run writes them before the first query starts."""
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
    """The problem behind a cluster error, at the user's line; `seconds` is the timeout that applied."""
    params = {"name": context.name, "servers": options.bootstrap_servers, "says": error.says}
    if error.kind == "PatternSyntaxException":
        return errors.KAFKA_PATTERN_INVALID.at(
            context.at("topic_pattern"), name=context.name, says=error.says
        )
    if "PBES2" in error.says:
        return errors.KAFKA_KEY_ENCRYPTION_UNSUPPORTED.at(context.at("tls"), name=context.name)
    if error.kind in _LOGIN:
        return errors.KAFKA_AUTHENTICATION_FAILED.at(
            context.at("sasl" if options.sasl else "bootstrap_servers"), **params
        )
    if error.kind.endswith("AuthorizationException"):
        return errors.KAFKA_NOT_AUTHORIZED.at(context.at("topic"), **params)
    if error.kind in _SETTINGS:
        return errors.KAFKA_SETTINGS_INVALID.at(
            context.at("bootstrap_servers"), name=context.name, says=error.says
        )
    if error.kind in _NO_ANSWER:
        return errors.KAFKA_UNREACHABLE.at(context.at("bootstrap_servers"), seconds=seconds, **params)
    return errors.KAFKA_REQUEST_FAILED.at(context.at("bootstrap_servers"), kind=error.kind, **params)
