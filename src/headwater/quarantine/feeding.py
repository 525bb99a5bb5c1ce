"""Feeding rows again: they are put where the pipeline reads them beside its source, each once."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from headwater.quarantine.reading import Quarantine, Unread
from headwater.quarantine.rows import Mended, SetAside
from headwater.run_directory import QuarantineDirectory

_UTC = pyarrow.timestamp("us", tz="UTC")
_ROW = pyarrow.struct(
    [
        ("file", pyarrow.string()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", _UTC),
        ("timestamp_type", pyarrow.int32()),
        ("headers", pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))),
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
    ]
)
SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.string()),
        ("source", pyarrow.string()),
        ("reason", pyarrow.string()),
        ("detail", pyarrow.string()),
        ("set_aside_at", _UTC),
        ("row", _ROW),
    ]
)


@dataclass(frozen=True)
class Fed:
    """What was fed again."""

    rows: int
    left: int
    """How many rows still wait."""
    file: Path | None
    unknown: tuple[str, ...] = ()
    """Ids of mended rows that don't wait here; they were not fed."""
    unwanted: tuple[str, ...] = ()
    """Ids of mended rows that wait, and that were not asked for."""
    passed_over: int = 0
    """How many mended rows were not fed because they have no text, and their bytes are as they were."""
    unread: int = 0
    """How many were not fed because a query has yet to read them at their place."""
    behind: tuple[str, ...] = ()
    """These queries."""
    level: bool = True
    """Whether all queries have read the same."""


def _no_queries() -> Unread:
    return Unread("", {}, {}, {})


def feed(
    quarantine: Quarantine,
    wanted: Callable[[SetAside], bool],
    mended: Mapping[str, Sequence[Mended]] | None = None,
    *,
    places: Callable[[], Unread] = _no_queries,
    dry: bool = False,
) -> Fed:
    """Feed the waiting rows that are wanted again; with `mended` only those, with these bytes by their ids.

    A row is counted as fed from the moment its file has its name, and is never fed twice for one time that
    it was set aside. Rows that a query has yet to read, by its place, stay. Files that could not be opened
    are not among them: mended ones are read by themselves.
    """
    with _alone(quarantine.directory):
        waiting = list(quarantine.waiting())
        # After the rows: a batch that the quarantine commits meanwhile moves its place, and brings no row.
        unread = places()
        asked = [row for row in waiting if wanted(row)]
        picked = list(_picked(asked, mended))
        chosen = [row for row in picked if row is not None]
        behind = [unread(row) for row in chosen]
        fed = [row for row, queries in zip(chosen, behind, strict=True) if not queries]
        lines = Counter({id_: len(each) for id_, each in (mended or {}).items()})
        ids, asked_ids = (Counter(row.id for row in rows) for rows in (waiting, asked))
        return Fed(
            rows=len(fed),
            left=sum(row.can_be_fed for row in waiting) - len(fed),
            file=_written(quarantine.directory.replay, fed) if fed and not dry else None,
            unknown=tuple(sorted(lines - ids)),
            unwanted=tuple(sorted((lines & ids) - asked_ids)),
            passed_over=len(picked) - len(chosen),
            unread=len(chosen) - len(fed),
            behind=tuple(sorted(frozenset().union(*behind))),
            level=unread.level,
        )


def _picked(rows: list[SetAside], mended: Mapping[str, Sequence[Mended]] | None) -> Iterator[SetAside | None]:
    """The rows that can be fed, or those of them that were mended, and None for each that is passed over.

    Equal rows share an id, and take what is mended one after another.
    """
    if mended is None:
        yield from (row for row in rows if row.can_be_fed)
        return
    lines = {id_: iter(each) for id_, each in mended.items()}
    for row in rows:
        line = next(lines.get(row.id, iter(())), None)
        if line is not None:
            value = line.bytes_of(row) if row.can_be_fed else None
            yield None if value is None else row.with_bytes(value)


def _written(folder: Path, rows: list[SetAside]) -> Path:
    """The rows in one file, which gets its name when it is whole; Spark passes over hidden names."""
    folder.mkdir(exist_ok=True)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}.parquet"
    part = folder / f".{name}"
    table = pyarrow.Table.from_pylist([row.record() for row in rows], SCHEMA)
    with part.open("wb") as out:
        pyarrow.parquet.write_table(table, out)
        out.flush()
        os.fsync(out.fileno())
    return part.rename(folder / name)


@contextmanager
def _alone(directory: QuarantineDirectory) -> Iterator[None]:
    """Two at once would both find the same rows waiting."""
    with directory.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
