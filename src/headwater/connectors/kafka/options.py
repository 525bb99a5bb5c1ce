"""Kafka as others see it."""

from __future__ import annotations

from headwater.connectors.kafka.sink.side import SINK
from headwater.connectors.kafka.source.options import SOURCE
from headwater.spec import Connector

CONNECTOR = Connector(
    name="kafka",
    summary="Topics of an Apache Kafka cluster.",
    spark="headwater.connectors.kafka.spark",
    source=SOURCE,
    sink=SINK,
)
