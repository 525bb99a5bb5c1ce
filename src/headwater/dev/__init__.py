"""Local servers for development: a real Kafka broker on this machine."""

from headwater.dev.broker import Broker
from headwater.dev.server_properties import Listener

__all__ = ["Broker", "Listener"]
