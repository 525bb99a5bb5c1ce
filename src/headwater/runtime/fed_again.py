"""Rows that are fed again come by a source of their own, of which a checkpoint may not know yet."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checkpoint.added_sources import add_sources, finish_adding, inputs_known
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.quarantine import FED_AGAIN_GONE, FED_AGAIN_LEFT
from headwater.plan import QueryFacts
from headwater.plan.quarantine import AGAIN, fed_again, is_fed_again, quarantine_folder, was_fed
from headwater.runtime.run_folder import RunFolder

_SUFFIX = fed_again("")


def finish_interrupted(folder: RunFolder, sinks: list[str]) -> None:
    """End what a crash interrupted, before anyone looks at the checkpoints."""
    for sink in sinks:
        finish_adding(folder.checkpoint(sink))


def take_in(folder: RunFolder, now: QueryFacts) -> str:
    """Let a checkpoint know of rows that are fed again, if it does not; what was done, in a sentence."""
    checkpoint, then = folder.checkpoint(now.sink), folder.stored_facts(now.sink)
    planned = Checkpoint(LocalStore(checkpoint)).last_offset if checkpoint.is_dir() else None
    if planned is None or not now.inputs:
        return ""
    before = inputs_known(checkpoint) or _inputs_of(then, now)
    gone = next((name for name in before if is_fed_again(name) and name not in now.inputs), None)
    if gone is not None:
        raise CheckpointError(_missing(folder, now.sink, gone.removesuffix(_SUFFIX)))
    names = sorted({name for name in now.inputs if is_fed_again(name) and name not in before})
    if not names:
        return ""
    backup = folder.backup(now.sink, datetime.now(UTC))
    add_sources(checkpoint, before, now.inputs, backup)
    told = ", ".join(name.removesuffix(_SUFFIX) for name in names)
    return f"{now.sink}: rows of {told} are fed again; the checkpoint from before is kept as {backup}"


def _missing(folder: RunFolder, sink: str, source: str) -> Problem:
    """Why a query that has read rows that were fed again has no stream of them now."""
    if was_fed(folder.path, source):
        return FED_AGAIN_LEFT.at(None, sink=sink, source=source)
    place = quarantine_folder(folder.path, source) / AGAIN
    return FED_AGAIN_GONE.at(None, sink=sink, source=source, folder=str(place))


def _inputs_of(then: QueryFacts | None, now: QueryFacts) -> tuple[str, ...]:
    """What the query read when it was last started; facts that don't tell are older than any feeding."""
    if then is not None and then.inputs:
        return then.inputs
    return tuple(name for name in now.inputs if not is_fed_again(name))
