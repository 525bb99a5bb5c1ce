"""Small files that Headwater writes for itself: one JSON object with a version.

{"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7}}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from headwater.checkpoint.store import LocalStore, Store

T = TypeVar("T")


class NoteError(ValueError):
    """A note that can't be read; `reason` is a sentence without a full stop."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Note(Generic[T]):
    """One such file. Beside its version it has the fields of `kind`, a dataclass."""

    store: Store
    name: str
    kind: type[T]
    version: int = 1

    @classmethod
    def at(cls, file: Path, kind: type[T]) -> Note[T]:
        """The note in a file of the local file system."""
        return cls(LocalStore(file.parent), file.name, kind)

    def read(self) -> T | None:
        """What was noted; None where nothing is, NoteError where it can't be read."""
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
            raise ValueError("it is no JSON object")
        if record.get("version") != self.version:
            raise ValueError(f"it has version {record.get('version')}, and {self.version} is known")
        fields = {name: value for name, value in record.items() if name != "version"}
        return self._adapter.validate_python(fields)

    def text(self, value: T) -> str:
        """As it stands in the file."""
        fields = self._adapter.dump_python(value, mode="json")
        return json.dumps({"version": self.version, **fields}) + "\n"

    def write(self, value: T) -> None:
        """Replace what is noted."""
        self.store.make_folder(self.name.rpartition("/")[0])
        self.store.replace(self.name, self.text(value).encode())
