"""Topics of an Apache Kafka cluster."""

from headwater.connectors.kafka.options import CONNECTOR
from headwater.connectors.kafka.sink.options import KafkaSink
from headwater.connectors.kafka.source.options import KafkaSource

__all__ = ["CONNECTOR", "KafkaSink", "KafkaSource"]
