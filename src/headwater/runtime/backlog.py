"""Whether queries keep up with their input, where a limit bounds their batches."""

from __future__ import annotations

from collections.abc import Callable

from headwater.connectors.upkeep import Moment
from headwater.engine.query import Waiting
from headwater.errors import Problem
from headwater.errors.catalogue.files_source import BEHIND

MANY = 10
FEW = 2


class Backlog:
    """What waits for one source of one query.

    It is behind when many batches' worth of files wait, and has caught up when few do: between the two it
    stays what it was, so that a number that goes up and down is told once.
    """

    def __init__(self) -> None:
        self.is_behind = False
        self._before: int | None = None

    def falls_behind(self, waiting: Waiting) -> int | None:
        """How many files a batch takes, if the source fell behind just now."""
        before, self._before = self._before, waiting.files
        taken = waiting.at_most or (before - waiting.files if before is not None else 0)
        if taken <= 0:
            return None
        was = self.is_behind
        self.is_behind = waiting.files >= (FEW if was else MANY) * taken
        return taken if self.is_behind and not was else None


class BacklogWatch:
    """The task that tells when a query falls behind."""

    def __init__(self, waiting: Callable[[str], tuple[Waiting, ...]], say: Callable[[Problem], None]) -> None:
        self._waiting = waiting
        self._say = say
        self._backlogs: dict[tuple[str, int], Backlog] = {}

    def __call__(self, moment: Moment) -> None:
        for query in sorted(moment.committed) if not moment.last else ():
            for number, waiting in enumerate(self._waiting(query)):
                taken = self._backlogs.setdefault((query, number), Backlog()).falls_behind(waiting)
                if taken:
                    self._say(_behind(query, waiting, taken))


def _behind(query: str, waiting: Waiting, taken: int) -> Problem:
    limit = "max_files_per_batch" if waiting.at_most else "max_bytes_per_batch"
    return BEHIND.at(None, sink=query, waiting=waiting.files, path=waiting.path, taken=taken, limit=limit)
