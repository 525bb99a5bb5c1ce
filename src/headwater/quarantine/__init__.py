"""Rows set aside: reading them, writing them out, feeding them again. Without Spark."""

from headwater.quarantine.rows import Fed, Mended, Quarantine, SetAside, feed, quarantines, read_mended

__all__ = ["Fed", "Mended", "Quarantine", "SetAside", "feed", "quarantines", "read_mended"]
