"""From a spec to a JVM: takes the locks, launches the process, and loads PySpark while it starts."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from headwater.checks import Finding
from headwater.errors import HeadwaterError, PipelineError, Problem
from headwater.errors.catalogue.environment import INTERNAL_ERROR
from headwater.errors.catalogue.notices import LOCK_TAKEN_OVER
from headwater.errors.catalogue.running import UNTIL_IDLE_UNSUPPORTED
from headwater.events import Emit, SparkStarting
from headwater.plan.predicates import secret_problems
from headwater.plan.quarantine import with_quarantine
from headwater.runtime.application import APPLICATION
from headwater.runtime.locks import RunLocks
from headwater.runtime.observers import Observed, Observers
from headwater.runtime.records import RunRecords
from headwater.runtime.scope import (
    Cancellation,
    RunOptions,
    RunScope,
    UnmetExpectations,
    guarded,
    phase_of,
)
from headwater.runtime.signals import StopRequested
from headwater.spec import PipelineSpec
from headwater.values import Continuous, RealTime, scrub

if TYPE_CHECKING:
    from headwater.engine.session import PipelineSession
    from headwater.runtime.handles import Run

SLOW_SPARK_SECONDS = 10.0
_INTERNAL_ERROR_CODE = 70


def start(
    spec: PipelineSpec,
    options: RunOptions,
    emit: Emit,
    stdout: Callable[[str], None],
    found: Callable[[list[Finding]], None] = lambda findings: None,
    cancellation: Cancellation | None = None,
) -> Run:
    """Start every sink of a pipeline, after a full check; raise PipelineError or CheckpointLockedError.

    `cancellation` is checked between the steps and may stop the start there.
    """
    spec = with_quarantine(spec)
    _refuse_unready(spec, options)
    run_id, directory = uuid.uuid4().hex[:12], RunRecords.of(spec)
    observers = Observers(Observed.of(spec, options), run_id, emit)
    try:
        return _start(spec, options, observers, directory, stdout, found, cancellation)
    except BaseException:
        observers.close()
        raise


def _start(
    spec: PipelineSpec,
    options: RunOptions,
    observers: Observers,
    directory: RunRecords,
    stdout: Callable[[str], None],
    found: Callable[[list[Finding]], None],
    cancellation: Cancellation | None,
) -> Run:
    emit, run_id = UnmetExpectations(spec, guarded(observers)), observers.view.run_id
    # Locks before the JVM: a second run fails within a moment, and a dead run's JVM is gone before ours can
    # write.
    locks = RunLocks(directory.locked(spec), run_id, partial(_waiting_for_jvm, emit))
    scope = RunScope(run_id, spec, options, directory, locks, emit, observers, cancellation)
    observers.host.starting(scope.cancel)
    try:
        locks.keep_alive()
        observers.open()
        for owner in locks.taken_over:
            scope.notify(LOCK_TAKEN_OVER.at(None, owner=owner))
        scope.check_cancelled()
        session = _opened(scope, stdout)
        # Loaded by now, with the session.
        from headwater.runtime.start_queries import start_queries

        reopen = partial(_reopened, scope, stdout) if APPLICATION.can_restart else None
        return start_queries(scope, session, found, reopen)
    except BaseException as error:
        try:
            APPLICATION.ended(spec)
            observers.start_failed(_exit_code(error), _problems(error))
        finally:
            # Last: a new run in this directory has the same socket and history.
            locks.release()
        raise


def _problems(error: BaseException) -> tuple[Problem, ...]:
    """Why a start has failed; nothing if it was stopped."""
    if isinstance(error, HeadwaterError):
        return error.problems
    if isinstance(error, Exception) and not isinstance(error, StopRequested):
        return (INTERNAL_ERROR.at(None, error=scrub(f"{type(error).__name__}: {error}".splitlines()[0])),)
    return ()


def _exit_code(error: BaseException) -> int:
    if isinstance(error, StopRequested):
        return 0
    return error.exit_code if isinstance(error, HeadwaterError) else _INTERNAL_ERROR_CODE


def _waiting_for_jvm(emit: Emit, pid: int) -> AbstractContextManager[object]:
    text = f"Waiting for the JVM of the previous run (process {pid}) to exit"
    return phase_of(emit, "previous_jvm", text, first=0)


def _opened(scope: RunScope, stdout: Callable[[str], None]) -> PipelineSession:
    scope.emit(SparkStarting())
    with scope.phase("spark", "Starting Spark", first=SLOW_SPARK_SECONDS):
        return APPLICATION.open(scope.spec, scope.options, scope.emit, stdout)


def _reopened(scope: RunScope, stdout: Callable[[str], None]) -> PipelineSession:
    scope.emit(SparkStarting())
    with scope.phase("spark", "Starting Spark again", first=SLOW_SPARK_SECONDS):
        return APPLICATION.reopen(scope.spec, scope.options, scope.emit, stdout)


def _refuse_unready(spec: PipelineSpec, options: RunOptions) -> None:
    """PipelineError for problems that the pipeline alone shows."""
    problems = [problem for thing in spec.connected for problem in secret_problems(thing)]
    lasting = [sink for sink in spec.sinks if isinstance(sink.trigger, Continuous | RealTime)]
    problems += [
        UNTIL_IDLE_UNSUPPORTED.at(sink.at("trigger"), sink=sink.name, trigger=str(sink.trigger))
        for sink in lasting
        if options.until_idle
    ]
    if problems:
        raise PipelineError.of(problems)
