"""Limits a repeated task to a part of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 10
"""The task uses at most one part in this many of the time."""


class Pace:
    """When a task whose cost grows with the number of files is due again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._due

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the task, also if it fails."""
        begun = self._clock()
        try:
            yield
        finally:
            self._due = self._clock() + (self._clock() - begun) * SHARE
