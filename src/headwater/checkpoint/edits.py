"""Making a checkpoint fit the kind of trigger that goes on with it.

Batches and continuous epochs share one record, with two differences in `offsets/N`:

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1794786654454,"conf":{…}}    of a batch; an epoch's is empty
    {"orders":{"0":100}}

- An epoch's second line is empty. A start with batches takes its settings from that line of the newest file,
  and dies without it. So the line of the newest batch is put there; where none is kept, one that Spark makes.
- Epochs are noted ahead: several files may be newer than the newest commit, of rows that a sink may not have.
  A start with batches would run the newest of them and pass over the others. A continuous start would keep
  such files under numbers that it uses again for fewer rows, and lose the rest after its next crash. So what
  is newer than the newest commit is taken away: rows come again rather than not at all. Where nothing is
  committed yet, the start of a first batch is in a note of its sources that continuous queries don't look at:
  taken away, the query would begin elsewhere, so that is refused.

Each step leaves a checkpoint that asks for the same steps again, so that a start after a crash ends the work.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from headwater.checkpoint.store import LocalStore, Store, sync_folder
from headwater.errors import CheckpointError
from headwater.errors.catalogue import running as catalogue
from headwater.errors.catalogue.running import (
    ALIGNMENT_FAILED,
    FIRST_BATCH_OPEN,
    INPUTS_DAMAGED,
    OFFSETS_DAMAGED,
    SOURCES_NOT_ADDED,
)


@dataclass(frozen=True)
class Alignment:
    """What has to be done with the offsets of a checkpoint before a start."""

    cut: tuple[int, ...] = ()
    """What was planned after the newest commit and has to go, newest first."""
    completed: int | None = None
    """The batch whose file gets the line of settings."""
    line: str | None = None
    """That line, from the newest batch that has one; None where it has to be made."""
    routine: bool = False
    """Only epochs go, and epochs follow: nothing but a continuous query that starts again."""

    @property
    def needed(self) -> bool:
        return bool(self.cut) or self.completed is not None


def alignment(store: Store, *, continuous: bool) -> Alignment:
    """What a start with a continuous trigger, or with another one, needs; nothing is changed."""
    planned, done, checkpoint = _ids(store, "offsets"), _ids(store, "commits"), Checkpoint(store)
    if not planned:
        return Alignment()
    newest_done = done[-1] if done else -1
    ahead = tuple(batch for batch in reversed(planned) if batch > newest_done)
    if continuous:
        if checkpoint.state is CheckpointState.PLANNED:
            raise CheckpointError(FIRST_BATCH_OPEN.at(batch=planned[-1], checkpoint=store.locate("")))
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


def align(store: Store, needed: Alignment, backup: Path | None, make_line: Callable[[], str]) -> None:
    """Do it; every file is in the backup, if there is to be one, before the first one is touched."""
    try:
        if backup is not None:
            (backup / "offsets").mkdir(parents=True)
            _keep(store, needed, LocalStore(backup))
        # The newest file without its line asks for all of this again: it goes after the others have theirs.
        if needed.completed is not None:
            _complete(store, needed.completed, needed.line or make_line())
        for batch in needed.cut:
            for name in _files(batch):
                store.delete(name)
    except OSError as failure:
        reason = failure.strerror or str(failure)
        problem = ALIGNMENT_FAILED.at(folder=store.locate("offsets"), reason=reason)
        raise CheckpointError(problem) from failure


def _keep(store: Store, needed: Alignment, backup: Store) -> None:
    touched = needed.cut if needed.completed is None else (*needed.cut, needed.completed)
    for name in (name for batch in touched for name in _files(batch)):
        data = content(store, name)
        if data is not None:
            backup.replace(name, data)


def _complete(store: Store, batch: int, line: str) -> None:
    file, checksum = _files(batch)[::-1]
    version, _, *offsets = lines_of(store.read(file))
    # Spark does not ask for a checksum that is not there, and takes a wrong one for damage.
    store.delete(checksum)
    store.replace(file, "\n".join((version, line, *offsets)).encode())


def _files(batch: int) -> tuple[str, str]:
    """Its checksum and its file, in the order in which they may go."""
    return f"offsets/.{batch}.crc", f"offsets/{batch}"


def _ids(store: Store, folder: str) -> list[int]:
    return sorted(int(name) for name in listed(store, folder) if NUMBER.fullmatch(name))


def _refuse_damaged(store: Store, newest_done: int) -> None:
    """CheckpointError, before anything is done, where a start could not go on from the newest commit."""
    if newest_done >= 0 and Checkpoint(store).offset(newest_done) is None:
        raise _missing(store, newest_done)


def _missing(store: Store, batch: int) -> CheckpointError:
    file, checksum = (store.locate(name) for name in reversed(_files(batch)))
    reason = "it is missing"
    return CheckpointError(OFFSETS_DAMAGED.at(file=file, batch=batch, reason=reason, checksum=checksum))


# Letting a checkpoint know of sources that its query did not have before.
#
# Spark numbers the sources of a query by their order, keeps `sources/<number>/` for each, and writes a line
# for each into `offsets/N`. A query with one source more is refused. Here the checkpoint is made anew beside
# the old one: lines with `-` (nothing read yet) for the added sources, and the folders of the others under
# their new numbers. Everything else is linked, not copied.
#
# checkpoints/orders.next/    being made; without `complete` it is worth nothing and is made again
# checkpoints/orders/         moved to the backup, then `orders.next` takes its name
#
# A crash between the two last steps leaves no `orders/`; the next start sees the complete `orders.next` and
# ends the work. Nothing of the old checkpoint is ever changed. All of the new one is on the disk before
# `complete` is, and that before anything is moved: also a power failure leaves one of the two whole.

_COMPLETE = "complete"
_INPUTS = "headwater-inputs.json"
_NOTHING_YET = "-"


def added(before: Sequence[str], now: Sequence[str]) -> list[int | None] | None:
    """For each source of now its place before, None for an added one; None if more than that has changed."""
    places: list[int | None] = []
    left = list(before)
    for name in now:
        if left and left[0] == name:
            places.append(len(before) - len(left))
            left.pop(0)
        else:
            places.append(None)
    return None if left else places


def inputs_known(checkpoint: Path) -> tuple[str, ...] | None:
    """The sources of a checkpoint that was made here, by their names; None for one that Spark made."""
    store = LocalStore(checkpoint)
    data = content(store, _INPUTS)
    try:
        return None if data is None else _names(data)
    except DamagedFileError as damage:
        problem = INPUTS_DAMAGED.at(file=store.locate(_INPUTS), reason=str(damage))
        raise CheckpointError(problem) from damage


def add_sources(checkpoint: Path, before: Sequence[str], now: Sequence[str], backup: Path) -> None:
    """Make a checkpoint with the sources `before` one with those of `now`; the old one is kept as `backup`.

    A crash may come before anyone else has noted the new sources, so the checkpoint itself lists them.
    """
    places = added(before, now)
    following = following_of(checkpoint)
    try:
        if places is None:
            raise ValueError(f"its sources were {', '.join(before)}, and are {', '.join(now)}")
        if following.exists():
            shutil.rmtree(following)
        shutil.copytree(checkpoint, following, copy_function=_linked, ignore=_numbered(checkpoint))
        made = LocalStore(following)
        _write_offsets(checkpoint / "offsets", made, places)
        _place_sources(checkpoint / "sources", following / "sources", places)
        made.replace(_INPUTS, json.dumps(list(now)).encode())
        for folder, _, _ in os.walk(following):
            sync_folder(Path(folder))
        made.replace(_COMPLETE, b"")
        backup.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.rename(backup)
        sync_folder(backup.parent)
        finish_adding(checkpoint)
    except (OSError, ValueError) as error:
        problem = SOURCES_NOT_ADDED.at(folder=str(checkpoint), reason=str(error))
        raise CheckpointError(problem) from error


def finish_adding(checkpoint: Path) -> None:
    """End what a crash interrupted: a complete new checkpoint takes the place of the one that was moved."""
    following = following_of(checkpoint)
    if checkpoint.exists() or not (following / _COMPLETE).exists():
        return
    following.rename(checkpoint)
    sync_folder(checkpoint.parent)
    LocalStore(checkpoint).delete(_COMPLETE)


def following_of(checkpoint: Path) -> Path:
    """Where the checkpoint is made that is to take its place."""
    return checkpoint.with_name(f"{checkpoint.name}.next")


def _names(data: bytes) -> tuple[str, ...]:
    names = json_value("\n".join(lines_of(data)))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DamagedFileError("it is no list of names")
    return tuple(names)


def _numbered(checkpoint: Path) -> Callable[[str, list[str]], list[str]]:
    """What is not taken over as it is: the offsets, the folders of the sources, and an older list of them."""
    changed = (checkpoint / "offsets", checkpoint / "sources")

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [
            name for name in names if Path(folder) in changed or Path(folder, name) == checkpoint / _INPUTS
        ]

    return left_out


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
        with open(target, "rb") as copied:
            os.fsync(copied.fileno())


def _write_offsets(before: Path, made: Store, places: Sequence[int | None]) -> None:
    for file in before.iterdir():
        if not NUMBER.fullmatch(file.name):
            continue
        version, metadata, *lines = file.read_text(encoding="utf-8").split("\n")
        known = sum(place is not None for place in places)
        if version != "v1" or len(lines) != known:
            raise ValueError(f"{file} is of version {version} and has {len(lines)} sources, not {known}")
        placed = [_NOTHING_YET if place is None else lines[place] for place in places]
        made.replace(f"offsets/{file.name}", "\n".join((version, metadata, *placed)).encode())


def _place_sources(before: Path, now: Path, places: Sequence[int | None]) -> None:
    for number, place in enumerate(places):
        if place is not None and (before / str(place)).is_dir():
            shutil.copytree(before / str(place), now / str(number), copy_function=_linked)


# Letting a planned batch of a file source read other files than those that were planned.
#
# sources/S/L            the files that source S has handed out in its own batch L, a line each
# sources/S/L.compact    the same for all batches up to L
#
# Only lines of batches that no committed batch of the query has read are changed, so that nothing is read
# twice or left out. Every file is in the backup before it is changed, and a change that a crash cut short is
# done again by the next start.

_LOG = re.compile(r"(\d+)(\.compact)?", re.ASCII)


def uncommitted(store: Store, source: int) -> tuple[SourceFile, ...]:
    """The files that a source has handed out and no committed batch has read."""
    return source_files(store, source, _committed(store, source))


def change_files(store: Store, source: int, changes: Mapping[str, str], backup: Path) -> None:
    """Put other files, by their addresses, in the place of those that no committed batch has read."""
    after, folder = _committed(store, source), f"sources/{source}"
    for name in listed(store, folder):
        number = _LOG.fullmatch(name)
        data = content(store, f"{folder}/{name}") if number and int(number[1]) > after else None
        if data is None:
            continue
        changed = "\n".join([_changed_files(line, changes, after) for line in lines_of(data)]).encode()
        if changed != data:
            (backup / folder).mkdir(parents=True, exist_ok=True)
            LocalStore(backup).replace(f"{folder}/{name}", data)
            # Spark does not ask for a checksum that is not there, and takes a wrong one for damage.
            store.delete(f"{folder}/.{name}.crc")
            store.replace(f"{folder}/{name}", changed)


def _changed_files(line: str, changes: Mapping[str, str], after: int) -> str:
    if not line.startswith("{"):
        return line
    entry = json_value(line)
    if entry["batchId"] <= after or entry["path"] not in changes:
        return line
    return json.dumps({**entry, "path": changes[entry["path"]]}, separators=(",", ":"), ensure_ascii=False)


def _committed(store: Store, source: int) -> int:
    """The newest batch of a source's own that a committed batch of the query has read; -1 for none."""
    checkpoint = Checkpoint(store)
    commit = checkpoint.last_commit
    planned = checkpoint.offset(commit.batch_id) if commit else None
    reached = planned.sources.get(str(source)) if planned else None
    return int(reached.get("logOffset", -1)) if isinstance(reached, dict) else -1


