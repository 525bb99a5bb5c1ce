"""What happened in a run, as typed values."""

from headwater.events.kinds import (
    BatchEnded,
    EpochCommitted,
    Event,
    Found,
    QueryEnded,
    QueryIdle,
    QueryProgress,
    QueryStarted,
    QueryStatus,
    QueryWaits,
    RunEnded,
    RunStarted,
    Said,
    SinkBegun,
    SinkWritten,
    SparkStarting,
)

__all__ = [
    "BatchEnded",
    "EpochCommitted",
    "Event",
    "Found",
    "QueryEnded",
    "QueryIdle",
    "QueryProgress",
    "QueryStarted",
    "QueryStatus",
    "QueryWaits",
    "RunEnded",
    "RunStarted",
    "Said",
    "SinkBegun",
    "SinkWritten",
    "SparkStarting",
]
