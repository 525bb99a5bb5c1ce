"""What happened in a run, as typed values."""

from headwater.events.kinds import (
    Event,
    QueryEnded,
    QueryIdle,
    QueryProgress,
    QueryStarted,
    QueryStatus,
    RunEnded,
    RunStarted,
    Said,
)

__all__ = [
    "Event",
    "QueryEnded",
    "QueryIdle",
    "QueryProgress",
    "QueryStarted",
    "QueryStatus",
    "RunEnded",
    "RunStarted",
    "Said",
]
