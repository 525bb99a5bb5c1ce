"""Kafka on Spark: the source and the sink."""

from headwater.connectors.kafka.cluster import slots
from headwater.connectors.kafka.sink import outgoing, write_batch, write_stream
from headwater.connectors.kafka.source import read_judged, watch

__all__ = ["outgoing", "read_judged", "slots", "watch", "write_batch", "write_stream"]
