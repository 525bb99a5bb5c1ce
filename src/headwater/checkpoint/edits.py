"""The only way in which Headwater changes a checkpoint, or the log of a sink.

An edit is data: the files that change, each with its bytes before and after. The caller holds the lock.

1. All old files are in the backup before the first byte changes.
2. The files are changed in the order of the edit. A checksum is deleted before its file changes: Spark does
   not require a checksum, but treats a wrong one as damage.
3. The file that triggers the edit comes last, so a start after a kill at any point completes the work.
   Applying an edit twice has the same result.

If a half-changed checkpoint would be misread in any order, the edit creates a new one next to the old one:

    checkpoints/orders.next/    in progress; without `complete` it is worthless and recreated
    checkpoints/orders/         moved to the backup, then `orders.next` gets its name

A crash between the last two steps leaves no `orders/`; the next start finds the complete `orders.next` and
completes the work. The old checkpoint never changes; unchanged files are linked, not copied. The new one is
fully on disk before `complete` is, and `complete` before anything is moved: even a power failure leaves one
of the two intact.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwater.checkpoint.file_logs import DamagedFileError, content
from headwater.checkpoint.store import LocalStore, Store, sync_folder
from headwater.errors import CheckpointError
from headwater.errors.catalogue.running import CHECKPOINT_UPDATE_FAILED

_COMPLETE = "complete"


@dataclass(frozen=True)
class FileChange:
    """One file; None means that the file does not exist."""

    name: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class TreeMove:
    """A file or directory of any size whose content is never read: it is renamed or deleted."""

    name: str
    to: str | None = None


@dataclass(frozen=True)
class CheckpointEdit:
    """The changes, in order."""

    changes: tuple[FileChange, ...] = ()
    moves: tuple[TreeMove, ...] = ()

    @classmethod
    def of(cls, store: Store, after: Mapping[str, bytes | None]) -> CheckpointEdit:
        """These files get these bytes, or are deleted; files that are up to date are left alone."""
        changes: list[FileChange] = []
        for name, new in after.items():
            old, checksum = content(store, name), checksum_of(name)
            sum_before = content(store, checksum)
            if sum_before is not None and (old != new or new is None):
                changes.append(FileChange(checksum, sum_before, None))
            if old != new:
                changes.append(FileChange(name, old, new))
        return cls(tuple(changes))

    def __bool__(self) -> bool:
        return bool(self.changes or self.moves)

    def apply(self, store: Store, backup: Store | None = None) -> None:
        """Change the files one after another. Moved trees are not backed up, so they can only be deleted."""
        if backup is not None:
            self._keep(backup)
        for change in self.changes:
            _put(store, change.name, change.after)
        for move in self.moves:
            assert move.to is None, "only `swap` gives names"
            store.delete_tree(move.name)

    def _keep(self, backup: Store) -> None:
        for change in self.changes:
            # An earlier edit may have backed it up already, as it was before both.
            if change.before is not None and not backup.exists(change.name):
                backup.make_folder(change.name.rpartition("/")[0])
                backup.replace(change.name, change.before)

    def swap(self, checkpoint: Path, backup: Path) -> None:
        """Create a new checkpoint, move the old one to `backup`, and give its name to the new one."""
        following = following_of(checkpoint)
        if following.exists():
            shutil.rmtree(following)
        names = [_COMPLETE, *(each.name for each in self.changes), *(each.name for each in self.moves)]
        left_out = {str(checkpoint / name) for name in names}
        shutil.copytree(checkpoint, following, copy_function=_linked, ignore=partial(_among, left_out))
        made = LocalStore(following)
        for change in self.changes:
            _put(made, change.name, change.after)
        for move in self.moves:
            if move.to is not None:
                shutil.copytree(checkpoint / move.name, following / move.to, copy_function=_linked)
        for folder, _, _ in os.walk(following):
            sync_folder(Path(folder))
        made.replace(_COMPLETE, b"")
        backup.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.rename(backup)
        sync_folder(backup.parent)
        finish_swap(checkpoint)


def finish_swap(checkpoint: Path) -> None:
    """Complete what a crash interrupted: rename a complete new checkpoint after the old one was moved."""
    following = following_of(checkpoint)
    if not checkpoint.exists() and (following / _COMPLETE).exists():
        following.rename(checkpoint)
        sync_folder(checkpoint.parent)
    LocalStore(checkpoint).delete(_COMPLETE)


def following_of(checkpoint: Path) -> Path:
    """The directory in which the replacement of a checkpoint is created."""
    return checkpoint.with_name(f"{checkpoint.name}.next")


def checksum_of(name: str) -> str:
    """Where Hadoop stores the checksum of a file."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


@contextmanager
def edit_errors(store: Store) -> Iterator[None]:
    """Turn failures of an edit into an error of the catalogue."""
    try:
        yield
    except (OSError, DamagedFileError, ValueError, IndexError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        place = getattr(failure, "filename", None) or store.locate("offsets")
        problem = CHECKPOINT_UPDATE_FAILED.at(directory=place, reason=reason)
        raise CheckpointError(problem) from failure


def _put(store: Store, name: str, data: bytes | None) -> None:
    if data is None:
        store.delete(name)
    else:
        store.replace(name, data)


def _among(paths: Container[str], folder: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.join(folder, name) in paths]


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
        with open(target, "rb") as copied:
            os.fsync(copied.fileno())
