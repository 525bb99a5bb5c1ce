"""What comes from Spark's listener: each batch once, in order, and none left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from headwater.errors import Problem
from headwater.errors.catalogue.running import EVENT_NOT_HANDLED, PROGRESS_LOST, PROGRESS_NOT_READ
from headwater.events import Event, QueryProgress, Said
from headwater.runtime.track import Track
from headwater.values import scrub


class Listener(Protocol):
    """What brings the events of the queries."""

    def drain(self, seconds: float) -> bool:
        """Wait until all that has happened so far is handled; False if that takes longer."""

    def close(self) -> None:
        """Bring no more."""


def in_order(tracks: Mapping[str, Track], event: Event) -> Iterator[Event]:
    """An event after the batches before it that did not arrive; nothing if its batch was taken in before."""
    if not isinstance(event, QueryProgress):
        yield event
        return
    track = tracks.get(event.query)
    # A query that is not known yet is caught up with as soon as it is. One that ended has its final counts.
    if track is None or track.ended or event.batch_id <= track.newest:
        return
    gap = event.batch_id - track.newest - 1
    if gap:
        before = [each for each in track.query.progress_after(track.newest) if each.batch_id < event.batch_id]
        if len(before) < gap:
            yield _said(PROGRESS_LOST.at(None, sink=track.name, lost=gap - len(before)))
        yield from before
    yield event


def missed(tracks: Mapping[str, Track]) -> Iterator[Event]:
    """Batches that were committed and whose events have not arrived."""
    for track in list(tracks.values()):
        if track.query.has_batches and not track.ended:
            for event in track.query.progress_after(track.newest):
                yield from in_order(tracks, event)


def not_read(name: str, seconds: float) -> Said:
    """A query has ended before its last events were handled."""
    return _said(PROGRESS_NOT_READ.at(None, sink=name, limit=f"{seconds:g} s"))


def not_handled(error: Exception) -> Said:
    """What went wrong with an event; those after it are handled all the same."""
    says = f"{type(error).__name__}: {error}".splitlines()[0]
    return _said(EVENT_NOT_HANDLED.at(None, says=scrub(says)))


def _said(problem: Problem) -> Said:
    return Said(text=f"{problem.code} {problem.sentence} {problem.remedy}")
