"""Local servers for development: a real Kafka broker and a real PostgreSQL server on this machine."""

from headwater.dev.broker import Broker, Listener
from headwater.dev.postgres import PostgresServer

__all__ = ["Broker", "Listener", "PostgresServer"]
