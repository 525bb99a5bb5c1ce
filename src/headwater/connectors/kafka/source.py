"""The Kafka source on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from headwater.connectors.contract import Context, Reader
from headwater.connectors.decoding.decode import judged
from headwater.connectors.kafka.cluster import BrokerError, connect, connected
from headwater.connectors.kafka.source_options import KafkaSource
from headwater.connectors.kafka.start import broker_problem, settle
from headwater.connectors.kafka.watch import TopicWatch
from headwater.connectors.options import hidden, plain, revealed
from headwater.errors import PipelineError

_TIMEZONE = "spark.sql.session.timeZone"


def read_validated(
    spark: SparkSession,
    options: KafkaSource,
    context: Context,
    *,
    max_row_bytes: int | None,
    replayed: Callable[[], DataFrame] | None,
) -> DataFrame:
    """Messages, each with a verdict; `replayed` reads messages that were set aside and are fed once more."""
    raw = raw_messages(spark, options, context)
    if replayed is not None:
        raw = raw.unionByName(_as_messages(replayed()))
    return judged(raw, options, context, max_row_bytes)


def raw_messages(spark: SparkSession, options: KafkaSource, context: Context) -> DataFrame:
    """The eight columns of Kafka's messages; the cluster is asked first whether it has what is to be read."""
    try:
        with connected(spark, options) as broker:
            settled = settle(broker, options, context, str(spark.conf.get(_TIMEZONE)))
    except BrokerError as error:
        raise PipelineError(broker_problem(error, options, context)) from error
    reader = spark.read if context.batch else spark.readStream
    return reader.format("kafka").options(**spark_options(options, settled, context)).load()


def watch(spark: SparkSession, options: KafkaSource, context: Context, readers: list[Reader]) -> TopicWatch:
    """Looks after the topics while queries read them."""
    return TopicWatch(options, context, readers, partial(connect, spark, options))


def spark_options(options: KafkaSource, settled: Mapping[str, str], context: Context) -> dict[str, str]:
    """Everything that was said, in Spark's words."""
    said: dict[str, object] = {
        "includeHeaders": "true",
        "failOnDataLoss": "true" if options.on_data_loss == "fail" else "false",
        "minPartitions": options.min_partitions,
        "maxRecordsPerPartition": options.rows_per_partition,
        "kafka.group.id": options.group,
        "groupIdPrefix": options.group_prefix,
    }
    if not context.batch:
        said["maxOffsetsPerTrigger"] = options.max_rows_per_batch
    if not context.batch and not context.ends_when_idle:
        said |= {
            "minOffsetsPerTrigger": options.min_rows_per_batch,
            "maxTriggerDelay": f"{options.longest_wait.milliseconds}ms" if options.longest_wait else None,
        }
    return {
        **_subscription(options),
        **{key: str(value) for key, value in said.items() if value is not None},
        **settled,
        **options.connection(revealed, hidden),
        **plain(options),
    }


def _subscription(options: KafkaSource) -> dict[str, str]:
    if options.topic:
        return {"subscribe": ",".join(options.topic)}
    if options.pattern:
        return {"subscribePattern": options.pattern}
    return {"assign": json.dumps(options.partitions)}


def _as_messages(again: DataFrame) -> DataFrame:
    """Rows of a quarantine as the messages that they were."""
    row = {each: f"row.{each}" for each in ("key", "value", "topic", "partition", "offset", "timestamp")}
    row |= {"timestampType": "row.timestamp_type", "headers": "row.headers"}
    return again.select(*(col(path).alias(name) for name, path in row.items()))
