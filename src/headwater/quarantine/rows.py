"""Quarantined rows: their location, their bytes, and why and when they were quarantined."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.checkpoint import Read
from headwater.connectors import quarantine_sink
from headwater.connectors.connector import ValidatesRows
from headwater.connectors.contract import Reason, place_in_words
from headwater.errors import CheckpointError, UsageError
from headwater.errors.catalogue.running import (
    QUARANTINE_UNREADABLE,
    REPLAY_FILE_INVALID,
    REPLAY_FILE_UNREADABLE,
)
from headwater.plan.quarantine import replay_stream
from headwater.run_directory import QuarantineDirectory, RunDirectory

_ID_DIGITS = 16


@dataclass(frozen=True)
class QuarantinedRow:
    """One row of a quarantine."""

    source: str
    reason: str
    detail: str | None
    quarantined_at: datetime
    file: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: datetime | None
    timestamp_type: int | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    key: bytes | None
    value: bytes | None
    replayed_as: str = ""
    """For a row that is replayed with corrected bytes: the ID under which it was quarantined."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> QuarantinedRow:
        """From a record of the quarantine's files."""
        row = dict(record["row"])
        headers = row.pop("headers")
        told = {name: record[name] for name in ("source", "reason", "detail")}
        told["quarantined_at"] = _utc(record["quarantined_at"])
        row["timestamp"] = _utc(row["timestamp"]) if row["timestamp"] else None
        listed = tuple((each["key"], each["value"]) for each in headers) if headers is not None else None
        return cls(**told, **row, headers=listed, replayed_as=record.get("id") or "")

    @property
    def id(self) -> str:
        """The same for the same row at the same location; equal lines of one file share it."""
        if self.replayed_as:
            return self.replayed_as
        parts = (self.source, self.file, self.topic, self.partition, self.offset, self.key, self.value)
        encoded = [
            part if isinstance(part, bytes) else str(part).encode() for part in parts if part is not None
        ]
        gaps = bytes(part is not None for part in parts)
        text = gaps + b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
        return hashlib.sha256(text).hexdigest()[:_ID_DIGITS]

    @property
    def where(self) -> str:
        """Its location in a few words; empty for the row of a table."""
        return place_in_words(self)

    @property
    def text(self) -> str | None:
        """Its bytes as text; None if they are not text."""
        with suppress(UnicodeDecodeError):
            return None if self.value is None else self.value.decode()
        return None

    @property
    def can_replay(self) -> bool:
        """Whether there is a row to replay: a file that could not be opened is not one. Once corrected, it is
        read automatically."""
        return self.reason != Reason.UNREADABLE_FILE

    def with_bytes(self, value: bytes) -> QuarantinedRow:
        """The same row with different bytes, identified by its current ID."""
        return replace(self, value=value, replayed_as=self.id)

    def to_json(self) -> dict[str, Any]:
        """All fields; bytes as text if they are text, and always in Base64."""
        told = {name: value for name, value in asdict(self).items() if name not in ("replayed_as", "headers")}
        headers = [{"key": key, "value": _base64(value)} for key, value in self.headers or ()]
        told |= {
            "quarantined_at": self.quarantined_at.isoformat(),
            "timestamp": self.timestamp.isoformat() if self.timestamp else None,
            "headers": None if self.headers is None else headers,
            "key": _base64(self.key),
            "value": _base64(self.value),
        }
        return {"id": self.id, **told, "text": self.text}

    def record(self) -> dict[str, Any]:
        """The record of a file from which the pipeline reads it again."""
        row = {name: getattr(self, name) for name in _ROW}
        if self.headers is not None:
            row["headers"] = [{"key": key, "value": value} for key, value in self.headers]
        told = {name: getattr(self, name) for name in ("source", "reason", "detail", "quarantined_at")}
        return {"id": self.id, **told, "row": row}


