"""Which files of a path were admitted and which rejected, and the list of it that Spark reads.

    admitted/<source>/<path>/files.json         what was found of each file, with its size and time
    admitted/<source>/<path>/place              the path that it is about, as a pattern
    admitted/<source>/<path>/rejected/<name>    a small file in place of one that can't be opened: it says why
    admitted/<source>/<path>/_spark_metadata/0  the list of both, in the format of Spark's file sink

Spark reads a folder with such a list by the list alone, whose entries may lie anywhere, so a query sees the
admitted files and, in its own order and once, the stand-ins of the others. The order of writing is stand-in,
record, list; the list is made from the record at each start, so that a kill between two of them is put right.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from headwater.checkpoint import SINK_LOG, LocalStore
from headwater.connectors.files.judging.texts import address_of
from headwater.spec.paths import plain_path

VERSION = 1
_BLOCK = 32 << 20
_PLACE = "place"


def folder_of(run_folder: Path, source: str, number: int) -> Path:
    """Where the record of one path of a source is kept."""
    return run_folder / "admitted" / source / str(number)


def place_of(read: str) -> str:
    """What a query really reads: the path that an admission is about, or what was given."""
    try:
        return (Path(plain_path(read)) / _PLACE).read_text(encoding="utf-8") if "/admitted/" in read else read
    except (FileNotFoundError, NotADirectoryError):
        return read


def rejected_files(folder: Path) -> dict[str, str]:
    """The files that are rejected as they are now, each with the small file in its place."""
    record = Record(folder, "")
    record.read()
    return {path: each.stands_in for path, each in record.files.items() if each.stands_in}


@dataclass(frozen=True)
class Stamp:
    """A file as it was when it was looked at."""

    size: int
    modified_ms: int


@dataclass(frozen=True)
class Looked:
    """What was found of a file; `stands_in` is the path of the small file in its place."""

    stamp: Stamp
    stands_in: str = ""


class Record:
    """The record of one path."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder = folder
        self.place = place
        self._store = LocalStore(folder)
        self.files: dict[str, Looked] = {}
        self.stand_ins: dict[str, Stamp] = {}
        """Every small file that was ever written; one stays in the list when its file was mended or went."""

    @property
    def rejected(self) -> Path:
        return self.folder / "rejected"

    def begin(self) -> None:
        """Say what it is about; others ask before the first file is looked at."""
        (self.folder / SINK_LOG).mkdir(parents=True, exist_ok=True)
        self._store.replace(_PLACE, self.place.encode())

    def read(self) -> None:
        """Take in what an earlier run has found."""
        try:
            noted = json.loads(self._store.read("files.json"))
        except FileNotFoundError:
            return
        if noted["version"] != VERSION:
            raise ValueError(f"{self._store.locate('files.json')} is of version {noted['version']}")
        self.files = {
            path: Looked(Stamp(**each["stamp"]), each["stands_in"]) for path, each in noted["files"].items()
        }
        self.stand_ins = {path: Stamp(**each) for path, each in noted["stand_ins"].items()}

    def write(self) -> None:
        """Keep what was found, then let Spark see it; the folders are there since `begin`."""
        noted = {
            "version": VERSION,
            "files": {path: asdict(each) for path, each in self.files.items()},
            "stand_ins": {path: asdict(each) for path, each in self.stand_ins.items()},
        }
        self._store.replace("files.json", json.dumps(noted).encode() + b"\n")
        self._store.replace(f"{SINK_LOG}/0", "\n".join(["v1", *self._lines()]).encode())

    def name_for(self, path: str, stamp: Stamp) -> str:
        """The name of the small file in place of another one, as it is now."""
        text = f"{path}\n{stamp.size}\n{stamp.modified_ms}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _lines(self) -> list[str]:
        admitted = {path: each.stamp for path, each in self.files.items() if not each.stands_in}
        return [_line(path, stamp) for path, stamp in {**admitted, **self.stand_ins}.items()]


def _line(path: str, stamp: Stamp) -> str:
    entry = {
        "path": address_of(Path(path)),
        "size": stamp.size,
        "isDir": False,
        # Spark goes by the times of files: it takes the oldest first, and forgets those that are very old.
        "modificationTime": stamp.modified_ms,
        "blockReplication": 1,
        "blockSize": _BLOCK,
        "action": "add",
    }
    return json.dumps(entry, separators=(",", ":"))
