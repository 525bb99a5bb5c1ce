"""The time that a script under check has: Spark's start and the judging of its queries do not count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

STANDSTILL_SECONDS = 600.0
"""For how long the clock may stand at a stretch, should Spark never come up or never answer."""


class Clock:
    """It stands at first; `heard` is told each time that it begins to run or to stand."""

    def __init__(
        self,
        seconds: float,
        heard: Callable[[bool], None] = lambda runs: None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._left, self._heard, self._now = seconds, heard, now
        self._changed = threading.Condition()
        self._holds, self._since = 1, now()

    @property
    def runs(self) -> bool:
        """Whether the script's own time passes."""
        return not self._holds

    def run(self) -> None:
        """Take one hold away; without any it runs."""
        self._hold(-1)

    def stand(self) -> None:
        """Hold it, until there are as many calls of `run`."""
        self._hold(1)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Hold it for a while; scripts may do so in several threads."""
        self.stand()
        try:
            yield
        finally:
            self.run()

    def left(self) -> float:
        """The seconds until the time is over, if it goes on as now."""
        with self._changed:
            allowed = STANDSTILL_SECONDS if self._holds else self._left
            return allowed - (self._now() - self._since)

    def wait_until_over(self) -> None:
        """Return once no time is left."""
        with self._changed:
            while (left := self.left()) > 0:
                self._changed.wait(left)

    def _hold(self, change: int) -> None:
        with self._changed:
            before, self._holds = self._holds, self._holds + change
            if bool(before) == bool(self._holds):
                return
            if not before:
                self._left -= self._now() - self._since
            self._since = self._now()
            self._heard(not self._holds)
            self._changed.notify_all()
