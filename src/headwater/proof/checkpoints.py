"""The logs of a killed run: how far each query was, and the one edit that a crash can also leave behind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headwater.checkpoint import Checkpoint, LocalStore


@dataclass(frozen=True)
class Progress:
    """How far a query is: the newest batch that is planned, and the newest that is committed; -1 for none."""

    planned: int = -1
    committed: int = -1

    @property
    def unfinished(self) -> bool:
        return self.planned > self.committed


@dataclass(frozen=True)
class QueryLog:
    """The logs of one query. They are read by names only, so often that nothing is missed."""

    checkpoint: Path

    @property
    def progress(self) -> Progress:
        return Progress(self._newest("offsets"), self._newest("commits"))

    @property
    def planned(self) -> int:
        return self._newest("offsets")

    @property
    def committed(self) -> int:
        return self._newest("commits")

    def _newest(self, log: str) -> int:
        try:
            names = os.listdir(self.checkpoint / log)
        except OSError:
            return -1
        return max((int(name) for name in names if name.isdigit()), default=-1)

    @property
    def has_state(self) -> bool:
        """Whether the query stores state between batches."""
        return (self.checkpoint / "state").is_dir()

    @property
    def watermark_ms(self) -> int:
        """The newest watermark; 0 if there is none."""
        newest = Checkpoint(LocalStore(self.checkpoint)).last_offset
        return (newest.watermark_ms or 0) if newest else 0

    def forget_commit(self, batch: int) -> None:
        """What a crash between the commits of the sink and of Spark leaves behind."""
        self._remove("commits", batch)

    def forget_plan(self, batch: int) -> None:
        """What a crash just before `offsets/N` leaves behind. No sink may have a part of the batch."""
        self._remove("offsets", batch)

    def _remove(self, log: str, batch: int) -> None:
        # A checksum without its file has no effect, and a file with a wrong one cannot be read: remove it first.
        for name in (f".{batch}.crc", str(batch)):
            (self.checkpoint / log / name).unlink(missing_ok=True)

    def durations(self) -> list[float]:
        """How long each batch took, in seconds."""
        found = []
        for batch in range(self.committed + 1):
            try:
                times = [
                    (self.checkpoint / log / str(batch)).stat().st_mtime for log in ("offsets", "commits")
                ]
            except OSError:
                continue
            found.append(max(0.0, times[1] - times[0]))
        return found
