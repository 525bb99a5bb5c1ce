"""Local servers for development: a real Kafka broker on this machine."""

from headwater.dev.broker import Broker, Listener

__all__ = ["Broker", "Listener"]
