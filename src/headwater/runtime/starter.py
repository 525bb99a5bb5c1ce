"""Starts the queries of a checked pipeline, one after another, and restarts a single one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

from headwater.checks.guarantees import weakest
from headwater.connectors.contract import RunTask
from headwater.engine.groups import GroupWriter
from headwater.engine.listener import EventListener
from headwater.engine.prepare import Prepared
from headwater.engine.query import RunningQuery, start_query
from headwater.engine.session import Setting
from headwater.engine.sql_tables import SqlTables
from headwater.engine.translate import failure_problem
from headwater.errors import CheckpointError, CheckpointLockedError, Problem, SetupError
from headwater.errors.catalogue.connectors import STATIC_FILE_DELETED
from headwater.errors.catalogue.environment import JVM_START_FAILED, SPARK_START_FAILED
from headwater.events import Notice, QueryDetails, RunStarted
from headwater.plan import QueryFacts
from headwater.runtime.application import APPLICATION
from headwater.runtime.query_state import QueryState
from headwater.runtime.resume import reset_in_process, resume
from headwater.runtime.scope import RunScope
from headwater.runtime.supervisor import Supervisor
from headwater.runtime.tasks import Housekeeping, SqlPreparation, Tasks, tasks_of
from headwater.spark.errors import SparkStopped
from headwater.spec import QuerySpec, SinkSpec
from headwater.values import AvailableNow, Every, Once, Unpaced

_START_FAILURES = (JVM_START_FAILED, SPARK_START_FAILED)
IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


@dataclass(frozen=True)
class PlannedQuery:
    """A query that can start, with its settings and facts."""

    query: QuerySpec
    settings: tuple[Setting, ...]
    facts: QueryFacts
    of_sinks: tuple[QueryFacts, ...]
    """The facts of each of its sinks."""

    @property
    def sink(self) -> SinkSpec:
        """The query as one sink."""
        return self.query.sink

    def failed(self, running: RunningQuery) -> SinkSpec:
        """The sink of a group that failed, or else the query as one sink."""
        name = running.writing()
        return next((each for each in self.query.sinks if each.name == name), self.sink)


@dataclass(frozen=True)
class QueryStarter:
    """A pipeline without errors: starts its queries, and explains why one failed."""

    scope: RunScope
    prepared: Prepared
    plan: tuple[PlannedQuery, ...]
    new_spark: Callable[[], QueryStarter] | None = None
    """The same for a new process of Spark, after the old one died; None if Headwater did not start it."""

    @property
    def tasks(self) -> list[RunTask]:
        """The tasks of the connectors."""
        return tasks_of(self.scope, self.prepared, [each.facts for each in self.plan])

    @property
    def housekeeping(self) -> list[RunTask]:
        """The tasks of the run itself."""
        tasks: list[RunTask] = [Housekeeping(self.scope, self.prepared.builder.statics)]
        bounded = all(isinstance(each.sink.trigger, Once | AvailableNow) for each in self.plan)
        if not (bounded or self.scope.options.until_idle):
            tasks.append(SqlPreparation(self.tables.prepare, [each.sink.name for each in self.plan]))
        return tasks

    def start(self, supervisor: Supervisor) -> None:
        """Start every query; if one fails to start, none is left running."""
        supervisor.watch(self._started(supervisor, self.plan, first=True))

    def with_new_spark(self, supervisor: Supervisor, names: Iterable[str]) -> QueryStarter:
        """Start Spark again after its process died, and these queries in it; SparkStopped if it dies meanwhile."""
        try:
            return self._with_new_spark(supervisor, set(names))
        except Exception as error:
            # Whatever needed the process when it died says something else. It has started before, so a retry
            # can also help if it does not start.
            final = isinstance(error, SetupError) and error.problems[0].entry not in _START_FAILURES
            if final or APPLICATION.lives(self.scope.spec):
                raise
            raise SparkStopped(str(error)) from error

    def _with_new_spark(self, supervisor: Supervisor, chosen: set[str]) -> QueryStarter:
        assert self.new_spark is not None, "otherwise, no restart of Spark is scheduled"
        following = self.new_spark()
        supervisor.use(following.tasks, following.housekeeping)
        plan = tuple(each for each in following.plan if each.sink.name in chosen)
        supervisor.continue_with(following._started(supervisor, plan, first=False))
        return following

    def _started(
        self, supervisor: Supervisor, plan: tuple[PlannedQuery, ...], *, first: bool
    ) -> EventListener:
        scope, statics = self.scope, self.prepared.builder.statics
        supervisor.tasks.prepare()
        for file, text in self.prepared.builder.kept.items():
            scope.directory.write(file, text)
        session = self.prepared.session
        spark = session.spark
        spark.conf.set(IDLE_EVENTS, "200" if scope.options.until_idle else "1000")
        listener = EventListener(supervisor, session.output_rows, session.branch_counts)
        try:
            listener.open(spark)
            statics.start()
            # Problems of one query are reported before any other query writes.
            for each in plan:
                for notice in self.resume_query(each, supervisor.tasks):
                    scope.emit(notice)
            if first:
                self._say_started()
            with scope.phase("queries", "Starting the queries", total=len(plan)) as phase:
                for number, each in enumerate(plan, start=1):
                    scope.directory.store_facts(each.facts, each.of_sinks if each.query.is_group else ())
                    newest = scope.directory.last_batch(each.sink.name)
                    supervisor.adopt(self.begun(each), newest)
                    phase.count(number)
        except BaseException:
            for state in supervisor.queries.values():
                state.query.stop()
            supervisor.tasks.close()
            statics.close()
            listener.close()
            raise
        return listener

    def _say_started(self) -> None:
        self.scope.emit(
            RunStarted(
                run_id=self.scope.run_id,
                pipeline=self.scope.spec.name,
                queries=tuple(each.sink.name for each in self.plan),
                run_dir=str(self.scope.directory.path),
                spark_version=self.prepared.session.spark.version,
                details={each.sink.name: self._details(each) for each in self.plan},
            )
        )

    def _details(self, each: PlannedQuery) -> QueryDetails:
        sink, facts = each.sink, each.facts
        return QueryDetails(
            connector=", ".join(dict.fromkeys(one.connector for one in each.query.sinks)),
            mode=sink.mode.value,
            trigger=str(sink.trigger),
            interval_ms=sink.trigger.interval.milliseconds if isinstance(sink.trigger, Every) else None,
            guarantee=weakest(each.of_sinks).value,
            sources=facts.inputs,
            checkpoint=str(self.scope.directory.checkpoint(sink.name)),
        )

    def resume_query(self, each: PlannedQuery, tasks: Tasks) -> Iterator[Notice]:
        """Prepare a checkpoint for the query that is about to start; yields what was done, step by step."""
        return resume(
            self.scope.directory, self.prepared.session, each.sink, each.settings, each.facts, tasks
        )

    def begun(self, each: PlannedQuery) -> RunningQuery:
        trigger = each.sink.trigger
        if isinstance(trigger, Every) and self.scope.options.until_idle:
            # It does not wait for the next interval to find out that no data is left.
            trigger = Unpaced()
        start = partial(
            start_query,
            self.prepared.session,
            self.prepared.builder,
            each.sink,
            self.prepared.frames[each.sink.name],
            checkpoint=self.scope.directory.checkpoint(each.sink.name),
            settings=each.settings,
            trigger=trigger,
        )
        if not each.query.is_group:
            return start()
        group = GroupWriter(self.prepared.builder, each.query, self.prepared.session.branch_counts)
        group.prepare(self.prepared.frames)
        return replace(start(write=group.write), writing=lambda: group.writing)

    def restart(self, name: str) -> RunningQuery:
        """Start a query again that has terminated; its batch is retried."""
        self.scope.locks.confirm()
        each = self._planned(name)
        # After a suspension, another run may have the checkpoint.
        self.scope.locks.confirm()
        # A memory table would only get the rows from its checkpoint on; it is filled from the beginning.
        discarded = reset_in_process(self.scope.directory, each.sink)
        if discarded:
            self.scope.notify(discarded)
        return self.begun(each)

    def restart_for_static(self, state: QueryState, failure: Exception) -> RunningQuery | None:
        """Restart a query after a file of a static source disappeared; its batch is retried."""
        if not self.prepared.builder.statics.again(state.query.id, failure):
            return None
        self.scope.notify(STATIC_FILE_DELETED.at(None, sink=state.name))
        return self.begun(self._planned(state.name))

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        """Why a query failed, with all details in the log."""
        spec, log = self.scope.spec, self.scope.directory.failures_log
        sink = self._planned(state.name).failed(state.query)
        problem = failure_problem(failure, sink, spec.tables, spec.root, log)
        unreadable = self.prepared.builder.statics.problem(state.query.id)
        problem = replace(unreadable, detail=problem.detail) if unreadable else problem
        problem = replace(self._lock_problem() or problem, detail=problem.detail)
        self.scope.log_failure(state.name, problem)
        return problem

    def _lock_problem(self) -> Problem | None:
        """Another run has the lock: its batches make those of this run fail, before the heartbeat notices."""
        try:
            self.scope.locks.confirm()
        except CheckpointLockedError as held:
            return held.problems[0]
        except CheckpointError:
            # The disk did not respond; nothing is known about the lock.
            return None
        return None

    def close(self) -> None:
        """Every query has terminated: release the static sources and the locks."""
        try:
            self.prepared.builder.statics.close()
        finally:
            APPLICATION.ended(self.scope.spec)
            self.scope.locks.release()

    @property
    def restarts_spark(self) -> bool:
        """Whether Spark can be started again if its process dies."""
        return self.new_spark is not None

    @cached_property
    def tables(self) -> SqlTables:
        """The tables that a program can query."""
        return SqlTables(self.prepared.session.spark, self.scope.spec, self.prepared.frames)

    def release(self) -> None:
        """Release what belongs to a process of Spark that has died; the locks stay."""
        self.prepared.builder.statics.close()

    def _planned(self, name: str) -> PlannedQuery:
        return next(each for each in self.plan if each.sink.name == name)
