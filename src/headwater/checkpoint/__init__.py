"""Reading a Spark checkpoint directory without Spark, and its lock."""

from headwater.checkpoint.edits import CheckpointEdit, FileChange
from headwater.checkpoint.file_logs import SINK_LOG, SinkFile, SinkLog, SinkLogTail, SourceFile
from headwater.checkpoint.lock import CheckpointLock, Clock, Host, Owner, Process, SystemClock
from headwater.checkpoint.logs import (
    STATE_FORMAT,
    Checkpoint,
    CheckpointState,
    CommitEntry,
    OffsetEntry,
    Read,
    committed,
    planned,
)
from headwater.checkpoint.store import LocalStore, Store

__all__ = [
    "SINK_LOG",
    "STATE_FORMAT",
    "Checkpoint",
    "CheckpointEdit",
    "CheckpointLock",
    "CheckpointState",
    "Clock",
    "CommitEntry",
    "FileChange",
    "Host",
    "LocalStore",
    "OffsetEntry",
    "Owner",
    "Process",
    "Read",
    "SinkFile",
    "SinkLog",
    "SinkLogTail",
    "SourceFile",
    "Store",
    "SystemClock",
    "committed",
    "planned",
]
