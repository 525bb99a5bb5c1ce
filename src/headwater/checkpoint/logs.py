"""What a Spark checkpoint folder says, read without Spark."""

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
    """What batch N was to read: `offsets/N`, written before the batch runs.

        v1                                          the version of this file
        {"batchWatermarkMs":0,                      the watermark that the batch works with
         "batchTimestampMs":1794786654454,          what `current_timestamp()` is in the batch
         "conf":{"spark.sql.shuffle.partitions":"1", …}}     settings that are frozen from batch 0 on
        {"logOffset":0}                             up to where source 0 is read, in the source's own form
        -                                           source 1 has nothing yet

    The settings stand on one line in the file. Version 2 (Spark 4.2) writes a source as `id:offset`.
    Continuous epochs leave the second line empty: then watermark and time are None and `conf` is empty.

    `sources` holds the offsets by source id, in the file's order; in version 1 the id is the position.
    """

    batch_id: int
    version: int
    watermark_ms: int | None
    timestamp_ms: int | None
    conf: Mapping[str, str]
    sources: Mapping[str, Any]


@dataclass(frozen=True)
class CommitEntry:
    """That batch N is done: `commits/N`, written after the sink has taken the batch.

        v2                                          the format of the state checkpoint, 1 or 2
        {"nextBatchWatermarkMs":1767225540000,      the watermark that the next batch will work with
         "stateUniqueIds":{"0":[["73ed1f98-…"]]}}   format 2: operator → partition → state files that count

    `extra` holds every field but the watermark as it stands in the file.
    """

    batch_id: int
    version: int
    next_watermark_ms: int
    extra: Mapping[str, Any] = field(default_factory=dict)


class CheckpointState(Enum):
    """What a start finds in a checkpoint: the one answer to whether its query has started before."""

    NEW = "new"
    """No query has ever started here."""
    STARTED = "started"
    """A query has, and the next one begins where its sources are told to: nothing was planned yet, or epochs
    only of which none was committed. Nobody has noted where these began."""
    PLANNED = "planned"
    """A first batch is planned and runs again, from the start that its sources have noted."""
    COMMITTED = "committed"
    RESET_AT_START = "reset at start"
    """Whatever is here goes at each start, with the rows of a sink that only the process held."""

    @property
    def has_started(self) -> bool:
        """Whether the next start is bound by what is here."""
        return self not in (CheckpointState.NEW, CheckpointState.RESET_AT_START)

    @property
    def resumes(self) -> bool:
        """Whether a start goes on from what is here, and not from where its sources are told to begin."""
        return self in (CheckpointState.PLANNED, CheckpointState.COMMITTED)


