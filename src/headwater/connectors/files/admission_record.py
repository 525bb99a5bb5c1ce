"""The stored results of checking new files, and the list of files that Spark reads."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from headwater.checkpoint import SINK_LOG, LocalStore
from headwater.checkpoint.store import Note, NoteError
from headwater.connectors.files.validity import address_of, encoded_path
from headwater.run_directory import may_be_admitted
from headwater.spec.paths import plain_path

# The admitted and rejected files of a path, and the list that Spark reads.
#
# validated_files/<source>/<path>/files.jsonl        the result for each file, with its size and time
# validated_files/<source>/<path>/place              the path of the files, as a pattern
# validated_files/<source>/<path>/rejected/<name>    a placeholder for an unreadable file, with the reason
# validated_files/<source>/<path>/_spark_metadata/0  what some query has yet to read, as Spark's file sink lists it
#
# Spark reads a directory with such a list only by the list, whose entries can be anywhere. So a query reads the
# admitted files and, once and in its own order, the placeholders of the others. Spark parses the whole list each
# time it looks for files. So it does not contain what every query has read in a committed batch: no query reads
# it again, and the next start lists it for a query that starts from scratch.
#
# The order of writes is placeholder, record, list. The list is recreated from the record at each start, which
# repairs it after a kill.

_PLACE = "place"
_LIST = f"{SINK_LOG}/0"
_BLOCK = 32 << 20


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
    return {path: each.placeholder for path, each in record.rejected.items()}


class FileStamp(NamedTuple):
    """Size and time of a file when it was checked; a record can have very many."""

    size: int
    modified_ms: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileStamp:
        return cls(stat.st_size, stat.st_mtime_ns // 1_000_000)


class RejectedFile(NamedTuple):
    """An unreadable file, with the path of its placeholder."""

    stamp: FileStamp
    placeholder: str


class AdmissionRecord:
    """The record of one path. Changes are stored by `write`."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder = folder
        self.place = place
        self.admitted: dict[str, FileStamp] = {}
        self.rejected: dict[str, RejectedFile] = {}
        self.unread: dict[str, FileStamp] = {}
        """What Spark is shown: admitted files and placeholders, without those that every query has read."""
        self._placeholders: dict[str, FileStamp] = {}
        """All that were ever written; a query reads them also after their file was fixed or removed."""
        self._store = LocalStore(folder)
        self._results = ResultFile(self._store)
        self._new: dict[str, FileStamp] | None = None
        """What the list for Spark lacks; None if it must be written as a whole."""
        self.is_stored = False
        """Whether `write` has stored everything, and the list is that of this run."""

    @property
    def placeholders(self) -> Path:
        return self.folder / "rejected"

    def begin(self) -> None:
        """Store the path, which is needed before the first file is checked."""
        (self.folder / SINK_LOG).mkdir(parents=True, exist_ok=True)
        self._store.replace(_PLACE, self.place.encode())

    def read(self) -> None:
        """Read the results of an earlier run."""
        for entry in self._results.read():
            self._apply(entry)
        self.unread = {**self.admitted, **self._placeholders}

    def admit(self, path: str, stamp: FileStamp) -> None:
        self._add({"file": path, **stamp._asdict()})
        self._show(path, stamp)

    def reject(self, path: str, stamp: FileStamp, placeholder: str, size: int) -> None:
        """Show Spark the placeholder, which has this size, instead of the file."""
        more = {"placeholder": placeholder, "placeholder_size": size}
        self._add({"file": path, **stamp._asdict(), **more})
        self._show(placeholder, self._placeholders[placeholder])
        self._hide(path)

    def forget(self, path: str) -> None:
        """Treat a file as new, or as deleted."""
        self._add({"gone": path})
        self._hide(path)

    def hide(self, read: Collection[str]) -> None:
        """Do not show Spark what every query has read."""
        left = {path: stamp for path, stamp in self.unread.items() if path not in read}
        if len(left) < len(self.unread):
            self.unread, self._new, self.is_stored = left, None, False

    def write(self) -> None:
        """Store the results, then the list for Spark; `begin` has created the directories."""
        live = len(self.admitted) + len(self.rejected) + len(self._placeholders)
        self._results.write(self._entries(), live)
        # If this fails, the next list is written as a whole.
        new, self._new = self._new, None
        with self._store.replacing(_LIST) as out:
            if new is None:
                out.write(b"v1")
            else:
                with self._store.open(_LIST) as before:
                    shutil.copyfileobj(before, out)
            added = self.unread if new is None else new
            out.writelines(b"\n" + _line(path, stamp).encode() for path, stamp in added.items())
        self._new, self.is_stored = {}, True

    def name_for(self, path: str, stamp: FileStamp) -> str:
        """The name of the placeholder for the current version of a file."""
        text = f"{path}\n{stamp.size}\n{stamp.modified_ms}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _add(self, entry: dict[str, Any]) -> None:
        self._apply(entry)
        self._results.add(entry)
        self.is_stored = False

    def _apply(self, entry: dict[str, Any]) -> None:
        if "gone" in entry:
            self.admitted.pop(entry["gone"], None)
            self.rejected.pop(entry["gone"], None)
            return
        path, placeholder = entry.get("file"), entry.get("placeholder")
        stamp = FileStamp(entry["size"], entry["modified_ms"])
        if placeholder is not None:
            size = entry["placeholder_size"] if path is not None else stamp.size
            self._placeholders[placeholder] = FileStamp(size, stamp.modified_ms)
        if path is None:
            return
        self.admitted.pop(path, None)
        self.rejected.pop(path, None)
        if placeholder is None:
            self.admitted[path] = stamp
        else:
            self.rejected[path] = RejectedFile(stamp, placeholder)

    def _entries(self) -> Iterator[dict[str, Any]]:
        """The whole record: placeholders come first, because only some of them belong to a rejected file."""
        for placeholder, stamp in self._placeholders.items():
            yield {"placeholder": placeholder, **stamp._asdict()}
        for path, stamp in self.admitted.items():
            yield {"file": path, **stamp._asdict()}
        for path, each in self.rejected.items():
            size = self._placeholders[each.placeholder].size
            more = {"placeholder": each.placeholder, "placeholder_size": size}
            yield {"file": path, **each.stamp._asdict(), **more}

    def _show(self, path: str, stamp: FileStamp) -> None:
        if path in self.unread:
            # Its line in the list may be different.
            self._new = None
        self.unread[path] = stamp
        if self._new is not None:
            self._new[path] = stamp

    def _hide(self, path: str) -> None:
        if self.unread.pop(path, None) is not None:
            self._new = None


