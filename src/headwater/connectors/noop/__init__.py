"""Nowhere."""

from headwater.connectors.noop.options import CONNECTOR, NoopSink

__all__ = ["CONNECTOR", "NoopSink"]
