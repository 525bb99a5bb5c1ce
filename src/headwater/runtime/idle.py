"""Whether the watermark of a query waits for an input that brings no rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.connectors.upkeep import Moment
from headwater.errors import Problem
from headwater.events import Event, QueryWaits
from headwater.events.idle import Idle, idle_inputs
from headwater.runtime.track import Track

MANY = 10


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
            if not spell.said and newest - spell.begun >= MANY:
                spell.said = True
                self._say(idle.problem(track.name))