class ResultFile:
    """The results as JSON lines, to which each write appends.

        {"version": 2}
        {"file": "/in/a.csv", "size": 9, "modified_ms": 1700000000000}
        {"file": "/in/b.csv", "size": 4, "modified_ms": 1700000000001, "placeholder": "…", "placeholder_size": 70}
        {"placeholder": "…", "size": 70, "modified_ms": 1700000000001}      one whose file was fixed or removed
        {"gone": "/in/a.csv"}

    The last line about a file counts. A write is on disk before the next one starts. So only the last write can be
    incomplete after a crash: reading ends at the first line that is not complete, and the next write overwrites
    the rest. The files of lost lines are checked again. A file with many outdated lines is replaced.

    Version 1 was a single JSON object, `files.json`. It is replaced at the first write.
    """

    NAME = "files.jsonl"
    VERSION = 2
    SPARE = 1_000
    """This number of outdated lines is not worth a new file."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._old = Note(store, "files.json", _Version1)
        self._size: int | None = None
        """The bytes of complete lines; None if the file must be written as a whole."""
        self._lines = 0
        self._added: list[str] = []

    def read(self) -> Iterator[dict[str, Any]]:
        try:
            with self._store.open(self.NAME) as data:
                header = data.readline()
                self._check(header)
                size = len(header)
                for line in data:
                    entry = _parsed(line)
                    if entry is None:
                        break
                    size += len(line)
                    self._lines += 1
                    yield entry
                self._size = size
        except FileNotFoundError:
            noted = self._old.read()
            yield from noted.entries() if noted else ()

    def add(self, entry: dict[str, Any]) -> None:
        self._added.append(_text(entry))

    def write(self, whole: Iterator[dict[str, Any]], live: int) -> None:
        """Append what was added, or replace the file by `whole`, which has about `live` lines."""
        added, self._added = self._added, []
        text, lines, size = "".join(added).encode(), self._lines + len(added), self._size
        # If this fails, only `whole` has what was added.
        self._size = None
        if size is None or lines > 2 * live + self.SPARE or not self._store.append(self.NAME, size, text):
            self._replace(whole)
        else:
            self._size, self._lines = size + len(text), lines

    def _replace(self, whole: Iterator[dict[str, Any]]) -> None:
        size = lines = 0
        with self._store.replacing(self.NAME) as out:
            size += out.write(_text({"version": self.VERSION}).encode())
            for entry in whole:
                size += out.write(_text(entry).encode())
                lines += 1
        self._store.delete(self._old.name)
        self._size, self._lines = size, lines

    def _check(self, header: bytes) -> None:
        """The first line is never incomplete: the file was created with it."""
        try:
            version = json.loads(header)["version"]
        except (ValueError, KeyError, TypeError) as error:
            reason = f"expected a version in the first line, got {header[:40]!r}"
            raise NoteError(self._store.locate(self.NAME), reason) from error
        if version != self.VERSION:
            reason = f"unsupported version {version}, expected {self.VERSION}"
            raise NoteError(self._store.locate(self.NAME), reason)


@dataclass(frozen=True)
class _Result1:
    """The result for a file; `stands_in` is the path of its placeholder."""

    stamp: FileStamp
    stands_in: str = ""


@dataclass(frozen=True)
class _Version1:
    """The content of `files.json`."""

    files: dict[str, _Result1]
    stand_ins: dict[str, FileStamp]

    def entries(self) -> Iterator[dict[str, Any]]:
        for placeholder, stamp in self.stand_ins.items():
            yield {"placeholder": placeholder, **stamp._asdict()}
        for path, each in self.files.items():
            entry: dict[str, Any] = {"file": path, **each.stamp._asdict()}
            if each.stands_in:
                size = self.stand_ins[each.stands_in].size
                entry |= {"placeholder": each.stands_in, "placeholder_size": size}
            yield entry


_NUMBERS = {"size", "modified_ms", "placeholder_size"}
_FIELDS = (
    {"gone"},
    {"file", "size", "modified_ms"},
    {"placeholder", "size", "modified_ms"},
    {"file", "size", "modified_ms", "placeholder", "placeholder_size"},
)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """An entry; None if the line is not complete."""
    try:
        entry = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.keys() not in _FIELDS:
        return None
    typed = all(type(value) is (int if name in _NUMBERS else str) for name, value in entry.items())
    return entry if typed else None


def _text(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


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
