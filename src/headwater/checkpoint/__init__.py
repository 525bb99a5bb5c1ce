"""Reading a Spark checkpoint folder without Spark, and the lock beside it."""

from headwater.checkpoint.file_logs import SINK_LOG, SinkFile, SinkLog, SourceFile
from headwater.checkpoint.lock import CheckpointLock, Clock, SystemClock
from headwater.checkpoint.logs import STATE_FORMAT, Checkpoint, CommitEntry, OffsetEntry
from headwater.checkpoint.owner import Owner, Place, Process
from headwater.checkpoint.store import LocalStore, Store

__all__ = [
    "SINK_LOG",
    "STATE_FORMAT",
    "Checkpoint",
    "CheckpointLock",
    "Clock",
    "CommitEntry",
    "LocalStore",
    "OffsetEntry",
    "Owner",
    "Place",
    "Process",
    "SinkFile",
    "SinkLog",
    "SourceFile",
    "Store",
    "SystemClock",
]
