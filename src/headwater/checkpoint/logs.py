"""The content of a Spark checkpoint directory, read without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import unquote

from headwater.checkpoint.file_logs import (
    NUMBER,
    Batches,
    DamagedFileError,
    SourceFile,
    content,
    integer_field,
    json_object,
    json_value,
    lines_of,
    listed,
    source_files,
    text_field,
    unreadable,
)
from headwater.checkpoint.store import Store
from headwater.errors import CheckpointError
from headwater.errors.catalogue import running as catalogue
from headwater.spec.paths import plain_path

STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass(frozen=True)
class OffsetEntry:
    """What batch N reads: `offsets/N`, written before the batch runs.

        v1                                          the version of this file
        {"batchWatermarkMs":0,                      the watermark that the batch uses
         "batchTimestampMs":1794786654454,          what `current_timestamp()` is in the batch
         "conf":{"spark.sql.shuffle.partitions":"1", …}}     settings that are frozen from batch 0 on
        {"logOffset":0}                             the end offset of source 0, in the source's own format
        -                                           source 1 has nothing yet

    In the file, the settings are on one line. Version 2 (Spark 4.2) writes a source as `id:offset`.
    Continuous epochs have an empty second line: watermark and time are then None, and `conf` is empty.

    `sources` has the offsets by source ID, in the file's order; in version 1, the ID is the position.
    """

    batch_id: int
    version: int
    watermark_ms: int | None
    timestamp_ms: int | None
    conf: Mapping[str, str]
    sources: Mapping[str, Any]


@dataclass(frozen=True)
class CommitEntry:
    """That batch N is complete: `commits/N`, written after the sink has received the batch.

        v2                                          the format of the state checkpoint, 1 or 2
        {"nextBatchWatermarkMs":1767225540000,      the watermark that the next batch will use
         "stateUniqueIds":{"0":[["73ed1f98-…"]]}}   format 2: operator → partition → valid state files

    `extra` has every field but the watermark, as in the file.
    """

    batch_id: int
    version: int
    next_watermark_ms: int
    extra: Mapping[str, Any] = field(default_factory=dict)


class CheckpointState(Enum):
    """What a start finds in a checkpoint: the single answer to whether its query has started before."""

    NEW = "new"
    """No query has ever started here."""
    STARTED = "started"
    """A query has, and the next one starts where its sources are configured to start: nothing was planned
    yet, or only epochs of which none was committed. Their start offsets are not recorded."""
    PLANNED = "planned"
    """A first batch is planned and is retried, from the start offsets that its sources have recorded."""
    COMMITTED = "committed"
    RESET_AT_START = "reset at start"
    """Everything here is deleted at each start, with the rows of an in-process sink."""

    @property
    def has_started(self) -> bool:
        """Whether the next start is bound by what exists here."""
        return self not in (CheckpointState.NEW, CheckpointState.RESET_AT_START)

    @property
    def resumes(self) -> bool:
        """Whether a start resumes from here, and not from where its sources are configured to start."""
        return self in (CheckpointState.PLANNED, CheckpointState.COMMITTED)


class Checkpoint:
    """The log of one query, as Spark stores it.

        metadata        the query ID; the same after every restart
        offsets/N       what batch N reads; written before it runs
        commits/N       that batch N is complete; written after the sink has received it
        sources/S/…     what source S stores for itself; for files, the list of those already seen
        state/…         the state of stateful operators between batches

    Batch N is: write `offsets/N`, run, write `commits/N`. So the newest offsets are at most one batch ahead
    of the newest commit. If they are, that batch was planned and perhaps run, and the next start retries it
    with the same ID and the same offsets. Spark never syncs these files to disk: after a power failure, the
    newest ones may be empty.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offsets = Batches(store, "offsets", 2, catalogue.CHECKPOINT_OFFSETS_CORRUPT, _offset_entry)
        self._commits = Batches(store, "commits", 2, catalogue.CHECKPOINT_COMMIT_CORRUPT, _commit_entry)

    @property
    def state(self) -> CheckpointState:
        """Whether a query has started here, and where its next start resumes."""
        try:
            has_id = self._store.exists("metadata")
        except OSError as failure:
            raise unreadable(self._store, "metadata", failure) from failure
        if self._commits.ids():
            return CheckpointState.COMMITTED
        planned = self._offsets.ids()
        if planned and self.settings_line(planned[-1]) is not None:
            return CheckpointState.PLANNED
        return CheckpointState.STARTED if has_id or planned else CheckpointState.NEW

    def settings_line(self, batch_id: int) -> str | None:
        """The line of settings of a planned batch; None for an epoch, and for a corrupt file."""
        data = content(self._store, f"offsets/{batch_id}")
        try:
            lines = lines_of(data) if data is not None else []
        except DamagedFileError:
            return None  # not needed here; a file that is needed is validated as a whole
        return lines[1] if len(lines) > 1 and lines[1].strip() else None

    @property
    def query_id(self) -> str | None:
        """The ID that Spark gave the query at its first start; None before that."""
        data = content(self._store, "metadata")
        if data is None:
            return None
        try:
            return text_field(json_object(" ".join(lines_of(data))), "id")
        except DamagedFileError as damage:
            file = self._store.locate("metadata")
            raise CheckpointError(
                catalogue.CHECKPOINT_METADATA_CORRUPT.at(file=file, reason=str(damage))
            ) from damage

    def offsets(self) -> tuple[OffsetEntry, ...]:
        """All planned batches that are kept (Spark keeps 100), oldest first."""
        return tuple(self._offsets.entries())

    @property
    def last_offset(self) -> OffsetEntry | None:
        """The newest planned batch; no other file is read."""
        return next(self._offsets.entries(newest_first=True), None)

    def offset(self, batch_id: int) -> OffsetEntry | None:
        """What a batch reads; no other file is read."""
        return self._offsets.entry(batch_id)

    def commits(self) -> tuple[CommitEntry, ...]:
        """All completed batches that are kept, oldest first."""
        return tuple(self._commits.entries())

    @property
    def last_commit(self) -> CommitEntry | None:
        """The newest completed batch; no other file is read."""
        return next(self._commits.entries(newest_first=True), None)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that froze at the first start, as far as Spark recorded them."""
        planned, done = self.last_offset, self.last_commit
        # Spark does not record the state format in the settings; the version of the commits is that number.
        by_version = {STATE_FORMAT: str(done.version)} if done else {}
        return {**(planned.conf if planned else {}), **by_version}

    @property
    def unfinished(self) -> int | None:
        """The batch that was planned but not committed; the next start retries it."""
        # Only by file names, as Spark decides it: a corrupt file does not hide which batch it is.
        planned, done = self._offsets.ids(), self._commits.ids()
        if not planned or (done and done[-1] >= planned[-1]):
            return None
        return planned[-1]

    def sources(self) -> tuple[int, ...]:
        """The positions of the sources that store something of their own."""
        names = listed(self._store, "sources")
        return tuple(sorted(int(name) for name in names if NUMBER.fullmatch(name)))

    def source_files(self, source: int, after: int = -1) -> tuple[SourceFile, ...]:
        """The files that a file source has delivered so far, oldest first; none if it has no log.

        With `after`, only those of later batches of the source.
        """
        return source_files(self._store, source, after)


def _offset_entry(batch_id: int, version: int, lines: list[str]) -> OffsetEntry:
    if len(lines) < 2:
        raise DamagedFileError("it ends before the offsets of the sources")
    metadata = json_object(lines[0]) if lines[0].strip() else {}
    named = _named_offsets(lines[1:]) if version > 1 else enumerate(lines[1:])
    return OffsetEntry(
        batch_id,
        version,
        _optional_integer(metadata, "batchWatermarkMs"),
        _optional_integer(metadata, "batchTimestampMs"),
        _settings(metadata.get("conf", {})),
        {str(source): None if offset == "-" else json_value(offset) for source, offset in named},
    )


def _named_offsets(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        source, colon, offset = line.partition(":")
        if not colon:
            raise DamagedFileError(f"the line of a source has no ID: {line[:40]!r}")
        yield source, offset


def _settings(conf: object) -> dict[str, str]:
    if not isinstance(conf, dict) or not all(isinstance(value, str) for value in conf.values()):
        raise DamagedFileError("its settings are not a map of strings")
    return conf


def _commit_entry(batch_id: int, version: int, lines: list[str]) -> CommitEntry:
    # Old versions of Spark wrote no second line, and Spark still accepts that; format 2 requires its state
    # IDs.
    if version > 1 and not lines:
        raise DamagedFileError("it ends before the state IDs")
    fields = json_object(lines[0]) if lines and lines[0].strip() else {}
    watermark = _optional_integer(fields, "nextBatchWatermarkMs") or 0
    extra = {name: value for name, value in fields.items() if name != "nextBatchWatermarkMs"}
    return CommitEntry(batch_id, version, watermark, extra)


def _optional_integer(fields: Mapping[str, Any], name: str) -> int | None:
    return integer_field(fields, name) if name in fields else None


# The progress of a query in each of its sources, in a form that is comparable across queries.
#
# offsets/N         {"orders":{"0":100}}    Kafka: the messages before 100 of partition 0
# {"logOffset":3}         files: those that sources/S lists under the batches up to 3
#
# Each file source counts its own batches, so only the files themselves can be compared.


@dataclass(frozen=True)
class Read:
    """What a query has read of one source; it may read several paths under one name."""

    offsets: tuple[Any, ...] = ()
    """As Spark stores them, except for those of files."""
    files: frozenset[str] = frozenset()

    def as_far(self, other: Read) -> bool:
        """Whether it has read everything that the other one has; False if unknown."""
        if not other.offsets:
            return self.files >= other.files
        apart = len(self.offsets) != len(other.offsets)
        reached = not apart and all(map(_as_far, self.offsets, other.offsets))
        return reached and self.files >= other.files


def committed(checkpoint: Checkpoint, inputs: Sequence[str]) -> dict[str, Read] | None:
    """What the committed batches have read, by source name; None if the sources do not match."""
    done = checkpoint.last_commit
    if done is None:
        return dict.fromkeys(inputs, Read())
    return _read(checkpoint, checkpoint.offset(done.batch_id), inputs)


def planned(checkpoint: Checkpoint, inputs: Sequence[str]) -> dict[str, Read] | None:
    """The same for all batches, including a planned one that may not be committed."""
    return _read(checkpoint, checkpoint.last_offset, inputs)


def _read(checkpoint: Checkpoint, entry: OffsetEntry | None, inputs: Sequence[str]) -> dict[str, Read] | None:
    if entry is None or len(entry.sources) != len(inputs):
        return None
    found: dict[str, Read] = dict.fromkeys(inputs, Read())
    for number, (name, offset) in enumerate(zip(inputs, entry.sources.values(), strict=True)):
        before = found[name]
        if _is_of_files(offset):
            files = before.files.union(_files(checkpoint, number, offset["logOffset"]))
            found[name] = Read(before.offsets, files)
        elif offset is not None:
            found[name] = Read((*before.offsets, offset), before.files)
    return found


def _is_of_files(offset: Any) -> bool:
    return isinstance(offset, dict) and offset.keys() == {"logOffset"}


def _files(checkpoint: Checkpoint, source: int, last: int) -> Iterable[str]:
    """The files up to a batch of the source, as paths if they are local."""
    listed = checkpoint.source_files(source)
    return (unquote(plain_path(file.path)) for file in listed if file.batch_id <= last)


def _as_far(mine: Any, theirs: Any) -> bool:
    """Numbers and Kafka offsets can be ordered; others are only equal or not."""
    if _is_number(mine) and _is_number(theirs):
        return bool(mine >= theirs)
    ends, others = _ends(mine), _ends(theirs)
    if ends is None or others is None:
        return bool(mine == theirs)
    return all(place in ends and ends[place] >= end for place, end in others.items())


def _ends(offset: Any) -> Mapping[tuple[str, str], int] | None:
    """Kafka offsets by topic and partition; None for an offset of a different kind."""
    topics = offset.items() if isinstance(offset, dict) else ()
    if not topics or not all(isinstance(each, dict) for _, each in topics):
        return None
    ends = {(topic, number): end for topic, each in topics for number, end in each.items()}
    return ends if all(map(_is_number, ends.values())) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
