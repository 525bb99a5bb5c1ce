"""Processing time under control: Spark asks this clock, and waits at it between two batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.1


class StepClock:
    """Spark's clock of a query's triggers (`org.apache.spark.util.Clock`), implemented here.

    Spark has a manual clock of its own. It can't say whether the query has woken up already, and its time
    has to move for every batch. At this one the query's thread waits until it is let go, so that one `tick`
    is one trigger, and time moves only when a test says so.

        query's thread   waitTillTime ──▶ waits … ──▶ one trigger (a batch, or nothing due) ──▶ waitTillTime
        the test                            tick ──▶ waits until the query waits again ──▶ looks
    """

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.util.Clock",)

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds
        self._turn = threading.Condition()
        self._waits = False
        self._open = False

    def getTimeMillis(self) -> int:  # noqa: N802 - Spark calls it by this name
        return self.milliseconds

    def nanoTime(self) -> int:  # noqa: N802 - Spark calls it by this name
        return self.milliseconds * 1_000_000

    def waitTillTime(self, target: int) -> int:  # noqa: N802 - Spark calls it by this name
        with self._turn:
            self._waits = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._waits or self._open)
            self._waits = False
        return self.milliseconds

    def tick(self) -> None:
        """Let the waiting query go for one trigger."""
        with self._turn:
            self._waits = False
            self._turn.notify_all()

    def open(self) -> None:
        """Never hold the query again; it is about to end."""
        with self._turn:
            self._open = True
            self._turn.notify_all()

    def await_waiting(self, lives: Callable[[], bool], limit: float) -> bool:
        """Wait until the query waits; False when it has died, TimeoutError after `limit` seconds."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            with self._turn:
                if self._turn.wait_for(lambda: self._waits, _LOOK_SECONDS):
                    return True
            if not lives():
                return False
        raise TimeoutError

    def toString(self) -> str:  # noqa: N802 - Spark calls it by this name
        return f"StepClock({self.milliseconds})"
