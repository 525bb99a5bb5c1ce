"""The logs in which file sources and file sinks list their files; they compact themselves."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from headwater.checkpoint.store import LocalStore, Store
from headwater.errors import CheckpointError, Entry
from headwater.errors.catalogue import running as catalogue

# Directories with one small text file per batch, the format of all Spark logs.

T = TypeVar("T")

# Spark parses these names as numbers; `.3.crc`, `.3.<uuid>.tmp` and other files are not batches.
NUMBER = re.compile(r"\d+", re.ASCII)
_VERSION = re.compile(r"v([1-9]\d*)", re.ASCII)


class DamagedFileError(Exception):
    """Why a file is not as expected; `Batches` turns it into an error of the catalogue."""


@dataclass(frozen=True)
class Batches(Generic[T]):
    """A directory with one file per batch: the version on the first line, then what `parse` understands."""

    store: Store
    folder: str
    newest_version: int
    damaged: Entry
    parse: Callable[[int, int, list[str]], T]

    def ids(self) -> tuple[int, ...]:
        names = listed(self.store, self.folder)
        return tuple(sorted(int(name) for name in names if NUMBER.fullmatch(name)))

    def entries(self, newest_first: bool = False) -> Iterator[T]:
        # A running query purges old batches, so a missing one is not an error.
        for batch_id in sorted(self.ids(), reverse=newest_first):
            entry = self.entry(batch_id)
            if entry is not None:
                yield entry

    def entry(self, batch_id: int) -> T | None:
        data = content(self.store, f"{self.folder}/{batch_id}")
        return None if data is None else self.decode(batch_id, str(batch_id), data)

    def decode(self, batch_id: int, name: str, data: bytes) -> T:
        file = self.store.locate(f"{self.folder}/{name}")
        try:
            version, *lines = lines_of(data)
            return self.parse(batch_id, self._version(version, file), lines)
        except DamagedFileError as damage:
            checksum = self.store.locate(f"{self.folder}/.{name}.crc")
            problem = self.damaged.at(file=file, batch=batch_id, reason=str(damage), checksum=checksum)
            raise CheckpointError(problem) from damage

    def _version(self, line: str, file: str) -> int:
        match = _VERSION.fullmatch(line.strip())
        if match is None:
            raise DamagedFileError(f"its first line is {line[:20]!r}, expected a version")
        version = int(match[1])
        if version > self.newest_version:
            problem = catalogue.CHECKPOINT_VERSION_UNSUPPORTED.at(
                file=file, version=match[0], newest=self.newest_version
            )
            raise CheckpointError(problem)
        return version


def listed(store: Store, folder: str) -> tuple[str, ...]:
    try:
        return store.names(folder)
    except OSError as failure:
        raise unreadable(store, folder, failure) from failure


def content(store: Store, name: str) -> bytes | None:
    """The bytes of a file, None if it does not exist."""
    try:
        return store.read(name)
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise unreadable(store, name, failure) from failure


def unreadable(store: Store, name: str, failure: OSError) -> CheckpointError:
    reason = failure.strerror or str(failure)
    return CheckpointError(catalogue.CHECKPOINT_UNREADABLE.at(file=store.locate(name), reason=reason))


def lines_of(data: bytes) -> list[str]:
    # After a power failure, some file systems return zero bytes for data that was never flushed.
    if not data.strip(b"\0 \t\r\n"):
        raise DamagedFileError("it is empty")
    try:
        return data.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as failure:
        raise DamagedFileError("it is not UTF-8 text") from failure


def json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise DamagedFileError(f"incomplete JSON: {text[:40]!r}") from failure


def json_object(text: str) -> dict[str, Any]:
    value = json_value(text)
    if not isinstance(value, dict):
        raise DamagedFileError(f"expected a JSON object, got {text[:40]!r}")
    return value


def text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise DamagedFileError(f"the field {name!r} is missing or is not a string")
    return value


def integer_field(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedFileError(f"the field {name!r} is missing or is not an integer")
    return value


SINK_LOG = "_spark_metadata"
"""The directory in which Spark's file sink stores its log, inside its output directory."""

