"""Which listing of a static source a batch reads, according to `refresh`."""

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
    """A batch of a query; Spark's ID of the query stays the same after a restart."""

    query: str
    batch: str


class SnapshotPolicy(Generic[Listing]):
    """Gives every batch one listing, taken at its start.

    - `start` takes the first listing, before any query starts.
    - The first request of a batch binds it: depending on `refresh`, to a new listing or to the newest one. All
      other requests of the batch get the same listing, regardless of the number of scans and the thread.
    - The next batch of a query unbinds the previous one. A listing that is not the newest and not bound to a
      batch is dropped.
    - `again` means that a batch failed because of its listing and is retried: it is unbound, and the next
      request takes a new listing from scratch.

    `take` receives the newest listing and returns it if nothing has changed; without one, it starts from
    scratch. `holds` checks whether the files of a listing are unchanged; if not, no batch starts with it.
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
        """All listings that were not dropped, the newest last."""
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
        """The listing of a batch; outside of batches, the newest one, and None before the start."""
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
        """Unbind the batch of a query, and stop using the newest listing."""
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
        """The listing for a batch that starts now."""
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
        # The age of a listing counts from before it was taken: changes in the meantime may be missing.
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


# Copies of local files at one point in time, so a batch reads what was listed.

_ROUNDS = 100
_WAIT_SECONDS = 0.1
# A file that was just written may be incomplete, and a second write within one tick of the file system clock
# would be missed.
_SETTLED_NS = 50_000_000
_SETTLING_ROUNDS = 20


@dataclass(frozen=True)
class Seen:
    """The state of a file; equal states mean equal content."""

    path: Path
    size: int
    changed_ns: int
    inode: int

    @classmethod
    def now(cls, path: Path) -> Seen:
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino)

    def is_settled(self, now_ns: int) -> bool:
        # A time in the future comes from the clock of another machine and means nothing.
        return not 0 <= now_ns - self.changed_ns < _SETTLED_NS


@dataclass(frozen=True)
class Snapshot:
    """A directory with the copies, and the originals by their paths inside the directory."""

    folder: Path
    files: Mapping[PurePath, Seen]

    def written_over(self) -> Path | None:
        """A hard-linked file that was overwritten since: its copy changed with it."""
        for place, seen in self.files.items():
            # A removed copy affects only the batch that reads it.
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
    """Copy the listed files into a new `folder`; returns `known` if nothing has changed.

    Each file is checked before the first copy and after the last one. If all are unchanged, they existed
    together at one point in time, and the copies are of that time. Otherwise, or if a file is missing, the
    files are listed again. With `link`, files are hard-linked if the file system supports it. That uses no
    space, and is safe as long as files are replaced and not overwritten (`written_over`).
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
            raise Unreadable(f"could not copy its files to the run directory ({error})") from error
        shutil.rmtree(folder, ignore_errors=True)
    raise Unreadable("its files are missing, or change too fast to be copied")


def _copied(seen: Mapping[PurePath, Seen], folder: Path, known: Snapshot | None, link: bool) -> bool:
    """Copy every file; returns whether all of them are still unchanged afterwards."""
    folder.mkdir(parents=True)
    before = {each: known.folder / place for place, each in known.files.items()} if known else {}
    for place, each in seen.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        there = each.path if link else before.get(each)
        if there is not None:
            # Reuse an existing copy, if the file system supports links.
            with suppress(OSError):
                os.link(there, target)
        if not target.exists():
            shutil.copy2(each.path, target)
    return all(Seen.now(each.path) == each for each in seen.values())
