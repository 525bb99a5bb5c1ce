"""Compaction: merges small files into larger ones, with a record for recovery after a kill at any point."""

from __future__ import annotations

import os
import re
import shutil
import threading
import traceback
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from headwater.checkpoint import LocalStore
from headwater.checkpoint.store import Note
from headwater.connectors.files.errors import COMPACTION_FAILED
from headwater.connectors.files.sink_folder import KEPT
from headwater.errors import CheckpointError, Problem
from headwater.spark.private import byte_streams, packed, unpacked
from headwater.spark.session import see_added_jars
from headwater.spec.paths import as_glob
from headwater.values import count_of, scrub

RECORD = f"{KEPT}/compaction.json"
STAGING = f"{KEPT}/compacting"
_AT_ONCE = 32


@dataclass(frozen=True)
class Rewritten:
    """Files of one directory, by their names in the sink's directory, and the new files with the same rows."""

    files: tuple[str, ...]
    staged: tuple[Path, ...]


def small_files(sizes: Mapping[str, int], after: int, to: int) -> list[tuple[str, ...]]:
    """Groups of files to merge, each from one directory and about as large as `to`.

    A file of half that size is large enough. A directory with fewer than `after` small files is skipped. The
    number of groups per pass is limited.
    """
    folders: dict[str, list[str]] = {}
    for name, size in sizes.items():
        if size < to / 2:
            folders.setdefault(os.path.dirname(name), []).append(name)
    crowded = [names for names in folders.values() if len(names) >= after]
    return list(islice((group for names in crowded for group in _filled(names, sizes, to)), _AT_ONCE))


def _filled(names: Iterable[str], sizes: Mapping[str, int], to: int) -> Iterator[tuple[str, ...]]:
    groups: list[list[str]] = [[]]
    room = to
    for name in names:
        if sizes[name] > room:
            groups.append([])
            room = to
        groups[-1].append(name)
        room -= sizes[name]
    return (tuple(group) for group in groups if len(group) > 1)


@dataclass(frozen=True)
class Pass:
    """One exchange of files: the replaced and the new ones."""

    replaced: tuple[str, ...]
    written: tuple[str, ...]
    planned: int | None = None
    """The newest batch that was planned when the log was changed; None before that."""
    at: float = 0.0
    """When the log was changed, in seconds since 1970."""

    @property
    def files(self) -> frozenset[str]:
        return frozenset((*self.replaced, *self.written))


@dataclass(frozen=True)
class _Noted:
    """The content of the record."""

    passes: tuple[Pass, ...]


