"""Folders with one small text file per batch, as Spark keeps all its logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headwater.checkpoint.store import Store
from headwater.errors import CheckpointError, Entry
from headwater.errors.catalogue import checkpoints as catalogue

T = TypeVar("T")

# Spark reads these names as numbers; `.3.crc`, `.3.<uuid>.tmp` and whatever else lies there are no batches.
NUMBER = re.compile(r"\d+", re.ASCII)
_VERSION = re.compile(r"v([1-9]\d*)", re.ASCII)


class DamagedFileError(Exception):
    """Why a file is not what it should be; `Batches` turns it into an error of the catalogue."""


@dataclass(frozen=True)
class Batches(Generic[T]):
    """A folder with one file per batch: the version on the first line, then what `parse` understands."""

    store: Store
    folder: str
    newest_version: int
    damaged: Entry
    parse: Callable[[int, int, list[str]], T]

    def ids(self) -> tuple[int, ...]:
        names = listed(self.store, self.folder)
        return tuple(sorted(int(name) for name in names if NUMBER.fullmatch(name)))

    def entries(self, newest_first: bool = False) -> Iterator[T]:
        # A running query purges old batches: one that is gone by the time we read it is no fault.
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
            raise DamagedFileError(f"its first line is {line[:20]!r} and not a version")
        version = int(match[1])
        if version > self.newest_version:
            problem = catalogue.LOG_VERSION.at(file=file, version=match[0], newest=self.newest_version)
            raise CheckpointError(problem)
        return version


def listed(store: Store, folder: str) -> tuple[str, ...]:
    try:
        return store.names(folder)
    except OSError as failure:
        raise unreadable(store, folder, failure) from failure


def content(store: Store, name: str) -> bytes | None:
    """The bytes of a file, None when there is none."""
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
    # Some file systems give back zero bytes for what was never written out before the power failed.
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
        raise DamagedFileError(f"this is not complete JSON: {text[:40]!r}") from failure


def json_object(text: str) -> dict[str, Any]:
    value = json_value(text)
    if not isinstance(value, dict):
        raise DamagedFileError(f"this is not a JSON object: {text[:40]!r}")
    return value


def text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise DamagedFileError(f"the field {name!r} is missing or not a text")
    return value


def integer_field(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedFileError(f"the field {name!r} is missing or not a whole number")
    return value
