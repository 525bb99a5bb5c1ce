"""The one small interface through which all checkpoint files are read and written."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

# Errors of file systems without hard links, and without fsync on directories.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class Store(Protocol):
    """A directory of files, named by `/`-separated paths inside it; every failure is an `OSError`.

    The effects of `create`, `replace` and `delete` are on disk when they return.
    """

    def locate(self, name: str) -> str:
        """The full path of a file, for messages."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The sorted names in a directory; none if it does not exist."""

    def read(self, name: str) -> bytes: ...

    def exists(self, name: str) -> bool: ...

    def modified(self, name: str) -> float:
        """When a file was last written, in seconds since 1970 by the store's own clock."""

    def create(self, name: str, data: bytes) -> bool:
        """Create a file with this content; if it exists, return False and change nothing."""

    def replace(self, name: str, data: bytes) -> None:
        """Create or overwrite a file; readers see the old content or the new one, never a part."""

    def delete(self, name: str) -> None:
        """Delete a file; no effect if it does not exist."""

    def delete_tree(self, name: str) -> None:
        """Delete a file, or a directory with its contents."""

    def make_folder(self, name: str) -> None:
        """Create a directory and its parents; no effect if it exists."""


class LocalStore:
    """A directory of a local or mounted file system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def locate(self, name: str) -> str:
        return str(self.root / name)

    def names(self, folder: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self.root / folder)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        """A file to be read in pieces."""
        return (self.root / name).open("rb")

    def exists(self, name: str) -> bool:
        return (self.root / name).exists()

    def modified(self, name: str) -> float:
        return (self.root / name).stat().st_mtime

    def create(self, name: str, data: bytes) -> bool:
        target = self.root / name
        with _temporary(target) as temporary:
            _write(temporary, data)
            if not _put(temporary, target, data):
                return False
        sync_folder(target.parent)
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self.replacing(name) as out:
            out.write(data)

    @contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """Write the new content of a file in pieces; nothing changes before the end, or after an error."""
        target = self.root / name
        with _temporary(target) as temporary:
            with _synced(temporary) as out:
                yield out
            os.replace(temporary, target)
        sync_folder(target.parent)

    def append(self, name: str, size: int, data: bytes) -> bool:
        """Write after the first `size` bytes of a file, and cut off what followed them.

        If the file is shorter, return False and change nothing. A crash can leave a part of the data behind.
        """
        with (self.root / name).open("r+b") as out:
            if out.seek(0, os.SEEK_END) < size:
                return False
            out.truncate(size)
            out.seek(size)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        return True

    def delete(self, name: str) -> None:
        target = self.root / name
        try:
            target.unlink()
        except FileNotFoundError:
            return
        sync_folder(target.parent)

    def delete_tree(self, name: str) -> None:
        target = self.root / name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            self.delete(name)

    def make_folder(self, name: str) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A path next to the target, where its whole content is put on disk before it gets its name.

    The name begins with a dot and ends with `.tmp`: if a crash leaves the file behind, neither Spark nor
    Headwater reads it.
    """
    temporary = target.parent / f".{target.name}.{uuid4().hex}.tmp"
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _put(temporary: Path, target: Path, data: bytes) -> bool:
    """Give the file its name unless the name is taken: a hard link does both in one step."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as failure:
        if failure.errno not in _NO_LINKS:
            raise
        # Without links, the name comes first and the content second: a crash in between leaves an empty file.
        return _write_exclusively(target, data)
    return True


def _write_exclusively(target: Path, data: bytes) -> bool:
    try:
        _write(target, data)
    except FileExistsError:
        return False
    return True


def _write(target: Path, data: bytes) -> None:
    with _synced(target) as out:
        out.write(data)


@contextmanager
def _synced(target: Path) -> Iterator[BinaryIO]:
    """A new file, whose content is on disk at the end."""
    with open(target, "xb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """A new name is safe only when its directory is also on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as failure:
        if failure.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


# Small files that Headwater writes for its own use: one JSON object with a version.
#
# {"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7}}}

T = TypeVar("T")


class NoteError(ValueError):
    """A note that could not be read; `reason` is a sentence without a period."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Note(Generic[T]):
    """One such file. In addition to its version, it has the fields of `kind`, a dataclass."""

    store: Store
    name: str
    kind: type[T]
    version: int = 1

    @classmethod
    def at(cls, file: Path, kind: type[T]) -> Note[T]:
        """The note in a file of the local file system."""
        return cls(LocalStore(file.parent), file.name, kind)

    def read(self) -> T | None:
        """The content; None if the file does not exist, NoteError if it cannot be read."""
        try:
            return self._parsed(json.loads(self.store.read(self.name)))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            missing = first["type"] == "missing"
            reason = f"`{place}` is missing" if missing else f"`{place}`: {first['msg']}"
            raise NoteError(self.store.locate(self.name), reason) from error
        except (OSError, ValueError) as error:
            raise NoteError(self.store.locate(self.name), str(error).rstrip(".")) from error

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self.kind)

    def _parsed(self, record: Any) -> T:
        if not isinstance(record, dict):
            raise ValueError("expected a JSON object")
        if record.get("version") != self.version:
            raise ValueError(f"unsupported version {record.get('version')}, expected {self.version}")
        fields = {name: value for name, value in record.items() if name != "version"}
        return self._adapter.validate_python(fields)

    def text(self, value: T) -> str:
        """The content of the file."""
        fields = self._adapter.dump_python(value, mode="json")
        return json.dumps({"version": self.version, **fields}) + "\n"

    def write(self, value: T) -> None:
        """Replace the content."""
        self.store.make_folder(self.name.rpartition("/")[0])
        self.store.replace(self.name, self.text(value).encode())
