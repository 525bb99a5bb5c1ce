"""SIGTERM, SIGINT and SIGHUP as wishes: the first asks for a clean stop, a second SIGINT forces it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class StopRequested(Exception):
    """A signal asked for the end before the run had begun."""


class Signals:
    """Catches the signals of a foreground run; a context manager that puts the old handlers back."""

    def __init__(self) -> None:
        self.stop = ""
        self.forced = False
        self._interruptible = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                # `nohup` asks for just this: that a closed terminal means nothing.
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        # A handler only takes note: the work is done by the loop that waits, never inside a signal. Only what
        # may hang before there is such a loop is interrupted, and that once: the way out must not be.
        forces = bool(self.stop) and number == signal.SIGINT
        interrupts = forces and self._interruptible and not self.forced
        self.forced = self.forced or forces
        self.stop = self.stop or f"Stopping ({signal.Signals(number).name})"
        if interrupts:
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Here a second SIGINT raises KeyboardInterrupt: user code or Spark may hang for ever."""
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def go_on(self) -> None:
        """Raise StopRequested when a stop is wished for."""
        if self.stop:
            raise StopRequested(self.stop)
