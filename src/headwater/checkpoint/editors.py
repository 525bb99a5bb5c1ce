"""Changes that Headwater makes to a checkpoint: functions that read it and return an edit.

**Converting a checkpoint for a different kind of trigger.**

Batches and continuous epochs share one log, with two differences in `offsets/N`:

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1794786654454,"conf":{…}}    of a batch; an epoch's is empty
    {"orders":{"0":100}}

- The second line of an epoch is empty. A start with batches reads its settings from that line of the newest
  file, and fails without it. So the line of the newest batch is copied there; if none exists, Spark creates
  one.
- Epochs are recorded ahead: several files may be newer than the newest commit, for rows that a sink may not
  have. A start with batches would run the newest of them and skip the others. A continuous start would keep
  these files under numbers that it reuses for fewer rows, and lose the rest after its next crash. So
  everything newer than the newest commit is deleted: duplicates are better than lost rows. If nothing is
  committed yet, the start of the first batch is in a file of its sources that continuous queries ignore.
  Without the batch, the query would start at a different offset, so Headwater rejects this case.

After each step, the checkpoint still requires the same steps, so a start after a crash completes the work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.checkpoint.edits import CheckpointEdit, FileChange, TreeMove, checksum_of
from headwater.checkpoint.file_logs import (
    NUMBER,
    SINK_LOG,
    Batches,
    DamagedFileError,
    SourceFile,
    content,
    json_object,
    json_value,
    lines_of,
    listed,
    source_files,
    text_field,
)
from headwater.checkpoint.logs import Checkpoint, CheckpointState
from headwater.checkpoint.store import LocalStore, Store
from headwater.errors import CheckpointError
from headwater.errors.catalogue import running as catalogue
from headwater.errors.catalogue.running import (
    CHECKPOINT_FIRST_BATCH_PENDING,
    CHECKPOINT_INPUTS_CORRUPT,
    CHECKPOINT_OFFSETS_CORRUPT,
    CHECKPOINT_REPLAY_FAILED,
)


@dataclass(frozen=True)
class Alignment:
    """What must be done with the offsets of a checkpoint before a start."""

    cut: tuple[int, ...] = ()
    """What was planned after the newest commit and must be deleted, newest first."""
    completed: int | None = None
    """The batch whose file gets the line of settings."""
    line: str | None = None
    """That line, from the newest batch that has one; None if it must be created."""
    routine: bool = False
    """Only epochs are deleted, and epochs follow: just a restart of a continuous query."""

    @property
    def needed(self) -> bool:
        return bool(self.cut) or self.completed is not None


def alignment(store: Store, *, continuous: bool) -> Alignment:
    """What a start with a continuous trigger, or with a different one, needs; changes nothing."""
    planned, done, checkpoint = _ids(store, "offsets"), _ids(store, "commits"), Checkpoint(store)
    if not planned:
        return Alignment()
    newest_done = done[-1] if done else -1
    ahead = tuple(batch for batch in reversed(planned) if batch > newest_done)
    if continuous:
        if checkpoint.state is CheckpointState.PLANNED:
            raise CheckpointError(
                CHECKPOINT_FIRST_BATCH_PENDING.at(batch=planned[-1], checkpoint=store.locate(""))
            )
        _refuse_damaged(store, newest_done)
        routine = all(checkpoint.settings_line(batch) is None for batch in ahead)
        return Alignment(cut=ahead, routine=routine)
    if checkpoint.settings_line(planned[-1]) is not None:
        return Alignment()
    if newest_done < 0:
        return Alignment(cut=ahead)
    _refuse_damaged(store, newest_done)
    if checkpoint.settings_line(newest_done) is not None:
        return Alignment(cut=ahead)
    kept = (checkpoint.settings_line(batch) for batch in reversed(planned) if batch < newest_done)
    return Alignment(ahead, newest_done, next((line for line in kept if line is not None), None))


def convert_trigger(store: Store, needed: Alignment, make_line: Callable[[], str]) -> CheckpointEdit:
    """Do what the alignment requires."""
    after: dict[str, bytes | None] = {}
    # The newest file without its line triggers all of this again, so it changes after the others.
    if needed.completed is not None:
        name = f"offsets/{needed.completed}"
        version, _, *offsets = lines_of(store.read(name))
        after[name] = "\n".join((version, needed.line or make_line(), *offsets)).encode()
    return CheckpointEdit.of(store, {**after, **{f"offsets/{batch}": None for batch in needed.cut}})


def _ids(store: Store, folder: str) -> list[int]:
    return sorted(int(name) for name in listed(store, folder) if NUMBER.fullmatch(name))


def _refuse_damaged(store: Store, newest_done: int) -> None:
    """CheckpointError, before anything is done, if a start could not resume from the newest commit."""
    if newest_done >= 0 and Checkpoint(store).offset(newest_done) is None:
        file = f"offsets/{newest_done}"
        places = {"file": store.locate(file), "checksum": store.locate(checksum_of(file))}
        raise CheckpointError(
            CHECKPOINT_OFFSETS_CORRUPT.at(batch=newest_done, reason="it is missing", **places)
        )


# Adding sources to a checkpoint that its query did not have before.
#
# Spark numbers the sources of a query by their order, keeps `sources/<number>/` for each, and writes a line
# for each into `offsets/N`. It rejects a query with an additional source. So the checkpoint gets lines with
# `-` (nothing read yet) for the added sources, and the directories of the others under their new numbers.
# Half of that would be misread, so it is done by a swap.

_INPUTS = "headwater-inputs.json"
_NOTHING_YET = "-"


def added(before: Sequence[str], now: Sequence[str]) -> list[int | None] | None:
    """The old position of each current source, None for an added one; None if more than that changed."""
    places: list[int | None] = []
    left = list(before)
    for name in now:
        if left and left[0] == name:
            places.append(len(before) - len(left))
            left.pop(0)
        else:
            places.append(None)
    return None if left else places


def inputs_known(store: Store) -> tuple[str, ...] | None:
    """The names of the sources of a checkpoint that Headwater created; None if Spark created it."""
    data = content(store, _INPUTS)
    try:
        return None if data is None else _names(data)
    except DamagedFileError as damage:
        problem = CHECKPOINT_INPUTS_CORRUPT.at(file=store.locate(_INPUTS), reason=str(damage))
        raise CheckpointError(problem) from damage


def add_sources(store: Store, before: Sequence[str], now: Sequence[str]) -> CheckpointEdit:
    """Turn a checkpoint with the sources `before` into one with those of `now`; ValueError if incompatible.

    A crash may happen before the new sources are recorded elsewhere, so the checkpoint itself lists them.
    """
    places = added(before, now)
    if places is None:
        raise ValueError(f"the sources were {', '.join(before)}, and are now {', '.join(now)}")
    planned = [f"offsets/{batch}" for batch in _ids(store, "offsets")]
    changes = [
        FileChange(name, data := store.read(name), _with_places(store.locate(name), data, places))
        for name in planned
    ]
    changes.append(FileChange(_INPUTS, content(store, _INPUTS), json.dumps(list(now)).encode()))
    numbers = {str(place): str(number) for number, place in enumerate(places) if place is not None}
    moves = [
        TreeMove(f"sources/{name}", f"sources/{numbers[name]}" if name in numbers else None)
        for name in store.names("sources")
    ]
    # Outdated checksums, and any other files.
    others = {f"offsets/{name}" for name in store.names("offsets")}.difference(planned)
    return CheckpointEdit(tuple(changes), (*moves, *map(TreeMove, sorted(others))))


def swap_in_sources(checkpoint: Path, before: Sequence[str], now: Sequence[str], backup: Path) -> None:
    """Add the sources; the old checkpoint is kept as `backup`."""
    try:
        add_sources(LocalStore(checkpoint), before, now).swap(checkpoint, backup)
    except (OSError, ValueError) as error:
        problem = CHECKPOINT_REPLAY_FAILED.at(directory=str(checkpoint), reason=str(error))
        raise CheckpointError(problem) from error


def _with_places(file: str, data: bytes, places: Sequence[int | None]) -> bytes:
    """A planned batch with the added sources."""
    version, metadata, *lines = data.decode().split("\n")
    known = sum(place is not None for place in places)
    if version != "v1" or len(lines) != known:
        raise ValueError(f"{file} has version {version} and {len(lines)} sources, expected {known}")
    placed = [_NOTHING_YET if place is None else lines[place] for place in places]
    return "\n".join((version, metadata, *placed)).encode()


def _names(data: bytes) -> tuple[str, ...]:
    names = json_value("\n".join(lines_of(data)))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DamagedFileError("it is not a list of names")
    return tuple(names)


# Replacing the files that a planned batch of a file source reads.
#
# sources/S/L            the files that source S has delivered in its own batch L, one per line
# sources/S/L.compact    the same for all batches up to L
#
# Only lines of batches that no committed batch of the query has read are changed, so no file is read twice
# or skipped. If a crash interrupts the change, the next start repeats it.

_LOG = re.compile(r"(\d+)(\.compact)?", re.ASCII)


def uncommitted(store: Store, source: int) -> tuple[SourceFile, ...]:
    """The files that a source has delivered and no committed batch has read."""
    return source_files(store, source, _committed(store, source))


def change_files(store: Store, source: int, changes: Mapping[str, str]) -> CheckpointEdit:
    """Replace files that no committed batch has read, by their URLs."""
    after: dict[str, bytes | None] = {}
    reached, folder = _committed(store, source), f"sources/{source}"
    for name in listed(store, folder):
        number = _LOG.fullmatch(name)
        data = content(store, f"{folder}/{name}") if number and int(number[1]) > reached else None
        if data is not None:
            lines = [_changed_files(line, changes, reached) for line in lines_of(data)]
            after[f"{folder}/{name}"] = "\n".join(lines).encode()
    return CheckpointEdit.of(store, after)


def _changed_files(line: str, changes: Mapping[str, str], after: int) -> str:
    if not line.startswith("{"):
        return line
    entry = json_value(line)
    if entry["batchId"] <= after or entry["path"] not in changes:
        return line
    return json.dumps({**entry, "path": changes[entry["path"]]}, separators=(",", ":"), ensure_ascii=False)


def _committed(store: Store, source: int) -> int:
    """The newest batch of the source itself that a committed batch of the query has read; -1 for none."""
    checkpoint = Checkpoint(store)
    commit = checkpoint.last_commit
    planned = checkpoint.offset(commit.batch_id) if commit else None
    reached = planned.sources.get(str(source)) if planned else None
    return int(reached.get("logOffset", -1)) if isinstance(reached, dict) else -1


# Changing the offset from which a query resumes in one of its sources.
#
# The next batch starts where the newest committed batch stopped. So that is changed:
#
# offsets/N      N is committed: only the source's line of this file
# offsets/N      N is planned and not committed: both lines, so that the retried batch reads nothing of
# offsets/N-1    what is changed; if N is the first batch, Kafka's own file with its start offsets,
#                sources/S/0, is changed instead of the missing file
#
# After a crash halfway, the same change is made again, so it must not depend on the old lines.

Change = Callable[[Any], Any]


def change_source(store: Store, source: int, change: Change) -> CheckpointEdit | None:
    """Change the offsets of a source in the checkpoint; None if no batch was planned."""
    planned, done = _ids(store, "offsets"), _ids(store, "commits")
    if not planned:
        return None
    newest = planned[-1]
    changed = {f"offsets/{newest}": _offsets}
    if not done or done[-1] < newest:
        before = f"offsets/{newest - 1}"
        earlier = {before: _offsets} if newest - 1 in planned else {f"sources/{source}/0": _noted}
        # The start offsets change first: the file that triggers the change is the last one.
        changed = {**earlier, **changed}
    found = {name: data for name in changed if (data := content(store, name)) is not None}
    after = {name: changed[name](data, source, change) for name, data in found.items()}
    return CheckpointEdit.of(store, after)


def forget_start(store: Store, sources: Iterable[int]) -> CheckpointEdit:
    """Delete Spark's own record of where Kafka sources start, if no batch was planned from there.

    Otherwise, Spark would use it and ignore what the next start configures.
    """
    notes = [] if Checkpoint(store).state.resumes else [f"sources/{number}/0" for number in sources]
    return CheckpointEdit.of(store, dict.fromkeys(notes))


def _offsets(data: bytes, source: int, change: Change) -> bytes:
    version, settings, *lines = lines_of(data)
    prefix = ""
    if version.strip() != "v1":
        number, _, lines[source] = lines[source].partition(":")
        prefix = f"{number}:"
    if lines[source] != "-":
        lines[source] = _changed(lines[source], change)
    lines[source] = prefix + lines[source]
    return "\n".join((version, settings, *lines)).encode()


def _noted(data: bytes, source: int, change: Change) -> bytes:
    head, _, offsets = data.partition(b"\n")
    return head + b"\n" + _changed(offsets.decode(), change).encode()


def _changed(line: str, change: Change) -> str:
    return json.dumps(change(json_value(line)), separators=(",", ":"))


# Replacing files in the log of a file sink: the same rows in other files, in one step.


@dataclass(frozen=True)
class NewFile:
    """A file that replaces others; `like` is one of them and has the same directory."""

    name: str
    size: int
    modified_ms: int
    like: str


def exchange(output: Store, batch_id: int, new: Mapping[NewFile, frozenset[str]]) -> CheckpointEdit | None:
    """Replace files in `_spark_metadata/<batch_id>.compact` with new ones, in one step.

    Old files are identified as in the log. None if one of them is not listed there.

    Spark reads the newest compact file and the batches after it, and only ever writes `add`: a later entry
    cannot revoke an earlier one. So the newest compact file itself is replaced, by one rename. Its name
    stays, because Spark computes from it when the next one is due. Its checksum is deleted first: a file
    without one is not verified, while a wrong one makes the log unreadable. Spark creates the next compact
    file from this one. If Spark is doing that at the same moment, it may have read the old lines, and its
    file then lists the old files again: at any time, the log lists the old ones or the new ones, never both.
    """
    name = f"{batch_id}.compact"
    log = Batches(output, SINK_LOG, 1, catalogue.CHECKPOINT_FILE_LOG_CORRUPT, _entries)
    data = content(output, f"{SINK_LOG}/{name}")
    entries = log.decode(batch_id, name, data) if data is not None else {}
    gone = frozenset().union(*new.values())
    if not gone <= entries.keys():
        return None
    made = [_entry(file, entries[file.like]) for file in new]
    kept = [entry for path, entry in entries.items() if path not in gone]
    lines = [json.dumps(entry, separators=(",", ":")) for entry in (*made, *kept)]
    return CheckpointEdit.of(output, {f"{SINK_LOG}/{name}": "\n".join(["v1", *lines]).encode()})


def _entries(batch_id: int, version: int, lines: list[str]) -> dict[str, dict[str, Any]]:
    return {text_field(entry, "path"): entry for entry in map(json_object, lines)}


def _entry(file: NewFile, like: Mapping[str, Any]) -> dict[str, Any]:
    path = f"{str(like['path']).rpartition('/')[0]}/{file.name}"
    return {**like, "path": path, "size": file.size, "modificationTime": file.modified_ms}


# Starting from scratch, and as if the last batch had not been committed.

# It contains the query ID, which stays the same.
_KEPT = ("metadata", checksum_of("metadata"))


def reset(store: Store) -> CheckpointEdit:
    """Delete everything but the query ID; after a crash halfway, the next start deletes the rest."""
    return CheckpointEdit(moves=tuple(TreeMove(name) for name in store.names("") if name not in _KEPT))


def take_back_commit(store: Store) -> CheckpointEdit:
    """Leave the last batch as a crash between the sink's write and the commit would."""
    last = Checkpoint(store).last_commit
    return CheckpointEdit.of(store, {f"commits/{last.batch_id}": None} if last else {})
