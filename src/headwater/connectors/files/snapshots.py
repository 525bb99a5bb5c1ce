"""Which listing of a static source a batch reads: the rule of `refresh`."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Generic, TypeVar

from headwater.connectors.contract import Unreadable
from headwater.values import Every, EveryBatch, Refresh

Listing = TypeVar("Listing")


@dataclass(frozen=True)
class BatchKey:
    """A batch of a query; Spark's id of the query stays the same when it starts again."""

    query: str
    batch: str


class SnapshotPolicy(Generic[Listing]):
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
        match self._refresh:
            case EveryBatch():
                return self._look(newest)
            case Every(interval) if self._clock() - self._taken_at >= interval.seconds:
                return self._look(newest)
        return newest

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


# Copies of local files as they were at one moment, so that a batch reads what was listed.

_ROUNDS = 100
_WAIT_SECONDS = 0.1
# A file that was written this very moment may not be whole, and a second write within one tick of the file
# system's clock would not be seen.
_SETTLED_NS = 50_000_000
_SETTLING_ROUNDS = 20


@dataclass(frozen=True)
class Seen:
    """A file as it was seen: two that are equal have the same content."""

    path: Path
    size: int
    changed_ns: int
    inode: int

    @classmethod
    def now(cls, path: Path) -> Seen:
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino)

    def is_settled(self, now_ns: int) -> bool:
        # A time in the future is another machine's clock and says nothing.
        return not 0 <= now_ns - self.changed_ns < _SETTLED_NS


@dataclass(frozen=True)
class Snapshot:
    """A folder with the copies, and what they are copies of, by their places inside the folder."""

    folder: Path
    files: Mapping[PurePath, Seen]

    def written_over(self) -> Path | None:
        """A file that was linked and has been written over since: its copy has changed with it."""
        for place, seen in self.files.items():
            # Whoever removes a copy harms the batch that reads it, and nothing here.
            with suppress(FileNotFoundError):
                now = Seen.now(self.folder / place)
                if now.inode == seen.inode and replace(now, path=seen.path) != seen:
                    return seen.path
        return None

    def drop(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def take_snapshot(
    listed: Callable[[], Mapping[PurePath, Path]],
    folder: Path,
    known: Snapshot | None,
    wait: Callable[[float], None] = time.sleep,
    *,
    link: bool = False,
) -> Snapshot:
    """Copy what is listed into a new `folder`; `known` itself, where nothing has changed since.

    Each file is looked at before the first copy and after the last one. When all are as they were, there was
    a moment at which all of them stood there together, and the copies are of that moment. Else, and when one
    is missing, everything is listed again. With `link` files are linked where the file system can: that takes
    no room, and holds as long as a file is replaced by another one and not written over (`written_over`).
    """
    for number in range(_ROUNDS):
        try:
            seen = {place: Seen.now(path) for place, path in listed().items()}
            if number < _SETTLING_ROUNDS and not all(s.is_settled(time.time_ns()) for s in seen.values()):
                wait(_WAIT_SECONDS / 2)
                continue
            if known and dict(known.files) == seen:
                return known
            if _copied(seen, folder, known, link):
                return Snapshot(folder, seen)
        except FileNotFoundError:
            wait(_WAIT_SECONDS)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unreadable(f"its files can't be copied into the run folder ({error})") from error
        shutil.rmtree(folder, ignore_errors=True)
    raise Unreadable("its files are missing, or change faster than they can be copied")


def _copied(seen: Mapping[PurePath, Seen], folder: Path, known: Snapshot | None, link: bool) -> bool:
    """Copy every file; whether all of them are still the same after that."""
    folder.mkdir(parents=True)
    before = {each: known.folder / place for place, each in known.files.items()} if known else {}
    for place, each in seen.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        there = each.path if link else before.get(each)
        if there is not None:
            # What is there already serves again, if the file system has links.
            with suppress(OSError):
                os.link(there, target)
        if not target.exists():
            shutil.copy2(each.path, target)
    return all(Seen.now(each.path) == each for each in seen.values())
