"""The list of committed files of a sink, for readers that know nothing of Spark's log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.checkpoint import LocalStore, SinkFile
from headwater.connectors.files.sink_folder import KEPT, name_in

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

    @property
    def paths(self) -> str:
        """The content of `files.txt`."""
        return "".join(f"{path}\n" for path, _ in self.files)

    def write(self, folder: Path) -> None:
        """Replace both files; OSError if that can't be done."""
        (folder / KEPT).mkdir(exist_ok=True)
        store = LocalStore(folder)
        store.replace(LIST, self.paths.encode())
        store.replace(MANIFEST, self.text.encode())


def listed(folder: Path, files: Iterable[SinkFile]) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the files that hold something."""
    return tuple((name_in(folder, file), file.size) for file in files if file.size)


def remove(folder: Path) -> None:
    """Take the manifest away: one that nobody keeps up to date would mislead."""
    store = LocalStore(folder)
    for name in (MANIFEST, LIST):
        store.delete(name)
