"""Quarantined rows: reading them, writing them out, replaying them. Without Spark."""

from headwater.quarantine.rows import (
    CorrectedRow,
    Quarantine,
    QuarantinedRow,
    Replay,
    quarantines,
    read_mended,
    replay_rows,
)

__all__ = [
    "CorrectedRow",
    "Quarantine",
    "QuarantinedRow",
    "Replay",
    "quarantines",
    "read_mended",
    "replay_rows",
]
