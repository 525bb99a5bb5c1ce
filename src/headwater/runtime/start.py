"""From a spec to a run: locks, session, check, metadata, queries, in this order."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial

from headwater.checks import Finding, with_reasons
from headwater.engine.memory_tables import MemoryTables
from headwater.engine.outcome import CheckOutcome, check_outcome
from headwater.engine.prepare import Prepared, prepare, stop_findings
from headwater.engine.session import PipelineSession, open_session
from headwater.engine.shared_paths import stream_paths, unshared
from headwater.errors import PipelineError
from headwater.errors.catalogue.notices import LOCK_TAKEN_OVER
from headwater.errors.catalogue.running import UNTIL_IDLE_UNSUPPORTED
from headwater.events import Emit, SparkStarting
from headwater.plan.predicates import secret_problems
from headwater.plan.quarantine import with_quarantine
from headwater.runtime.handles import Run
from headwater.runtime.locks import RunLocks
from headwater.runtime.records import RunRecords
from headwater.runtime.resume import finish_interrupted
from headwater.runtime.scope import (
    Cancellation,
    RunOptions,
    RunScope,
    UnmetExpectations,
    guarded,
    phase_of,
)
from headwater.runtime.starter import PlannedQuery, QueryStarter
from headwater.runtime.supervisor import Supervisor
from headwater.runtime.tasks import tasks_of
from headwater.spec import PipelineSpec
from headwater.values import Continuous, RealTime

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
    session = None
    try:
        locks.keep_alive()
        for owner in locks.taken_over:
            scope.notify(LOCK_TAKEN_OVER.at(None, owner=owner))
        scope.check_cancelled()
        session = _opened(scope, stdout)
        locks.name_jvm(session.jvm.pid, session.jvm.start_time)
        directory.claim(spec)
        finish_interrupted(directory, [sink.name for sink in spec.sinks])
        scope.check_cancelled()
        prepared, outcome = _checked(scope, session, besides)
        found(outcome.findings)
        starter = QueryStarter(scope, prepared, _planned(spec, outcome))
        scope.check_cancelled()
        # A machine that slept meanwhile sent no heartbeat, so another host may have taken over.
        locks.confirm()
        facts = [each.facts for each in starter.plan]
        supervisor = Supervisor(scope, starter, tasks_of(scope, prepared, facts))
        starter.start(supervisor)
    except BaseException:
        # Nothing of this start may still write when the locks are released.
        if session is not None:
            session.jvm.stop()
        locks.release()
        raise
    locks.when_lost(supervisor.lost)
    return Run(supervisor, MemoryTables(session.spark, spec)), session


def _waiting_for_jvm(emit: Emit, pid: int) -> AbstractContextManager[object]:
    text = f"Waiting for the JVM of the previous run (process {pid}) to exit"
    return phase_of(emit, "previous_jvm", text, first=0)


def _opened(scope: RunScope, stdout: Callable[[str], None]) -> PipelineSession:
    scope.emit(SparkStarting())
    with scope.phase("spark", "Starting Spark", first=SLOW_SPARK_SECONDS):
        return open_session(
            scope.spec,
            master=scope.options.master,
            conf=scope.options.conf,
            spark_ui=scope.options.spark_ui,
            stdout=stdout,
            emit=scope.emit,
        )


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


def _checked(
    scope: RunScope, session: PipelineSession, besides: Iterable[Finding]
) -> tuple[Prepared, CheckOutcome]:
    """The pipeline as Spark analyzed it, and the findings, which are stored with the run."""
    spec, directory = scope.spec, scope.directory
    with scope.phase("check", "Checking the pipeline, sink by sink", total=len(spec.sinks)) as phase:
        prepared = prepare(
            session,
            spec,
            starts=True,
            ends_when_idle=scope.options.until_idle,
            epoch=scope.locks.epoch,
            counted=phase.count,
        )
        outcome = check_outcome(prepared, spec, directory.stored(spec), lambda: directory.reached(spec))
        # Last, because executors may register late; still before a query writes anything.
        of_paths = unshared(
            prepared, stream_paths(prepared, spec, outcome.facts), scope.emit, scope.check_cancelled
        )
    of_stop = stop_findings(session.spark)
    outcome = outcome.with_findings([*of_paths, *of_stop], with_reasons(besides, spec))
    directory.store_findings(scope.run_id, scope.locks.epoch, outcome.findings)
    return prepared, outcome


def _planned(spec: PipelineSpec, outcome: CheckOutcome) -> tuple[PlannedQuery, ...]:
    """Every sink with its settings; PipelineError if any finding blocks the start."""
    # Several sinks may fail because of one table: report it once.
    errors = {str(finding.problem): finding.problem for finding in outcome.findings if finding.is_error}
    if errors:
        raise PipelineError.of(errors.values())
    return tuple(
        PlannedQuery(sink, outcome.settings[sink.name], outcome.facts[sink.name]) for sink in spec.sinks
    )
