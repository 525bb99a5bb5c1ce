"""The manifest: the committed files of a sink, for readers that do not use Spark's log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.checkpoint import LocalStore, SinkFile, SinkLog
from headwater.errors import CheckpointError
from headwater.errors.catalogue.connectors import SINK_LOG_PATH_INVALID
from headwater.spec.paths import local_path

# The directory of a files sink on disk: the entries of its log by their names there.

KEPT = "_headwater"
"""Headwater's files in the directory; Spark and other readers ignore names that start with `_`."""


def name_in(folder: Path, file: SinkFile) -> str:
    """A file of the log as a path relative to the directory, with `/` as separator."""
    path = _path(file)
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    raise CheckpointError(SINK_LOG_PATH_INVALID.at(None, file=str(path), folder=str(folder)))


def named_outside(folder: Path) -> str | None:
    """A file in the log that is outside of the directory: Spark stores full paths, which do not change if
    the directory is moved."""
    for path in map(_path, SinkLog(LocalStore(folder)).files()):
        # The same directory may have been written through a symlink.
        if not path.is_relative_to(folder) and not path.resolve().is_relative_to(folder.resolve()):
            return str(path)
    return None


def _path(file: SinkFile) -> Path:
    return local_path(file.path) or Path(file.path)


VERSION = 1
MANIFEST = f"{KEPT}/manifest.json"
LIST = f"{KEPT}/files.txt"


@dataclass(frozen=True)
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
    """

    sink: str
    format: str
    partition_by: tuple[str, ...]
    batch: int
    files: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The content of `manifest.json`, one file per line."""
        head = {
            "version": VERSION,
            "sink": self.sink,
            "format": self.format,
            "batch": self.batch,
            "partition_by": list(self.partition_by),
        }
        files = [json.dumps({"path": path, "size": size}, ensure_ascii=False) for path, size in self.files]
        listed = ",\n".join(files)
        return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "files": [\n{listed}\n]}}\n'

    def write(self, folder: Path) -> None:
        """Replace both files; OSError if that fails."""
        (folder / KEPT).mkdir(exist_ok=True)
        store = LocalStore(folder)
        store.replace(LIST, "".join(f"{path}\n" for path, _ in self.files).encode())
        store.replace(MANIFEST, self.text.encode())


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
