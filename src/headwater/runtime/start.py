"""From a spec to a JVM: takes the locks, launches the process, and loads PySpark while it starts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from headwater.checks import Finding
from headwater.engine.launch import Launch, launch_spark
from headwater.errors import PipelineError
from headwater.errors.catalogue.notices import LOCK_TAKEN_OVER
from headwater.errors.catalogue.running import UNTIL_IDLE_UNSUPPORTED
from headwater.events import Emit, SparkStarting
from headwater.plan.predicates import secret_problems
from headwater.plan.quarantine import with_quarantine
from headwater.runtime.locks import RunLocks
from headwater.runtime.records import RunRecords
from headwater.runtime.scope import (
    Cancellation,
    RunOptions,
    RunScope,
    UnmetExpectations,
    guarded,
    phase_of,
)
from headwater.spec import PipelineSpec
from headwater.values import Continuous, RealTime

if TYPE_CHECKING:
    from headwater.engine.session import PipelineSession
    from headwater.runtime.handles import Run

SLOW_SPARK_SECONDS = 10.0


def start(
    spec: PipelineSpec,
    options: RunOptions,
    emit: Emit,
    stdout: Callable[[str], None],
    found: Callable[[list[Finding]], None] = lambda findings: None,
    cancellation: Cancellation | None = None,
    besides: Iterable[Finding] = (),
) -> tuple[Run, PipelineSession]:
    """Start every sink of a pipeline, after a full check; raise PipelineError or CheckpointLockedError.

    `cancellation` is checked between the steps and may stop the start there. `besides` are findings of the
    caller that a check cannot make.
    """
    spec = with_quarantine(spec)
    emit = UnmetExpectations(spec, guarded(emit))
    _refuse_unready(spec, options)
    run_id, directory = uuid.uuid4().hex[:12], RunRecords.of(spec)
    # Locks before the JVM: a second run fails within a moment, and a dead run's JVM is gone before ours can
    # write.
    locks = RunLocks(directory.locked(spec), run_id, partial(_waiting_for_jvm, emit))
    scope = RunScope(run_id, spec, options, directory, locks, emit, cancellation)
    try:
        locks.keep_alive()
        for owner in locks.taken_over:
            scope.notify(LOCK_TAKEN_OVER.at(None, owner=owner))
        scope.check_cancelled()
        session = _opened(scope, stdout)
        # Loaded by now, with the session.
        from headwater.runtime.begin import begin

        return begin(scope, session, found, besides), session
    except BaseException:
        locks.release()
        raise


def _waiting_for_jvm(emit: Emit, pid: int) -> AbstractContextManager[object]:
    text = f"Waiting for the JVM of the previous run (process {pid}) to exit"
    return phase_of(emit, "previous_jvm", text, first=0)


def _opened(scope: RunScope, stdout: Callable[[str], None]) -> PipelineSession:
    scope.emit(SparkStarting())
    with scope.phase("spark", "Starting Spark", first=SLOW_SPARK_SECONDS):
        launched = launch_spark(
            scope.spec,
            master=scope.options.master,
            conf=scope.options.conf,
            spark_ui=scope.options.spark_ui,
            stdout=stdout,
            emit=scope.emit,
        )
        return _connected(scope, launched, stdout)


def _connected(scope: RunScope, launched: Launch, stdout: Callable[[str], None]) -> PipelineSession:
    try:
        # PySpark and all that uses it: a good half second of work, while the JVM starts.
        import headwater.runtime.begin  # noqa: F401 - loaded here, used later
        from headwater.engine.session import connect
    except BaseException:
        launched.abandon()
        raise
    return connect(scope.spec, launched, stdout)


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
