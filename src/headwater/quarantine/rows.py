"""A row that was set aside: where it stood, its bytes, why and when."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.connectors.contract import Reason
from headwater.errors import UsageProblem
from headwater.errors.catalogue.quarantine import MENDED_NO_FILE, MENDED_UNREADABLE

_ID_DIGITS = 16


@dataclass(frozen=True)
class SetAside:
    """One row of a quarantine."""

    source: str
    reason: str
    detail: str | None
    set_aside_at: datetime
    file: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: datetime | None
    timestamp_type: int | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    key: bytes | None
    value: bytes | None
    fed_as: str = ""
    """For a row that is fed again after its bytes were mended: the id under which it was set aside."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> SetAside:
        """From a record of the quarantine's files."""
        row = dict(record["row"])
        headers = row.pop("headers")
        told = {name: record[name] for name in ("source", "reason", "detail")}
        told["set_aside_at"] = _utc(record["set_aside_at"])
        row["timestamp"] = _utc(row["timestamp"]) if row["timestamp"] else None
        listed = tuple((each["key"], each["value"]) for each in headers) if headers is not None else None
        return cls(**told, **row, headers=listed, fed_as=record.get("id") or "")

    @property
    def id(self) -> str:
        """The same for the same row at the same place; lines of one file that are equal share it."""
        if self.fed_as:
            return self.fed_as
        parts = (self.source, self.file, self.topic, self.partition, self.offset, self.key, self.value)
        encoded = [
            part if isinstance(part, bytes) else str(part).encode() for part in parts if part is not None
        ]
        gaps = bytes(part is not None for part in parts)
        text = gaps + b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
        return hashlib.sha256(text).hexdigest()[:_ID_DIGITS]

    @property
    def where(self) -> str:
        """Its place in a few words; empty for the row of a table."""
        if self.topic is not None:
            return f"{self.topic} partition {self.partition} offset {self.offset}"
        return self.file or ""

    @property
    def text(self) -> str | None:
        """Its bytes as text; None where they are no text."""
        return _text(self.value)

    @property
    def can_be_fed(self) -> bool:
        """Whether there is a row to feed: a file that could not be opened is none. Mended, it is read by
        itself."""
        return self.reason != Reason.UNREADABLE_FILE

    def with_bytes(self, value: bytes) -> SetAside:
        """The same row with other bytes, known by the id that it has now."""
        return replace(self, value=value, fed_as=self.id)

    def to_json(self) -> dict[str, Any]:
        """Everything; bytes as text where they are text, and always in base64."""
        told = {name: value for name, value in asdict(self).items() if name not in ("fed_as", "headers")}
        headers = [{"key": key, "value": _base64(value)} for key, value in self.headers or ()]
        told |= {
            "set_aside_at": self.set_aside_at.isoformat(),
            "timestamp": self.timestamp.isoformat() if self.timestamp else None,
            "headers": None if self.headers is None else headers,
            "key": _base64(self.key),
            "value": _base64(self.value),
        }
        return {"id": self.id, **told, "text": self.text}

    def record(self) -> dict[str, Any]:
        """The record of a file from which the pipeline reads it again."""
        headers = self.headers
        row = {
            name: getattr(self, name)
            for name in (
                "file",
                "topic",
                "partition",
                "offset",
                "timestamp",
                "timestamp_type",
                "key",
                "value",
            )
        }
        row["headers"] = None if headers is None else [{"key": key, "value": value} for key, value in headers]
        told = {name: getattr(self, name) for name in ("source", "reason", "detail", "set_aside_at")}
        return {"id": self.id, **told, "row": row}


def _utc(moment: datetime) -> datetime:
    """A time as Spark keeps it: in UTC, which not every form of a parquet file says."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


# Rows that a user has mended, in the form in which they are written out: a JSON object in each line.


@dataclass(frozen=True)
class Mended:
    """What a line says of its row: the bytes of `text`, and those that `value` has in base64."""

    text: bytes | None = None
    value: bytes | None = None

    def bytes_of(self, row: SetAside) -> bytes | None:
        """What the row is fed with: what was changed, else its text; None where it has none."""
        changed = (each for each in (self.text, self.value) if each not in (None, row.value))
        return next(changed, self.text)


def read_mended(file: Path) -> dict[str, list[Mended]]:
    """The lines of a file by the ids of their rows; rows that are equal share one."""
    found: dict[str, list[Mended]] = {}
    for id_, mended in _lines(file):
        found.setdefault(id_, []).append(mended)
    return found


def _lines(file: Path) -> Iterator[tuple[str, Mended]]:
    try:
        # Not by splitlines(): a text may hold signs that it takes for the end of a line.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageProblem(MENDED_NO_FILE.at(None, file=str(file), reason=reason)) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _parsed(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            problem = MENDED_UNREADABLE.at(None, file=str(file), line=number, reason=reason)
            raise UsageProblem(problem) from error


def _parsed(row: Any) -> tuple[str, Mended]:
    id_, text, value = row["id"], row["text"], row.get("value")
    if not isinstance(id_, str) or not all(isinstance(each, str | None) for each in (text, value)):
        raise TypeError("`id` is a text; `text` and `value` are texts, or null")
    return id_, Mended(
        None if text is None else text.encode(),
        None if value is None else base64.b64decode(value, validate=True),
    )
