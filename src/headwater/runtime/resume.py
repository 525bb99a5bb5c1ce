"""Sinks whose rows ended with their process: their queries begin anew at each start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from headwater.checkpoint import Checkpoint, LocalStore, align, alignment
from headwater.checkpoint.edits import add_sources, finish_adding, inputs_known
from headwater.connectors import sink_side
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.connectors import CHECKPOINT_NOT_REMOVED, SINK_KIND_CHANGED
from headwater.errors.catalogue.quarantine import FED_AGAIN_GONE, FED_AGAIN_LEFT
from headwater.plan import QueryFacts
from headwater.plan.quarantine import fed_again, is_fed_again
from headwater.runtime.records import RunRecords
from headwater.spec import SinkSpec
from headwater.values import Continuous

# It holds the id of the query, which stays the same.
_KEPT = ("metadata", ".metadata.crc")


def begin_anew(directory: RunRecords, sink: SinkSpec) -> str:
    """Take the old checkpoint away where the rows went with the last process; what was there, in a sentence.

    A table in memory holds the whole result of what its query has read. A checkpoint that stands at batch N
    beside an empty table would make it hold the rows from N on. Only the holder of the lock calls this, and
    after a crash halfway the next start takes the rest away.
    """
    checkpoint = directory.checkpoint(sink.name)
    if not sink_side(sink.connector).in_process or not checkpoint.is_dir():
        return ""
    done = [int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdigit()]
    if done and directory.stored_facts(sink.name) is None:
        says = "each start of it would remove the checkpoint"
        problem = SINK_KIND_CHANGED.at(
            sink.position, sink=sink.name, old="unknown", new=sink.connector, says=says
        )
        raise CheckpointError(problem)
    try:
        for path in checkpoint.iterdir():
            _remove(path)
    except OSError as error:
        reason = error.strerror or str(error)
        problem = CHECKPOINT_NOT_REMOVED.at(
            sink.position, sink=sink.name, path=str(checkpoint), reason=reason
        )
        raise CheckpointError(problem) from error
    count = max(done, default=-1) + 1
    gone = "1 batch" if count == 1 else f"{count} batches"
    return (
        f"{sink.name}: a table in memory begins empty; the {gone} of the run before went with its process, "
        "and the sources are read from their start again"
    )


def _remove(path: Path) -> None:
    if path.name in _KEPT:
        return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


# A checkpoint is made to fit the kind of trigger that goes on with it.


def fit(directory: RunRecords, sink: SinkSpec, make_line: Callable[[], str]) -> str:
    """Do what the trigger asks for; what was done, in a sentence. Only the holder of the lock calls this."""
    checkpoint = directory.checkpoint(sink.name)
    if not checkpoint.is_dir():
        return ""
    store = LocalStore(checkpoint)
    continuous = isinstance(sink.trigger, Continuous)
    needed = alignment(store, continuous=continuous)
    if needed.routine or not needed.needed:
        align(store, needed, None, make_line)
        return ""
    backup = directory.backup(sink.name, datetime.now(UTC))
    align(store, needed, backup, make_line)
    following = "continuous epochs" if continuous else "batches"
    return f"{sink.name}: its checkpoint was made to go on with {following}; the old files are in {backup}"


# Rows that are fed again come by a source of their own, of which a checkpoint may not know yet.

_SUFFIX = fed_again("")


def finish_interrupted(directory: RunRecords, sinks: list[str]) -> None:
    """End what a crash interrupted, before anyone looks at the checkpoints."""
    for sink in sinks:
        finish_adding(directory.checkpoint(sink))


def take_in(directory: RunRecords, now: QueryFacts) -> str:
    """Let a checkpoint know of rows that are fed again, if it does not; what was done, in a sentence."""
    checkpoint, then = directory.checkpoint(now.sink), directory.stored_facts(now.sink)
    planned = Checkpoint(LocalStore(checkpoint)).last_offset if checkpoint.is_dir() else None
    if planned is None or not now.inputs:
        return ""
    before = inputs_known(checkpoint) or _inputs_of(then, now)
    gone = next((name for name in before if is_fed_again(name) and name not in now.inputs), None)
    if gone is not None:
        raise CheckpointError(_missing(directory, now.sink, gone.removesuffix(_SUFFIX)))
    names = sorted({name for name in now.inputs if is_fed_again(name) and name not in before})
    if not names:
        return ""
    backup = directory.backup(now.sink, datetime.now(UTC))
    add_sources(checkpoint, before, now.inputs, backup)
    told = ", ".join(name.removesuffix(_SUFFIX) for name in names)
    return f"{now.sink}: rows of {told} are fed again; the checkpoint from before is kept as {backup}"


def _missing(directory: RunRecords, sink: str, source: str) -> Problem:
    """Why a query that has read rows that were fed again has no stream of them now."""
    quarantine = directory.quarantine(source)
    if quarantine.replayed:
        return FED_AGAIN_LEFT.at(None, sink=sink, source=source)
    return FED_AGAIN_GONE.at(None, sink=sink, source=source, folder=str(quarantine.replay))


def _inputs_of(then: QueryFacts | None, now: QueryFacts) -> tuple[str, ...]:
    """What the query read when it was last started; facts that don't tell are older than any feeding."""
    if then is not None and then.inputs:
        return then.inputs
    return tuple(name for name in now.inputs if not is_fed_again(name))
