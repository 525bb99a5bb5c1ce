"""The Kafka source on Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from headwater.checkpoint import Checkpoint, LocalStore, OffsetEntry
from headwater.checkpoint.editors import change_source, forget_start
from headwater.checkpoint.edits import edit_errors
from headwater.checkpoint.store import Note, NoteError
from headwater.connectors.contract import (
    Context,
    QueryCheckpoint,
    RunTask,
    StopQueries,
    Tick,
    ValidatedRows,
)
from headwater.connectors.decoding.decode import decoded
from headwater.connectors.kafka import errors
from headwater.connectors.kafka.cluster import (
    SECONDS,
    Cluster,
    ClusterError,
    Partition,
    Topic,
    connect,
    topics_read,
)
from headwater.connectors.kafka.source_options import GROUPS, PER_BATCH, PER_TASK, KafkaSource
from headwater.connectors.kafka.start import cluster_problem, resolve_positions, start_note
from headwater.connectors.options import option_texts, plain
from headwater.errors import CheckpointError, HeadwaterError, PipelineError, Problem
from headwater.values import count_of

# Watches the topics of a Kafka source for unread messages that were deleted and for recreated topics.
#
# Spark reports neither when it continues after data loss. It takes a recreated topic for the old one: it skips
# offsets below the old position, and once the new topic has grown beyond it, even a query that fails on data
# loss continues from there. So Headwater stores the ID of each topic next to the checkpoint:
#
# .headwater/kafka/<query>.json    {"version": 1, "sources": {"clicks": {"clicks-topic": "id"}}}
#
# It is the ID of the topic whose offsets are in the checkpoint. Headwater writes it before the query starts
# and changes it only together with these offsets.

T = TypeVar("T")

LOOK_SECONDS = 2.0
ANSWER_SECONDS = 2
"""How long a look waits for a response; it blocks all other tasks of the run."""
_BACK_OFF_SECONDS = 15.0


@dataclass(frozen=True)
class _Noted:
    """The topic IDs by name, for each source of a query."""

    sources: dict[str, dict[str, str]]


@dataclass(frozen=True)
class TopicIds:
    """The IDs of the topics whose offsets are in the checkpoint of a query."""

    file: Path
    query: str
    source: str

    def read(self) -> dict[str, str]:
        return self._all().get(self.source, {})

    def write(self, ids: Mapping[str, str]) -> None:
        if self.read() != ids:
            Note.at(self.file, _Noted).write(_Noted({**self._all(), self.source: dict(ids)}))

    def _all(self) -> dict[str, dict[str, str]]:
        try:
            noted = Note.at(self.file, _Noted).read()
        except NoteError as error:
            what = f"the topic IDs of query `{self.query}`"
            then = "Headwater then assumes that the current topics are those of the checkpoint"
            params = {"what": what, "file": str(self.file), "says": error.reason, "then": then}
            raise CheckpointError(errors.KAFKA_RECORD_UNREADABLE.at(None, **params)) from error
        # Without a record, the topics are unknown, as before the first start.
        return noted.sources if noted else {}


@dataclass
class _Query:
    """The progress of one query in the topics of the source."""

    reader: QueryCheckpoint
    ids: TopicIds
    numbers: tuple[int, ...]
    """The indexes of the source among the sources of the query."""
    batches: list[Mapping[str, Any]] = field(default_factory=list)
    """Progress of batches that were not inspected yet."""
    told: dict[Partition, int] = field(default_factory=dict)
    """The offset up to which a loss was reported."""

    @property
    def name(self) -> str:
        return self.reader.query

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(LocalStore(self.reader.checkpoint))

    @property
    def begun(self) -> bool:
        """Whether its next start resumes from its checkpoint."""
        return self._checkpoint.state.resumes

    def positions(self) -> dict[Partition, int]:
        """Where the next batch starts, after the last commit."""
        if not self.reader.checkpoint.is_dir():
            return {}
        commit = self._checkpoint.last_commit
        return self._offsets(self._checkpoint.offset(commit.batch_id) if commit else None)

    def _offsets(self, entry: OffsetEntry | None) -> dict[Partition, int]:
        sources = list(entry.sources.values()) if entry else []
        found: dict[Partition, int] = {}
        for number in self.numbers:
            for partition, offset in _offsets(sources[number] if number < len(sources) else None).items():
                found[partition] = min(offset, found.get(partition, offset))
        return found

    def known_ids(self) -> dict[str, str]:
        """The IDs of the topics with offsets in the checkpoint, including planned ones."""
        if not self.reader.checkpoint.is_dir():
            return {}
        topics = {topic for topic, _ in self._offsets(self._checkpoint.last_offset)}
        return {name: id for name, id in self.ids.read().items() if name in topics}

    def made_again(self, topics: Mapping[str, Topic]) -> list[str]:
        """The topics that were recreated since the checkpoint stored their offsets."""
        known = self.known_ids()
        return [name for name, id in _ids(topics).items() if known.get(name, id) != id]


class TopicWatch(RunTask):
    """Watches the topics of one source."""

    def __init__(
        self,
        options: KafkaSource,
        context: Context,
        readers: Iterable[QueryCheckpoint],
        connect: Callable[[int], Cluster],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._context = context
        self._connect = connect
        self._clock = clock
        self._cluster: Cluster | None = None
        self._answered = True
        self._due = 0.0
        self._gone: set[tuple[str, str]] = set()
        note = context.directory.note
        self._queries = [
            _Query(
                reader, TopicIds(note("kafka", f"{reader.query}.json"), reader.query, context.name), numbers
            )
            for reader in readers
            if (numbers := tuple(n for n, name in enumerate(reader.sources) if name == context.name))
        ]

    def before_start(self, query: str, backup: Path) -> list[Problem]:
        """Before a query starts, compare its checkpoint with the existing topics; returns notices.

        CheckpointError if it contains offsets of a different topic with the same name.
        """
        each = next((one for one in self._queries if one.name == query), None)
        if each is None:
            return []
        store = LocalStore(each.reader.checkpoint)
        try:
            with edit_errors(store):
                forget_start(store, each.numbers).apply(store, LocalStore(backup))
            topics = self._topics(SECONDS)
            said = [self._read_anew(each, topics[name], backup) for name in each.made_again(topics)]
            # A missing topic keeps its ID: if it is recreated, it is a different topic.
            each.ids.write({**each.known_ids(), **_ids(topics)})
            return [*said, *self._losses(each, self._earliest(topics))]
        finally:
            # A start uses a longer timeout than a look.
            self.close()

    def tick(self, tick: Tick) -> None:
        for query in self._queries:
            query.batches += tick.progress.get(query.name, ())
        # If a query failed, ask only brokers that responded before.
        due = tick.healthy or self._answered if tick.last else self._clock() >= self._due
        try:
            if due:
                self._look()
        except StopQueries as stop:
            if not tick.last:
                raise
            # Nothing is left to stop, but the next start would fail, so report it now.
            raise CheckpointError(*stop.problems) from stop

    def _look(self) -> None:
        self._due = self._clock() + LOOK_SECONDS
        topics = self._topics()
        ended = {
            query.name: self._other_topic(query, name)
            for query in self._queries
            for name in query.made_again(topics)
        }
        ended |= self._too_many_partitions(topics)
        if ended:
            raise StopQueries(ended)
        earliest = self._earliest(topics)
        problems: list[Problem] = []
        for query in self._queries:
            # Record new topics, and topics that were recreated after the checkpoint dropped them.
            query.ids.write({**_ids(topics), **query.known_ids()})
            if self._options.on_data_loss == "warn":
                problems += self._topics_gone(query, topics)
                problems += self._losses(query, earliest)
            query.batches.clear()
        if all(query.begun for query in self._queries):
            start_note(self._context).unlink(missing_ok=True)
        if problems:
            raise CheckpointError.of(problems)

    def _too_many_partitions(self, topics: Mapping[str, Topic]) -> dict[str, Problem]:
        """Queries without a core for a new partition, which would wait forever."""
        count = 0 if self._options.partitions else sum(topic.partitions for topic in topics.values())
        params = {"name": self._context.name, "partitions": count}
        return {
            query.name: errors.KAFKA_TOO_FEW_CORES.at(None, sink=query.name, most=most, **params)
            for query in self._queries
            if (most := query.reader.most_partitions) is not None and count > most
        }

    def _other_topic(self, query: _Query, topic: str) -> Problem:
        restarts = self._options.on_topic_recreated == "earliest"
        entry = errors.KAFKA_TOPIC_RECREATED_STOPPED if restarts else errors.KAFKA_TOPIC_RECREATED
        return entry.at(self._context.at("topic"), topic=topic, sink=query.name, name=self._context.name)

    def _read_anew(self, query: _Query, topic: Topic, backup: Path) -> Problem:
        if self._options.on_topic_recreated == "fail":
            raise CheckpointError(self._other_topic(query, topic.name))
        start = {part: offset for (_, part), offset in self._earliest({topic.name: topic}).items()}

        def from_start(offsets: Any) -> Any:
            held = offsets.get(topic.name, {}) if isinstance(offsets, dict) else {}
            kept = {part: start[int(part)] for part in held if int(part) in start}
            return {**offsets, topic.name: kept} if held else offsets

        store = LocalStore(query.reader.checkpoint)
        for number in query.numbers:
            with edit_errors(store):
                edit = change_source(store, number, from_start)
                if edit is not None:
                    edit.apply(store, LocalStore(backup))
        return errors.KAFKA_TOPIC_RESET.at(None, topic=topic.name, sink=query.name, backup=str(backup))

    def _topics_gone(self, query: _Query, topics: Mapping[str, Topic]) -> Iterator[Problem]:
        for (topic, partition), offset in sorted(query.positions().items()):
            if topic not in topics and (query.name, topic) not in self._gone:
                yield errors.KAFKA_TOPIC_LOST.at(
                    None, topic=topic, sink=query.name, partition=partition, offset=offset
                )
        self._gone |= {(query.name, topic) for topic, _ in query.positions() if topic not in topics}

    def _losses(self, query: _Query, earliest: Mapping[Partition, int]) -> Iterator[Problem]:
        """What Kafka deleted before the query read it, each loss once."""
        if self._options.on_data_loss != "warn":
            return
        for number, progress in product(query.numbers, query.batches):
            yield from self._lost_in(query, progress["sources"][number], earliest)
        for partition, position in sorted(query.positions().items()):
            yield from self._lost(query, partition, position, earliest.get(partition, 0))

    def _lost_in(
        self, query: _Query, source: Mapping[str, Any], earliest: Mapping[Partition, int]
    ) -> Iterator[Problem]:
        """What a committed batch did not read: it has fewer rows than offsets."""
        start, end = _offsets(source.get("startOffset")), _offsets(source.get("endOffset"))
        wanted = sum(end[each] - start[each] for each in start if each in end)
        missing = wanted - int(source.get("numInputRows") or 0)
        for each in sorted(start) if missing > 0 else ():
            first_left = min(earliest.get(each, 0), end.get(each, 0))
            yield from self._lost(
                query, each, start[each], first_left, f" ({count_of(missing, 'row')} missing)"
            )

    def _lost(
        self, query: _Query, partition: Partition, first: int, left: int, known: str = ""
    ) -> Iterator[Problem]:
        first = max(first, query.told.get(partition, 0))
        if left > first:
            query.told[partition] = left
            yield errors.KAFKA_ROWS_DELETED.at(
                None,
                sink=query.name,
                topic=partition[0],
                partition=partition[1],
                first=first,
                last=left - 1,
                known=known,
            )

    def _earliest(self, topics: Mapping[str, Topic]) -> dict[Partition, int]:
        if self._options.on_data_loss != "warn" and self._options.on_topic_recreated == "fail":
            return {}
        wanted = [(topic.name, number) for topic in topics.values() for number in range(topic.partitions)]
        return self._asked(lambda cluster: cluster.offsets(dict.fromkeys(wanted, "earliest")))

    def _topics(self, seconds: int = ANSWER_SECONDS) -> dict[str, Topic]:
        found = self._asked(lambda cluster: topics_read(cluster, self._options), seconds)
        return {name: topic for name, topic in found.items() if topic is not None}

    def _asked(self, ask: Callable[[Cluster], T], seconds: int = ANSWER_SECONDS) -> T:
        try:
            self._cluster = self._cluster or self._connect(seconds)
            answer = ask(self._cluster)
        except ClusterError as error:
            self._answered = False
            self._due = self._clock() + _BACK_OFF_SECONDS
            problem = cluster_problem(error, self._options, self._context, seconds)
            raise HeadwaterError(problem) from error
        self._answered = True
        return answer

    def close(self) -> None:
        """Disconnect after the run, or after a start that failed."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _ids(topics: Mapping[str, Topic]) -> dict[str, str]:
    """The IDs of the topics that have one."""
    return {name: topic.id for name, topic in topics.items() if topic.id}


