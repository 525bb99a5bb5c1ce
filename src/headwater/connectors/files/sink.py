"""Spark's file sink: writing, reading back, and its log."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from headwater.checkpoint import SINK_LOG, Checkpoint, LocalStore, SinkFile, SinkLog
from headwater.checkpoint.editors import NewFile, exchange
from headwater.connectors.contract import Context, RunTask, Tick
from headwater.connectors.files import batches, sink_folder
from headwater.connectors.files.compaction import (
    STAGING,
    CompactionRecord,
    Compactor,
    Pass,
    Rewriter,
    Rewritten,
    small_files,
)
from headwater.connectors.files.errors import MANIFEST_WRITE_FAILED
from headwater.connectors.files.options import RETENTION, FilesSink
from headwater.connectors.files.pace import Pace
from headwater.connectors.files.sink_folder import Manifest, name_in, newest, removable
from headwater.connectors.files.source import NO_GLOB
from headwater.errors import CheckpointError
from headwater.spark.private import file_system
from headwater.spec.paths import is_uri, local_path

# What follows a committed batch of a files sink: the manifest and the compaction of small files.


class FilesUpkeep(RunTask):
    """The task of one sink. Only batches that the query has committed matter here.

    Spark's readers see a batch as soon as it is in the log of the sink. After a crash, a stateful query may
    have to remove that entry and retry the batch. So the manifest and the compaction wait for the commit of the
    query: compaction must not change a log entry that may still be removed.
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
        self._record = CompactionRecord(self._folder)
        self._clock = clock
        self._recovered = False
        self._manifest = Manifest(self._folder, name, options.format, options.partition_by)
        self._pace = Pace(clock)
        self._behind = False
        """Whether a committed batch is not in the manifest yet."""
        self._weighed: int | None = None
        """The compact log file whose small files were considered last; None if some may still be due."""
        self._retention = options.compaction.retention if options.compaction else RETENTION

    def tick(self, tick: Tick) -> None:
        if tick.last and self._compactor:
            self._compactor.end(tick.patience if tick.healthy else None)
        rewritten = self._compactor is not None and self._compactor.has_finished
        late = self._behind and self._pace.is_due
        if not rewritten and not late and self._name not in tick.committed:
            return
        try:
            if self._has_work:
                self._look(last=tick.last)
            else:
                sink_folder.remove(self._folder)
        except OSError as error:
            says = f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
            raise CheckpointError(MANIFEST_WRITE_FAILED.at(None, sink=self._name, says=says)) from error

    @property
    def _has_work(self) -> bool:
        return self._options.manifest or self._compactor is not None or bool(self._record.passes)

    def _look(self, *, last: bool) -> None:
        commit, compact = self._checkpoint.last_commit, self._log.last_compact
        # A compact file does not show which of its files belong to an uncommitted batch.
        if commit is None or (compact is not None and compact > commit.batch_id):
            return
        committed = commit.batch_id
        if not self._recovered:
            noted = self._record.passes
            self._record.recover(self._listed(committed) if noted else (), self._planned, self._clock())
            self._recovered = True
        if self._compactor and self._compactor.has_finished:
            self._exchange(self._compactor.take(), compact)
        tidies = self._record.is_due(committed, self._clock(), self._retention.seconds)
        # Write the manifest before deleting files: it must never list a missing file.
        self._behind = True
        if last or tidies or self._pace.is_due:
            with self._pace.measured():
                self._show(committed)
            self._behind = False
        if tidies:
            self._record.tidy(self._listed(committed), committed, self._clock(), self._retention.seconds)
        if self._compactor and self._compactor.is_idle and not last and compact != self._weighed:
            # Only a new compact log file can contain small files that were not considered yet.
            self._weighed = compact
            self._compactor.begin(self._due(self._listed(committed)))

    @property
    def _planned(self) -> int:
        """The newest batch that may be in progress."""
        planned = self._checkpoint.last_offset
        return planned.batch_id if planned else -1

    def _listed(self, up_to: int) -> dict[str, SinkFile]:
        """The files of the log by their names in the directory."""
        return {name_in(self._folder, file): file for file in self._log.files(up_to)}

    def _due(self, listed: Mapping[str, SinkFile]) -> list[tuple[str, ...]]:
        """Small files of the newest compact log file, the only one that can be changed atomically."""
        sizes = {name: file.size for name, file in listed.items() if file.compacted}
        wanted = self._options.compaction
        return small_files(sizes, wanted.min_files, wanted.target_size) if wanted else []

    def _show(self, committed: int) -> None:
        if self._options.manifest:
            self._manifest.update(committed)
        else:
            sink_folder.remove(self._folder)

    def _exchange(self, rewritten: list[Rewritten], compact: int | None) -> None:
        """Move the new files to their paths and add them to Spark's log; see `CompactionRecord` for the order."""
        listed = self._listed(compact) if compact is not None else {}
        new: dict[NewFile, frozenset[str]] = {}
        moves: dict[Path, str] = {}
        replaced: list[str] = []
        for each in rewritten:
            # A compact file that Spark wrote in the meantime may list files again that an earlier exchange replaced.
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
        # First: if this pass is dropped or fails, its small files are due again.
        self._weighed = None
        before = self._record.passes
        self._record.note(*before, one)
        for staged, name in moves.items():
            staged.rename(self._folder / name)
        edit = exchange(self._output, compact, new)
        if edit is None:
            self._record.drop(one, before)
            return
        self._manifest.restart()
        edit.apply(self._output)
        # Read after the exchange: a batch that is planned later uses the changed log.
        self._record.note(*before, replace(one, planned=self._planned, at=self._clock()))


