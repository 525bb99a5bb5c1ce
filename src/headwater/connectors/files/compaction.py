"""Which small files become larger ones, and the record by which a kill at any point is put right."""

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
from headwater.values import scrub

RECORD = f"{KEPT}/compaction.json"
STAGING = f"{KEPT}/compacting"
_AT_ONCE = 32


@dataclass(frozen=True)
class Rewritten:
    """Files of one folder, by their names in the sink's folder, and the new files that hold the same rows."""

    files: tuple[str, ...]
    staged: tuple[Path, ...]


def small_files(sizes: Mapping[str, int], after: int, to: int) -> list[tuple[str, ...]]:
    """Files that are to become one, each group of one folder and about as large as `to`.

    A file of half that size is large enough; a folder with fewer than `after` small ones is left alone.
    So much is chosen as is done in one go.
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
    """One exchange of files: those that went, those that came."""

    replaced: tuple[str, ...]
    written: tuple[str, ...]
    planned: int | None = None
    """The newest batch that was planned when the log had been changed; None before that."""
    at: float = 0.0
    """When the log was changed, in seconds since 1970."""

    @property
    def files(self) -> frozenset[str]:
        return frozenset((*self.replaced, *self.written))


@dataclass(frozen=True)
class _Noted:
    """What the record holds."""

    passes: tuple[Pass, ...]


class CompactionRecord:
    """The exchanges whose files are not tidied up yet: `_headwater/compaction.json` in the sink's folder.

    The order is: stage the new files under `_headwater/`; note the exchange; move the new files to their
    places; exchange them in Spark's log; note that; much later delete the old files. Until the log is changed
    no reader knows the new files, and after it none that begins knows the old ones. So after a kill the log
    alone decides: what is noted here and not in the log can go, unless a reader may still be at it.
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
        """Replace what is noted."""
        if passes:
            self._note.write(_Noted(passes))
        else:
            self._store.delete(RECORD)

    def drop(self, one: Pass, others: Iterable[Pass]) -> None:
        """An exchange did not come about: no reader has ever heard of its new files."""
        self._delete(one.written)
        self.note(*others)

    def recover(self, listed: Collection[str], planned: int, now: float) -> None:
        """Put right what a kill left, before anything new is begun."""
        shutil.rmtree(self.folder / STAGING, ignore_errors=True)
        noted = self.passes
        for each in noted:
            if each.planned is None and not set(each.written) <= set(listed):
                # The log was not changed: no reader has ever heard of these.
                self._delete(each.written)
        kept = tuple(
            each if each.planned is not None else replace(each, planned=planned, at=now)
            for each in noted
            if each.planned is not None or set(each.written) <= set(listed)
        )
        if kept != noted:
            self.note(*kept)

    def tidy(self, listed: Collection[str], committed: int, now: float, keep: float) -> None:
        """Delete the files that the log does not list any more and no reader reads.

        While a batch that was planned before the exchange goes on, it may bring the old files back into the
        log (see `exchange`); when it has committed, what the log says is final. A clock that was set back
        only lets files stay longer.
        """
        noted = self.passes
        over = [
            each
            for each in noted
            if each.planned is not None and each.planned <= committed and each.at + keep <= now
        ]
        if not over:
            return
        rest = [each for each in noted if each not in over]
        used = set(listed).union(*(each.files for each in rest))
        self._delete(name for each in over for name in sorted(each.files - used))
        self.note(*rest)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            file = self.folder / name
            file.unlink(missing_ok=True)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


# Text files joined byte by byte: what stands around their rows, and the copying, through Hadoop's codecs.