def _offsets(written: Any) -> dict[Partition, int]:
    """Offsets as Spark stores them: by topic and partition."""
    if not isinstance(written, Mapping):
        return {}
    return {
        (topic, int(partition)): int(offset)
        for topic, found in written.items()
        if isinstance(found, Mapping)
        for partition, offset in found.items()
    }


_TIMEZONE = "spark.sql.session.timeZone"


def read_validated(
    spark: SparkSession,
    options: KafkaSource,
    context: Context,
    *,
    max_row_bytes: int | None,
    replayed: Callable[[], DataFrame] | None,
) -> ValidatedRows:
    """Validated messages; `replayed` reads messages of the quarantine."""
    raw = raw_messages(spark, options, context)
    if replayed is not None:
        raw = raw.unionByName(_as_messages(replayed()))
    return decoded(raw, options, context, max_row_bytes)


def raw_messages(spark: SparkSession, options: KafkaSource, context: Context) -> DataFrame:
    """The eight columns of Kafka messages, after the cluster confirmed that the topics and offsets exist."""
    try:
        with closing(connect(spark, options)) as cluster:
            positions = resolve_positions(cluster, options, context, str(spark.conf.get(_TIMEZONE)))
    except ClusterError as error:
        raise PipelineError(cluster_problem(error, options, context)) from error
    reader = spark.read if context.batch else spark.readStream
    return reader.format("kafka").options(**spark_options(options, positions, context)).load()


