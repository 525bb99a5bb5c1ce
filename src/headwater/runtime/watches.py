"""Whether queries keep up with their input, where a limit bounds their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headwater.connectors.contract import Moment
from headwater.errors import Problem
from headwater.errors.catalogue.files import BEHIND
from headwater.events import EpochCommitted, Event, QueryWaits
from headwater.events.idle import Idle, idle_inputs
from headwater.runtime.query_state import Track
from headwater.spark.query import Waiting

MANY_FILES = 10
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
        self.is_behind = waiting.files >= (FEW if was else MANY_FILES) * taken
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


# Whether the watermark of a query waits for an input that brings no rows.

MANY_INPUTS = 10


@dataclass
class _Spell:
    """For how long an input has been idle."""

    begun: int
    """The newest batch with rows when it was found."""
    said: bool = False


class IdleWatch:
    """The task that finds idle inputs.

    Who looks at a run sees them at once. They are said only when they have lasted for many batches: inputs
    that take turns are idle for a batch each, and nothing is wrong with them.
    """

    def __init__(
        self,
        track: Callable[[str], Track],
        emit: Callable[[Event], None],
        say: Callable[[Problem], None],
    ) -> None:
        self._track = track
        self._emit = emit
        self._say = say
        self._spells: dict[str, dict[Idle, _Spell]] = {}

    def __call__(self, moment: Moment) -> None:
        for query in sorted(moment.committed):
            track = self._track(query)
            known = track.query.marks()
            if known is not None:
                self._found(track, idle_inputs(track.brought, *known), last=moment.last)

    def _found(self, track: Track, found: tuple[Idle, ...], *, last: bool) -> None:
        if found != track.waits_for:
            track.waits_for = found
            told = tuple(idle.to_json(track.name) for idle in found)
            self._emit(QueryWaits(query=track.name, waits_for=told))
        if not last:
            self._lasted(track, found)

    def _lasted(self, track: Track, found: tuple[Idle, ...]) -> None:
        newest, before = max(track.brought.values(), default=0), self._spells.get(track.name, {})
        self._spells[track.name] = {idle: before.get(idle) or _Spell(newest) for idle in found}
        for idle, spell in self._spells[track.name].items():
            if not spell.said and newest - spell.begun >= MANY_INPUTS:
                spell.said = True
                self._say(idle.problem(track.name))


# How far continuous queries have come, of which Spark's listener tells nothing.


class EpochWatch:
    """The task that looks for epochs committed since the last look; the newest is told, once."""

    def __init__(
        self,
        tracks: Callable[[], Iterable[Track]],
        tell: Callable[[Event], None],
        before: Mapping[str, int] | None = None,
    ) -> None:
        """`before` is the newest epoch or batch of the runs before this one, by query."""
        self._tracks = tracks
        self._tell = tell
        self._before = before or {}

    def __call__(self, moment: Moment) -> None:
        for track in self._tracks():
            if track.query.has_batches or track.ended:
                continue
            known = self._before.get(track.name) if track.epoch is None else track.epoch
            epoch = track.query.epoch()
            if epoch is not None and epoch != known:
                self._tell(EpochCommitted(query=track.name, epoch=epoch))
