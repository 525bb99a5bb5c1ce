"""Which small files become larger ones, and the record by which a kill at any point is put right."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headwater.checkpoint import LocalStore
from headwater.connectors.files.sink_folder import KEPT

VERSION = 1
RECORD = f"{KEPT}/compaction.json"
STAGING = f"{KEPT}/compacting"
_AT_ONCE = 32


@dataclass(frozen=True)
class Rewritten:
    """Files of one folder, by their names in the sink's folder, and the new files that hold the same rows."""

    files: tuple[str, ...]
    staged: tuple[Path, ...]


def small_files(sizes: Mapping[str, int], after: int, to: int) -> list[tuple[str, ...]]:
    """Files that are to become one, each group of one folder and about as large as `to`.

    A file of half that size is large enough; a folder with fewer than `after` small ones is left alone.
    So much is chosen as is done in one go.
    """
    folders: dict[str, list[str]] = {}
    for name, size in sizes.items():
        if size < to / 2:
            folders.setdefault(os.path.dirname(name), []).append(name)
    crowded = [names for names in folders.values() if len(names) >= after]
    groups = (group for names in crowded for group in _filled(names, sizes, to))
    return [group for group, _ in zip(groups, range(_AT_ONCE), strict=False)]


def _filled(names: Iterable[str], sizes: Mapping[str, int], to: int) -> Iterator[tuple[str, ...]]:
    group: list[str] = []
    room = to
    for name in names:
        if sizes[name] > room:
            yield from [tuple(group)] if len(group) > 1 else []
            group, room = [], to
        group.append(name)
        room -= sizes[name]
    yield from [tuple(group)] if len(group) > 1 else []


@dataclass(frozen=True)
class Pass:
    """One exchange of files: those that went, those that came."""

    replaced: tuple[str, ...]
    written: tuple[str, ...]
    planned: int | None = None
    """The newest batch that was planned when the log had been changed; None before that."""
    at: float = 0.0
    """When the log was changed, in seconds since 1970."""

    @property
    def files(self) -> frozenset[str]:
        return frozenset((*self.replaced, *self.written))


class Record:
    """The exchanges whose files are not tidied up yet: `_headwater/compaction.json` in the sink's folder.

    The order is: stage the new files under `_headwater/`; note the exchange; move the new files to their
    places; exchange them in Spark's log; note that; much later delete the old files. Until the log is changed
    no reader knows the new files, and after it none that begins knows the old ones. So after a kill the log
    alone decides: what is noted here and not in the log can go, unless a reader may still be at it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = LocalStore(folder)

    @property
    def passes(self) -> tuple[Pass, ...]:
        try:
            noted = json.loads(self._store.read(RECORD))
        except FileNotFoundError:
            return ()
        if noted["version"] != VERSION:
            raise ValueError(f"{self._store.locate(RECORD)} is of version {noted['version']}")
        return tuple(_pass(each) for each in noted["passes"])

    def note(self, *passes: Pass) -> None:
        """Replace what is noted."""
        if passes:
            (self.folder / KEPT).mkdir(exist_ok=True)
            text = json.dumps({"version": VERSION, "passes": [asdict(each) for each in passes]})
            self._store.replace(RECORD, text.encode() + b"\n")
        else:
            self._store.delete(RECORD)

    def drop(self, one: Pass, others: Iterable[Pass]) -> None:
        """An exchange did not come about: no reader has ever heard of its new files."""
        self._delete(one.written)
        self.note(*others)

    def recover(self, listed: Collection[str], planned: int, now: float) -> None:
        """Put right what a kill left, before anything new is begun."""
        shutil.rmtree(self.folder / STAGING, ignore_errors=True)
        noted = self.passes
        kept = []
        for each in noted:
            if each.planned is not None:
                kept.append(each)
            elif set(each.written) <= set(listed):
                kept.append(replace(each, planned=planned, at=now))
            else:
                # The log was not changed: no reader has ever heard of these.
                self._delete(each.written)
        if tuple(kept) != noted:
            self.note(*kept)

    def tidy(self, listed: Collection[str], committed: int, now: float, keep: float) -> None:
        """Delete the files that the log does not list any more and no reader reads.

        While a batch that was planned before the exchange goes on, it may bring the old files back into the
        log (see `exchange`); when it has committed, what the log says is final. A clock that was set back
        only lets files stay longer.
        """
        noted = self.passes
        over = [
            each
            for each in noted
            if each.planned is not None and each.planned <= committed and each.at + keep <= now
        ]
        if not over:
            return
        rest = [each for each in noted if each not in over]
        used = set(listed).union(*(each.files for each in rest))
        self._delete(name for each in over for name in sorted(each.files - used))
        self.note(*rest)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            file = self.folder / name
            file.unlink(missing_ok=True)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _pass(noted: Mapping[str, object]) -> Pass:
    read = Pass(**noted)  # type: ignore[arg-type]
    return replace(read, replaced=tuple(read.replaced), written=tuple(read.written))