def watch(
    spark: SparkSession, options: KafkaSource, context: Context, readers: Iterable[QueryCheckpoint]
) -> TopicWatch:
    """A task that watches the topics while queries read them."""
    return TopicWatch(options, context, readers, partial(connect, spark, options))


def spark_options(options: KafkaSource, positions: Mapping[str, str], context: Context) -> dict[str, str]:
    """All settings as Spark options."""
    keys = {**PER_TASK, **GROUPS, **({} if context.batch else PER_BATCH)}
    if context.ends_when_idle:
        # Otherwise the last rows would never be read.
        keys = {option: key for option, key in keys.items() if key not in ("min_rows_per_batch", "max_wait")}
    said = {option: getattr(options, key) for option, key in keys.items()}
    if options.topic:
        subscription = {"subscribe": ",".join(options.topic)}
    elif options.topic_pattern:
        subscription = {"subscribePattern": options.topic_pattern}
    else:
        subscription = {"assign": json.dumps(options.partitions)}
    return {
        **subscription,
        "includeHeaders": "true",
        "failOnDataLoss": "true" if options.on_data_loss == "fail" else "false",
        **option_texts(said),
        **positions,
        **options.connection(),
        **plain(options),
    }


def _as_messages(replayed: DataFrame) -> DataFrame:
    """Quarantined rows as the original messages."""
    row = {each: f"row.{each}" for each in ("key", "value", "topic", "partition", "offset", "timestamp")}
    row |= {"timestampType": "row.timestamp_type", "headers": "row.headers"}
    return replayed.select(*(col(path).alias(name) for name, path in row.items()))
