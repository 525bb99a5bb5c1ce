"""A user's function or object, called with each row on the executors."""

from headwater.connectors.foreach.options import CONNECTOR, ForeachSink

__all__ = ["CONNECTOR", "ForeachSink"]
