"""The manifest: the committed files of a sink, for readers that do not use Spark's log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path
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

    The text of both files is kept between batches, and an update formats only the new files.
    """

    def __init__(self, folder: Path, sink: str, format: str, partition_by: tuple[str, ...]) -> None:
        self._folder = folder
        self._head = {"version": VERSION, "sink": sink, "format": format}
        self._partition_by = list(partition_by)
        self._tail = SinkLogTail(LocalStore(folder))
        self._written: int | None = None
        self._paths, self._entries = bytearray(), bytearray()

    def restart(self) -> None:
        """Read the whole log at the next update, because it was changed."""
        self._tail.restart()
        self._written = None

    def update(self, batch: int) -> None:
        """List the files up to a committed batch; OSError if a file cannot be written."""
        try:
            replaces, files = self._tail.read(batch)
            if replaces:
                self._paths, self._entries = bytearray(), bytearray()
            for path, size in listed(self._folder, files):
                self._paths += f"{path}\n".encode()
                entry = json.dumps({"path": path, "size": size}, ensure_ascii=False)
                self._entries += (f",\n{entry}" if self._entries else entry).encode()
        except CheckpointError:
            self.restart()
            raise
        if self._written != batch:
            self._write(batch)
            self._written = batch

    def _write(self, batch: int) -> None:
        head = json.dumps(
            {**self._head, "batch": batch, "partition_by": self._partition_by}, ensure_ascii=False
        )
        (self._folder / KEPT).mkdir(exist_ok=True)
        store = LocalStore(self._folder)
        store.replace(LIST, bytes(self._paths))
        store.replace(MANIFEST, b'%b, "files": [\n%b\n]}\n' % (head[:-1].encode(), bytes(self._entries)))


def listed(folder: Path, files: Iterable[SinkFile]) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the files that are not empty."""
    return tuple((name_in(folder, file), file.size) for file in files if file.size)


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