class Checkpoint:
    """The record of one query's steps, as Spark keeps it.

        metadata        the query's id; the same after every restart
        offsets/N       what batch N reads; written before it runs
        commits/N       that batch N is done; written after the sink has it
        sources/S/…     what source S keeps for itself; for files the list of those already seen
        state/…         what stateful operators keep between batches

    Batch N is: write `offsets/N`, run, write `commits/N`. So the newest offsets are at most one batch ahead
    of the newest commit; if they are, that batch was planned and perhaps run, and the next start runs it
    again with the same id and the same offsets. Spark never syncs these files to disk: after a power failure
    the newest ones may be empty.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offsets = Batches(store, "offsets", 2, catalogue.CHECKPOINT_OFFSETS_CORRUPT, _offset_entry)
        self._commits = Batches(store, "commits", 2, catalogue.CHECKPOINT_COMMIT_CORRUPT, _commit_entry)

    @property
    def state(self) -> CheckpointState:
        """Whether a query has started here, and what its next start goes on from."""
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
        """The line of settings of a planned batch; None for an epoch, and for a file that is damaged."""
        data = content(self._store, f"offsets/{batch_id}")
        try:
            lines = lines_of(data) if data is not None else []
        except DamagedFileError:
            return None  # one that nobody needs; one that is needed is looked at as a whole
        return lines[1] if len(lines) > 1 and lines[1].strip() else None

    @property
    def query_id(self) -> str | None:
        """The id that Spark gave the query at its first start; None before that."""
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
        """What a batch was to read; no other file is read."""
        return self._offsets.entry(batch_id)

    def commits(self) -> tuple[CommitEntry, ...]:
        """All finished batches that are kept, oldest first."""
        return tuple(self._commits.entries())

    @property
    def last_commit(self) -> CommitEntry | None:
        """The newest finished batch; no other file is read."""
        return next(self._commits.entries(newest_first=True), None)

    @property
    def settings(self) -> dict[str, str]:
        """What froze at the first start, as far as Spark wrote it down."""
        planned, done = self.last_offset, self.last_commit
        # Spark leaves the state format out of the settings; the commits are in the version of that number.
        by_version = {STATE_FORMAT: str(done.version)} if done else {}
        return {**(planned.conf if planned else {}), **by_version}

    @property
    def unfinished(self) -> int | None:
        """The batch that was planned but not committed, which the next start runs again."""
        # By names alone, as Spark decides it: a damaged file does not hide which batch it is.
        planned, done = self._offsets.ids(), self._commits.ids()
        if not planned or (done and done[-1] >= planned[-1]):
            return None
        return planned[-1]

    def sources(self) -> tuple[int, ...]:
        """The positions of the sources that keep something of their own."""
        names = listed(self._store, "sources")
        return tuple(sorted(int(name) for name in names if NUMBER.fullmatch(name)))

    def source_files(self, source: int, after: int = -1) -> tuple[SourceFile, ...]:
        """The files that a file source has handed out so far, oldest first; none if it keeps no log.

        With `after`, only those of later batches of the source.
        """
        return source_files(self._store, source, after)


def _offset_entry(batch_id: int, version: int, lines: list[str]) -> OffsetEntry:
    if len(lines) < 2:
        raise DamagedFileError("it ends before the sources' offsets")
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
            raise DamagedFileError(f"a source's line has no id: {line[:40]!r}")
        yield source, offset


def _settings(conf: object) -> dict[str, str]:
    if not isinstance(conf, dict) or not all(isinstance(value, str) for value in conf.values()):
        raise DamagedFileError("its settings are not a map of texts")
    return conf


def _commit_entry(batch_id: int, version: int, lines: list[str]) -> CommitEntry:
    # Old Sparks wrote no second line, and Spark still takes that; format 2 can't be without its state ids.
    if version > 1 and not lines:
        raise DamagedFileError("it ends before the state's ids")
    fields = json_object(lines[0]) if lines and lines[0].strip() else {}
    watermark = _optional_integer(fields, "nextBatchWatermarkMs") or 0
    extra = {name: value for name, value in fields.items() if name != "nextBatchWatermarkMs"}
    return CommitEntry(batch_id, version, watermark, extra)


def _optional_integer(fields: Mapping[str, Any], name: str) -> int | None:
    return integer_field(fields, name) if name in fields else None


# How far a query has read each of its sources, in a form that two queries can be compared by.
#
# offsets/N         {"orders":{"0":100}}    Kafka: the messages before 100 of partition 0
# {"logOffset":3}         files: those that sources/S lists under the batches up to 3
#
# Each file source counts its own batches, so that only the files themselves tell two of them apart.


@dataclass(frozen=True)
class Read:
    """What a query has read of one source; it may read several places under one name."""

    offsets: tuple[Any, ...] = ()
    """As Spark stores them, but for those of files."""
    files: frozenset[str] = frozenset()

    def as_far(self, other: Read) -> bool:
        """Whether it has read all that the other one has; only what is certain counts."""
        if not other.offsets:
            return self.files >= other.files
        apart = len(self.offsets) != len(other.offsets)
        reached = not apart and all(map(_as_far, self.offsets, other.offsets))
        return reached and self.files >= other.files


def committed(checkpoint: Checkpoint, inputs: Sequence[str]) -> dict[str, Read] | None:
    """What the committed batches have read, by the names of the sources; None where these don't fit."""
    done = checkpoint.last_commit
    if done is None:
        return dict.fromkeys(inputs, Read())
    return _read(checkpoint, checkpoint.offset(done.batch_id), inputs)


def planned(checkpoint: Checkpoint, inputs: Sequence[str]) -> dict[str, Read] | None:
    """The same of all batches, the one that was planned and perhaps not committed too."""
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
    """The files up to a batch of the source, as paths where they are local."""
    listed = checkpoint.source_files(source)
    return (unquote(plain_path(file.path)) for file in listed if file.batch_id <= last)


def _as_far(mine: Any, theirs: Any) -> bool:
    """Of a number or of Kafka's offsets it is known which of two is further; others are the same, or not."""
    if _is_number(mine) and _is_number(theirs):
        return bool(mine >= theirs)
    ends, others = _ends(mine), _ends(theirs)
    if ends is None or others is None:
        return bool(mine == theirs)
    return all(place in ends and ends[place] >= end for place, end in others.items())


def _ends(offset: Any) -> Mapping[tuple[str, str], int] | None:
    """Kafka's offsets by topic and partition; None for an offset of another kind."""
    topics = offset.items() if isinstance(offset, dict) else ()
    if not topics or not all(isinstance(each, dict) for _, each in topics):
        return None
    ends = {(topic, number): end for topic, each in topics for number, end in each.items()}
    return ends if all(map(_is_number, ends.values())) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
