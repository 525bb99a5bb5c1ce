"""How far continuous queries have come, of which Spark's listener tells nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headwater.connectors.upkeep import Moment
from headwater.events import EpochCommitted, Event
from headwater.runtime.track import Track


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
