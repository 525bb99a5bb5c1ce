"""The logs in which file sources and file sinks list their files; they compact themselves."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from headwater.checkpoint.batches import (
    Batches,
    content,
    integer_field,
    json_object,
    json_value,
    listed,
    text_field,
    unreadable,
)
from headwater.checkpoint.store import Store
from headwater.errors import CheckpointError
from headwater.errors.catalogue import checkpoints as catalogue

T = TypeVar("T")
SINK_LOG = "_spark_metadata"
"""The folder in which Spark's file sink keeps its log, inside its output folder."""

_COMPACTIBLE_BATCH = re.compile(r"(\d+)(\.compact)?", re.ASCII)


@dataclass(frozen=True)
class SourceFile:
    """A file that a file source has handed out: one line of `sources/<source>/<batch>`.

    `batch_id` counts the source's own batches (its offset is `{"logOffset":<batch_id>}`), not the query's.
    """

    path: str
    timestamp_ms: int
    batch_id: int


@dataclass(frozen=True)
class SinkFile:
    """A file that a file sink has committed: one line of `_spark_metadata/<batch>`.

    A compact file no longer says which batch wrote a file: with `compacted`, `batch_id` is the last batch
    that it can be.
    """

    path: str
    size: int
    modified_ms: int
    batch_id: int
    compacted: bool


class SinkLog:
    """What a file sink has committed: the folder `_spark_metadata` inside its output folder.

        _spark_metadata/0           v1
                                    {"path":"file:///out/part-0….parquet","size":712,…,"action":"add"}
        _spark_metadata/9.compact   the same for all batches up to 9 together; every tenth batch is one

    Readers of the folder believe this log and not the listing. A batch whose number is in it already is
    skipped by the sink, which is how a repeated batch is not written twice.
    """

    def __init__(self, output: Store) -> None:
        self._log = Batches(output, SINK_LOG, 1, catalogue.FILE_LOG_DAMAGED, _sink_actions)

    @property
    def last_batch(self) -> int | None:
        """The newest batch that the sink has committed."""
        return max((batch_id for batch_id, _ in _compactible(self._log)), default=None)

    @property
    def last_compact(self) -> int | None:
        """The newest batch whose file stands for all before it too."""
        return max((batch_id for batch_id, compacted in _compactible(self._log) if compacted), default=None)

    def files(self, up_to: int | None = None) -> tuple[SinkFile, ...]:
        """The files that readers of the folder see, in the order in which they were committed.

        With `up_to` those that they saw when this was the newest batch.
        """
        files: dict[str, SinkFile] = {}
        for _, compacted, actions in _since_compaction(self._log, up_to=up_to):
            for action, file in actions:
                # Old Sparks took files back with "delete"; those we support only ever write "add".
                if action == "delete":
                    files.pop(file.path, None)
                else:
                    files[file.path] = replace(file, compacted=compacted)
        return tuple(files.values())


class _ForeignFileError(Exception):
    """The file is whole, but another kind of source wrote it."""


class _SourceLog(Batches[list[SourceFile]]):
    """`sources/<source>`; other sources than files keep their first offset there, in a file named `0`."""

    def decode(self, batch_id: int, name: str, data: bytes) -> list[SourceFile]:
        try:
            # Kafka's begins with a zero byte, which made Spark 2.1.0 read it.
            if data.startswith(b"\0v"):
                raise _ForeignFileError
            return super().decode(batch_id, name, data)
        except _ForeignFileError as foreign:
            file = self.store.locate(f"{self.folder}/{name}")
            raise CheckpointError(catalogue.NOT_A_FILE_LOG.at(file=file)) from foreign


def _compactible(log: Batches[T]) -> list[tuple[int, bool]]:
    """The batches of a log that compacts itself: number, and whether it stands for all before it too."""
    matches = (_COMPACTIBLE_BATCH.fullmatch(name) for name in listed(log.store, log.folder))
    return sorted((int(match[1]), match[2] is not None) for match in matches if match)


def _since_compaction(
    log: Batches[T], after: int = -1, up_to: int | None = None
) -> Iterator[tuple[int, bool, T]]:
    """The newest compact file and what came after it: together the whole log, or what came `after` a batch
    and not later than `up_to`.

    The files before it say nothing new and Spark deletes them in its own time, so they are not looked at.
    """
    batches = [each for each in _compactible(log) if after < each[0] and (up_to is None or each[0] <= up_to)]
    newest = max((batch_id for batch_id, compacted in batches if compacted), default=-1)
    for batch_id, compacted in batches:
        if batch_id > newest or (batch_id == newest and compacted):
            name = f"{batch_id}.compact" if compacted else str(batch_id)
            data = content(log.store, f"{log.folder}/{name}")
            if data is None:
                # Leaving it out would give a list with a hole.
                failure = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                raise unreadable(log.store, f"{log.folder}/{name}", failure)
            yield batch_id, compacted, log.decode(batch_id, name, data)


def source_files(checkpoint: Store, source: int, after: int = -1) -> tuple[SourceFile, ...]:
    """The files that a file source of a checkpoint has handed out after a batch of its own, oldest first."""
    read = partial(_source_files, after)
    log = _SourceLog(checkpoint, f"sources/{source}", 1, catalogue.FILE_LOG_DAMAGED, read)
    return tuple(file for _, _, files in _since_compaction(log, after) for file in files)


def _source_files(after: int, batch_id: int, version: int, lines: list[str]) -> list[SourceFile]:
    files: list[SourceFile] = []
    # A compact file repeats all that ever was, the newest last.
    for line in reversed(lines):
        file = _source_file(json_value(line))
        if file.batch_id <= after:
            break
        files.append(file)
    return files[::-1]


def _source_file(entry: Any) -> SourceFile:
    if not isinstance(entry, dict) or "path" not in entry:
        raise _ForeignFileError
    return SourceFile(
        text_field(entry, "path"), integer_field(entry, "timestamp"), integer_field(entry, "batchId")
    )


def _sink_actions(batch_id: int, version: int, lines: list[str]) -> list[tuple[str, SinkFile]]:
    return [_sink_action(batch_id, json_object(line)) for line in lines]


def _sink_action(batch_id: int, entry: dict[str, Any]) -> tuple[str, SinkFile]:
    size, modified = integer_field(entry, "size"), integer_field(entry, "modificationTime")
    return text_field(entry, "action"), SinkFile(
        text_field(entry, "path"), size, modified, batch_id, compacted=False
    )
