"""Sources and sinks: one folder each, found through entry points."""

from headwater.connectors.contract import Context, StaticRows, Unreadable
from headwater.connectors.registry import GROUP, all_connectors, sink_side, source_side

__all__ = ["GROUP", "Context", "StaticRows", "Unreadable", "all_connectors", "sink_side", "source_side"]
