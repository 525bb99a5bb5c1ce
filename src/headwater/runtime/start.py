"""From a spec to a run: locks, session, check, facts, queries, in this order."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.checks import Finding, together, with_reasons
from headwater.checks.declared import secret_problems
from headwater.connectors.upkeep import Task
from headwater.engine.jvm_log import keep_small
from headwater.engine.listener import EventListener
from headwater.engine.memory_tables import MemoryTables
from headwater.engine.prepare import Prepared, prepare
from headwater.engine.query import RunningQuery, start_query
from headwater.engine.session import PipelineSession, log_folder, open_session
from headwater.engine.settings import Setting
from headwater.engine.translate import failure_problem
from headwater.engine.verdict import Verdict, verdict
from headwater.errors import Held, PipelineError, Problem
from headwater.errors.catalogue.static import STATIC_FILE_GONE
from headwater.errors.catalogue.triggers import NEVER_IDLE
from headwater.events import Event, RunStarted, Said, SparkStarting
from headwater.plan import QueryFacts
from headwater.runtime.backlog import BacklogWatch
from headwater.runtime.beginning import begin_anew
from headwater.runtime.epochs import EpochWatch
from headwater.runtime.failures import FailureLog
from headwater.runtime.handles import Run
from headwater.runtime.idle import IdleWatch
from headwater.runtime.locks import RunLocks
from headwater.runtime.observers import guarded
from headwater.runtime.run_folder import RunFolder, write_whole
from headwater.runtime.supervisor import STOP_SECONDS, Supervisor, Track
from headwater.runtime.upkeep import Upkeep, tasks_of
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import AvailableNow, Continuous, Every, Once, RealTime, Trigger, Unpaced

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
    besides: Iterable[Finding] = (),
) -> tuple[Run, PipelineSession]:
    """Start every sink of a pipeline, after a full check; PipelineError or Held if that can't be.

    `go_on` is called between the steps and may raise, to end the start there. `besides` is what the caller
    knows and a check can't.
    """
    emit = guarded(emit)
    _refuse_missing_secrets(spec)
    if options.until_idle:
        _refuse_never_idle(spec)
    run_id = uuid.uuid4().hex[:12]
    folder = RunFolder.of(spec)
    # The locks come before the JVM: a second run is refused in a moment, and a dead run's JVM is gone
    # before ours can write.
    locks = RunLocks(folder.locked(spec), run_id)
    session = None
    try:
        locks.keep_alive()
        for owner in locks.taken_over:
            emit(Said(text=f"The run before this one is dead ({owner}); its place was taken."))
        _next_step(locks, go_on)
        session = _opened(spec, options, emit, stdout)
        locks.name_jvm(session.jvm.pid, session.jvm.start_time)
        folder.claim(spec)
        _next_step(locks, go_on)
        prepared = prepare(session, spec)
        heard = _heard(prepared, spec, folder, run_id, besides)
        found(heard.findings)
        plan = _planned(spec, heard)
        _next_step(locks, go_on)
        # A machine that slept meanwhile gave no sign of life, so another host may have taken over.
        locks.confirm()
        supervisor = _supervisor(prepared, spec, folder, plan, run_id, options, emit, locks)
        _start_queries(prepared, spec, folder, plan, options, supervisor, run_id, emit)
    except BaseException:
        # Nothing of this start may be left to write when the locks are free.
        if session is not None:
            session.jvm.stop()
        locks.release()
        raise
    locks.when_lost(lambda held: _lost(held, supervisor, emit))
    return Run(supervisor, MemoryTables(session.spark, spec)), session


def _next_step(locks: RunLocks, go_on: Callable[[], None]) -> None:
    locks.refuse_if_lost()
    go_on()


def _opened(
    spec: PipelineSpec, options: RunOptions, emit: Callable[[Event], None], stdout: Callable[[str], None]
) -> PipelineSession:
    emit(SparkStarting())
    return open_session(
        spec,
        master=options.master,
        conf=options.conf,
        spark_ui=options.spark_ui,
        stdout=stdout,
        say=lambda text: emit(Said(text=text)),
    )


def _refuse_missing_secrets(spec: PipelineSpec) -> None:
    problems = [problem for thing in spec.connected for problem in secret_problems(thing)]
    if problems:
        raise PipelineError.of(problems)


def _refuse_never_idle(spec: PipelineSpec) -> None:
    problems = [
        NEVER_IDLE.at(sink.at("trigger"), sink=sink.name, trigger=str(sink.trigger))
        for sink in spec.sinks
        if isinstance(sink.trigger, Continuous | RealTime)
    ]
    if problems:
        raise PipelineError.of(problems)


@dataclass(frozen=True)
class _Planned:
    """A sink that may start, with its settings and facts."""

    sink: SinkSpec
    settings: tuple[Setting, ...]
    facts: QueryFacts


def _heard(
    prepared: Prepared, spec: PipelineSpec, folder: RunFolder, run_id: str, besides: Iterable[Finding]
) -> Verdict:
    """What stands against the start, and what else was found; it is kept with the run."""
    heard = verdict(prepared, spec, folder.stored(spec), lambda: folder.reached(spec))
    findings = together(heard.findings, with_reasons(besides, spec))
    folder.store_findings(run_id, findings)
    return replace(heard, findings=findings)


def _planned(spec: PipelineSpec, heard: Verdict) -> list[_Planned]:
    """Every sink with its settings; PipelineError if any finding is against the start."""
    # Several sinks may fail by one table: it is told once.
    errors = {str(finding.problem): finding.problem for finding in heard.findings if finding.is_error}
    if errors:
        raise PipelineError.of(errors.values())
    return [_Planned(sink, heard.settings[sink.name], heard.facts[sink.name]) for sink in spec.sinks]


def _supervisor(
    prepared: Prepared,
    spec: PipelineSpec,
    folder: RunFolder,
    plan: list[_Planned],
    run_id: str,
    options: RunOptions,
    emit: Callable[[Event], None],
    locks: RunLocks,
) -> Supervisor:
    log, statics = FailureLog(log_folder(spec)), prepared.builder.statics
    sinks = {sink.name: sink for sink in spec.sinks}

    def explain(name: str, error: Exception) -> Problem:
        problem = failure_problem(error, sinks[name], spec.tables, spec.root, log.file)
        unreadable = statics.problem(supervisor.tracks[name].query.id)
        problem = replace(unreadable, detail=problem.detail) if unreadable else problem
        log.write(name, problem)
        return problem

    def say(problem: Problem) -> None:
        log.write("between batches", problem)
        emit(_said(problem))

    def look() -> None:
        keep_small(log_folder(spec))
        for problem in statics.news():
            say(problem)

    def close() -> None:
        try:
            statics.close()
        finally:
            locks.release()

    watches = _watches(lambda: supervisor, emit)

    supervisor = Supervisor(
        run_id,
        emit,
        explain,
        fail_fast=options.fail_fast,
        stop_seconds=options.stop_seconds,
        on_close=close,
        again=_again(prepared, folder, plan, options, emit),
        at_looks=look,
        upkeep=Upkeep((*tasks_of(prepared, spec, folder, options.stop_seconds), *watches), say),
    )
    return supervisor


def _watches(supervisor: Callable[[], Supervisor], emit: Callable[[Event], None]) -> tuple[Task, ...]:
    """The tasks that look after the queries themselves."""

    def say(problem: Problem) -> None:
        emit(_said(problem))

    def track(name: str) -> Track:
        return supervisor().tracks[name]

    return (
        BacklogWatch(lambda name: track(name).query.waiting(), say),
        IdleWatch(track, emit, say),
        EpochWatch(lambda: list(supervisor().tracks.values()), lambda event: supervisor().handle(event)),
    )


def _said(problem: Problem) -> Said:
    return Said(text=f"{problem.code} {problem.sentence} {problem.remedy}")


def _again(
    prepared: Prepared,
    folder: RunFolder,
    plan: list[_Planned],
    options: RunOptions,
    emit: Callable[[Event], None],
) -> Callable[[Track, Exception], RunningQuery | None]:
    """The way to start a query again when a file of a static source was gone; its batch runs once more."""
    planned = {each.sink.name: each for each in plan}

    def again(track: Track, failure: Exception) -> RunningQuery | None:
        if not prepared.builder.statics.again(track.query.id, failure):
            return None
        problem = STATIC_FILE_GONE.at(None, sink=track.name)
        emit(Said(text=f"{problem.sentence} {problem.remedy}"))
        return _begun(prepared, folder, planned[track.name], options)

    return again


def _begun(prepared: Prepared, folder: RunFolder, each: _Planned, options: RunOptions) -> RunningQuery:
    return start_query(
        prepared.session,
        prepared.builder,
        each.sink,
        prepared.frames[each.sink.name],
        checkpoint=folder.checkpoint(each.sink.name),
        settings=each.settings,
        trigger=_trigger(each.sink.trigger, until_idle=options.until_idle),
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
        prepared.builder.statics.start()
        for each in plan:
            begun = begin_anew(folder, each.sink)
            if begun:
                emit(Said(text=begun))
            folder.store_facts(each.facts)
            query = _begun(prepared, folder, each, options)
            started.append(query)
            supervisor.adopt(query)
    except BaseException:
        for query in started:
            query.stop()
        prepared.builder.statics.close()
        raise
    supervisor.watch(started)


def _trigger(trigger: Trigger, *, until_idle: bool) -> Trigger:
    """`--until-idle` does not wait for the next interval to find out that nothing is left."""
    match trigger:
        case Every():
            return Unpaced() if until_idle else trigger
        case Once() | AvailableNow() | Continuous() | RealTime() | Unpaced():
            return trigger


def _lost(held: Held, supervisor: Supervisor, emit: Callable[[Event], None]) -> None:
    """Another run has the checkpoint: end at once, since whatever is written now may meet the other's."""
    supervisor.force(held.problems[0])
    for problem in held.problems:
        emit(Said(text=f"{problem.sentence} {problem.remedy}"))
    supervisor.stop()
