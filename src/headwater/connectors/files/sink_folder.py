"""The manifest: the committed files of a sink, for readers that do not use Spark's log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from headwater.checkpoint import LocalStore, SinkFile, SinkLog, SinkLogTail
from headwater.connectors.files.folders import encoded
from headwater.errors import CheckpointError
from headwater.errors.catalogue.connectors import SINK_LOG_PATH_INVALID
from headwater.spec.paths import local_path

# The directory of a files sink on disk: the entries of its log by their names there.

KEPT = "_headwater"
"""Headwater's files in the directory; Spark and other readers ignore names that start with `_`."""


def name_in(folder: Path, file: SinkFile) -> str:
    """A file of the log as a path relative to the directory, with `/` as separator."""
    start = _address(folder)
    if file.path.startswith(start):
        return unquote(file.path[len(start) :])
    path = _path(file)
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    raise CheckpointError(SINK_LOG_PATH_INVALID.at(None, file=str(path), folder=str(folder)))


def named_outside(folder: Path) -> str | None:
    """A file in the log that is outside of the directory: Spark stores full paths, which do not change if
    the directory is moved."""
    for path in map(_path, SinkLog(LocalStore(folder)).outside(_address(folder))):
        # The same directory may have been written through a symlink.
        if not path.is_relative_to(folder) and not path.resolve().is_relative_to(folder.resolve()):
            return str(path)
    return None


@lru_cache(maxsize=64)
def _address(folder: Path) -> str:
    """How the URLs of files in the directory begin."""
    return f"file://{'/'.join(map(encoded, str(folder).split('/')))}/"


def _path(file: SinkFile) -> Path:
    return local_path(file.path) or Path(file.path)


VERSION = 1
MANIFEST = f"{KEPT}/manifest.json"
LIST = f"{KEPT}/files.txt"
_BLOCK = 1 << 16


class Manifest:
    """The committed files in the directory of a sink.

    _headwater/manifest.json    {"version": 1, "sink": "orders", "format": "parquet", "batch": 12,
                                 "partition_by": ["shop"],
                                 "files": [
                                 {"path": "shop=north/part-0….parquet", "size": 712}
                                 ]}
    _headwater/files.txt        shop=north/part-0….parquet

    `batch` is the newest batch whose files are listed; paths are relative to the directory. Both files are
    replaced atomically, so a reader always sees the complete list of one batch. Empty files contain no rows
    and are excluded, because many readers fail on them.

    Neither the files of the log nor the text of the manifest are kept in memory: an update copies what it has
    written before and formats only the new files.
    """

    def __init__(self, folder: Path, sink: str, format: str, partition_by: tuple[str, ...]) -> None:
        self._folder = folder
        self._store = LocalStore(folder)
        self._head = {"version": VERSION, "sink": sink, "format": format}
        self._partition_by = list(partition_by)
        self._tail = SinkLogTail(self._store)
        self.restart()

    def restart(self) -> None:
        """Read the whole log at the next update, because it was changed."""
        self._tail.restart()
        self._written: int | None = None
        self._paths, self._entries = _Grown(self._store, LIST), _Grown(self._store, MANIFEST)

    def update(self, batch: int) -> None:
        """List the files up to a committed batch; OSError if a file cannot be written."""
        if self._written == batch:
            return
        try:
            try:
                self._write(batch)
            except _ChangedError:
                self.restart()
                self._write(batch)
        except (CheckpointError, OSError):
            self.restart()
            raise
        self._written = batch

    def _write(self, batch: int) -> None:
        replaces, files = self._tail.read(batch)
        if replaces:
            self._paths, self._entries = _Grown(self._store, LIST), _Grown(self._store, MANIFEST)
        fields = {**self._head, "batch": batch, "partition_by": self._partition_by}
        head = json.dumps(fields, ensure_ascii=False)[:-1] + ', "files": [\n'
        (self._folder / KEPT).mkdir(exist_ok=True)
        # The last one to be opened is the first one to be replaced.
        with self._store.replacing(MANIFEST) as manifest, self._store.replacing(LIST) as paths:
            self._paths.begin(paths, b"")
            self._entries.begin(manifest, head.encode())
            for path, size in listed(self._folder, files):
                self._paths.add(paths, f"{path}\n".encode())
                entry = json.dumps({"path": path, "size": size}, ensure_ascii=False)
                self._entries.add(manifest, (f",\n{entry}" if self._entries.size else entry).encode())
            manifest.write(b"\n]}\n")


class _ChangedError(Exception):
    """A file is not as it was written."""


class _Grown:
    """A file whose middle grows with each update: what was written before is copied, and checked by its hash."""

    def __init__(self, store: LocalStore, name: str) -> None:
        self._store, self._name = store, name
        self._start, self.size, self._hash = 0, 0, sha256()

    def begin(self, out: BinaryIO, head: bytes) -> None:
        """Write what comes first, and what was written before."""
        out.write(head)
        if self.size:
            self._copy(out)
        self._start = len(head)

    def add(self, out: BinaryIO, text: bytes) -> None:
        out.write(text)
        self._hash.update(text)
        self.size += len(text)

    def _copy(self, out: BinaryIO) -> None:
        found, left = sha256(), self.size
        try:
            with self._store.open(self._name) as data:
                data.seek(self._start)
                while block := data.read(min(left, _BLOCK)):
                    found.update(block)
                    out.write(block)
                    left -= len(block)
        except FileNotFoundError as gone:
            raise _ChangedError from gone
        if found.digest() != self._hash.digest():
            raise _ChangedError


def listed(folder: Path, files: Iterable[SinkFile]) -> Iterator[tuple[str, int]]:
    """Names and sizes of the files that are not empty."""
    return ((name_in(folder, file), file.size) for file in files if file.size)


def remove(folder: Path) -> None:
    """Remove the manifest: an outdated one would mislead readers."""
    store = LocalStore(folder)
    for name in (MANIFEST, LIST):
        store.delete(name)


# The names in the log of Spark's file sink.

_COMPACT = ".compact"


def newest(names: Iterable[str]) -> int | None:
    """The newest batch in the log."""
    stems = [name.removesuffix(_COMPACT) for name in names]
    return max((int(stem) for stem in stems if stem.isdigit()), default=None)


def removable(names: Collection[str], batch: int) -> list[str]:
    """The files to delete to remove only the newest batch from the log.

    About every tenth file is `N.compact` and contains all batches before it. It can be deleted only while the
    files that it replaces still exist: every file since the previous compact file, or since the beginning.
    """
    if (newest(names) or 0) > batch:
        return []
    if str(batch) in names:
        return [str(batch)]
    compact = max((each for each in range(batch) if f"{each}{_COMPACT}" in names), default=-1)
    is_whole = all(str(each) in names for each in range(compact + 1, batch))
    return [f"{batch}{_COMPACT}"] if is_whole and f"{batch}{_COMPACT}" in names else []
