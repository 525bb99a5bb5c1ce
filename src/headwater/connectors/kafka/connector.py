"""The Kafka connector: the capabilities of its source and sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.checkpoint import Read
from headwater.connectors.connector import (
    ALL_MODES,
    BatchWriter,
    Connector,
    Failure,
    LazyModule,
    LongTasks,
    Sink,
    Source,
)
from headwater.connectors.contract import Context, QueryCheckpoint, RowPlace, RunTask, ValidatedRows
from headwater.connectors.decoding.options import VALIDITY_KEYS, registry_failure
from headwater.connectors.decoding.schemas import ENTRIES as OF_DECODING
from headwater.connectors.kafka.errors import ENTRIES
from headwater.connectors.kafka.failures import kafka_failure, kafka_write_failure
from headwater.connectors.kafka.message import REJECTIONS, problems_of
from headwater.connectors.kafka.sink_options import KafkaSink
from headwater.connectors.kafka.source_options import (
    ALWAYS_SAID,
    BATCH_KEYS,
    PER_BATCH,
    KafkaSource,
    Position,
    places,
)
from headwater.errors import Problem
from headwater.spec import Delivery, Schema, SinkSpec, SourceOptions
from headwater.values import BadRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headwater.connectors.kafka import cluster, sink, source
else:
    cluster, sink, source = (
        LazyModule(f"headwater.connectors.kafka.{name}") for name in ("cluster", "sink", "source")
    )

# Spark's names occur in plain PySpark queries; declared sources use the keys.
_LONG_TASKS = LongTasks(
    without=(*BATCH_KEYS, *(option for option, key in ALWAYS_SAID.items() if key in BATCH_KEYS))
)


class KafkaReader(Source[KafkaSource]):
    """Reads messages and validates the key and value of each."""

    options = KafkaSource
    replayable = True
    stream_keys = (*PER_BATCH.values(), "on_topic_recreated")
    batch_keys = ("end",)
    first_start_keys = ("start",)
    validity_keys = VALIDITY_KEYS
    continuous = _LONG_TASKS
    real_time = _LONG_TASKS
    same_offsets = True

    def places(self, options: KafkaSource) -> tuple[str, ...]:
        return places(options)

    def columns(self, options: KafkaSource) -> Schema:
        return options.columns

    def jars(self, options: KafkaSource) -> tuple[str, ...]:
        return ("kafka",)

    def validates(self, options: KafkaSource, bad_rows: BadRows) -> bool:
        return True

    def read_validated(
        self,
        spark: SparkSession,
        options: KafkaSource,
        context: Context,
        *,
        max_row_bytes: int | None,
        replayed: Callable[[], DataFrame] | None,
    ) -> ValidatedRows:
        return source.read_validated(spark, options, context, max_row_bytes=max_row_bytes, replayed=replayed)

    def run_tasks(
        self,
        spark: SparkSession,
        options: KafkaSource,
        context: Context,
        queries: Sequence[QueryCheckpoint],
    ) -> Iterable[RunTask]:
        return [source.watch(spark, options, context, queries)]

    def has_read(self, read: Read, row: RowPlace) -> bool:
        topics = (each.get(row.topic) for each in read.offsets if isinstance(each, dict))
        ends = [each.get(str(row.partition)) for each in topics if isinstance(each, dict)]
        return bool(ends) and all(isinstance(end, int) and end > (row.offset or 0) for end in ends)

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem | None:
        of_registry = registry_failure(failure.message, sink)
        lost = None if of_registry else kafka_failure(failure.text)
        return lost[0].at(sink.position, sink=sink.name, says=lost[1]) if lost else of_registry

    def partitions(self, spark: SparkSession, options: KafkaSource) -> int:
        return cluster.slots(spark, options)

    def frozen(self, options: KafkaSource, directory: Path, batches: int) -> KafkaSource:
        # Existing messages, in a consumer group that no other reader uses; topics are not copied.
        only_new = options.start.is_edge and options.start.others == "latest"
        start = Position("earliest") if only_new else options.start
        changed = {"start": start, "group_id": None, "min_rows_per_batch": None, "max_wait": None}
        return options.model_copy(update=changed)


class KafkaWriter(Sink[KafkaSink]):
    """Writes rows as messages."""

    options = KafkaSink
    modes = ALL_MODES
    delivery = Delivery.DUPLICATES
    raised_by = "set `dedup_headers: true`, and drop duplicates by these headers in consumers"
    stores = True
    appends = True
    continuous = True
    real_time = True
    rejections = REJECTIONS

    def spark_counts_rows(self, options: KafkaSink) -> bool:
        return not options.dedup_headers

    def places(self, options: KafkaSink) -> tuple[str, ...]:
        """The topic; topics from a column are unknown before the rows arrive."""
        return (f"{options.topic} at {options.bootstrap_servers}",) if options.topic else ()

    def jars(self, options: KafkaSink) -> tuple[str, ...]:
        return ("kafka", "avro") if options.value == "avro" else ("kafka",)

    def delivers(self, options: KafkaSink) -> Delivery:
        if options.acks != "all":
            return Delivery.UNCONFIRMED
        return Delivery.MARKED if options.dedup_headers else self.delivery

    def feeds(self, options: KafkaSink, source: SourceOptions) -> bool:
        """Whether both use the same topic of the same cluster; a mirrored topic exists in two clusters."""
        if not isinstance(source, KafkaSource) or not options.topic:
            return False
        if set(options.bootstrap_servers.split(",")).isdisjoint(source.bootstrap_servers.split(",")):
            return False
        if source.topic_pattern:
            # It is a Java pattern; patterns that Python cannot parse are not compared.
            with suppress(re.error):
                return re.fullmatch(source.topic_pattern, options.topic) is not None
        return options.topic in (*(source.topic or ()), *(source.partitions or ()))

    def problems(self, sink: SinkSpec, columns: Mapping[str, str]) -> Iterable[Problem]:
        return problems_of(sink, columns)

    def explain(self, failure: Failure, sink: SinkSpec) -> Problem | None:
        lost = kafka_write_failure(failure.text)
        return lost[0].at(sink.position, sink=sink.name, says=lost[1]) if lost else None

    def outgoing(self, rows: DataFrame, options: KafkaSink, context: Context) -> DataFrame:
        return sink.outgoing(rows, options, context)

    def write_stream(
        self, writer: DataStreamWriter, options: KafkaSink, context: Context
    ) -> DataStreamWriter:
        return sink.write_stream(writer, options, context)

    def write_batch(self, rows: DataFrame, options: KafkaSink, context: Context) -> None:
        sink.write_batch(rows, options, context)

    def ungrouped_keys(self, options: KafkaSink) -> Mapping[str, str]:
        return {}

    def delivers_batches(self, options: KafkaSink) -> Delivery:
        return self.delivers(options)

    def batch_writer(self, options: KafkaSink, context: Context) -> BatchWriter:
        return sink.batch_writer(options, context)


CONNECTOR = Connector(
    "kafka",
    "Reads and writes topics of an Apache Kafka cluster.",
    source=KafkaReader(),
    sink=KafkaWriter(),
    spark_formats=("kafka",),
    errors={**ENTRIES, **OF_DECODING},
)
