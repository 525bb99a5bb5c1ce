"""Copies of local files as they were at one moment, so that a batch reads what was listed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from headwater.connectors.context import Unreadable

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
class Pinned:
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


def pin(
    listed: Callable[[], Mapping[PurePath, Path]],
    folder: Path,
    known: Pinned | None,
    wait: Callable[[float], None] = time.sleep,
    *,
    link: bool = False,
) -> Pinned:
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
                return Pinned(folder, seen)
        except FileNotFoundError:
            wait(_WAIT_SECONDS)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unreadable(f"its files can't be copied into the run folder ({error})") from error
        shutil.rmtree(folder, ignore_errors=True)
    raise Unreadable("its files are missing, or change faster than they can be copied")


def _copied(seen: Mapping[PurePath, Seen], folder: Path, known: Pinned | None, link: bool) -> bool:
    """Copy every file; whether all of them are still the same after that."""
    folder.mkdir(parents=True)
    before = {each: known.folder / place for place, each in known.files.items()} if known else {}
    for place, each in seen.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        there = each.path if link else before.get(each)
        if there is None or not _linked(there, target):
            shutil.copy2(each.path, target)
    return all(Seen.now(each.path) == each for each in seen.values())


def _linked(there: Path, target: Path) -> bool:
    """What is there already serves again; False where the file system has no links."""
    with suppress(OSError):
        os.link(there, target)
        return True
    return False
