"""The phases of a start, reported while the user waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.events import Event, StartPhase

FIRST_SECONDS = 3.0
NEXT_SECONDS = 5.0


class Phase:
    """One phase of a start, with a count where it has one."""

    def __init__(self, name: str, text: str, total: int | None) -> None:
        self._name = name
        self._text = text
        self._began = time.monotonic()
        self._count = (None if total is None else 0, total)

    def count(self, done: int, total: int | None = None) -> None:
        """So many are done, of as many as before or of another total."""
        self._count = (done, self._count[1] if total is None else total)

    def event(self) -> StartPhase:
        """The phase as it is now."""
        done, total = self._count
        seconds = round(time.monotonic() - self._began)
        return StartPhase(phase=self._name, text=self._text, seconds=seconds, done=done, total=total)


class Phases:
    """Emits an event for a phase that takes longer than some seconds, and then again every few seconds.

    A quick start thus emits nothing.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    @contextmanager
    def phase(
        self, name: str, text: str, *, total: int | None = None, first: float = FIRST_SECONDS
    ) -> Iterator[Phase]:
        """Run a phase; the first event comes after `first` seconds."""
        phase, over = Phase(name, text, total), threading.Event()
        thread = threading.Thread(target=self._tell, args=(phase, over, first), daemon=True)
        if not first:
            self._emit(phase.event())
        thread.start()
        try:
            yield phase
        finally:
            over.set()
            thread.join()

    def _tell(self, phase: Phase, over: threading.Event, first: float) -> None:
        seconds = first or NEXT_SECONDS
        while not over.wait(seconds):
            self._emit(phase.event())
            seconds = NEXT_SECONDS
