"""Clean-up: archives or deletes the files of a source after every query that reads them has committed them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from re import Pattern
from urllib.parse import unquote

from headwater.checkpoint import Checkpoint, LocalStore, SourceFile
from headwater.connectors.contract import QueryCheckpoint, RunTask, Tick
from headwater.connectors.files import errors
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.running import CHECKPOINT_FILE_LOG_INVALID
from headwater.spec import CleanUp
from headwater.spec.paths import glob_spelt_once, local_path, matcher, read_matcher, split_fixed

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass
class _Log:
    """The files that one source of a query has read and that still exist."""

    newest: int = -1
    committed: int = -1
    files: dict[Path, SourceFile] = field(default_factory=dict)

    @property
    def finished(self) -> set[Path]:
        """The files of committed batches."""
        return {file for file in self.files if self.has_committed(file)}

    def has_committed(self, file: Path) -> bool:
        return file in self.files and self.files[file].batch_id <= self.committed


class _Query:
    """The progress of one query in the files of each of its sources."""

    def __init__(self, reader: QueryCheckpoint) -> None:
        self.name = reader.query
        self.places = {source: glob_spelt_once(place) for source, place in enumerate(reader.places) if place}
        self._checkpoint = Checkpoint(LocalStore(reader.checkpoint))
        self._patterns = {source: matcher(place) for source, place in self.places.items()}
        self._logs: dict[int, _Log] = {}

    def look(self) -> None:
        """Read what was committed since the last call."""
        # Read the commit first, so files that are read in the meantime do not count as committed.
        commit = self._checkpoint.last_commit
        planned = self._checkpoint.offset(commit.batch_id) if commit else None
        for source in self._checkpoint.sources():
            log = self._logs.setdefault(source, _Log())
            self._take_in(source, log)
            reached = planned.sources.get(str(source)) if planned else None
            log.committed = reached.get("logOffset", -1) if isinstance(reached, dict) else -1

    def has_committed(self, file: Path) -> bool:
        """Whether all of its sources that read this path have the file in a committed batch."""
        reading = (source for source, pattern in self._patterns.items() if pattern.fullmatch(str(file)))
        return all(source in self._logs and self._logs[source].has_committed(file) for source in reading)

    @property
    def finished(self) -> set[Path]:
        """The files that any of its sources has processed."""
        return {file for log in self._logs.values() for file in log.finished}

    def read_at(self, file: Path) -> int:
        """The modification time of the file when this query last read it."""
        return max(
            (log.files[file].timestamp_ms for log in self._logs.values() if file in log.files), default=0
        )

    def forget(self, file: Path) -> None:
        for log in self._logs.values():
            log.files.pop(file, None)

    def _take_in(self, source: int, log: _Log) -> None:
        try:
            files = self._checkpoint.source_files(source, log.newest)
        except CheckpointError as error:
            if any(problem.code != CHECKPOINT_FILE_LOG_INVALID.code for problem in error.problems):
                raise
            return
        # The log can be long, while most of its files no longer exist.
        folders: dict[str, Path | None] = {}
        for entry in files:
            log.newest = entry.batch_id
            place, _, name = entry.path.rpartition("/")
            if place not in folders:
                # A file has one name, regardless of symlinks to its directory.
                folder = local_path(f"{place}/")
                folders[place] = folder.resolve() if folder else None
            folder = folders[place]
            if folder is not None and os.path.exists(file := os.path.join(folder, unquote(name))):
                log.files[Path(file)] = entry


class FinishedFiles(RunTask):
    """The task of one source. A file is removed after every query that reads it has committed it.

        sources/S/L    lists the file: source S of a query read it in its own batch L
        offsets/N      contains {"logOffset":M} for source S: batch N of the query reads up to its batch M
        commits/N      means that batch N is committed

    With L ≤ M and N committed, no start reads the file again. If that is not true for every query, the file
    stays. Nothing is recorded: after a kill, the next tick finds the remaining files. Spark does not read a
    name twice, so an overwritten file stays, because its new content was never read.
    """

    def __init__(
        self,
        name: str,
        clean_up: CleanUp,
        folder: Path,
        places: Iterable[str],
        readers: Iterable[QueryCheckpoint],
        *,
        deep: bool = False,
    ) -> None:
        self._name, self._clean_up, self._folder = name, clean_up, folder
        """Paths in the archive are relative to this directory."""
        self._patterns: dict[str, Pattern[str]] = {}
        self._spelled: dict[Path, Path] = {}
        """The directories that it reads, with symlinks resolved, each with the path as the user wrote it."""
        for place in places:
            real = glob_spelt_once(place)
            # Spark also lists the files of ignored directories; they were never read, so they stay.
            self._patterns[real] = matcher(real) if deep else read_matcher(real)
            self._spelled[Path(split_fixed(real)[0] or "/")] = Path(split_fixed(place)[0] or "/")
        self._queries = [_Query(reader) for reader in readers]

    def tick(self, tick: Tick) -> None:
        # A run that was forced to stop may have lost its lock: the next start does the work.
        if (tick.last and not tick.healthy) or not tick.committed:
            return
        for query in self._queries:
            query.look()
        problems = [problem for file in self._finished() for problem in self._remove(file)]
        if problems:
            raise CheckpointError.of(problems)

    def _finished(self) -> list[Path]:
        mine = [query.finished for query in self._queries if self._patterns.keys() & query.places.values()]
        # One query may be far ahead of another; the slowest one has the shortest list.
        slowest = min(mine, key=len, default=set())
        return sorted(
            file
            for file in slowest
            if any(pattern.fullmatch(str(file)) for pattern in self._patterns.values())
            and all(query.has_committed(file) for query in self._queries)
        )

    def _remove(self, file: Path) -> Iterator[Problem]:
        try:
            # It must be unchanged since the last query read it.
            read = max(query.read_at(file) for query in self._queries)
            if file.stat().st_mtime_ns // 1_000_000 != read:
                yield errors.CLEAN_UP_FILE_CHANGED.at(None, name=self._name, file=str(file))
                return
            self._put_away(file)
        except FileNotFoundError:
            # Another process removed it, or a kill interrupted an earlier removal.
            pass
        except OSError as error:
            says, done = error.strerror or str(error), self._clean_up.done
            yield errors.CLEAN_UP_FAILED.at(None, name=self._name, done=done, says=says, file=str(file))
            return
        for query in self._queries:
            query.forget(file)

    def _put_away(self, file: Path) -> None:
        if self._clean_up.archive_dir:
            move(file, Path(self._clean_up.archive_dir) / self._inside(file))
        else:
            file.unlink()
        # Otherwise Hadoop would apply the checksum of the removed file to a new file with its name.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def _inside(self, file: Path) -> Path:
        """Its path in the archive."""
        real = max((each for each in self._spelled if file.is_relative_to(each)), key=lambda e: len(e.parts))
        spelled = self._spelled[real] / file.relative_to(real)
        return spelled.relative_to(self._folder) if spelled != self._folder else Path(file.name)


def move(file: Path, target: Path) -> None:
    """Move a file without replacing another one: if the name exists, a number is added.

    It creates a link and then removes the old name. After a kill in between, the file has both names, and the
    next call detects that.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    numbered = (target.with_name(f"{target.stem}.{number}{target.suffix}") for number in count(2))
    for free in chain([target], numbered):
        try:
            _name_too(file, free)
        except FileExistsError:
            if not free.samefile(file):
                continue
        file.unlink(missing_ok=True)
        return


def _name_too(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            raise FileExistsError from error
        file.rename(target)
