"""Quarantined rows: reading them, writing them out, replaying them. Without Spark."""

from headwater.quarantine.rows import (
    Mended,
    Quarantine,
    QuarantinedRow,
    Replay,
    quarantines,
    read_mended,
    replay_rows,
)

__all__ = ["Mended", "Quarantine", "QuarantinedRow", "Replay", "quarantines", "read_mended", "replay_rows"]
