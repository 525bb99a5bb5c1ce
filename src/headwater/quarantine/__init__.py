"""Rows set aside: reading them, writing them out, feeding them again. Without Spark."""

from headwater.quarantine.feeding import Fed, feed
from headwater.quarantine.reading import Quarantine, quarantines
from headwater.quarantine.rows import Mended, SetAside, read_mended

__all__ = ["Fed", "Mended", "Quarantine", "SetAside", "feed", "quarantines", "read_mended"]
