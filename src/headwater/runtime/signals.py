"""SIGTERM, SIGINT and SIGHUP: the first one requests a graceful stop, a second SIGINT forces it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class StopRequested(Exception):
    """A signal or another process requested a stop before the run had started; the text says which."""


class Signals:
    """Catches the signals of a foreground run; a context manager that restores the old handlers."""

    def __init__(self) -> None:
        self.stop = ""
        self.forced = False
        self._interruptible = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                # `nohup` asks for this: closing the terminal has no effect.
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        # The handler only records the signal: the waiting loop does the work, never the handler. Before that
        # loop exists, user code may hang, so a second SIGINT interrupts it once; the cleanup must not be
        # interrupted.
        forces = bool(self.stop) and number == signal.SIGINT
        interrupts = forces and self._interruptible and not self.forced
        self.forced = self.forced or forces
        self.stop = self.stop or signal.Signals(number).name
        if interrupts:
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Here a second SIGINT raises KeyboardInterrupt, because user code or Spark may hang forever."""
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def check_cancelled(self) -> None:
        """Raise StopRequested if a stop was requested."""
        if self.stop:
            raise StopRequested(self.stop)