# Letting a query go on from elsewhere in one of its sources.
#
# Where the next batch begins is what the newest committed batch read up to. So that is changed:
#
# offsets/N      N is committed: the source's line of this file alone
# offsets/N      N is planned and not committed: both lines, so that the batch, which runs again, reads
# offsets/N-1    nothing of what is changed; where N is the first batch, Kafka's own note of its start,
# sources/S/0, stands for the file that is not there
#
# Every file is in the backup before the first one is changed. After a crash halfway the same change is done
# again, so it must not hang on what the lines said before.

Change = Callable[[Any], Any]


def change_source(store: Store, source: int, change: Change, backup: Path) -> bool:
    """Change what the checkpoint says of a source; False, and nothing done, where no batch was planned."""
    try:
        return _change(store, source, change, backup)
    except (OSError, DamagedFileError, ValueError, IndexError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        problem = ALIGNMENT_FAILED.at(folder=store.locate("offsets"), reason=reason)
        raise CheckpointError(problem) from failure


def _change(store: Store, source: int, change: Change, backup: Path) -> bool:
    planned, done = _ids(store, "offsets"), _ids(store, "commits")
    if not planned:
        return False
    newest = planned[-1]
    changed = {f"offsets/{newest}": _offsets}
    if not done or done[-1] < newest:
        before = f"offsets/{newest - 1}"
        earlier = {before: _offsets} if newest - 1 in planned else {f"sources/{source}/0": _noted}
        # What is begun from is changed first: the file that asks for it is the last one.
        changed = {**earlier, **changed}
    found = {name: data for name in changed if (data := content(store, name)) is not None}
    for name, data in found.items():
        # An earlier change may have kept it already, as it was before both.
        if not (backup / name).exists():
            (backup / name).parent.mkdir(parents=True, exist_ok=True)
            LocalStore(backup).replace(name, data)
    for name, data in found.items():
        folder, _, file = name.rpartition("/")
        new = changed[name](data, source, change)
        # Spark does not ask for a checksum that is not there, and takes a wrong one for damage.
        store.delete(f"{folder}/.{file}.crc")
        store.replace(name, new)
    return True


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


# Exchanging files in the log of a file sink: the same rows in other files, in one step.


@dataclass(frozen=True)
class NewFile:
    """A file that takes the place of others; `like` is one of them, in whose folder it lies."""

    name: str
    size: int
    modified_ms: int
    like: str


def exchange(output: Store, batch_id: int, new: Mapping[NewFile, frozenset[str]]) -> bool:
    """Put new files into `_spark_metadata/<batch_id>.compact` in the place of old ones, all at once.

    Old files are named as the log names them. False, and nothing changed, if one of them is not listed there.

    Spark reads the newest compact file and the batches after it, and says `add` only: an entry can't be taken
    back by a later one. So the newest compact file itself is replaced, by one rename; its name, from which
    Spark works out where the next one is due, stays. Its checksum goes first: a file without one is not
    verified, while one that does not fit makes the log unreadable. Spark writes the next compact file from
    this one. Should it be doing that in this very moment, it may have read the old lines, and its file then
    names the old files again: at every moment the log names the old ones or the new ones, never both.
    """
    name = f"{batch_id}.compact"
    log = Batches(output, SINK_LOG, 1, catalogue.FILE_LOG_DAMAGED, _entries)
    data = content(output, f"{SINK_LOG}/{name}")
    entries = log.decode(batch_id, name, data) if data is not None else {}
    gone = frozenset().union(*new.values())
    if not gone <= entries.keys():
        return False
    made = [_entry(file, entries[file.like]) for file in new]
    kept = [entry for path, entry in entries.items() if path not in gone]
    lines = [json.dumps(entry, separators=(",", ":")) for entry in (*made, *kept)]
    output.delete(f"{SINK_LOG}/.{name}.crc")
    output.replace(f"{SINK_LOG}/{name}", "\n".join(["v1", *lines]).encode())
    return True


def _entries(batch_id: int, version: int, lines: list[str]) -> dict[str, dict[str, Any]]:
    return {text_field(entry, "path"): entry for entry in map(json_object, lines)}


def _entry(file: NewFile, like: Mapping[str, Any]) -> dict[str, Any]:
    path = f"{str(like['path']).rpartition('/')[0]}/{file.name}"
    return {**like, "path": path, "size": file.size, "modificationTime": file.modified_ms}
