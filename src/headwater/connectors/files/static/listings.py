"""Which listing of a static source a batch reads: the rule of `refresh`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.values import Every, EveryBatch, Refresh

Listing = TypeVar("Listing")


@dataclass(frozen=True)
class BatchKey:
    """A batch of a query; Spark's id of the query stays the same when it starts again."""

    query: str
    batch: str


class Listings(Generic[Listing]):
    """Gives every batch one listing, taken at its start.

    - `start` takes the first listing, before any query starts.
    - The first question of a batch binds it: by `refresh` to a new listing or to the newest there is. All its
      other questions get the same one, however many scans ask, and on whichever thread.
    - A query's next batch begins when the last one is over, and unbinds it. A listing that is not the newest
      and that no batch is bound to is dropped.
    - `again` says that a query's batch has failed over its listing and will run again: it is unbound, and
      whoever asks next takes a new listing that owes nothing to the one before.

    `take` gets the newest listing and gives it back where nothing has changed; without one it starts afresh.
    `holds` says whether what a listing names is still what it was; if not, no batch begins with it.
    """

    def __init__(
        self,
        refresh: Refresh,
        take: Callable[[Listing | None], Listing],
        drop: Callable[[Listing], None],
        clock: Callable[[], float],
        holds: Callable[[Listing], bool] = lambda listing: True,
    ) -> None:
        self._refresh = refresh
        self._take = take
        self._drop = drop
        self._clock = clock
        self._holds = holds
        self._turn = threading.RLock()
        self._bound: dict[str, tuple[str, Listing]] = {}
        self._alive: list[Listing] = []
        """Every listing that was not dropped, the newest last."""
        self._taken_at = 0.0
        self._distrusted = False

    @property
    def newest(self) -> Listing | None:
        return self._alive[-1] if self._alive else None

    def start(self) -> None:
        """Take the first listing."""
        with self._turn:
            self._look(None)

    def of(self, key: BatchKey | None) -> Listing | None:
        """The listing of a batch; outside of batches the newest, and None before the start."""
        with self._turn:
            if key is None or not self._alive:
                return self.newest
            batch, listing = self._bound.get(key.query, (None, self._alive[-1]))
            if batch != key.batch:
                listing = self._next()
                self._bound[key.query] = (key.batch, listing)
                self._drop_unused()
            return listing

    def bound_to(self, query: str) -> Listing | None:
        """The listing of the last batch of a query."""
        with self._turn:
            return self._bound[query][1] if query in self._bound else None

    def again(self, query: str) -> None:
        """Unbind the batch of a query, and trust the newest listing no more."""
        with self._turn:
            self._bound.pop(query, None)
            self._distrusted = True

    def close(self) -> None:
        """Drop every listing."""
        with self._turn:
            self._bound.clear()
            for listing in self._alive:
                self._drop(listing)
            self._alive.clear()

    def _next(self) -> Listing:
        """The listing for a batch that begins now."""
        newest = self._alive[-1]
        if self._distrusted or not self._holds(newest):
            return self._look(None)
        return self._look(newest) if self._is_due() else newest

    def _is_due(self) -> bool:
        match self._refresh:
            case EveryBatch():
                return True
            case Every(interval):
                return self._clock() - self._taken_at >= interval.seconds
            case _:
                return False

    def _look(self, known: Listing | None) -> Listing:
        # The age of a listing counts from before it was taken: what changes meanwhile may be missing in it.
        now = self._clock()
        listing = self._take(known)
        self._taken_at, self._distrusted = now, False
        if listing is not known:
            self._alive.append(listing)
        return listing

    def _drop_unused(self) -> None:
        used = [listing for _, listing in self._bound.values()] + self._alive[-1:]
        for listing in [each for each in self._alive if not any(each is other for other in used)]:
            self._alive.remove(listing)
            self._drop(listing)
