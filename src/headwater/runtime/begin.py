"""From a Spark session to running queries: check, metadata, start, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.checks import Finding, with_reasons
from headwater.engine.memory_tables import MemoryTables
from headwater.engine.outcome import CheckOutcome, check_outcome
from headwater.engine.prepare import Prepared, prepare, stop_findings
from headwater.engine.session import PipelineSession
from headwater.engine.shared_paths import stream_paths, unshared
from headwater.errors import PipelineError
from headwater.runtime.handles import Run
from headwater.runtime.resume import finish_interrupted
from headwater.runtime.scope import RunScope
from headwater.runtime.starter import PlannedQuery, QueryStarter
from headwater.runtime.supervisor import Supervisor
from headwater.runtime.tasks import tasks_of
from headwater.spec import PipelineSpec


def begin(
    scope: RunScope,
    session: PipelineSession,
    found: Callable[[list[Finding]], None],
    besides: Iterable[Finding],
) -> Run:
    """Check the pipeline and start its queries; if that fails, the JVM has stopped when this raises."""
    try:
        supervisor = _started(scope, session, found, besides)
        scope.locks.when_lost(supervisor.lost)
        return Run(supervisor, MemoryTables(session.spark, scope.spec))
    except BaseException:
        # Nothing of this start may still write when the locks are released.
        session.jvm.stop()
        raise


def _started(
    scope: RunScope,
    session: PipelineSession,
    found: Callable[[list[Finding]], None],
    besides: Iterable[Finding],
) -> Supervisor:
    spec, locks = scope.spec, scope.locks
    locks.name_jvm(session.jvm.pid, session.jvm.start_time)
    scope.directory.claim(spec)
    finish_interrupted(scope.directory, [sink.name for sink in spec.sinks])
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
    return supervisor


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
