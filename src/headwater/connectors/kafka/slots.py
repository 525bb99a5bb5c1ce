"""How many tasks read at once where each partition has one for good."""

from __future__ import annotations

from typing import Any

from headwater.connectors.kafka.broker import BrokerError, partitions
from headwater.connectors.kafka.source.options import KafkaSource


def slots(spark: Any, options: KafkaSource) -> int:
    """The partitions of all topics that a source reads now; 0 where the cluster does not tell."""
    try:
        return sum(partitions(spark, options).values())
    except BrokerError:
        return 0  # what is wrong with the cluster is told of the source itself
