"""Changes to a checkpoint before its query starts; only the holder of the lock makes them.

1. `finish_interrupted`: complete what a crash interrupted, for all sinks, before a rule reads any of them.
2. `reset_in_process`: a sink that lost its rows with its process starts from scratch.
3. `add_replay_source`: add the stream of replayed rows to the checkpoint.
4. `convert_trigger`: convert the logs between batches and continuous epochs.
5. The tasks of the sources run, and may change their own files there.
6. The sink forgets an unfinished batch that it would otherwise skip. `engine.query.start_query` does this,
   because it also restarts a query within a run.

Steps 2 to 5 run for every query before the first one starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial

from headwater.checkpoint import Checkpoint, LocalStore, editors
from headwater.checkpoint.edits import edit_errors, finish_swap
from headwater.connectors import sink_side
from headwater.engine.session import PipelineSession, Setting, settings_line
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue.connectors import CHECKPOINT_REMOVE_FAILED, SINK_CONNECTOR_CHANGED
from headwater.errors.catalogue.notices import MEMORY_TABLE_EMPTY, ROWS_REPLAYED, TRIGGER_CONVERTED
from headwater.errors.catalogue.running import REPLAYED_ROWS_DROPPED, REPLAYED_ROWS_MISSING
from headwater.events import Notice
from headwater.plan import QueryFacts
from headwater.plan.quarantine import is_replay_stream, replay_stream
from headwater.runtime.records import RunRecords
from headwater.runtime.tasks import Tasks
from headwater.spec import SinkSpec
from headwater.values import Continuous, count_of

_SUFFIX = replay_stream("")


def finish_interrupted(directory: RunRecords, sinks: Iterable[str]) -> None:
    """Complete what a crash interrupted, before anything reads the checkpoints."""
    for sink in sinks:
        finish_swap(directory.checkpoint(sink))


def resume(
    directory: RunRecords,
    session: PipelineSession,
    sink: SinkSpec,
    settings: tuple[Setting, ...],
    facts: QueryFacts,
    tasks: Tasks,
) -> Iterator[Notice]:
    """Prepare a checkpoint for the query that is about to start; yields what was done."""
    # Report each step before the next one, which may fail.
    steps: tuple[Callable[[], Problem | None], ...] = (
        partial(reset_in_process, directory, sink),
        partial(add_replay_source, directory, facts),
        partial(convert_trigger, directory, sink, partial(settings_line, session, settings)),
    )
    for step in steps:
        if done := step():
            yield Notice.of(done)
    for problem in tasks.before_start(sink.name, directory.backup(sink.name, datetime.now(UTC))):
        yield Notice.of(problem)


def reset_in_process(directory: RunRecords, sink: SinkSpec) -> Problem | None:
    """Delete the old checkpoint if its rows were lost with the last process; returns what was discarded.

    A memory table contains the whole result of what its query has read. If the checkpoint were at batch N and
    the table empty, the table would only get the rows from N on.
    """
    checkpoint = directory.checkpoint(sink.name)
    if not sink_side(sink.connector).in_process or not checkpoint.is_dir():
        return None
    store = LocalStore(checkpoint)
    done = [int(name) for name in store.names("commits") if name.isdigit()]
    if done and directory.stored_facts(sink.name) is None:
        says = "each start would delete the checkpoint"
        problem = SINK_CONNECTOR_CHANGED.at(
            sink.position, sink=sink.name, old="an unknown connector", new=sink.connector, says=says
        )
        raise CheckpointError(problem)
    try:
        editors.reset(store).apply(store)
    except OSError as error:
        reason = error.strerror or str(error)
        problem = CHECKPOINT_REMOVE_FAILED.at(
            sink.position, sink=sink.name, path=str(checkpoint), reason=reason
        )
        raise CheckpointError(problem) from error
    count = max(done, default=-1) + 1
    gone = count_of(count, "batch", "batches")
    return MEMORY_TABLE_EMPTY.at(None, sink=sink.name, batches=gone)


def convert_trigger(directory: RunRecords, sink: SinkSpec, make_line: Callable[[], str]) -> Problem | None:
    """Convert the logs to batches or epochs, as the trigger requires; returns what was done."""
    store, continuous = LocalStore(directory.checkpoint(sink.name)), isinstance(sink.trigger, Continuous)
    needed = editors.alignment(store, continuous=continuous)
    routine = needed.routine or not needed.needed
    backup = directory.backup(sink.name, datetime.now(UTC))
    with edit_errors(store):
        edit = editors.convert_trigger(store, needed, make_line)
        edit.apply(store, None if routine else LocalStore(backup))
    if routine:
        return None
    following = "continuous epochs" if continuous else "batches"
    return TRIGGER_CONVERTED.at(None, sink=sink.name, following=following, backup=str(backup))


def add_replay_source(directory: RunRecords, now: QueryFacts) -> Problem | None:
    """Add the stream of replayed rows to a checkpoint, if it is missing; returns what was done.

    Replayed rows have a separate source.
    """
    checkpoint, then = directory.checkpoint(now.sink), directory.stored_facts(now.sink)
    store = LocalStore(checkpoint)
    if Checkpoint(store).last_offset is None or not now.inputs:
        return None
    before = editors.inputs_known(store) or _inputs_of(then, now)
    gone = next((name for name in before if is_replay_stream(name) and name not in now.inputs), None)
    if gone is not None:
        raise CheckpointError(_missing(directory, now.sink, gone.removesuffix(_SUFFIX)))
    names = sorted({name for name in now.inputs if is_replay_stream(name) and name not in before})
    if not names:
        return None
    backup = directory.backup(now.sink, datetime.now(UTC))
    editors.swap_in_sources(checkpoint, before, now.inputs, backup)
    told = ", ".join(name.removesuffix(_SUFFIX) for name in names)
    return ROWS_REPLAYED.at(None, sink=now.sink, sources=told, backup=str(backup))


def _missing(directory: RunRecords, sink: str, source: str) -> Problem:
    """Why a query that has read replayed rows has no stream of them now."""
    quarantine = directory.quarantine(source)
    if quarantine.replayed:
        return REPLAYED_ROWS_DROPPED.at(None, sink=sink, source=source)
    return REPLAYED_ROWS_MISSING.at(None, sink=sink, source=source, directory=str(quarantine.replay))


def _inputs_of(then: QueryFacts | None, now: QueryFacts) -> tuple[str, ...]:
    """What the query read at its last start; metadata without inputs is older than any replay."""
    if then is not None and then.inputs:
        return then.inputs
    return tuple(name for name in now.inputs if not is_replay_stream(name))
