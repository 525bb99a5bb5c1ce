"""What a quarantine holds, read from its files without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]

from headwater.checkpoint import LocalStore, SinkLog
from headwater.connectors.files.sink_folder import name_in
from headwater.errors import CheckpointError
from headwater.errors.catalogue.quarantine import QUARANTINE_UNREADABLE
from headwater.plan.quarantine import AGAIN, ROWS, quarantines_folder
from headwater.quarantine.rows import SetAside


@dataclass(frozen=True)
class Quarantine:
    """The rows that one source or table has set aside.

    <run folder>/quarantine/<name>/
      rows/     what the quarantine's query has committed; Spark's log in it says which files count
      again/    rows that were fed again, a file for each time
    """

    name: str
    folder: Path

    def rows(self) -> Iterator[SetAside]:
        """Every row that was ever set aside, oldest first; one that came back bad stands here again."""
        rows = self.folder / ROWS
        for file in SinkLog(LocalStore(rows)).files():
            if file.size:
                yield from _rows_in(rows / name_in(rows, file))

    def fed(self) -> Iterator[SetAside]:
        """The rows that were fed again."""
        for _, rows in self.fed_files():
            yield from rows

    def fed_files(self) -> Iterator[tuple[Path, Iterator[SetAside]]]:
        """The files of rows that were fed again, oldest first."""
        for file in sorted((self.folder / AGAIN).glob("*.parquet")):
            yield file, _rows_in(file)

    def waiting(self) -> Iterator[SetAside]:
        """The rows that were set aside once more than they were fed again."""
        fed = Counter(row.id for row in self.fed())
        for row in self.rows():
            if fed[row.id]:
                fed[row.id] -= 1
            else:
                yield row


def quarantines(run_folder: Path) -> tuple[Quarantine, ...]:
    """Every quarantine of a run folder, by name."""
    folder = quarantines_folder(run_folder)
    found = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    return tuple(Quarantine(each.name, each) for each in found)


def _rows_in(file: Path) -> Iterator[SetAside]:
    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                yield from map(SetAside.of, batch.to_pylist())
    except (OSError, KeyError, TypeError, pyarrow.ArrowInvalid) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(QUARANTINE_UNREADABLE.at(None, file=str(file), reason=reason)) from error
