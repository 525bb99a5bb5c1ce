"""Quarantined rows: reading them, writing them out, feeding them again. Without Spark."""

from headwater.quarantine.rows import Fed, Mended, Quarantine, QuarantinedRow, feed, quarantines, read_mended

__all__ = ["Fed", "Mended", "Quarantine", "QuarantinedRow", "feed", "quarantines", "read_mended"]
