"""The Kafka connector."""

from headwater.connectors.kafka.connector import CONNECTOR
from headwater.connectors.kafka.sink_options import KafkaSink
from headwater.connectors.kafka.source_options import KafkaSource

__all__ = ["CONNECTOR", "KafkaSink", "KafkaSource"]