_SMALL = re.compile(r"\b(?:small|tiny)int\b(?!:)")


def write_stream(writer: DataStreamWriter, options: FilesSink) -> DataStreamWriter:
    """Spark's file sink, which lists the committed files in `_spark_metadata`."""
    writer = writer.format(options.format).option("path", options.path)
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    return writer.options(**options.spark_options())


def write_batch(rows: DataFrame, options: FilesSink) -> None:
    """Write all rows, replacing the output of an earlier batch run."""
    writer = rows.write.format(options.format).mode("overwrite").options(**options.spark_options())
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    writer.save(options.path)


def read_back(spark: SparkSession, options: FilesSink, written: StructType) -> DataFrame:
    """The rows that the sink has committed, as Spark readers see them; none before its first batch.

    A batch run has no log, but marks its end.
    """
    system, log = file_system(spark, options.path, SINK_LOG)
    if not system.exists(log) and not system.exists(file_system(spark, options.path, "_SUCCESS")[1]):
        return batches.read_back(spark, options, written)
    reader = spark.read.format(options.format).schema(written)
    rows = reader.options(**options.spark_options(), **NO_GLOB).load(options.path)
    # Spark puts partition columns last.
    return rows.select(*(rows[f"`{name.replace('`', '``')}`"] for name in written.names))


def upkeep(spark: SparkSession, options: FilesSink, context: Context, checkpoint: Path) -> FilesUpkeep:
    """The task after each committed batch: the manifest and the compaction."""
    compactor = None
    if options.compaction:
        rewriter = Rewriter(spark, Path(options.path), options.format, options.spark_options())
        compactor = Compactor(context.name, rewriter)
    return FilesUpkeep(context.name, options, checkpoint, compactor)


def stored_schema(spark: SparkSession, options: FilesSink, written: StructType) -> StructType | None:
    """The schema of the existing files; only Avro, ORC and Parquet files contain one.

    Files do not contain the types of partition columns: they are assumed to be those that will be written.
    """
    if options.format not in ("avro", "orc", "parquet"):
        return None
    # Reading the directory as a whole would read its whole log.
    file = _newest_file(options)
    reader = spark.read.format(options.format).options(**NO_GLOB)
    try:
        schema = (
            reader.load(options.path).schema
            if file is None
            else reader.option("basePath", options.path).load(str(file)).schema
        )
    except AnalysisException:
        return None
    partitioned = {column.lower() for column in options.partition_by}
    ours = {field.name.lower(): field for field in written.fields}
    inside = [
        ours[name] if name in ours and _same_in_avro(field, ours[name], options) else field
        for name, field in ((field.name.lower(), field) for field in schema.fields)
        if name not in partitioned
    ]
    return StructType(inside + [field for field in written.fields if field.name.lower() in partitioned])


def _newest_file(options: FilesSink) -> Path | None:
    """The newest file that a sink in a local directory has committed, if it still exists."""
    if is_uri(options.path):
        return None
    written = (
        local_path(file.path) for file in SinkLog(LocalStore(Path(options.path))).newest() if file.size
    )
    return next((file for file in written if file is not None and file.exists()), None)


def _same_in_avro(read: StructField, written: StructField, options: FilesSink) -> bool:
    """Whether both types are the same in Avro, which has no integers smaller than int."""
    texts = {_SMALL.sub("int", field.dataType.simpleString()) for field in (read, written)}
    return options.format == "avro" and len(texts) == 1


def stored_batch(spark: SparkSession, options: FilesSink) -> int | None:
    """The newest batch in the log of the sink; Spark skips this one and all before it."""
    if is_uri(options.path):
        return newest(_log_files(spark, options)[1])
    return newest(LocalStore(Path(options.path)).names(SINK_LOG))


def forget_batch(spark: SparkSession, options: FilesSink, batch: int) -> None:
    """Remove the newest batch from the log of the sink, so its files are ignored and it can be written again."""
    system, files = _log_files(spark, options)
    for name in removable(files, batch):
        system.delete(files[name], False)


def _log_files(spark: SparkSession, options: FilesSink) -> tuple[Any, dict[str, Any]]:
    """The file system of the log of the sink, and the files of the log by name."""
    system, folder = file_system(spark, options.path, SINK_LOG)
    paths = [status.getPath() for status in system.listStatus(folder)] if system.exists(folder) else []
    return system, {str(path.getName()): path for path in paths}
