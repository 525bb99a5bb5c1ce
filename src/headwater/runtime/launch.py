"""Everything that a run starts with, and the start of its queries one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from headwater.connectors.contract import Admission, SourceTask, Task
from headwater.engine.listener import EventListener
from headwater.engine.prepare import Prepared
from headwater.engine.query import RunningQuery, start_query
from headwater.engine.session import Setting, settings_line
from headwater.engine.translate import failure_problem
from headwater.errors import Problem
from headwater.errors.catalogue.connectors import STATIC_FILE_GONE
from headwater.events import Event, RunStarted, Said
from headwater.plan import QueryFacts
from headwater.run_directory import RunDirectory
from headwater.runtime.locks import RunLocks
from headwater.runtime.query_state import Phases, Track
from headwater.runtime.records import RunRecords
from headwater.runtime.resume import resume
from headwater.runtime.supervisor import RunOptions, Supervisor
from headwater.runtime.tasks import (
    BacklogWatch,
    EpochWatch,
    IdleWatch,
    Upkeep,
    admissions_of,
    caught_up,
    hindrance,
    tasks_of,
    watches_of,
)
from headwater.spark.jvm_log import keep_small
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import AvailableNow, Continuous, Every, Once, RealTime, Trigger, Unpaced, scrub

# The full text of every failure, in a log file of the run directory.


class FailureLog:
    """Appends to `logs/failures.log`; the message on the terminal stays short."""

    def __init__(self, directory: RunDirectory) -> None:
        self.file = directory.failures_log

    def write(self, query: str, problem: Problem) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        text = f"{now} {query} {problem}\n{problem.detail}\n\n"
        # A full disk must not keep the run from ending; the problem itself is told all the same.
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(scrub(text))


IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


@dataclass(frozen=True)
class Planned:
    """A sink that may start, with its settings and facts."""

    sink: SinkSpec
    settings: tuple[Setting, ...]
    facts: QueryFacts


@dataclass(frozen=True)
class Launch:
    """A pipeline that nothing stands against, on its way from the check to running queries."""

    prepared: Prepared
    spec: PipelineSpec
    directory: RunRecords
    plan: tuple[Planned, ...]
    run_id: str
    options: RunOptions
    emit: Callable[[Event], None]
    sources: tuple[SourceTask, ...]
    """What looks after that which the sources read."""
    admissions: tuple[Admission, ...]
    """What opens new input before a batch takes it."""

    @classmethod
    def of(
        cls,
        prepared: Prepared,
        spec: PipelineSpec,
        directory: RunRecords,
        plan: list[Planned],
        run_id: str,
        options: RunOptions,
        emit: Callable[[Event], None],
    ) -> Launch:
        """With the tasks of its sources."""
        facts = [each.facts for each in plan]
        sources = tuple(watches_of(prepared, spec, directory, facts))
        admissions = tuple(admissions_of(prepared, spec, directory, facts))
        return cls(prepared, spec, directory, tuple(plan), run_id, options, emit, sources, admissions)

    def supervisor(self, locks: RunLocks) -> Supervisor:
        """Who looks after the queries from their start to their end."""
        supervisor = Supervisor(
            self.run_id,
            self.emit,
            lambda name, error: self._explained(supervisor, name, error),
            fail_fast=self.options.fail_fast,
            stop_seconds=self.options.stop_seconds,
            on_close=lambda: self._close(locks),
            again=self._again,
            at_looks=self._look,
            upkeep=Upkeep(
                (*self._tasks(), *self._watches(lambda: supervisor)),
                self._say,
                lambda queries: supervisor.end(queries),
            ),
            caught_up=partial(caught_up, self.admissions),
            hindrance=partial(hindrance, self.admissions),
        )
        return supervisor

    def start(self, supervisor: Supervisor, phases: Phases, go_on: Callable[[], None]) -> None:
        """Start every query; if one can't, none is left running. `go_on` may raise where it waits long."""
        for admission in self.admissions:
            # What lies there now is for the first batch, also for that of a run which takes it and ends.
            with phases.phase("open_files", "Opening new files") as phase:
                admission.start(lambda text: self.emit(Said(text=text)), go_on, phase.count)
        for file, text in self.prepared.builder.kept.items():
            self.directory.write(file, text)
        spark = self.prepared.session.spark
        spark.conf.set(IDLE_EVENTS, "200" if self.options.until_idle else "1000")
        listener = EventListener(
            supervisor.handle,
            supervisor.over,
            catch_up=supervisor.catch_up,
            failed=supervisor.listener_failed,
        )
        started: list[RunningQuery] = []
        try:
            listener.open(spark)
            self.prepared.builder.statics.start()
            # What stands against one query is told before any other writes.
            for each in self.plan:
                for said in self._made_ready(each):
                    self.emit(said)
            self._say_started()
            with phases.phase("queries", "Starting the queries", total=len(self.plan)) as phase:
                for each in self.plan:
                    self.directory.store_facts(each.facts)
                    newest = self.directory.last_batch(each.sink.name)
                    query = self._begun(each)
                    started.append(query)
                    supervisor.adopt(query, newest)
                    phase.count(len(started))
        except BaseException:
            for query in started:
                query.stop()
            for source in self.sources:
                source.close()
            self.prepared.builder.statics.close()
            listener.close()
            raise
        supervisor.watch(started, listener)

    def _say_started(self) -> None:
        self.emit(
            RunStarted(
                run_id=self.run_id,
                pipeline=self.spec.name,
                queries=tuple(each.sink.name for each in self.plan),
                folder=str(self.directory.path),
                spark_version=self.prepared.session.spark.version,
            )
        )

    def _made_ready(self, each: Planned) -> Iterator[Said]:
        """Make a checkpoint fit the query that is about to start; what was done, step by step."""
        line = partial(settings_line, self.prepared.session, each.settings)
        done = resume(self.directory, each.sink, each.facts, line, self.sources)
        return (Said(text=text) for text in done if text)

    def _begun(self, each: Planned) -> RunningQuery:
        return start_query(
            self.prepared.session,
            self.prepared.builder,
            each.sink,
            self.prepared.frames[each.sink.name],
            checkpoint=self.directory.checkpoint(each.sink.name),
            settings=each.settings,
            trigger=_trigger(each.sink.trigger, until_idle=self.options.until_idle),
        )

    def _again(self, track: Track, failure: Exception) -> RunningQuery | None:
        """A query started again whose file of a static source was gone; its batch runs once more."""
        if not self.prepared.builder.statics.again(track.query.id, failure):
            return None
        problem = STATIC_FILE_GONE.at(None, sink=track.name)
        self.emit(Said(text=f"{problem.sentence} {problem.remedy}"))
        return self._begun(next(each for each in self.plan if each.sink.name == track.name))

    def _explained(self, supervisor: Supervisor, name: str, error: Exception) -> Problem:
        """Why a query failed, in the log with everything that is known of it."""
        sink = next(each.sink for each in self.plan if each.sink.name == name)
        log = FailureLog(self.directory)
        problem = failure_problem(error, sink, self.spec.tables, self.spec.root, log.file)
        unreadable = self.prepared.builder.statics.problem(supervisor.tracks[name].query.id)
        problem = replace(unreadable, detail=problem.detail) if unreadable else problem
        log.write(name, problem)
        return problem

    def _say(self, problem: Problem) -> None:
        FailureLog(self.directory).write("between batches", problem)
        self.emit(_said(problem))

    def _look(self) -> None:
        keep_small(self.directory.logs)
        for problem in self.prepared.builder.statics.news():
            self._say(problem)

    def _close(self, locks: RunLocks) -> None:
        try:
            self.prepared.builder.statics.close()
        finally:
            locks.release()

    def _tasks(self) -> tuple[Task, ...]:
        between = tasks_of(self.prepared, self.spec, self.directory, self.options.stop_seconds)
        return (*self.admissions, *between, *self.sources)

    def _watches(self, supervisor: Callable[[], Supervisor]) -> tuple[Task, ...]:
        """The tasks that look after the queries themselves."""

        def say(problem: Problem) -> None:
            self.emit(_said(problem))

        def track(name: str) -> Track:
            return supervisor().tracks[name]

        return (
            BacklogWatch(lambda name: track(name).query.waiting(), say),
            IdleWatch(track, self.emit, say),
            EpochWatch(
                lambda: list(supervisor().tracks.values()),
                lambda event: supervisor().handle(event),
                self._epochs_before(),
            ),
        )

    def _epochs_before(self) -> dict[str, int]:
        names = [each.sink.name for each in self.plan if isinstance(each.sink.trigger, Continuous)]
        commits = {name: self.directory.last_commit(name) for name in names}
        return {name: commit for name, commit in commits.items() if commit is not None}


def _said(problem: Problem) -> Said:
    return Said(text=f"{problem.code} {problem.sentence} {problem.remedy}")


def _trigger(trigger: Trigger, *, until_idle: bool) -> Trigger:
    """`--until-idle` does not wait for the next interval to find out that nothing is left."""
    match trigger:
        case Every():
            return Unpaced() if until_idle else trigger
        case Once() | AvailableNow() | Continuous() | RealTime() | Unpaced():
            return trigger
