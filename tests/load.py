"""Limits of time on a machine whose cores other processes share."""

from __future__ import annotations

import os


def on_this_machine(seconds: float) -> float:
    """What a limit for a machine with a core for each process is on this one, by its load in the last minute."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
