"""Feeding rows again: they are put where the pipeline reads them beside its source, each once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from headwater.connectors.judged import Reason
from headwater.plan.quarantine import AGAIN
from headwater.quarantine.reading import Quarantine
from headwater.quarantine.rows import SetAside

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
    unread: int = 0
    """How many were not fed because a query has yet to read them at their place."""
    behind: tuple[str, ...] = ()
    """These queries."""


def _read_by_all(row: SetAside) -> frozenset[str]:
    return frozenset()


def feed(
    quarantine: Quarantine,
    wanted: Callable[[SetAside], bool],
    mended: Mapping[str, Sequence[str]] | None = None,
    *,
    unread: Callable[[SetAside], frozenset[str]] = _read_by_all,
    dry: bool = False,
) -> Fed:
    """Feed the waiting rows that are wanted again; with `mended` only those, with these texts by their ids.

    A row is counted as fed from the moment its file has its name, and is never fed twice for one time that
    it was set aside. Rows that a query has yet to read, by `unread`, stay. Files that could not be opened
    are not among them: mended ones are read by themselves.
    """
    with _alone(quarantine.folder):
        waiting = list(quarantine.waiting())
        fit = [row for row in waiting if wanted(row) and row.reason != Reason.UNREADABLE_FILE]
        chosen = fit if mended is None else list(_with_texts(fit, mended))
        behind = [unread(row) for row in chosen]
        fed = [row for row, queries in zip(chosen, behind, strict=True) if not queries]
        unknown = set(mended or ()) - {row.id for row in waiting}
        file = _written(quarantine.folder / AGAIN, fed) if fed and not dry else None
        return Fed(
            len(fed),
            len(waiting) - len(fed),
            file,
            tuple(sorted(unknown)),
            len(chosen) - len(fed),
            tuple(sorted(frozenset().union(*behind))),
        )


def _with_texts(rows: list[SetAside], mended: Mapping[str, Sequence[str]]) -> Iterator[SetAside]:
    """The rows that were mended; equal rows share an id, and take their texts one after another."""
    texts = {id_: list(each) for id_, each in mended.items()}
    for row in rows:
        if texts.get(row.id):
            yield row.with_text(texts[row.id].pop(0))


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
def _alone(folder: Path) -> Iterator[None]:
    """Two at once would both find the same rows waiting."""
    with (folder / ".feeding").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
