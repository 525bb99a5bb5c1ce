"""Kafka on Spark: the source and the sink."""

from headwater.connectors.kafka.sink.spark import outgoing, write_batch, write_stream
from headwater.connectors.kafka.slots import slots
from headwater.connectors.kafka.source.spark import read_judged, watch

__all__ = ["outgoing", "read_judged", "slots", "watch", "write_batch", "write_stream"]
