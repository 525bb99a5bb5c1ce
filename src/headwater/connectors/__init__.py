"""Sources and sinks: one module or package each, found through entry points."""

from headwater.connectors.connector import ALL_MODES, Connector, LongTasks, Sink, Source
from headwater.connectors.contract import Context, StaticRows, Unreadable
from headwater.connectors.registry import (
    GROUP,
    all_connectors,
    quarantine_sink,
    sink_side,
    source_side,
    validates,
)

__all__ = [
    "ALL_MODES",
    "GROUP",
    "Connector",
    "Context",
    "LongTasks",
    "Sink",
    "Source",
    "StaticRows",
    "Unreadable",
    "all_connectors",
    "quarantine_sink",
    "sink_side",
    "source_side",
    "validates",
]
