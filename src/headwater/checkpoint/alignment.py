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

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headwater.checkpoint.batches import NUMBER, DamagedFileError, content, lines_of, listed
from headwater.checkpoint.logs import Checkpoint
from headwater.checkpoint.store import LocalStore, Store
from headwater.errors import CheckpointError
from headwater.errors.catalogue.checkpoints import ALIGNMENT_FAILED, FIRST_BATCH_OPEN, OFFSETS_DAMAGED


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
    planned, done = _ids(store, "offsets"), _ids(store, "commits")
    if not planned:
        return Alignment()
    newest_done = done[-1] if done else -1
    ahead = tuple(batch for batch in reversed(planned) if batch > newest_done)
    if continuous:
        if newest_done < 0 and begun(store):
            raise CheckpointError(FIRST_BATCH_OPEN.at(batch=planned[-1], checkpoint=store.locate("")))
        _refuse_damaged(store, newest_done)
        routine = all(_line(store, batch) is None for batch in ahead)
        return Alignment(cut=ahead, routine=routine)
    if _line(store, planned[-1]) is not None:
        return Alignment()
    if newest_done < 0:
        return Alignment(cut=ahead)
    _refuse_damaged(store, newest_done)
    if _line(store, newest_done) is not None:
        return Alignment(cut=ahead)
    kept = (_line(store, batch) for batch in reversed(planned) if batch < newest_done)
    return Alignment(ahead, newest_done, next((line for line in kept if line is not None), None))


def begun(store: Store) -> bool:
    """Whether a start goes on from what is here, and not from where its sources are told to begin.

    A batch that is planned is run again, from the start that its sources have noted; nobody has noted where
    epochs began of which none was committed.
    """
    planned = _ids(store, "offsets")
    return bool(_ids(store, "commits")) or (bool(planned) and _line(store, planned[-1]) is not None)


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


def _line(store: Store, batch: int) -> str | None:
    """The line of settings of a planned batch; None for an epoch."""
    data = content(store, f"offsets/{batch}")
    try:
        lines = lines_of(data) if data is not None else []
    except DamagedFileError:
        return None  # one that nobody needs; one that is needed is looked at as a whole
    return lines[1] if len(lines) > 1 and lines[1].strip() else None


def _refuse_damaged(store: Store, newest_done: int) -> None:
    """CheckpointError, before anything is done, where a start could not go on from the newest commit."""
    if newest_done >= 0 and Checkpoint(store).offset(newest_done) is None:
        raise _missing(store, newest_done)


def _missing(store: Store, batch: int) -> CheckpointError:
    file, checksum = (store.locate(name) for name in reversed(_files(batch)))
    reason = "it is missing"
    return CheckpointError(OFFSETS_DAMAGED.at(file=file, batch=batch, reason=reason, checksum=checksum))