_COMPACTIBLE_BATCH = re.compile(r"(\d+)(\.compact)?", re.ASCII)
_BLOCK = 1 << 16
"""A compact file lists every file ever written, so it is read in blocks of about this size."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that a file source has delivered: one line of `sources/<source>/<batch>`.

    `batch_id` counts the source's own batches (its offset is `{"logOffset":<batch_id>}`), not the query's.
    """

    path: str
    timestamp_ms: int
    batch_id: int


@dataclass(frozen=True)
class SinkFile:
    """A file that a file sink has committed: one line of `_spark_metadata/<batch>`.

    A compact file does not record which batch wrote a file: with `compacted`, `batch_id` is the last
    possible batch.
    """

    path: str
    size: int
    modified_ms: int
    batch_id: int
    compacted: bool


_Actions = list[tuple[str, SinkFile]]
"""Files, each with what was done to it."""


class SinkLog:
    """What a file sink has committed: the directory `_spark_metadata` inside its output directory.

        _spark_metadata/0           v1
                                    {"path":"file:///out/part-0….parquet","size":712,…,"action":"add"}
        _spark_metadata/9.compact   the same for all batches up to 9 together; every tenth batch is one

    Readers of the directory use this log instead of listing it. The sink skips a batch whose number is
    already in the log, so a retried batch is not written twice.
    """

    def __init__(self, output: LocalStore) -> None:
        self._log = _sink_log(output)
        self._output = output

    @property
    def last_batch(self) -> int | None:
        """The newest batch that the sink has committed."""
        return max((batch_id for batch_id, _ in _compactible(self._log)), default=None)

    @property
    def last_compact(self) -> int | None:
        """The newest batch whose file includes all earlier ones."""
        return max((batch_id for batch_id, compacted in _compactible(self._log) if compacted), default=None)

    def files(self, up_to: int | None = None) -> tuple[SinkFile, ...]:
        """The files that readers of the directory see, in the order in which they were committed.

        With `up_to`, those that they saw when this was the newest batch.
        """
        files: dict[str, SinkFile] = {}
        for file in _log_files(self._log, up_to=up_to):
            with _opened(self._output, self._log, file) as data:
                for action, each in (action for block in data.blocks() for action in data.actions(block)):
                    # Old versions of Spark revoked files with "delete"; supported versions only write "add".
                    if action == "delete":
                        files.pop(each.path, None)
                    else:
                        files[each.path] = replace(each, compacted=file.compacted)
        return tuple(files.values())

    def newest(self) -> Iterator[SinkFile]:
        """The files in reverse order; only those that are used are parsed."""
        for file in reversed(_log_files(self._log)):
            with _opened(self._output, self._log, file) as data:
                for action, each in (action for line in data.backwards() for action in data.actions(line)):
                    if action == "add":
                        yield replace(each, compacted=file.compacted)

    def outside(self, start: str) -> Iterator[SinkFile]:
        """The files whose URLs do not start with `start`; blocks of a compact file without any are not parsed."""
        wanted = f'"path":"{start}'.encode()
        for file in _log_files(self._log):
            with _opened(self._output, self._log, file) as data:
                for block in data.blocks():
                    # Spark writes one entry per line. A file that a crash has cut off is parsed and reported.
                    whole, entries = block.endswith(b"}\n"), block.count(b"\n")
                    if not (file.compacted and whole and block.count(wanted) == entries):
                        found = data.actions(block)
                        yield from (each for _, each in found if not each.path.startswith(start))


