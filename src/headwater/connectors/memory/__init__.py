"""A table in the memory of this process."""

from headwater.connectors.memory.options import CONNECTOR, MemorySink

__all__ = ["CONNECTOR", "MemorySink"]
