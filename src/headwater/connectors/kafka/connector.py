"""Kafka as others see it."""

from __future__ import annotations

import re
from contextlib import suppress

from headwater.connectors.kafka.message import refuses
from headwater.connectors.kafka.sink_options import KafkaSink, delivery_by
from headwater.connectors.kafka.source_options import SOURCE, KafkaSource
from headwater.spec import Connector, Delivery, SinkSide

# What Kafka can do as a sink.


def _places(options: KafkaSink) -> tuple[str, ...]:
    """The topic; which ones a column names is not known before the rows come."""
    return (f"{options.topic} at {options.servers}",) if options.topic else ()


def _feeds(sink: KafkaSink, source: object) -> bool:
    """Whether both name a topic of one cluster; a mirror has one name in two clusters."""
    if not isinstance(source, KafkaSource) or not sink.topic:
        return False
    if set(sink.servers.split(",")).isdisjoint(source.servers.split(",")):
        return False
    if source.pattern:
        # The pattern is one of Java; what Python can't read of it is left to the run.
        with suppress(re.error):
            return re.fullmatch(source.pattern, sink.topic) is not None
    return sink.topic in (*(source.topic or ()), *(source.partitions or ()))


def _jars(options: KafkaSink) -> tuple[str, ...]:
    return ("kafka", "avro") if options.value == "avro" else ("kafka",)


SINK = SinkSide(
    options=KafkaSink,
    modes=frozenset({"append", "update", "complete"}),
    delivery=Delivery.REPEATS,
    delivery_by=delivery_by,
    raised_by="`dedup_header: true`, and readers that drop repeats by the headers that it adds",
    stores=True,
    appends=True,
    places=_places,
    feeds=_feeds,
    jars=_jars,
    refuses=refuses,
    continuous=True,
    real_time=True,
)

CONNECTOR = Connector(
    name="kafka",
    summary="Topics of an Apache Kafka cluster.",
    spark="headwater.connectors.kafka.spark",
    source=SOURCE,
    sink=SINK,
)