def _utc(moment: datetime) -> datetime:
    """A time as Spark stores it: in UTC; not every form of a Parquet file says so."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


# Rows that a user has corrected, in the format of the export: one JSON object per line.


@dataclass(frozen=True)
class CorrectedRow:
    """The content of a line: the bytes of `text`, and those that `value` has in Base64."""

    text: bytes | None = None
    value: bytes | None = None

    def bytes_of(self, row: QuarantinedRow) -> bytes | None:
        """The bytes for the replay: what was changed, else the text; None if there is none."""
        changed = (each for each in (self.text, self.value) if each not in (None, row.value))
        return next(changed, self.text)


def read_mended(file: Path) -> dict[str, list[CorrectedRow]]:
    """The lines of a file by the IDs of their rows; equal rows share one."""
    found: dict[str, list[CorrectedRow]] = {}
    for id_, corrected in _lines(file):
        found.setdefault(id_, []).append(corrected)
    return found


def _lines(file: Path) -> Iterator[tuple[str, CorrectedRow]]:
    try:
        # Not by splitlines(): a text may contain characters that it treats as line breaks.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(REPLAY_FILE_UNREADABLE.at(None, file=str(file), reason=reason)) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _parsed(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problem = REPLAY_FILE_INVALID.at(None, file=str(file), line=number, reason=reason)
            raise UsageError(problem) from error


def _parsed(row: Any) -> tuple[str, CorrectedRow]:
    id_, text, value = row["id"], row["text"], row.get("value")
    if not isinstance(id_, str) or not all(isinstance(each, str | None) for each in (text, value)):
        raise TypeError("`id` must be a string; `text` and `value` must be strings or null")
    return id_, CorrectedRow(
        None if text is None else text.encode(),
        None if value is None else base64.b64decode(value, validate=True),
    )


# The contents of a quarantine, read from its files without Spark.


@dataclass(frozen=True)
class Quarantine:
    """The rows that one source or table has quarantined.

    <run directory>/quarantine/<name>/
      rows/        what the quarantine's query has committed; Spark's log in it lists the valid files
      replayed/    rows that were replayed, one file per replay
    """

    directory: QuarantineDirectory

    @property
    def name(self) -> str:
        return self.directory.name

    def rows(self) -> Iterator[QuarantinedRow]:
        """Every row that was ever quarantined, oldest first; it appears once for each time."""
        _, sink = quarantine_sink()
        for file in sink.quarantine_files(self.directory.rows):
            yield from _rows_in(file)

    def replayed(self) -> Iterator[QuarantinedRow]:
        """The rows that were replayed."""
        for _, rows in self.replayed_files():
            yield from rows

    def replayed_files(self) -> Iterator[tuple[Path, Iterator[QuarantinedRow]]]:
        """The files of replayed rows, oldest first."""
        for file in self.directory.replayed:
            yield file, _rows_in(file)

    def waiting(self) -> Iterator[QuarantinedRow]:
        """The rows that were quarantined once more often than they were replayed."""
        replayed = Counter(row.id for row in self.replayed())
        for row in self.rows():
            if replayed[row.id]:
                replayed[row.id] -= 1
            else:
                yield row


def quarantines(run_directory: Path) -> tuple[Quarantine, ...]:
    """Every quarantine of a run directory, by name."""
    return tuple(map(Quarantine, RunDirectory(run_directory).quarantines()))


def _rows_in(file: Path) -> Iterator[QuarantinedRow]:
    # Loaded late: every run loads this module, few read a file with it.
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                yield from map(QuarantinedRow.of, batch.to_pylist())
    except (OSError, KeyError, TypeError, pyarrow.ArrowInvalid) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(QUARANTINE_UNREADABLE.at(None, file=str(file), reason=reason)) from error


# Which queries have not read a row at its offset: replayed, they would read it twice.


@dataclass(frozen=True)
class Unread:
    """The progress of the queries in a source or table that has quarantined rows."""

    name: str
    side: ValidatesRows | None
    """Decides whether a row of the source was read; None for a table."""
    readers: Mapping[str, Mapping[str, Read]]
    """What each query has committed, by source name."""
    quarantined: Mapping[str, Read]
    """The origin of the rows of the quarantine, including replayed ones: in a table's quarantine, rows have
    no location, and their text is serialized again, so their IDs do not identify them."""
    replayed: Mapping[str, frozenset[str]]
    """The rows in each file of replayed rows, by the IDs that rows of a source get when they are
    quarantined."""

    @classmethod
    def of(
        cls,
        quarantine: Quarantine,
        side: ValidatesRows | None,
        readers: Mapping[str, Mapping[str, Read]],
        quarantined: Mapping[str, Read],
    ) -> Unread:
        replayed = {
            file.name: frozenset(replace(row, replayed_as="").id for row in rows)
            for file, rows in quarantine.replayed_files()
        }
        return cls(quarantine.name, side, readers, quarantined, replayed)

    def __call__(self, row: QuarantinedRow) -> frozenset[str]:
        """The queries that have not read a row yet."""
        return frozenset(
            name
            for name, read in self.readers.items()
            if not (self._has_at_place(read, row) and self._has_replay(read, row))
        )

    @property
    def level(self) -> bool:
        """Whether all queries have read the same, so no row was checked for one and not for another."""
        streams = (self.name, replay_stream(self.name))
        return all(
            one.get(each, Read()).as_far(other.get(each, Read()))
            for each in streams
            for one in self.readers.values()
            for other in self.readers.values()
        )

    def _has_at_place(self, read: Mapping[str, Read], row: QuarantinedRow) -> bool:
        if self.side is not None:
            return self.side.has_read(read.get(self.name, Read()), row)
        return all(read.get(name, Read()).as_far(other) for name, other in self.quarantined.items())

    def _has_replay(self, read: Mapping[str, Read], row: QuarantinedRow) -> bool:
        """A replayed row may be in the quarantine again without having reached all queries."""
        needed = {file for file, ids in self.replayed.items() if row.id in ids}
        return needed <= {Path(file).name for file in read.get(replay_stream(self.name), Read()).files}


# Replaying rows: they are stored where the pipeline reads them along with its source, each once.


_ROW = ("file", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers", "key", "value")


def replay_schema() -> Any:
    """The columns of a file of replayed rows."""
    import pyarrow as pa

    at, headers = pa.timestamp("us", tz="UTC"), pa.struct([("key", pa.string()), ("value", pa.binary())])
    numbers = pa.int32(), pa.int64(), at, pa.int32()
    types = pa.string(), pa.string(), *numbers, pa.list_(headers), pa.binary(), pa.binary()
    row = pa.struct(list(zip(_ROW, types, strict=True)))
    texts = [(name, pa.string()) for name in ("id", "source", "reason", "detail")]
    return pa.schema([*texts, ("quarantined_at", at), ("row", row)])


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    rows: int
    left: int
    """How many rows are still pending."""
    file: Path | None
    unknown: tuple[str, ...] = ()
    """IDs of corrected rows that are not pending; they were not replayed."""
    unwanted: tuple[str, ...] = ()
    """IDs of corrected rows that are pending but were not selected."""
    passed_over: int = 0
    """How many corrected rows were skipped because they have no text and their bytes are unchanged."""
    unread: int = 0
    """How many were not replayed because a query has not read them at their offset yet."""
    behind: tuple[str, ...] = ()
    """These queries."""
    level: bool = True
    """Whether all queries have read the same."""


def replay_rows(
    quarantine: Quarantine,
    wanted: Callable[[QuarantinedRow], bool],
    corrected: Mapping[str, Sequence[CorrectedRow]] | None = None,
    *,
    places: Callable[[], Unread] = lambda: Unread("", None, {}, {}, {}),
    dry: bool = False,
) -> Replay:
    """Replay the selected pending rows; with `corrected`, only those, with these bytes by their IDs.

    A row counts as replayed as soon as its file has its name, and is replayed at most once for each time that
    it was quarantined. Rows that a query has not reached yet stay pending. Files that could not be opened are
    not included: once corrected, they are read automatically.
    """
    with _alone(quarantine.directory):
        waiting = list(quarantine.waiting())
        # After the rows: a batch that the quarantine commits meanwhile only advances its offset.
        unread = places()
        asked = [row for row in waiting if wanted(row)]
        picked = list(_picked(asked, corrected))
        chosen = [row for row in picked if row is not None]
        behind = [unread(row) for row in chosen]
        replayed = [row for row, queries in zip(chosen, behind, strict=True) if not queries]
        lines = Counter({id_: len(each) for id_, each in (corrected or {}).items()})
        ids, asked_ids = (Counter(row.id for row in rows) for rows in (waiting, asked))
        return Replay(
            rows=len(replayed),
            left=sum(row.can_replay for row in waiting) - len(replayed),
            file=_written(quarantine.directory.replay, replayed) if replayed and not dry else None,
            unknown=tuple(sorted(lines - ids)),
            unwanted=tuple(sorted((lines & ids) - asked_ids)),
            passed_over=len(picked) - len(chosen),
            unread=len(chosen) - len(replayed),
            behind=tuple(sorted(frozenset().union(*behind))),
            level=unread.level,
        )


def _picked(
    rows: list[QuarantinedRow], corrected: Mapping[str, Sequence[CorrectedRow]] | None
) -> Iterator[QuarantinedRow | None]:
    """The rows that can be replayed, or those of them that were corrected; None for each skipped row.

    Equal rows share an ID, and get the corrected lines one after another.
    """
    if corrected is None:
        yield from (row for row in rows if row.can_replay)
        return
    lines = {id_: iter(each) for id_, each in corrected.items()}
    for row in rows:
        line = next(lines.get(row.id, iter(())), None)
        if line is not None:
            value = line.bytes_of(row) if row.can_replay else None
            yield None if value is None else row.with_bytes(value)


def _written(folder: Path, rows: list[QuarantinedRow]) -> Path:
    """Write the rows to one file, which gets its name when it is complete; Spark ignores hidden names."""
    import pyarrow.parquet

    folder.mkdir(exist_ok=True)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}.parquet"
    part = folder / f".{name}"
    table = pyarrow.Table.from_pylist([row.record() for row in rows], replay_schema())
    with part.open("wb") as out:
        pyarrow.parquet.write_table(table, out)
        out.flush()
        os.fsync(out.fileno())
    return part.rename(folder / name)


@contextmanager
def _alone(directory: QuarantineDirectory) -> Iterator[None]:
    """Two replays at the same time would both find the same rows pending."""
    with directory.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