class CompactionRecord:
    """The exchanges whose old files are not deleted yet: `_headwater/compaction.json` in the sink's directory.

    The order is: stage the new files under `_headwater/`, record the exchange, move the new files to their
    paths, exchange them in Spark's log, record that, and much later delete the old files. Before the log
    changes, no reader knows the new files; after that, no new reader knows the old ones. So after a kill, only
    the log decides: a file that is in the record and not in the log can be deleted, unless a reader may use it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = LocalStore(folder)
        self._note = Note(self._store, RECORD, _Noted)

    @property
    def passes(self) -> tuple[Pass, ...]:
        noted = self._note.read()
        return noted.passes if noted else ()

    def note(self, *passes: Pass) -> None:
        """Replace the recorded exchanges."""
        if passes:
            self._note.write(_Noted(passes))
        else:
            self._store.delete(RECORD)

    def drop(self, one: Pass, others: Iterable[Pass]) -> None:
        """Undo an exchange that failed: no reader has seen its new files."""
        self._delete(one.written)
        self.note(*others)

    def recover(self, listed: Collection[str], planned: int, now: float) -> None:
        """Clean up after a kill, before anything new starts."""
        shutil.rmtree(self.folder / STAGING, ignore_errors=True)
        noted = self.passes
        for each in noted:
            if each.planned is None and not set(each.written) <= set(listed):
                # The log was not changed, so no reader has seen these files.
                self._delete(each.written)
        kept = tuple(
            each if each.planned is not None else replace(each, planned=planned, at=now)
            for each in noted
            if each.planned is not None or set(each.written) <= set(listed)
        )
        if kept != noted:
            self.note(*kept)

    def tidy(self, listed: Collection[str], committed: int, now: float, keep: float) -> None:
        """Delete the files that are no longer in the log and that no reader uses.

        While a batch that was planned before the exchange runs, it may add the old files to the log again
        (see `exchange`). After it has committed, the log is final. If the clock is set back, files only stay
        longer.
        """
        noted, over = self.passes, self._over(committed, now, keep)
        rest = [each for each in noted if each not in over]
        used = set(listed).union(*(each.files for each in rest))
        self._delete(name for each in over for name in sorted(each.files - used))
        self.note(*rest)

    def is_due(self, committed: int, now: float, keep: float) -> bool:
        """Whether `tidy` has files to delete."""
        return bool(self._over(committed, now, keep))

    def _over(self, committed: int, now: float, keep: float) -> list[Pass]:
        return [
            each
            for each in self.passes
            if each.planned is not None and each.planned <= committed and each.at + keep <= now
        ]

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            file = self.folder / name
            file.unlink(missing_ok=True)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


# Text files are joined byte by byte through Hadoop's codecs: the text around their rows, and the copying.

_EDGE = 1 << 16
_ROOT = re.compile(rb"\s*(?:<\?xml.*?\?>)?\s*<([^\s<>/?!]+)[^<>]*>", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """The text around the rows of a text file; files with the same frame can be joined."""

    suffix: str
    head: bytes = b""
    tail: bytes = b""
    odd: str = ""
    """The name of a file that Spark did not write in the usual form; it is not joined."""


def frame_of(name: str, format: str, options: Mapping[str, str], begin: bytes, end: bytes) -> Frame:
    """The frame of a file from its first and last bytes: the header of CSV, the root element of XML."""
    suffix = "".join(Path(name).suffixes)
    odd = Frame(suffix, odd=name)
    if not begin:
        return Frame(suffix)
    if format == "xml":
        root = _ROOT.match(begin)
        tail = re.search(rb"\s*</" + re.escape(root[1]) + rb"\s*>\s*\Z", end) if root else None
        return Frame(suffix, root[0], tail[0]) if root and tail else odd
    given = {key.lower(): value for key, value in options.items()}
    line_end = given.get("linesep", "\n").encode()
    if not end.endswith(line_end):
        return odd
    if format != "csv" or given.get("header", "").lower() != "true":
        return Frame(suffix)
    names, found, _ = begin.partition(line_end)
    # A name with a line break continues after the first line.
    return Frame(suffix, names + found) if found and names.count(b'"') % 2 == 0 else odd


# Merging small files into one, with exactly the same rows.

TYPED = ("avro", "orc", "parquet")
_WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class RowsDifferError(Exception):
    """The compacted files do not contain the same rows as the small ones."""


@dataclass(frozen=True)
class Rewriter:
    """Compacts files of one sink. Typed formats are read and written; text is joined byte by byte.

    Text is not parsed, because the result could differ: numbers could change their format, empty values could
    become nulls, and columns of an older schema could be lost. The driver joins it, compressed or not, without
    keeping it in memory.
    """

    spark: Any
    folder: Path
    format: str
    options: Mapping[str, str]
    """The Spark options of the sink."""

    def see_jars(self) -> None:
        """Make the jars that were added after the JVM started available to this thread."""
        see_added_jars(self.spark)

    def rewrite(self, group: Iterable[str]) -> Iterator[Rewritten]:
        """One new file for all compatible files; a file that matches no other stays."""
        # Avro files must have the same schema, text files the same frame.
        alike: dict[Hashable, list[Path]] = {}
        for file in (self.folder / name for name in group):
            key: Hashable = None
            if self.format not in ("orc", "parquet"):
                key = str(self._read([file]).schema.json()) if self.format == "avro" else self._frame(file)
            alike.setdefault(key, []).append(file)
        for key, files in alike.items():
            if len(files) > 1:
                staging = self.folder / STAGING / uuid4().hex
                if isinstance(key, Frame):
                    self._join(files, staging, key)
                else:
                    self._write(files, staging)
                names = tuple(file.relative_to(self.folder).as_posix() for file in files)
                yield Rewritten(names, _written(staging))

    def _read(self, files: Iterable[Path]) -> Any:
        # Files of an older schema may have fewer or different columns.
        reader = self.spark.read.format(self.format).options(mergeSchema="true", **_WHOLE)
        return reader.load([as_glob(str(file), file) for file in files])

    def _write(self, files: list[Path], staging: Path) -> None:
        rows = self._read(files)
        rows.coalesce(1).write.format(self.format).options(**self.options).save(str(staging))
        before, after = rows.count(), self._read(_written(staging)).count()
        if before != after:
            raise RowsDifferError(f"expected {count_of(before, 'row')}, got {count_of(after, 'row')}")

    def _join(self, files: list[Path], staging: Path, frame: Frame) -> None:
        """Write one file with the rows of all, within their common frame."""
        staging.mkdir(parents=True)
        with closing(packed(self.spark, staging / f"part{frame.suffix}")) as out:
            out.write(bytearray(frame.head))
            for file in files:
                rows = self._length(file) - len(frame.head) - len(frame.tail)
                if rows > 0:
                    with closing(unpacked(self.spark, file)) as source:
                        byte_streams(self.spark).copyLarge(source, out, len(frame.head), rows)
            out.write(bytearray(frame.tail))

    def _frame(self, file: Path) -> Frame:
        """The frame of a text file."""
        length = self._length(file)
        edge = min(length, _EDGE)
        begin, end = self._at(file, 0, edge), self._at(file, length - edge, edge)
        return frame_of(file.name, self.format, self.options, begin, end)

    def _length(self, file: Path) -> int:
        """The uncompressed length of a file."""
        with closing(unpacked(self.spark, file)) as source:
            return int(byte_streams(self.spark).consume(source))

    def _at(self, file: Path, start: int, length: int) -> bytes:
        with closing(unpacked(self.spark, file)) as source:
            byte_streams(self.spark).skipFully(source, start)
            return bytes(source.readNBytes(length))


def _written(staging: Path) -> tuple[Path, ...]:
    """The written files, synced to disk."""
    files = tuple(sorted(file for file in staging.iterdir() if file.name.startswith("part")))
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    return files


# Compacts small files in a separate thread while the query runs.

_INTERRUPT_SECONDS = 5.0


class Compactor:
    """Stages new files for one sink; it neither moves them to their final paths nor changes the log.

    Its Spark jobs run in a separate fair pool, so they share resources with the queries. After a failure, it
    does nothing until the next start, because a retry would fail again.
    """

    def __init__(self, sink: str, rewriter: Rewriter) -> None:
        self._sink = sink
        self._rewriter = rewriter
        self._job_group = f"headwater compaction {uuid4().hex}"
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._done: list[Rewritten] = []
        self._problem: Problem | None = None
        self._failed = False

    @property
    def is_idle(self) -> bool:
        """Whether a new compaction can start."""
        return self._thread is None and not self._failed

    @property
    def has_finished(self) -> bool:
        """Whether results are available."""
        return self._thread is not None and not self._thread.is_alive()

    def begin(self, groups: list[tuple[str, ...]]) -> None:
        """Compact each group of files; does nothing without groups."""
        if groups:
            self._done, self._problem = [], None
            self._thread = threading.Thread(
                target=self._work, args=(groups,), daemon=True, name=f"headwater compaction {self._sink}"
            )
            self._thread.start()

    def take(self) -> list[Rewritten]:
        """The results since `begin`; an error if the compaction failed."""
        self._thread = None
        if self._problem:
            self._failed = True
            raise CheckpointError(self._problem)
        return self._done

    def end(self, patience: float | None) -> None:
        """Wait up to `patience` seconds for a running compaction; None abandons it immediately, without Spark."""
        if self._thread is None:
            return
        self._thread.join(patience or 0)
        if self._thread.is_alive():
            self._cancelled.set()
            if patience is not None:
                self._rewriter.spark.sparkContext.cancelJobGroup(self._job_group)
            self._thread.join(_INTERRUPT_SECONDS)
            self._thread, self._failed = None, True

    def _work(self, groups: list[tuple[str, ...]]) -> None:
        context: Any = self._rewriter.spark.sparkContext
        try:
            self._rewriter.see_jars()
            context.setLocalProperty("spark.scheduler.pool", f"{self._sink} compaction")
            context.setJobGroup(self._job_group, f"{self._sink}: compacting small files")
            for group in groups:
                self._done += self._rewriter.rewrite(group)
                if self._cancelled.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - Spark raises many kinds of errors; `take` reports them all
            says = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            problem = COMPACTION_FAILED.at(None, sink=self._sink, says=scrub(says))
            self._problem = replace(problem, detail=scrub(traceback.format_exc()))
