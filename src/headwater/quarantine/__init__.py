"""Rows set aside: reading them, writing them out, feeding them again. Without Spark."""

from headwater.quarantine.feeding import Fed, feed
from headwater.quarantine.reading import Quarantine, quarantines
from headwater.quarantine.rows import SetAside

__all__ = ["Fed", "Quarantine", "SetAside", "feed", "quarantines"]
