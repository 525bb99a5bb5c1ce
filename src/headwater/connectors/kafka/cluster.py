"""Queries a Kafka cluster about its topics, through the admin client that ships with Spark's connector.

The client runs in the session's JVM. Its timeouts are short: a check reports an unreachable cluster within
seconds, while Spark's readers would retry for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from headwater.connectors.kafka.servers import Servers
from headwater.connectors.kafka.source_options import KafkaSource
from headwater.connectors.options import plain
from headwater.spark.private import java_library, kafka_classes
from headwater.values import scrub

SECONDS = 8
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The all-zero topic ID, as Kafka encodes it."""

Partition = tuple[str, int]


@dataclass(frozen=True)
class Topic:
    """A topic in the cluster. A topic that is deleted and recreated gets a new ID."""

    name: str
    id: str
    """Empty if the brokers are too old to provide one."""
    partitions: int


class ClusterError(Exception):
    """An error of the cluster or of its client."""

    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind, self.says = kind, says
        """The simple name of the Java exception, and its message."""


class NoSuchTopic(ClusterError):
    """The topic does not exist."""


class Cluster:
    """A connection to a cluster; close it with `close`."""

    def __init__(self, spark: Any, settings: Mapping[str, str], seconds: int = SECONDS) -> None:
        self._java, self._kafka = java_library(spark), kafka_classes(spark)
        self._seconds = seconds
        limits = {
            "default.api.timeout.ms": str(seconds * 1000),
            "request.timeout.ms": str(seconds * 500),
            "socket.connection.setup.timeout.ms": str(seconds * 500),
        }
        given = {
            key.removeprefix("kafka."): value for key, value in settings.items() if key.startswith("kafka.")
        }
        # For `read_committed` consumers, `latest` is the start of the first open transaction.
        self._committed = given.get("isolation.level", "").lower() == "read_committed"
        self._admin = _asked(lambda: self._kafka.clients.admin.AdminClient.create({**given, **limits}))

    def close(self) -> None:
        """Close the connection without waiting for responses."""
        self._admin.close(self._java.time.Duration.ZERO)

    def names(self) -> list[str]:
        """The names of all topics except internal ones."""
        return sorted(str(name) for name in self._answer(lambda: self._admin.listTopics().names()))

    def fitting(self, pattern: str) -> list[str]:
        """The names that a Java regular expression matches completely."""
        compiled = _asked(lambda: self._java.util.regex.Pattern.compile(pattern))
        return [name for name in self.names() if compiled.matcher(name).matches()]

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        """The topics with these names; None for a topic that does not exist."""
        futures = _asked(lambda: self._admin.describeTopics(list(names)).topicNameValues())
        return {name: self._topic(name, futures) for name in sorted(map(str, futures.keySet()))}

    def _topic(self, name: str, futures: Any) -> Topic | None:
        try:
            described = self._answer(lambda: futures.get(name))
        except NoSuchTopic:
            return None
        topic_id = str(described.topicId()).replace(_NO_ID, "")
        return Topic(name, topic_id, int(described.partitions().size()))

    def offsets(self, wanted: Mapping[Partition, int | str]) -> dict[Partition, int]:
        """The offset of each partition: `earliest`, `latest`, or the first message at or after a time in
        milliseconds (-1 if there is none)."""
        admin, common = self._kafka.clients.admin, self._kafka.common
        edges = {"earliest": admin.OffsetSpec.earliest(), "latest": admin.OffsetSpec.latest()}
        keys = {each: common.TopicPartition(*each) for each in wanted}
        asked = {
            keys[each]: admin.OffsetSpec.forTimestamp(where) if isinstance(where, int) else edges[where]
            for each, where in wanted.items()
        }
        levels = common.IsolationLevel
        level = levels.READ_COMMITTED if self._committed else levels.READ_UNCOMMITTED
        result = _asked(lambda: self._admin.listOffsets(asked, admin.ListOffsetsOptions(level)))
        return {
            partition: int(self._answer(lambda key=key: result.partitionResult(key)).offset())  # type: ignore[misc]
            for partition, key in keys.items()
        }

    def _answer(self, ask: Callable[[], Any]) -> Any:
        unit = self._java.util.concurrent.TimeUnit.SECONDS
        return _asked(lambda: ask().get(self._seconds + 1, unit))


def connect(spark: Any, options: Servers, seconds: int = SECONDS) -> Cluster:
    """A connection to the cluster of a source or sink; `seconds` limits the wait for each response."""
    return Cluster(spark, {**options.connection(), **plain(options)}, seconds)


def topics_read(cluster: Cluster, options: KafkaSource) -> dict[str, Topic | None]:
    """The topics that a source reads; None for a named topic that does not exist."""
    named = options.partitions or options.topic or ()
    return cluster.topics(
        cluster.fitting(options.topic_pattern) if options.topic_pattern is not None else named
    )


def slots(spark: Any, options: KafkaSource) -> int:
    """The number of tasks if each partition needs one permanently; 0 if the cluster does not respond."""
    try:
        with closing(connect(spark, options)) as cluster:
            found = topics_read(cluster, options)
    except ClusterError:
        return 0  # the source itself reports what is wrong with the cluster
    if options.partitions:
        return sum(len(numbers) for numbers in options.partitions.values())
    return sum(topic.partitions for topic in found.values() if topic is not None)


def _asked(ask: Callable[[], Any]) -> Any:
    """The result of a Java call; a Java exception becomes a ClusterError."""
    try:
        return ask()
    except Exception as error:
        # PySpark wraps some Java exceptions in its own errors.
        thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        if thrown is None:
            raise
        raise _translated(thrown) from error


def _translated(thrown: Any) -> ClusterError:
    kinds, says = [], ""
    while thrown is not None:
        kinds.append(str(thrown.getClass().getSimpleName()))
        says = str(thrown.getMessage() or "") or says
        thrown = thrown.getCause()
    # Futures and constructors wrap the cause; the innermost exception names it.
    kind = next((each for each in reversed(kinds) if each.endswith("Exception")), kinds[-1])
    wrapped = [each for each in kinds if each not in ("ExecutionException", "KafkaException")]
    error = NoSuchTopic if "UnknownTopicOrPartitionException" in kinds else ClusterError
    return error(wrapped[0] if wrapped else kind, scrub(says.splitlines()[0].rstrip(".") if says else kind))
