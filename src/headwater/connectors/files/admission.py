"""Checks new files between batches; the task of one path."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from headwater.checkpoint import SINK_LOG, LocalStore
from headwater.checkpoint.store import Note
from headwater.connectors.contract import Pending, QueryCheckpoint, Reason, RunStart, RunTask, Tick
from headwater.connectors.files import errors
from headwater.connectors.files.folders import files_at, paths_at
from headwater.connectors.files.validity import address_of, encoded_path
from headwater.errors import CheckpointError, Problem
from headwater.run_directory import may_be_admitted
from headwater.spec.paths import matches_name, plain_path

# The admitted and rejected files of a path, and the list of both that Spark reads.
#
# validated_files/<source>/<path>/files.json         the result for each file, with its size and time
# validated_files/<source>/<path>/place              the path of the files, as a pattern
# validated_files/<source>/<path>/rejected/<name>    a placeholder for an unreadable file, with the reason
# validated_files/<source>/<path>/_spark_metadata/0  the list of both, in the format of Spark's file sink
#
# Spark reads a directory with such a list only by the list, whose entries can be anywhere. So a query reads the
# admitted files and, once and in its own order, the placeholders of the others. The order of writes is
# placeholder, record, list. The list is recreated from the record at each start, which repairs it after a kill.

_BLOCK = 32 << 20
_PLACE = "place"


def place_of(read: str) -> str:
    """What a query actually reads: the path behind a list of validated files, or the path itself."""
    try:
        return (
            (Path(plain_path(read)) / _PLACE).read_text(encoding="utf-8") if may_be_admitted(read) else read
        )
    except (FileNotFoundError, NotADirectoryError):
        return read


def rejected_files(folder: Path) -> dict[str, str]:
    """The files that are currently rejected, each with its placeholder."""
    record = AdmissionRecord(folder, "")
    record.read()
    return {path: each.stands_in for path, each in record.files.items() if each.stands_in}


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size and time of a file when it was checked."""

    size: int
    modified_ms: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileStamp:
        return cls(stat.st_size, stat.st_mtime_ns // 1_000_000)

    def to_json(self) -> dict[str, int]:
        return {"size": self.size, "modified_ms": self.modified_ms}


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The result for a file; `stands_in` is the path of its placeholder."""

    stamp: FileStamp
    stands_in: str = ""


class _Texts(NamedTuple):
    """A file in the record and in the list for Spark, formatted once: both can have many files."""

    of: FileRecord
    noted: str
    line: str
    """Empty for a rejected file."""

    @classmethod
    def format(cls, path: str, of: FileRecord) -> _Texts:
        noted = {path: {"stamp": of.stamp.to_json(), "stands_in": of.stands_in}}
        return cls(of, json.dumps(noted)[1:-1], "" if of.stands_in else _line(path, of.stamp))


@dataclass(frozen=True)
class _Noted:
    """The content of `files.json`."""

    files: dict[str, FileRecord]
    stand_ins: dict[str, FileStamp]


class AdmissionRecord:
    """The record of one path."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder = folder
        self.place = place
        self._store = LocalStore(folder)
        self._note = Note(self._store, "files.json", _Noted)
        self.files: dict[str, FileRecord] = {}
        self.stand_ins: dict[str, FileStamp] = {}
        """All placeholders ever written; they stay in the list after their file was fixed or removed."""
        self._texts: dict[str, _Texts] = {}

    @property
    def rejected(self) -> Path:
        return self.folder / "rejected"

    def begin(self) -> None:
        """Store the path, which is needed before the first file is checked."""
        (self.folder / SINK_LOG).mkdir(parents=True, exist_ok=True)
        self._store.replace(_PLACE, self.place.encode())

    def read(self) -> None:
        """Read the results of an earlier run."""
        noted = self._note.read()
        if noted is not None:
            self.files, self.stand_ins = noted.files, noted.stand_ins

    def write(self) -> None:
        """Store the results, then the list for Spark; `begin` has created the directories."""
        before, self._texts = self._texts, {}
        for path, each in self.files.items():
            texts = before.get(path)
            self._texts[path] = texts if texts and texts.of is each else _Texts.format(path, each)
        noted = ", ".join(each.noted for each in self._texts.values())
        stand_ins = json.dumps({path: stamp.to_json() for path, stamp in self.stand_ins.items()})
        text = f'{{"version": {self._note.version}, "files": {{{noted}}}, "stand_ins": {stand_ins}}}\n'
        self._store.replace(self._note.name, text.encode())
        lines = [each.line for each in self._texts.values() if each.line]
        lines += [_line(path, stamp) for path, stamp in self.stand_ins.items()]
        self._store.replace(f"{SINK_LOG}/0", "\n".join(["v1", *lines]).encode())

    def name_for(self, path: str, stamp: FileStamp) -> str:
        """The name of the placeholder for the current version of a file."""
        text = f"{path}\n{stamp.size}\n{stamp.modified_ms}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@lru_cache(maxsize=64)
def _address(folder: str) -> str:
    return address_of(Path(folder))


def _line(path: str, stamp: FileStamp) -> str:
    folder, name = os.path.split(path)
    entry = {
        "path": f"{_address(folder)}/{encoded_path(name)}",
        "size": stamp.size,
        "isDir": False,
        # Spark uses the times of files: it reads the oldest first, and forgets very old ones.
        "modificationTime": stamp.modified_ms,
        "blockReplication": 1,
        "blockSize": _BLOCK,
        "action": "add",
    }
    return json.dumps(entry, separators=(",", ":"))


SETTLED_SECONDS = 5.0
"""An unreadable file that changed less than this ago may still be being written."""
START_SECONDS = 30.0
"""How long a start waits for files that may be being written, and the end of a run for any file."""
TOLD_SECONDS = 3.0
"""After this time, Headwater reports what it waits for."""
_AT_ONCE = 200
_PIECE = 1 << 20
_SHARE = 10
"""Checking files uses at most one part in this many of the time."""

Opener = Callable[[list[str]], Mapping[str, str]]
"""Reads files completely; returns the problem of each unreadable file."""
StandIn = Callable[[Path, Mapping[str, str]], Path]
"""Writes the placeholder of a file: its name without the extension, and its content."""
Notify = Callable[[Problem], None]
"""Notifies the user."""
Finished = Callable[[], frozenset[str]]
"""The files that every query has read in a committed batch."""


@dataclass
class Admission:
    """Checks each new file below a path before Spark reads it.

    An unreadable file is retried as long as it changes, and for some seconds after that, because it may be
    being written. Then it is rejected. If it changes again, it is checked again.
    """

    name: str
    pattern: str
    record: AdmissionRecord
    opener: Opener
    stand_in: StandIn
    only: str = ""
    """A pattern for the names of files to consider; empty for all."""
    finished: Finished = frozenset
    clock: Callable[[], float] = time.time
    waits: bool = field(default=False, init=False)
    """Whether some file is undecided."""
    changes: int = field(default=0, init=False)
    """How often the list for Spark changed."""
    _due: float = field(default=0.0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _notify: Notify = field(default_factory=lambda: lambda problem: None, init=False)
    _open: dict[str, float] = field(default_factory=dict, init=False)
    """The undecided files, each with the time when it was first seen."""
    _told: set[str] = field(default_factory=set, init=False)
    _failing: tuple[float, str] | None = field(default=None, init=False)
    """Since when the check fails, and why."""

    def start(
        self,
        notify: Notify = lambda problem: None,
        check_cancelled: Callable[[], None] = lambda: None,
        counted: Callable[[int, int], None] = lambda done, total: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Check every existing file before a query starts; files that keep changing are deferred.

        It reports files that it waits for, and `check_cancelled` can raise to cancel it. `counted` receives
        the number of checked files and the total.
        """

        def opened(done: int, total: int) -> None:
            counted(done, total)
            if done:
                check_cancelled()

        self._notify = notify
        self.record.read()
        self._tried(self._forget_changed)
        self.record.write()
        deadline = self.clock() + START_SECONDS
        self._look(most=None, opened=opened)
        while self.waits and self.clock() < deadline:
            check_cancelled()
            pause(0.2)
            self._look(most=None)
        if self.waits:
            files = ", ".join(sorted(self._open))
            notify(errors.FILES_DEFERRED.at(None, name=self.name, files=files))

    def catch_up(self) -> None:
        self._look(most=None)

    @property
    def blocked_by(self) -> Problem | None:
        """What has blocked a decision for as long as a start would wait."""
        long_ago = self.clock() - START_SECONDS
        late = sorted(path for path, since in self._open.items() if since <= long_ago)
        says = f"{', '.join(late)} (still changing)" if late else ""
        failing = self._failing
        if failing and failing[0] <= long_ago:
            says = failing[1]
        return errors.FILES_UNREADABLE.at(None, name=self.name, says=says) if says else None

    def tick(self, tick: Tick) -> None:
        begun = self.clock()
        if tick.last or begun < self._due:
            return
        try:
            self._look(most=_AT_ONCE)
        finally:
            self._due = self.clock() + (self.clock() - begun) * _SHARE

    def _look(self, most: int | None, opened: Callable[[int, int], None] = lambda done, total: None) -> None:
        with self._lock:
            try:
                self._tried(lambda: self._decide(most, opened))
            except CheckpointError as error:
                since = self._failing[0] if self._failing else self.clock()
                self._failing = (since, str(error.problems[0].params["says"]))
                raise
            self._failing = None

    def _tried(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            says = f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
            raise CheckpointError(
                errors.FILES_VALIDATION_FAILED.at(None, name=self.name, says=says)
            ) from error

    def _forget_changed(self) -> None:
        """Treat files as new that changed since, if some query has not read them yet."""
        files = self.record.files
        changed = [
            path
            for path, stamp in found(self.pattern)
            if path in files and not files[path].stands_in and files[path].stamp != stamp
        ]
        finished = self.finished() if changed else frozenset()
        for path in changed:
            if path not in finished:
                del files[path]

    def _decide(self, most: int | None, opened: Callable[[int, int], None]) -> None:
        paths = {
            path
            for path in paths_at(self.pattern)
            if not self.only or matches_name(self.only, os.path.basename(path))
        }
        listed = self._stamps(path for path in paths if self._may_be_new(path))
        new = [path for path, stamp in listed.items() if self._is_new(path, stamp)]
        chosen = sorted(new, key=lambda path: listed[path].modified_ms)[:most]
        wrong: dict[str, str] = {}
        for begin in range(0, len(chosen), _AT_ONCE):
            opened(begin, len(chosen))
            wrong |= self.opener(chosen[begin : begin + _AT_ONCE])
        undecided = [path for path in wrong if not self._is_settled(path, listed[path])]
        closed = {path: error for path in wrong if path not in undecided and (error := _closed(path))}
        undecided += closed
        gone = [path for path in self.record.files if path not in paths]
        for path in (path for path in chosen if path not in undecided):
            self._note(path, listed[path], wrong.get(path))
        for path in gone:
            del self.record.files[path]
        if gone or len(chosen) > len(undecided):
            self.record.write()
            self.changes += 1
        self.waits = bool(undecided) or len(chosen) < len(new)
        self._tell(path for path in undecided if path not in closed)
        for error in closed.values():
            # The file may be valid: decide nothing, and retry.
            raise error

    def _tell(self, undecided: Iterable[str]) -> None:
        """Report the files that it waits for, each once."""
        now = self.clock()
        self._open = {path: self._open.get(path, now) for path in undecided}
        self._told &= self._open.keys()
        for path, since in self._open.items():
            if path not in self._told and now - since >= TOLD_SECONDS:
                self._told.add(path)
                self._notify(errors.FILES_WAITING.at(None, name=self.name, path=path))

    def _may_be_new(self, path: str) -> bool:
        """False for an admitted file, which is not checked again: its size and time are not needed."""
        known = self.record.files.get(path)
        return known is None or bool(known.stands_in)

    def _stamps(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        found: dict[str, FileStamp] = {}
        for path in paths:
            # It may have just been deleted.
            with suppress(FileNotFoundError):
                found[path] = FileStamp.of(os.stat(path))
        return found

    def _is_new(self, path: str, stamp: FileStamp) -> bool:
        known = self.record.files.get(path)
        return known is None or (bool(known.stands_in) and known.stamp != stamp)

    def _is_settled(self, path: str, stamp: FileStamp) -> bool:
        try:
            now = FileStamp.of(os.stat(path))
        except FileNotFoundError:
            return False
        age = self.clock() - stamp.modified_ms / 1000
        return now == stamp and not 0 <= age < SETTLED_SECONDS

    def _note(self, path: str, stamp: FileStamp, wrong: str | None) -> None:
        if wrong is None:
            self.record.files[path] = FileRecord(stamp)
            return
        says = {"file": path, "reason": Reason.UNREADABLE_FILE.value, "detail": wrong}
        file = self.stand_in(self.record.rejected / self.record.name_for(path, stamp), says)
        self.record.files[path] = FileRecord(stamp, str(file))
        self.record.stand_ins[str(file)] = FileStamp(file.stat().st_size, stamp.modified_ms)


def found(pattern: str) -> Iterator[tuple[str, FileStamp]]:
    """The files that a stream over a path would read."""
    return ((path, FileStamp.of(stat)) for path, stat in files_at(pattern))


def _closed(path: str) -> OSError | None:
    """The error that prevents this process from reading a file, regardless of its content."""
    try:
        with open(path, "rb") as file:
            while file.read(_PIECE):
                pass
    except OSError as error:
        return error
    return None


def read_by_all(readers: Iterable[QueryCheckpoint], source: str) -> frozenset[str]:
    """The files of a source that every query has in a committed batch."""
    read = [each.files_read(source) for each in readers]
    return frozenset.intersection(*read) if read else frozenset()


class Admissions(RunTask):
    """The admission of every path of a source, as one task."""

    def __init__(self, paths: Iterable[Admission]) -> None:
        self._paths = tuple(paths)

    def prepare(self, start: RunStart) -> None:
        """Check every existing file, also for the first batch of a run that then stops."""
        with start.phase("open_files", "Opening new files") as phase:
            for each in self._paths:
                each.start(start.notify, start.check_cancelled, phase.count)

    def pending(self) -> Pending:
        try:
            for each in self._paths:
                each.catch_up()
        except CheckpointError:
            # A tick reports it; nothing is decided while files cannot be checked.
            undecided = True
        else:
            undecided = any(each.waits for each in self._paths)
        blocked_by = next(filter(None, (each.blocked_by for each in self._paths)), None)
        return Pending(sum(each.changes for each in self._paths), undecided, blocked_by)

    def tick(self, tick: Tick) -> None:
        for each in self._paths:
            each.tick(tick)