_EDGE = 1 << 16
_ROOT = re.compile(rb"\s*(?:<\?xml.*?\?>)?\s*<([^\s<>/?!]+)[^<>]*>", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """What stands around the rows of a text file; files with the same frame can be joined."""

    suffix: str
    head: bytes = b""
    tail: bytes = b""
    odd: str = ""
    """The name of a file that is not as Spark writes it; it is joined to no other."""


def frame_of(name: str, format: str, options: Mapping[str, str], begin: bytes, end: bytes) -> Frame:
    """The frame of a file by its first and last bytes: a csv file's names, an xml file's root element."""
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
    # A name with a line break in it goes on behind the first line.
    return Frame(suffix, names + found) if found and names.count(b'"') % 2 == 0 else odd


# Rewriting small files as one: the rows that come out are exactly those that went in.

TYPED = ("avro", "orc", "parquet")
_WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class RowsDifferError(Exception):
    """The rewritten files do not hold what the small ones hold."""


@dataclass(frozen=True)
class Rewriter:
    """Rewrites files of one sink. Typed formats are read and written; text is joined byte by byte.

    Text is not parsed, because what comes out could differ: numbers are written in another way, empty values
    become nulls, columns of an older schema get lost. It is joined on the driver, packed or not, and none of
    it is held in memory.
    """

    spark: Any
    folder: Path
    format: str
    options: Mapping[str, str]
    """What the sink writes with."""

    def see_jars(self) -> None:
        """Let this thread see the jars that the session got after its JVM was started."""
        see_added_jars(self.spark)

    def rewrite(self, group: Iterable[str]) -> Iterator[Rewritten]:
        """One new file for all that fit together; a file that fits no other stays."""
        # Avro files need one schema, text files have the same around their rows.
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
        # Files of an older schema may lack columns, or have some that the query has no more.
        reader = self.spark.read.format(self.format).options(mergeSchema="true", **_WHOLE)
        return reader.load([as_glob(str(file), file) for file in files])

    def _write(self, files: list[Path], staging: Path) -> None:
        rows = self._read(files)
        rows.coalesce(1).write.format(self.format).options(**self.options).save(str(staging))
        before, after = rows.count(), self._read(_written(staging)).count()
        if before != after:
            raise RowsDifferError(f"{before} rows became {after}")

    def _join(self, files: list[Path], staging: Path, frame: Frame) -> None:
        """Write one file with the rows of all, within the frame that they share."""
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
        """What stands around the rows of a text file."""
        length = self._length(file)
        edge = min(length, _EDGE)
        begin, end = self._at(file, 0, edge), self._at(file, length - edge, edge)
        return frame_of(file.name, self.format, self.options, begin, end)

    def _length(self, file: Path) -> int:
        """The length of what was packed."""
        with closing(unpacked(self.spark, file)) as source:
            return int(byte_streams(self.spark).consume(source))

    def _at(self, file: Path, start: int, length: int) -> bytes:
        with closing(unpacked(self.spark, file)) as source:
            byte_streams(self.spark).skipFully(source, start)
            return bytes(source.readNBytes(length))


def _written(staging: Path) -> tuple[Path, ...]:
    """The files that were written, on the disk for good."""
    files = tuple(sorted(file for file in staging.iterdir() if file.name.startswith("part")))
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    return files


# Rewrites small files in a thread of its own, while the query goes on.

_INTERRUPT_SECONDS = 5.0


class Compactor:
    """Stages new files for one sink; it neither moves them to their places nor touches the log.

    Its Spark jobs run in a fair pool of their own, so they take turns with the queries. What goes wrong once
    would go wrong again: after a failure nothing is begun until the next start.
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
        """Whether something new can be begun."""
        return self._thread is None and not self._failed

    @property
    def has_finished(self) -> bool:
        """Whether there is something to take."""
        return self._thread is not None and not self._thread.is_alive()

    def begin(self, groups: list[tuple[str, ...]]) -> None:
        """Rewrite each group of files; nothing happens when there is none."""
        if groups:
            self._done, self._problem = [], None
            self._thread = threading.Thread(
                target=self._work, args=(groups,), daemon=True, name=f"headwater compaction {self._sink}"
            )
            self._thread.start()

    def take(self) -> list[Rewritten]:
        """What was rewritten since `begin`; an error if that failed."""
        self._thread = None
        if self._problem:
            self._failed = True
            raise CheckpointError(self._problem)
        return self._done

    def end(self, patience: float | None) -> None:
        """Wait for what was begun, but only so many seconds; None gives it up at once, without Spark."""
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
            context.setJobGroup(self._job_group, f"{self._sink}: small files are rewritten")
            for group in groups:
                self._done += self._rewriter.rewrite(group)
                if self._cancelled.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - Spark's errors are many kinds: all are told by `take`
            says = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            problem = COMPACTION_FAILED.at(None, sink=self._sink, says=scrub(says))
            self._problem = replace(problem, detail=scrub(traceback.format_exc()))
