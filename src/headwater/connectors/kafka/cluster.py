"""What a Kafka cluster says of its topics, asked through the admin client that comes with Spark's connector.

The client is reached through the session's JVM. Its own time limits are short: a check says in seconds that
nobody answers, where Spark's readers would try for minutes.
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
"""The id of all zeros, as Kafka writes it."""

Partition = tuple[str, int]


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster knows it; one that is deleted and made again gets another id."""

    name: str
    id: str
    """Empty where the brokers are too old to give one."""
    partitions: int


class ClusterError(Exception):
    """What the cluster, or the client on the way to it, has against a question."""

    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind, self.says = kind, says
        """The simple name of the exception in Java, and its message."""


class NoSuchTopic(ClusterError):
    """There is no topic of this name."""


class Cluster:
    """A connection to a cluster; `close` ends it."""

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
        # `latest` is for a reader of transactions where the first open one begins.
        self._committed = given.get("isolation.level", "").lower() == "read_committed"
        self._admin = _asked(lambda: self._kafka.clients.admin.AdminClient.create({**given, **limits}))

    def close(self) -> None:
        """End the connection without waiting for answers."""
        self._admin.close(self._java.time.Duration.ZERO)

    def names(self) -> list[str]:
        """The names of all topics that are not Kafka's own."""
        return sorted(str(name) for name in self._answer(lambda: self._admin.listTopics().names()))

    def fitting(self, pattern: str) -> list[str]:
        """The names that a regular expression of Java matches as a whole."""
        compiled = _asked(lambda: self._java.util.regex.Pattern.compile(pattern))
        return [name for name in self.names() if compiled.matcher(name).matches()]

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        """The topics of these names; None for one that is not there."""
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
        """The offset of each partition at its `earliest`, its `latest`, or of the first message at or after a
        time in milliseconds; -1 where no message is so late."""
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
    """A connection to the cluster of a source or sink; each answer is waited for so long."""
    return Cluster(spark, {**options.connection(), **plain(options)}, seconds)


def topics_read(cluster: Cluster, options: KafkaSource) -> dict[str, Topic | None]:
    """The topics that a source reads; None for one that it names and that is not there."""
    named = options.partitions or options.topic or ()
    return cluster.topics(cluster.fitting(options.pattern) if options.pattern is not None else named)


def slots(spark: Any, options: KafkaSource) -> int:
    """How many tasks read at once where each partition has one for good: all that a source reads now; 0 where
    the cluster does not tell."""
    try:
        with closing(connect(spark, options)) as cluster:
            found = topics_read(cluster, options)
    except ClusterError:
        return 0  # what is wrong with the cluster is told of the source itself
    if options.partitions:
        return sum(len(numbers) for numbers in options.partitions.values())
    return sum(topic.partitions for topic in found.values() if topic is not None)


def _asked(ask: Callable[[], Any]) -> Any:
    """The answer of Java; what it throws as an error of ours."""
    try:
        return ask()
    except Exception as error:
        # PySpark makes its own errors of some of Java's.
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
    # Futures and constructors wrap what happened: the innermost says it.
    kind = next((each for each in reversed(kinds) if each.endswith("Exception")), kinds[-1])
    wrapped = [each for each in kinds if each not in ("ExecutionException", "KafkaException")]
    error = NoSuchTopic if "UnknownTopicOrPartitionException" in kinds else ClusterError
    return error(wrapped[0] if wrapped else kind, scrub(says.splitlines()[0].rstrip(".") if says else kind))
