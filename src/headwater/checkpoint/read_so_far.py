"""How far a query has read each of its sources, in a form that two queries can be compared by.

    offsets/N         {"orders":{"0":100}}    Kafka: the messages before 100 of partition 0
                      {"logOffset":3}         files: those that sources/S lists under the batches up to 3

Each file source counts its own batches, so that only the files themselves tell two of them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from headwater.checkpoint.logs import Checkpoint, OffsetEntry
from headwater.spec.paths import plain_path


@dataclass(frozen=True)
class Read:
    """What a query has read of one source; it may read several places under one name."""

    offsets: tuple[Any, ...] = ()
    """As Spark stores them, but for those of files."""
    files: frozenset[str] = frozenset()

    def has_message(self, topic: str, partition: int, offset: int) -> bool:
        """Whether it has read a message of Kafka."""
        found = (each.get(topic) for each in self.offsets if isinstance(each, dict))
        ends = [each.get(str(partition)) for each in found if isinstance(each, dict)]
        return bool(ends) and all(isinstance(end, int) and end > offset for end in ends)

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
