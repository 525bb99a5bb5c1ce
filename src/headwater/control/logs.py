"""The log files of a run: their last lines, and the lines that are added."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_TAIL_BYTES = 1_000_000
_POLL_SECONDS = 0.2


class LogLine(NamedTuple):
    """A line with the name of its file."""

    file: str
    line: str


def follow(files: Sequence[Path], count: int, stop: threading.Event) -> Iterator[LogLine]:
    """The last lines of each file, then every line that is added until `stop` is set.

    A file that does not exist has no lines yet.
    """
    followers = [_Follower(file) for file in files]
    for follower in followers:
        lines = list(follower.lines(from_end=_TAIL_BYTES))
        yield from (LogLine(follower.file.name, line) for line in (lines[-count:] if count else []))
    while True:
        # Read once more after the stop, so that no line from before it is missing.
        stopped = stop.wait(_POLL_SECONDS)
        for follower in followers:
            yield from (LogLine(follower.file.name, line) for line in follower.lines())
        if stopped:
            return


class _Follower:
    """Reads a file from where it stopped; a file that was replaced or truncated is read from its start."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._identity: tuple[int, int] | None = None
        self._offset = 0

    def lines(self, from_end: int | None = None) -> Iterator[str]:
        """The complete lines that were added; at first, those of the last `from_end` bytes."""
        try:
            with self.file.open("rb") as stream:
                status = os.fstat(stream.fileno())
                identity = (status.st_dev, status.st_ino)
                if identity != self._identity or status.st_size < self._offset:
                    self._identity, self._offset = identity, 0
                    if from_end is not None and status.st_size > from_end:
                        stream.seek(status.st_size - from_end)
                        stream.readline()
                        self._offset = stream.tell()
                stream.seek(self._offset)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    yield line.decode(errors="replace").rstrip("\r\n")
        except FileNotFoundError:
            return
