"""Limits a repeated task to a part of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 10
"""The task uses at most one part in this many of the time."""
LONGEST_SECONDS = 60.0
"""The task is due again after this time at the latest, also if the process was suspended while it ran."""


class Pace:
    """When a task whose cost grows with the number of files is due again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ended = self._due = 0.0

    @property
    def is_due(self) -> bool:
        # A clock that was set back must not delay the task.
        return not self._ended <= self._clock() < self._due

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the task, also if it fails."""
        begun = self._clock()
        try:
            yield
        finally:
            self._ended = self._clock()
            self._due = self._ended + min((self._ended - begun) * SHARE, LONGEST_SECONDS)