class SinkLogTail:
    """Reads the log of a sink repeatedly, and parses only the lines that are new.

    A compact file repeats the lines of all earlier files before its own. So if it begins with the lines that
    are known, only the rest is new. Otherwise, compaction has replaced files, and it is read as a whole. Known
    lines are not kept, only their hash.
    """

    def __init__(self, output: LocalStore) -> None:
        self._whole = SinkLog(output)
        self._log = _sink_log(output)
        self._output = output
        self.restart()

    def restart(self) -> None:
        """Read the whole log at the next call."""
        self._batch, self._length, self._known = -1, 0, sha256()

    def read(self, up_to: int) -> tuple[bool, Iterator[SinkFile]]:
        """The files of the batches since the last call; True if they replace all earlier ones.

        Until all of them are taken, the next call returns them again.
        """
        files = _log_files(self._log, self._batch, up_to)
        replaces = self._batch < 0 or (files[:1] != [] and not self._continues(files[0]))
        known = 0 if replaces else self._length
        if any(self._revokes(file, known) for file in files):
            self.restart()
            return True, iter(self._whole.files(up_to))
        return replaces, self._entries(files, replaces)

    def _continues(self, file: _LogFile) -> bool:
        """Whether a file has the known lines before its own."""
        if not file.compacted:
            return True
        found, left = sha256(), self._length
        with _opened(self._output, self._log, file) as data:
            for block in data.blocks():
                found.update(block[:left])
                left -= min(left, len(block))
                if not left:
                    break
        return not left and found.digest() == self._known.digest()

    def _revokes(self, file: _LogFile, known: int) -> bool:
        with _opened(self._output, self._log, file) as data:
            blocks = data.blocks(known if file.compacted else 0)
            return any(b'"delete"' in block for block in blocks)

    def _entries(self, files: Sequence[_LogFile], replaces: bool) -> Iterator[SinkFile]:
        batch, length, known = self._batch, self._length, self._known.copy()
        if replaces:
            length, known = 0, sha256()
        for file in files:
            with _opened(self._output, self._log, file) as data:
                for block in data.blocks(length if file.compacted else 0):
                    known.update(block)
                    length += len(block)
                    yield from (each for _, each in data.actions(block))
            batch = file.batch_id
        self._batch, self._length, self._known = batch, length, known


class _ForeignFileError(Exception):
    """The file is intact, but a different kind of source wrote it."""


class _SourceLog(Batches[list[SourceFile]]):
    """`sources/<source>`; sources other than files store their first offset there, in a file named `0`."""

    def decode(self, batch_id: int, name: str, data: bytes) -> list[SourceFile]:
        try:
            # Kafka's file begins with a zero byte, for compatibility with Spark 2.1.0.
            if data.startswith(b"\0v"):
                raise _ForeignFileError
            return super().decode(batch_id, name, data)
        except _ForeignFileError as foreign:
            file = self.store.locate(f"{self.folder}/{name}")
            raise CheckpointError(catalogue.CHECKPOINT_FILE_LOG_INVALID.at(file=file)) from foreign


def _compactible(log: Batches[T]) -> list[tuple[int, bool]]:
    """The batches of a log that compacts itself: number, and whether it includes all earlier ones."""
    matches = (_COMPACTIBLE_BATCH.fullmatch(name) for name in listed(log.store, log.folder))
    return sorted((int(match[1]), match[2] is not None) for match in matches if match)


class _LogFile(NamedTuple):
    """One file of a log that compacts itself."""

    batch_id: int
    compacted: bool

    @property
    def name(self) -> str:
        return f"{self.batch_id}.compact" if self.compacted else str(self.batch_id)


def _log_files(log: Batches[T], after: int = -1, up_to: int | None = None) -> list[_LogFile]:
    """The newest compact file and what follows it: the whole log, or the part after `after` up to `up_to`.

    Earlier files contain nothing new, and Spark deletes them eventually, so they are not read.
    """
    batches = [each for each in _compactible(log) if after < each[0] and (up_to is None or each[0] <= up_to)]
    newest = max((batch_id for batch_id, compacted in batches if compacted), default=-1)
    return [_LogFile(*each) for each in batches if each[0] > newest or each == (newest, True)]


