"""Rows on the terminal."""

from headwater.connectors.console.options import CONNECTOR, ConsoleSink

__all__ = ["CONNECTOR", "ConsoleSink"]
