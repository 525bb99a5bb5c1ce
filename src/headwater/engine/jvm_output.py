"""Reading the JVM's standard output, where the console sink prints, without losing a line."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

_DRAIN_SECONDS = 10.0


class OutputReader:
    """A pipe and the thread that reads it: into the log while the JVM starts, then to the caller.

    What is said during the start (by shell scripts, by a JVM that can't begin) is Spark's affair, not output
    of the pipeline.
    """

    def __init__(self, receive: Callable[[str], None], log: Path) -> None:
        self._receive = receive
        self._log = log
        self._started = threading.Event()
        reader, self.writer = os.pipe()
        self._thread = threading.Thread(
            target=self._read, args=(reader,), name="headwater-jvm-output", daemon=True
        )
        self._thread.start()

    def forward(self) -> None:
        """Give every further line to the caller; the JVM has its end of the pipe by now."""
        self._started.set()
        self._close_writer()

    def finish(self) -> None:
        """Read to the end, once the JVM has ended."""
        self._close_writer()
        self._thread.join(_DRAIN_SECONDS)

    def _close_writer(self) -> None:
        # While we hold this end open ourselves, the end of the output would never come.
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self, reader: int) -> None:
        with os.fdopen(reader, encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                self._pass_on(line.rstrip("\n"))

    def _pass_on(self, line: str) -> None:
        if self._started.is_set():
            self._receive(line)
            return
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")
