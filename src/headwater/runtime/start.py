"""From a spec to a run: locks, session, check, facts, queries, in this order."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.checks import Finding, Severity, Situation, examine
from headwater.engine.listener import EventListener
from headwater.engine.prepare import Prepared, facts_of, prepare, settings_of
from headwater.engine.query import RunningQuery, start_query
from headwater.engine.session import PipelineSession, log_folder, open_session
from headwater.engine.settings import Setting
from headwater.engine.translate import failure_problem
from headwater.errors import Held, PipelineError, Problem
from headwater.errors.catalogue.documents import SECRET_MISSING
from headwater.events import Event, RunStarted, Said
from headwater.plan import QueryFacts
from headwater.runtime.failures import FailureLog
from headwater.runtime.handles import Run
from headwater.runtime.locks import RunLocks
from headwater.runtime.run_folder import RunFolder, write_whole
from headwater.runtime.supervisor import STOP_SECONDS, Supervisor
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import AvailableNow, Every, Once, Secret, Trigger, Unpaced

IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


@dataclass(frozen=True)
class RunOptions:
    """How to run; nothing here changes what the pipeline means."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    fail_fast: bool = False
    until_idle: bool = False
    spark_ui: bool = False
    stop_seconds: float = STOP_SECONDS


def start(
    spec: PipelineSpec,
    options: RunOptions,
    emit: Callable[[Event], None],
    stdout: Callable[[str], None],
    found: Callable[[list[Finding]], None] = lambda findings: None,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[Run, PipelineSession]:
    """Start every sink of a pipeline, after a full check; PipelineError or Held if that can't be.

    `go_on` is called between the steps and may raise, to end the start there.
    """
    _refuse_missing_secrets(spec)
    run_id = uuid.uuid4().hex[:12]
    folder = RunFolder.of(spec)
    # The locks come before the JVM: a second run is refused in a moment, and a dead run's JVM is gone
    # before ours can write.
    locks = RunLocks([folder.checkpoint(sink.name) for sink in spec.sinks], run_id)
    session = None
    try:
        for owner in locks.taken_over:
            emit(Said(text=f"The run before this one is dead ({owner}); its place was taken."))
        go_on()
        session = open_session(
            spec, master=options.master, conf=options.conf, spark_ui=options.spark_ui, stdout=stdout
        )
        locks.name_jvm(session.jvm.pid, session.jvm.start_time)
        folder.claim(spec)
        go_on()
        prepared = prepare(session, spec)
        plan = _planned(prepared, spec, folder, found)
        go_on()
        # A long preparation is silent; on another host the lock may have been taken over meanwhile.
        locks.confirm()
        supervisor = _supervisor(spec, run_id, options, emit, locks)
        _start_queries(prepared, spec, folder, plan, options, supervisor, run_id, emit)
    except BaseException:
        # Nothing of this start may be left to write when the locks are free.
        if session is not None:
            session.jvm.stop()
        locks.release()
        raise
    locks.keep_alive(lambda held: _lost(held, supervisor, emit))
    return Run(supervisor), session


def _refuse_missing_secrets(spec: PipelineSpec) -> None:
    problems = [
        SECRET_MISSING.at(thing.position, name=name)
        for thing in spec.connected
        for value in thing.options.options.values()
        if isinstance(value, Secret)
        for name in value.missing()
    ]
    if problems:
        raise PipelineError.of(problems)


@dataclass(frozen=True)
class _Planned:
    """A sink that may start, with its settings and facts."""

    sink: SinkSpec
    settings: tuple[Setting, ...]
    facts: QueryFacts


def _planned(
    prepared: Prepared, spec: PipelineSpec, folder: RunFolder, found: Callable[[list[Finding]], None]
) -> list[_Planned]:
    """Every sink with its settings; PipelineError if any check is against the start."""
    findings = [Finding(problem, sink=sink) for sink, problem in prepared.problems]
    planned: list[_Planned] = []
    if not findings and prepared.graph is not None:
        stored = folder.stored(spec)
        for sink in spec.sinks:
            settings = settings_of(prepared.session, spec, stored.get(sink.name))
            planned.append(_Planned(sink, settings, facts_of(prepared, spec, sink, settings)))
        facts = {each.sink.name: each.facts for each in planned}
        findings += examine(Situation(spec, prepared.graph, facts, stored))
    found(findings)
    errors = [finding.problem for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        raise PipelineError.of(errors)
    return planned


def _supervisor(
    spec: PipelineSpec, run_id: str, options: RunOptions, emit: Callable[[Event], None], locks: RunLocks
) -> Supervisor:
    log = FailureLog(log_folder(spec))
    sinks = {sink.name: sink for sink in spec.sinks}

    def explain(name: str, error: Exception) -> Problem:
        problem = failure_problem(error, sinks[name], spec.tables, spec.root, log.file)
        log.write(name, problem)
        return problem

    return Supervisor(
        run_id,
        emit,
        explain,
        fail_fast=options.fail_fast,
        stop_seconds=options.stop_seconds,
        on_close=locks.release,
    )


def _start_queries(
    prepared: Prepared,
    spec: PipelineSpec,
    folder: RunFolder,
    plan: list[_Planned],
    options: RunOptions,
    supervisor: Supervisor,
    run_id: str,
    emit: Callable[[Event], None],
) -> None:
    session = prepared.session
    for file, text in prepared.builder.kept.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    names = tuple(each.sink.name for each in plan)
    emit(
        RunStarted(
            run_id=run_id,
            pipeline=spec.name,
            queries=names,
            folder=str(folder.path),
            spark_version=session.spark.version,
        )
    )
    session.spark.conf.set(IDLE_EVENTS, "200" if options.until_idle else "1000")
    session.spark.streams.addListener(EventListener(supervisor.handle, supervisor.over))
    started: list[RunningQuery] = []
    try:
        for each in plan:
            folder.store_facts(each.facts)
            query = start_query(
                session,
                prepared.builder,
                each.sink,
                prepared.frames[each.sink.name],
                checkpoint=folder.checkpoint(each.sink.name),
                settings=each.settings,
                trigger=_trigger(each.sink.trigger, until_idle=options.until_idle),
            )
            started.append(query)
            supervisor.adopt(query)
    except BaseException:
        for query in started:
            query.stop()
        raise
    supervisor.watch(started)


def _trigger(trigger: Trigger, *, until_idle: bool) -> Trigger:
    """`--until-idle` does not wait for the next interval to find out that nothing is left."""
    match trigger:
        case Every():
            return Unpaced() if until_idle else trigger
        case Once() | AvailableNow() | Unpaced():
            return trigger


def _lost(held: Held, supervisor: Supervisor, emit: Callable[[Event], None]) -> None:
    """Another run has the checkpoint: end at once, since whatever is written now may meet the other's."""
    for problem in held.problems:
        emit(Said(text=f"{problem.sentence} {problem.remedy}"))
    supervisor.force(held.problems[0])
    supervisor.stop()
