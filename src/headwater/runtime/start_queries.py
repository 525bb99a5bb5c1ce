"""From a Spark session to running queries: check, metadata, start, in this order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.checks import Finding
from headwater.engine.outcome import CheckOutcome, check_outcome
from headwater.engine.prepare import Prepared, prepare, stop_findings
from headwater.engine.session import PipelineSession
from headwater.engine.shared_paths import stream_paths, unshared
from headwater.errors import PipelineError
from headwater.events import Found, PipelineChanged
from headwater.plan.facts import changes_between
from headwater.runtime.application import APPLICATION, died_at_start
from headwater.runtime.handles import Run
from headwater.runtime.host import ControlledRun
from headwater.runtime.resume import finish_interrupted
from headwater.runtime.scope import RunScope, shown
from headwater.runtime.starter import PlannedQuery, QueryStarter
from headwater.runtime.supervisor import Supervisor
from headwater.spec import PipelineSpec


def start_queries(
    scope: RunScope,
    session: PipelineSession,
    found: Callable[[list[Finding]], None],
    reopen: Callable[[], PipelineSession] | None = None,
) -> Run:
    """Check the pipeline and start its queries; if that fails, the JVM has stopped when this raises.

    `reopen` starts Spark again after its process died; without it, every query then fails.
    """
    try:
        announce = partial(_announce, scope, found)
        starter = _checked_starter(scope, session, announce, reopen)
        supervisor = Supervisor(scope, starter, starter.tasks, starter.housekeeping)
        starter.start(supervisor)
        scope.locks.when_lost(supervisor.lost)
        if scope.observers is not None:
            scope.observers.control(ControlledRun(supervisor))
        return Run(supervisor)
    except BaseException as error:
        died = isinstance(error, Exception) and not APPLICATION.lives(scope.spec)
        # Nothing of this start may still write when the locks are released.
        session.jvm.stop()
        if died:
            raise died_at_start(scope.spec, error) from error
        raise


def _checked_starter(
    scope: RunScope,
    session: PipelineSession,
    announce: Callable[[Prepared, CheckOutcome], None],
    reopen: Callable[[], PipelineSession] | None,
) -> QueryStarter:
    """The queries that can start in this process of Spark, and in the one after it."""
    spec, locks = scope.spec, scope.locks
    locks.name_jvm(session.jvm.pid, session.jvm.start_time)
    scope.directory.claim(spec)
    finish_interrupted(scope.directory, [query.name for query in spec.queries])
    scope.check_cancelled()
    prepared, outcome = _checked(scope, session)
    announce(prepared, outcome)
    again = partial(_again, scope, reopen) if reopen else None
    starter = QueryStarter(scope, prepared, _planned(spec, outcome), again)
    scope.check_cancelled()
    # A machine that slept meanwhile sent no heartbeat, so another host may have taken over.
    locks.confirm()
    return starter


def _again(scope: RunScope, reopen: Callable[[], PipelineSession]) -> QueryStarter:
    return _checked_starter(scope, reopen(), lambda prepared, outcome: None, reopen)


def _announce(
    scope: RunScope, found: Callable[[list[Finding]], None], prepared: Prepared, outcome: CheckOutcome
) -> None:
    """Report what the check before the first start has found."""
    found(outcome.findings)
    for finding in outcome.findings:
        scope.emit(Found(finding=finding.to_json()))
    for name, before in scope.directory.stored(scope.spec).items():
        changes = changes_between(before, outcome.facts[name]) if name in outcome.facts else ()
        if changes:
            words = tuple(each.words for each in changes)
            details = tuple(shown(each.to_json()) for each in changes)
            query = next(sink.query for sink in scope.spec.sinks if sink.name == name)
            scope.emit(PipelineChanged(query=query, changes=words, details=details))
    function = scope.spec.on_event
    if scope.observers is not None and function is not None:
        scope.observers.call(prepared.builder.load(function), str(function))


def _checked(scope: RunScope, session: PipelineSession) -> tuple[Prepared, CheckOutcome]:
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
        outcome = check_outcome(
            prepared,
            spec,
            directory.stored(spec),
            lambda: directory.reached(spec),
            directory.written_by(spec),
        )
        # Last, because executors may register late; still before a query writes anything.
        of_paths = unshared(
            prepared, stream_paths(prepared, spec, outcome.facts), scope.emit, scope.check_cancelled
        )
    of_stop = stop_findings(session.spark)
    outcome = outcome.with_findings([*of_paths, *of_stop])
    directory.store_findings(scope.run_id, scope.locks.epoch, outcome.findings)
    return prepared, outcome


def _planned(spec: PipelineSpec, outcome: CheckOutcome) -> tuple[PlannedQuery, ...]:
    """Every sink with its settings; PipelineError if any finding blocks the start."""
    # Several sinks may fail because of one table: report it once.
    errors = {str(finding.problem): finding.problem for finding in outcome.findings if finding.is_error}
    if errors:
        raise PipelineError.of(errors.values())
    return tuple(
        PlannedQuery(
            query,
            outcome.settings[query.sinks[0].name],
            (outcome.groups if query.is_group else outcome.facts)[query.name],
            tuple(outcome.facts[sink.name] for sink in query.sinks),
        )
        for query in spec.queries
    )
