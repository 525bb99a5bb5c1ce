"""What a quarantine holds, read from its files without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]

from headwater.checkpoint import LocalStore, Read, SinkLog
from headwater.connectors.files.sink_folder import name_in
from headwater.errors import CheckpointError
from headwater.errors.catalogue.quarantine import QUARANTINE_UNREADABLE
from headwater.plan.quarantine import fed_again
from headwater.quarantine.rows import SetAside
from headwater.run_directory import QuarantineDirectory, RunDirectory


@dataclass(frozen=True)
class Quarantine:
    """The rows that one source or table has set aside.

    <run directory>/quarantine/<name>/
      rows/     what the quarantine's query has committed; Spark's log in it says which files count
      again/    rows that were fed again, a file for each time
    """

    directory: QuarantineDirectory

    @property
    def name(self) -> str:
        return self.directory.name

    def rows(self) -> Iterator[SetAside]:
        """Every row that was ever set aside, oldest first; one that came back bad stands here again."""
        rows = self.directory.rows
        for file in SinkLog(LocalStore(rows)).files():
            if file.size:
                yield from _rows_in(rows / name_in(rows, file))

    def fed(self) -> Iterator[SetAside]:
        """The rows that were fed again."""
        for _, rows in self.fed_files():
            yield from rows

    def fed_files(self) -> Iterator[tuple[Path, Iterator[SetAside]]]:
        """The files of rows that were fed again, oldest first."""
        for file in self.directory.replayed:
            yield file, _rows_in(file)

    def waiting(self) -> Iterator[SetAside]:
        """The rows that were set aside once more than they were fed again."""
        fed = Counter(row.id for row in self.fed())
        for row in self.rows():
            if fed[row.id]:
                fed[row.id] -= 1
            else:
                yield row


def quarantines(run_directory: Path) -> tuple[Quarantine, ...]:
    """Every quarantine of a run directory, by name."""
    return tuple(map(Quarantine, RunDirectory(run_directory).quarantines()))


def _rows_in(file: Path) -> Iterator[SetAside]:
    try:
        with pyarrow.parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                yield from map(SetAside.of, batch.to_pylist())
    except (OSError, KeyError, TypeError, pyarrow.ArrowInvalid) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(QUARANTINE_UNREADABLE.at(None, file=str(file), reason=reason)) from error


# Which queries have not read a row where it stands: fed again to these, it would come to them twice.


@dataclass(frozen=True)
class Unread:
    """How far the queries have read a source or table that has set rows aside."""

    name: str
    readers: Mapping[str, Mapping[str, Read]]
    """What each query has committed, by the names of its sources."""
    set_aside: Mapping[str, Read]
    """What the rows of the quarantine come from, those that were fed again too: where a table set them aside,
    they hold no place of their own, and their text was written anew, so that their ids tell nothing of it."""
    again: Mapping[str, frozenset[str]]
    """The rows in each file of rows that were fed again, by the ids that those of a source get when they are
    set aside."""

    @classmethod
    def of(
        cls,
        quarantine: Quarantine,
        readers: Mapping[str, Mapping[str, Read]],
        set_aside: Mapping[str, Read],
    ) -> Unread:
        again = {
            file.name: frozenset(replace(row, fed_as="").id for row in rows)
            for file, rows in quarantine.fed_files()
        }
        return cls(quarantine.name, readers, set_aside, again)

    def __call__(self, row: SetAside) -> frozenset[str]:
        """The queries that have yet to read a row."""
        return frozenset(name for name, read in self.readers.items() if not self._has(read, row))

    @property
    def level(self) -> bool:
        """Whether all queries have read the same, so that no row was judged for one and not for another."""
        streams = (self.name, fed_again(self.name))
        return all(
            one.get(each, Read()).as_far(other.get(each, Read()))
            for each in streams
            for one in self.readers.values()
            for other in self.readers.values()
        )

    def _has(self, read: Mapping[str, Read], row: SetAside) -> bool:
        return self._has_at_place(read, row) and self._has_fed(read, row)

    def _has_at_place(self, read: Mapping[str, Read], row: SetAside) -> bool:
        source = read.get(self.name, Read())
        if row.topic is not None and row.partition is not None and row.offset is not None:
            return source.has_message(row.topic, row.partition, row.offset)
        if row.file is not None:
            return row.file in source.files
        return all(read.get(name, Read()).as_far(other) for name, other in self.set_aside.items())

    def _has_fed(self, read: Mapping[str, Read], row: SetAside) -> bool:
        """A row that was fed before may have come back to the quarantine, and not have come to all others."""
        needed = {file for file, ids in self.again.items() if row.id in ids}
        return needed <= {Path(file).name for file in read.get(fed_again(self.name), Read()).files}
