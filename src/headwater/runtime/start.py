"""From a spec to a run: locks, session, check, facts, queries, in this order."""

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
from headwater.errors import Held, PipelineError
from headwater.errors.catalogue.running import NEVER_IDLE
from headwater.events import Event, Said, SparkStarting
from headwater.plan.predicates import secret_problems
from headwater.plan.quarantine import with_quarantine
from headwater.runtime.handles import Run
from headwater.runtime.launch import Launch, Planned
from headwater.runtime.locks import RunLocks
from headwater.runtime.query_state import Phase, Phases, UnmetExpectations, guarded
from headwater.runtime.records import RunRecords
from headwater.runtime.resume import finish_interrupted
from headwater.runtime.supervisor import RunOptions, Supervisor
from headwater.spec import PipelineSpec
from headwater.values import Continuous, RealTime

SLOW_SPARK_SECONDS = 10.0


def start(
    spec: PipelineSpec,
    options: RunOptions,
    emit: Callable[[Event], None],
    stdout: Callable[[str], None],
    found: Callable[[list[Finding]], None] = lambda findings: None,
    go_on: Callable[[], None] = lambda: None,
    besides: Iterable[Finding] = (),
) -> tuple[Run, PipelineSession]:
    """Start every sink of a pipeline, after a full check; PipelineError or Held if that can't be.

    `go_on` is called between the steps and may raise, to end the start there. `besides` is what the caller
    knows and a check can't.
    """
    spec = with_quarantine(spec)
    emit = UnmetExpectations(spec, guarded(emit))
    _refuse_unready(spec, options)
    run_id, directory, phases = uuid.uuid4().hex[:12], RunRecords.of(spec), Phases(emit)
    # The locks come before the JVM: a second run is refused in a moment, and a dead run's JVM is gone
    # before ours can write.
    locks = RunLocks(directory.locked(spec), run_id, partial(_waiting_for_jvm, phases))
    session, next_step = None, partial(_next_step, locks, go_on)
    try:
        locks.keep_alive()
        _say_taken_over(locks, emit)
        next_step()
        session = _opened(spec, options, emit, stdout, phases)
        locks.name_jvm(session.jvm.pid, session.jvm.start_time)
        directory.claim(spec)
        finish_interrupted(directory, [sink.name for sink in spec.sinks])
        next_step()
        with phases.phase("check", "Checking the pipeline, sink by sink", total=len(spec.sinks)) as phase:
            prepared = _prepared(session, spec, options, phase)
            outcome = _heard(prepared, spec, directory, run_id, besides, _say(emit), next_step)
        found(outcome.findings)
        plan = _planned(spec, outcome)
        next_step()
        # A machine that slept meanwhile gave no sign of life, so another host may have taken over.
        locks.confirm()
        launch = Launch.of(prepared, spec, directory, plan, run_id, options, emit)
        supervisor = launch.supervisor(locks)
        launch.start(supervisor, phases, next_step)
    except BaseException:
        # Nothing of this start may be left to write when the locks are free.
        if session is not None:
            session.jvm.stop()
        locks.release()
        raise
    locks.when_lost(lambda held: _lost(held, supervisor, emit))
    return Run(supervisor, MemoryTables(session.spark, spec)), session


def _say_taken_over(locks: RunLocks, emit: Callable[[Event], None]) -> None:
    for owner in locks.taken_over:
        emit(Said(text=f"The run before this one is dead ({owner}); its place was taken."))


def _next_step(locks: RunLocks, go_on: Callable[[], None]) -> None:
    locks.refuse_if_lost()
    go_on()


def _waiting_for_jvm(phases: Phases, pid: int) -> AbstractContextManager[object]:
    text = f"Waiting for the JVM of the previous run (process {pid}) to exit"
    return phases.phase("previous_jvm", text, first=0)


def _opened(
    spec: PipelineSpec,
    options: RunOptions,
    emit: Callable[[Event], None],
    stdout: Callable[[str], None],
    phases: Phases,
) -> PipelineSession:
    emit(SparkStarting())
    with phases.phase("spark", "Starting Spark", first=SLOW_SPARK_SECONDS):
        return open_session(
            spec,
            master=options.master,
            conf=options.conf,
            spark_ui=options.spark_ui,
            stdout=stdout,
            say=_say(emit),
        )


def _say(emit: Callable[[Event], None]) -> Callable[[str], None]:
    return lambda text: emit(Said(text=text))


def _refuse_unready(spec: PipelineSpec, options: RunOptions) -> None:
    """PipelineError for what needs no look at anything but the pipeline."""
    problems = [problem for thing in spec.connected for problem in secret_problems(thing)]
    lasting = [sink for sink in spec.sinks if isinstance(sink.trigger, Continuous | RealTime)]
    problems += [
        NEVER_IDLE.at(sink.at("trigger"), sink=sink.name, trigger=str(sink.trigger))
        for sink in lasting
        if options.until_idle
    ]
    if problems:
        raise PipelineError.of(problems)


def _prepared(session: PipelineSession, spec: PipelineSpec, options: RunOptions, phase: Phase) -> Prepared:
    until_idle = options.until_idle
    return prepare(session, spec, starts=True, ends_when_idle=until_idle, counted=phase.count)


def _heard(
    prepared: Prepared,
    spec: PipelineSpec,
    directory: RunRecords,
    run_id: str,
    besides: Iterable[Finding],
    say: Callable[[str], None],
    go_on: Callable[[], None],
) -> CheckOutcome:
    """What stands against the start, and what else was found; it is kept with the run."""
    outcome = check_outcome(prepared, spec, directory.stored(spec), lambda: directory.reached(spec))
    # Last, since executors may register late; still before anything of a query is written.
    of_paths = unshared(prepared, stream_paths(prepared, spec, outcome.facts), say, go_on)
    of_stop = stop_findings(prepared.session.spark)
    outcome = outcome.with_findings([*of_paths, *of_stop], with_reasons(besides, spec))
    directory.store_findings(run_id, outcome.findings)
    return outcome


def _planned(spec: PipelineSpec, outcome: CheckOutcome) -> list[Planned]:
    """Every sink with its settings; PipelineError if any finding is against the start."""
    # Several sinks may fail by one table: it is told once.
    errors = {str(finding.problem): finding.problem for finding in outcome.findings if finding.is_error}
    if errors:
        raise PipelineError.of(errors.values())
    return [Planned(sink, outcome.settings[sink.name], outcome.facts[sink.name]) for sink in spec.sinks]


def _lost(held: Held, supervisor: Supervisor, emit: Callable[[Event], None]) -> None:
    """Another run has the checkpoint: end at once, since whatever is written now may meet the other's."""
    supervisor.force(held.problems[0])
    for problem in held.problems:
        emit(Said(text=f"{problem.sentence} {problem.remedy}"))
    supervisor.stop()
