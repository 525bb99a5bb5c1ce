"""Quarantined rows: reading, exporting and replaying them, without Spark."""

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
