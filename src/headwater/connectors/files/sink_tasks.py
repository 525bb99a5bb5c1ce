"""What follows a committed batch of a files sink: the manifest, and the exchange of small files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from headwater.checkpoint import Checkpoint, LocalStore, SinkFile, SinkLog
from headwater.checkpoint.editors import NewFile, exchange
from headwater.connectors.contract import Moment
from headwater.connectors.files import sink_folder
from headwater.connectors.files.compaction import STAGING, Compactor, Pass, Record, Rewritten, small_files
from headwater.connectors.files.options import FilesSink
from headwater.connectors.files.sink_folder import Manifest, name_in
from headwater.errors import CheckpointError
from headwater.errors.catalogue.files import MANIFEST_NOT_WRITTEN

COMPACT_TO = 128 << 20


class FilesUpkeep:
    """The task of one sink. Only batches that the query has committed count here.

    Spark's readers see a batch as soon as the sink has noted it. A stateful query may have to forget that
    note after a crash and to run the batch again, so the manifest waits for the query's own commit, and so
    does the compaction: a log file that is rewritten must not be one that may still be taken back.
    """

    def __init__(
        self,
        name: str,
        options: FilesSink,
        checkpoint: Path,
        compactor: Compactor | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._options = options
        self._folder = Path(options.path)
        self._output = LocalStore(self._folder)
        self._log = SinkLog(self._output)
        self._checkpoint = Checkpoint(LocalStore(checkpoint))
        self._compactor = compactor
        self._record = Record(self._folder)
        self._clock = clock
        self._recovered = False
        self._shown: Manifest | None = None

    def __call__(self, moment: Moment) -> None:
        if moment.last and self._compactor:
            self._compactor.end(patient=moment.sound)
        rewritten = self._compactor is not None and self._compactor.has_finished
        if not rewritten and self._name not in moment.committed:
            return
        try:
            if self._has_work:
                self._look(last=moment.last)
            else:
                sink_folder.remove(self._folder)
        except OSError as error:
            says = f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
            raise CheckpointError(MANIFEST_NOT_WRITTEN.at(None, sink=self._name, says=says)) from error

    @property
    def _has_work(self) -> bool:
        return self._options.manifest or self._compactor is not None or bool(self._record.passes)

    def _look(self, *, last: bool) -> None:
        commit, compact = self._checkpoint.last_commit, self._log.last_compact
        # A compact file does not say which of its files came with a batch that is not committed.
        if commit is None or (compact is not None and compact > commit.batch_id):
            return
        committed = commit.batch_id
        if not self._recovered:
            self._record.recover(self._listed(committed), self._planned, self._clock())
            self._recovered = True
        if self._compactor and self._compactor.has_finished:
            self._exchange(self._compactor.take(), compact)
        listed = self._listed(committed)
        # The manifest comes before the tidying: it must never name a file that is gone.
        self._show(committed, listed.values())
        self._record.tidy(listed, committed, self._clock(), self._options.keep_compacted.seconds)
        if self._compactor and self._compactor.is_idle and not last:
            self._compactor.begin(self._due(listed))

    @property
    def _planned(self) -> int:
        """The newest batch that may be under way."""
        planned = self._checkpoint.last_offset
        return planned.batch_id if planned else -1

    def _listed(self, up_to: int) -> dict[str, SinkFile]:
        """The files of the log by their names in the folder."""
        return {name_in(self._folder, file): file for file in self._log.files(up_to)}

    def _due(self, listed: Mapping[str, SinkFile]) -> list[tuple[str, ...]]:
        """Small files of the newest compact file, the only one that can be changed in one step."""
        sizes = {name: file.size for name, file in listed.items() if file.compacted}
        return small_files(sizes, self._options.compact_after or 0, self._options.compact_to or COMPACT_TO)

    def _show(self, committed: int, files: Iterable[SinkFile]) -> None:
        if not self._options.manifest:
            sink_folder.remove(self._folder)
            return
        shown = Manifest(
            self._name,
            self._options.format,
            self._options.partition_by,
            committed,
            sink_folder.listed(self._folder, files),
        )
        if shown != self._shown:
            shown.write(self._folder)
            self._shown = shown

    def _exchange(self, rewritten: list[Rewritten], compact: int | None) -> None:
        """Put the new files into their places and into Spark's log; see `Record` for the order."""
        listed = self._listed(compact) if compact is not None else {}
        new: dict[NewFile, frozenset[str]] = {}
        moves: dict[Path, str] = {}
        replaced: list[str] = []
        for each in rewritten:
            # A compact file that Spark wrote meanwhile may have brought back what an earlier exchange took.
            if not listed.keys() >= set(each.files):
                continue
            replaced += each.files
            old = frozenset(listed[name].path for name in each.files)
            for staged in each.staged:
                name = f"part-compacted-{uuid4()}{''.join(staged.suffixes)}"
                stat = staged.stat()
                like = listed[each.files[0]].path
                new[NewFile(name, stat.st_size, int(stat.st_mtime * 1000), like)] = old
                moves[staged] = str(Path(each.files[0]).with_name(name))
        if new and compact is not None:
            self._commit(compact, new, moves, Pass(tuple(replaced), tuple(moves.values())))
        shutil.rmtree(self._folder / STAGING, ignore_errors=True)

    def _commit(
        self, compact: int, new: dict[NewFile, frozenset[str]], moves: dict[Path, str], one: Pass
    ) -> None:
        before = self._record.passes
        self._record.note(*before, one)
        for staged, name in moves.items():
            staged.rename(self._folder / name)
        edit = exchange(self._output, compact, new)
        if edit is not None:
            edit.apply(self._output)
            # Read after the exchange: a batch that is planned later finds the new lines in the log.
            done = replace(one, planned=self._planned, at=self._clock())
            self._record.note(*before, done)
        else:
            self._record.drop(one, before)