class _Opened:
    """A file of the log of a sink: the version on its first line, then an entry per line."""

    def __init__(self, log: Batches[_Actions], file: _LogFile, data: BinaryIO) -> None:
        self._log, self._file, self._data = log, file, data
        self._version = data.readline().removesuffix(b"\n")
        self._start = data.tell()

    def blocks(self, skip: int = 0) -> Iterator[bytes]:
        """The entries in blocks of whole lines, without the first bytes of them; at least one block.

        The last line also gets an end.
        """
        self._data.seek(self._start + skip)
        read = partial(self._data.readlines, _BLOCK)
        for lines in chain([read()], iter(read, [])):
            block = b"".join(lines)
            yield block if not block or block.endswith(b"\n") else block + b"\n"

    def backwards(self) -> Iterator[bytes]:
        """The lines of the entries, the last one first."""
        end, rest = self._data.seek(0, os.SEEK_END), b""
        while end > self._start:
            begin = max(self._start, end - _BLOCK)
            self._data.seek(begin)
            rest, *lines = (self._data.read(end - begin) + rest).split(b"\n")
            yield from reversed(lines)
            end = begin
        if rest:
            yield rest

    def actions(self, lines: bytes) -> _Actions:
        """The entries of some lines."""
        return self._log.decode(self._file.batch_id, self._file.name, self._version + b"\n" + lines)


@contextmanager
def _opened(output: LocalStore, log: Batches[_Actions], file: _LogFile) -> Iterator[_Opened]:
    name = f"{log.folder}/{file.name}"
    try:
        with output.open(name) as data:
            yield _Opened(log, file, data)
    except OSError as failure:
        raise unreadable(output, name, failure) from failure


def _since_compaction(log: Batches[T], after: int = -1) -> Iterator[T]:
    """What the files of a log contain, each read as a whole."""
    for file in _log_files(log, after):
        data = content(log.store, f"{log.folder}/{file.name}")
        if data is None:
            # Skipping it would return an incomplete list.
            failure = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            raise unreadable(log.store, f"{log.folder}/{file.name}", failure)
        yield log.decode(file.batch_id, file.name, data)


def source_files(checkpoint: Store, source: int, after: int = -1) -> tuple[SourceFile, ...]:
    """The files that a file source of a checkpoint has delivered after a batch of its own, oldest first."""
    read = partial(_source_files, after)
    log = _SourceLog(checkpoint, f"sources/{source}", 1, catalogue.CHECKPOINT_FILE_LOG_CORRUPT, read)
    return tuple(file for files in _since_compaction(log, after) for file in files)


def _source_files(after: int, batch_id: int, version: int, lines: list[str]) -> list[SourceFile]:
    files: list[SourceFile] = []
    # A compact file repeats all earlier entries, the newest last.
    for line in reversed(lines):
        file = _source_file(json_value(line))
        if file.batch_id <= after:
            break
        files.append(file)
    return files[::-1]


def _source_file(entry: Any) -> SourceFile:
    if not isinstance(entry, dict) or "path" not in entry:
        raise _ForeignFileError
    timestamp, batch_id = integer_field(entry, "timestamp"), integer_field(entry, "batchId")
    return SourceFile(text_field(entry, "path"), timestamp, batch_id)


def _sink_log(output: LocalStore) -> Batches[_Actions]:
    return Batches(output, SINK_LOG, 1, catalogue.CHECKPOINT_FILE_LOG_CORRUPT, _sink_actions)


def _sink_actions(batch_id: int, version: int, lines: list[str]) -> _Actions:
    actions: _Actions = []
    for entry in map(json_object, lines):
        size, modified = integer_field(entry, "size"), integer_field(entry, "modificationTime")
        file = SinkFile(text_field(entry, "path"), size, modified, batch_id, compacted=False)
        actions.append((text_field(entry, "action"), file))
    return actions
