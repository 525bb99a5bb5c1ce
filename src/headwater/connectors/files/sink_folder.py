"""The list of committed files of a sink, for readers that know nothing of Spark's log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.checkpoint import LocalStore, SinkFile, SinkLog
from headwater.errors import CheckpointError
from headwater.errors.catalogue.connectors import SINK_LOG_PATH_INVALID
from headwater.spec.paths import local_path

# The folder of a files sink as it lies on the disk: its log's entries by their names there.

KEPT = "_headwater"
"""What Headwater keeps in the folder; Spark and other readers pass over names that begin with `_`."""


def name_in(folder: Path, file: SinkFile) -> str:
    """A file of the log as a path relative to the folder, with `/` between its parts."""
    path = _path(file)
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    raise CheckpointError(SINK_LOG_PATH_INVALID.at(None, file=str(path), folder=str(folder)))


def named_outside(folder: Path) -> str | None:
    """A file elsewhere that the folder's log names: Spark writes whole paths, which stay after a move."""
    for path in map(_path, SinkLog(LocalStore(folder)).files()):
        # The same folder may have been written through a link.
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
    """The committed files of a sink's folder.

    _headwater/manifest.json    {"version": 1, "sink": "orders", "format": "parquet", "batch": 12,
                                 "partition_by": ["shop"],
                                 "files": [
                                 {"path": "shop=north/part-0….parquet", "size": 712}
                                 ]}
    _headwater/files.txt        shop=north/part-0….parquet

    `batch` is the newest batch whose files are listed; paths are relative to the folder. Each of the two is
    replaced whole, so a reader sees the list of one batch or of another, never a part. Files without a byte
    hold no row and are left out, because many readers fail on them.
    """

    sink: str
    format: str
    partition_by: tuple[str, ...]
    batch: int
    files: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The content of `manifest.json`, one file a line."""
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
        """Replace both files; OSError if that can't be done."""
        (folder / KEPT).mkdir(exist_ok=True)
        store = LocalStore(folder)
        store.replace(LIST, "".join(f"{path}\n" for path, _ in self.files).encode())
        store.replace(MANIFEST, self.text.encode())


def listed(folder: Path, files: Iterable[SinkFile]) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the files that hold something."""
    return tuple((name_in(folder, file), file.size) for file in files if file.size)


def remove(folder: Path) -> None:
    """Take the manifest away: one that nobody keeps up to date would mislead."""
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
    """The files whose removal takes the newest batch out of the log, and nothing else with it.

    Every tenth file or so is `N.compact` and repeats all the batches before it. It can go only while what it
    repeats is still there: every file since the last compact one, or since the beginning.
    """
    if (newest(names) or 0) > batch:
        return []
    if str(batch) in names:
        return [str(batch)]
    compact = max((each for each in range(batch) if f"{each}{_COMPACT}" in names), default=-1)
    is_whole = all(str(each) in names for each in range(compact + 1, batch))
    return [f"{batch}{_COMPACT}"] if is_whole and f"{batch}{_COMPACT}" in names else []
