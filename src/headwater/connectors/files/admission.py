"""Checks new files between batches; the task of one path."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Lock

from headwater.connectors.contract import Pending, QueryCheckpoint, Reason, RunStart, RunTask, Tick
from headwater.connectors.files import errors
from headwater.connectors.files.admission_record import AdmissionRecord, FileStamp
from headwater.connectors.files.folders import paths_at
from headwater.connectors.files.pace import Pace
from headwater.errors import CheckpointError, Problem
from headwater.spec.paths import is_pattern, matches_name

SETTLED_SECONDS = 5.0
"""An unreadable file that changed less than this ago may still be being written."""
START_SECONDS = 30.0
"""How long a start waits for files that may be being written, and the end of a run for any file."""
TOLD_SECONDS = 3.0
"""After this time, Headwater reports what it waits for."""
_AT_ONCE = 200
_SPARE = 1_000
"""Headwater looks for files that every query has read when the list for Spark has grown to twice its size and by
more than this number."""
_PIECE = 1 << 20

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
    _hidden_at: int = field(default=0, init=False)
    """The length of the list for Spark when the files that every query has read were removed from it."""
    _pace: Pace = field(init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _notify: Notify = field(default_factory=lambda: lambda problem: None, init=False)
    _open: dict[str, float] = field(default_factory=dict, init=False)
    """The undecided files, each with the time when it was first seen."""
    _told: set[str] = field(default_factory=set, init=False)
    _failing: tuple[float, str] | None = field(default=None, init=False)
    """Since when the check fails, and why."""

    def __post_init__(self) -> None:
        self._pace = Pace(self.clock)

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
        self._tried(self._refresh)
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
        if not tick.last and self._pace.is_due:
            with self._pace.measured():
                self._look(most=_AT_ONCE)

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

    def _refresh(self) -> None:
        """Treat files as new that changed since, if some query has not read them yet; recreate the list for Spark."""
        self._hide_read()
        for path in [path for path in self.record.unread if path in self.record.admitted]:
            if self._stamps([path]).get(path) != self.record.admitted[path]:
                self.record.forget(path)
        self.record.write()

    def _hide_read(self) -> None:
        # If a checkpoint cannot be read, its files count as unread; the query that uses it reports the error.
        with suppress(CheckpointError):
            self.record.hide(self.finished())
        self._hidden_at = len(self.record.unread)

    def _decide(self, most: int | None, opened: Callable[[int, int], None]) -> None:
        admitted, others = 0, set[str]()
        # Most files are admitted: they are counted, because a second set of all paths would take much memory.
        for path in self._paths():
            if path in self.record.admitted:
                admitted += 1
            else:
                others.add(path)
        listed = self._stamps(others)
        gone = self._gone(admitted, others)
        new = [path for path, stamp in listed.items() if self._is_new(path, stamp)]
        chosen = sorted(new, key=lambda path: listed[path].modified_ms)[:most]
        wrong: dict[str, str] = {}
        for begin in range(0, len(chosen), _AT_ONCE):
            opened(begin, len(chosen))
            wrong |= self.opener(chosen[begin : begin + _AT_ONCE])
        undecided = [path for path in wrong if not self._is_settled(path, listed[path])]
        closed = {path: error for path in wrong if path not in undecided and (error := _closed(path))}
        undecided += closed
        for path in (path for path in chosen if path not in undecided):
            self._note(path, listed[path], wrong.get(path))
        for path in gone:
            self.record.forget(path)
        if not self.record.is_stored:
            if len(self.record.unread) > 2 * self._hidden_at + _SPARE:
                self._hide_read()
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

    def _paths(self) -> Iterator[str]:
        found = paths_at(self.pattern)
        return (each for each in found if not self.only or matches_name(self.only, os.path.basename(each)))

    def _gone(self, admitted: int, others: set[str]) -> list[str]:
        """The files of the record that do not exist any more; a glob can find a file twice."""
        if admitted == len(self.record.admitted) and not is_pattern(self.pattern):
            return [path for path in self.record.rejected if path not in others]
        paths = set(self._paths())
        return [path for path in chain(self.record.admitted, self.record.rejected) if path not in paths]

    def _stamps(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        found: dict[str, FileStamp] = {}
        for path in paths:
            # It may have just been deleted.
            with suppress(FileNotFoundError):
                found[path] = FileStamp.of(os.stat(path))
        return found

    def _is_new(self, path: str, stamp: FileStamp) -> bool:
        """Whether a file that is not admitted is to be checked."""
        known = self.record.rejected.get(path)
        return known is None or known.stamp != stamp

    def _is_settled(self, path: str, stamp: FileStamp) -> bool:
        try:
            now = FileStamp.of(os.stat(path))
        except FileNotFoundError:
            return False
        age = self.clock() - stamp.modified_ms / 1000
        return now == stamp and not 0 <= age < SETTLED_SECONDS

    def _note(self, path: str, stamp: FileStamp, wrong: str | None) -> None:
        if wrong is None:
            self.record.admit(path, stamp)
            return
        says = {"file": path, "reason": Reason.UNREADABLE_FILE.value, "detail": wrong}
        file = self.stand_in(self.record.placeholders / self.record.name_for(path, stamp), says)
        self.record.reject(path, stamp, str(file), file.stat().st_size)


def _closed(path: str) -> OSError | None:
    """The error that prevents this process from reading a file, regardless of its content."""
    try:
        with open(path, "rb") as file:
            while file.read(_PIECE):
                pass
    except OSError as error:
        return error
    return None


def read_by_all(readers: Iterable[QueryCheckpoint], folder: Path) -> frozenset[str]:
    """The files that every query has in a committed batch, of those that it reads by a record."""
    read = [each.files_read(str(folder)) for each in readers]
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
