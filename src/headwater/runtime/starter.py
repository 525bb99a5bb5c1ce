"""Starts the queries of a checked pipeline, one after another, and restarts a single one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headwater.engine.listener import EventListener
from headwater.engine.prepare import Prepared
from headwater.engine.query import RunningQuery, start_query
from headwater.engine.session import Setting
from headwater.engine.translate import failure_problem
from headwater.errors import Problem
from headwater.errors.catalogue.connectors import STATIC_FILE_DELETED
from headwater.events import Notice, RunStarted
from headwater.plan import QueryFacts
from headwater.runtime.query_state import QueryState
from headwater.runtime.resume import resume
from headwater.runtime.scope import RunScope
from headwater.runtime.supervisor import Supervisor
from headwater.runtime.tasks import Tasks
from headwater.spec import SinkSpec
from headwater.values import Every, Unpaced

IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"


@dataclass(frozen=True)
class PlannedQuery:
    """A sink that can start, with its settings and facts."""

    sink: SinkSpec
    settings: tuple[Setting, ...]
    facts: QueryFacts


@dataclass(frozen=True)
class QueryStarter:
    """A pipeline without errors: starts its queries, and explains why one failed."""

    scope: RunScope
    prepared: Prepared
    plan: tuple[PlannedQuery, ...]

    def start(self, supervisor: Supervisor) -> None:
        """Start every query; if one fails to start, none is left running."""
        scope, statics = self.scope, self.prepared.builder.statics
        supervisor.tasks.prepare()
        for file, text in self.prepared.builder.kept.items():
            scope.directory.write(file, text)
        spark = self.prepared.session.spark
        spark.conf.set(IDLE_EVENTS, "200" if scope.options.until_idle else "1000")
        listener = EventListener(supervisor, self.prepared.session.output_rows)
        try:
            listener.open(spark)
            statics.start()
            # Problems of one query are reported before any other query writes.
            for each in self.plan:
                for notice in self.resume_query(each, supervisor.tasks):
                    scope.emit(notice)
            self._say_started()
            with scope.phase("queries", "Starting the queries", total=len(self.plan)) as phase:
                for number, each in enumerate(self.plan, start=1):
                    scope.directory.store_facts(each.facts)
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
        supervisor.watch(listener)

    def _say_started(self) -> None:
        self.scope.emit(
            RunStarted(
                run_id=self.scope.run_id,
                pipeline=self.scope.spec.name,
                queries=tuple(each.sink.name for each in self.plan),
                run_dir=str(self.scope.directory.path),
                spark_version=self.prepared.session.spark.version,
            )
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
        return start_query(
            self.prepared.session,
            self.prepared.builder,
            each.sink,
            self.prepared.frames[each.sink.name],
            checkpoint=self.scope.directory.checkpoint(each.sink.name),
            settings=each.settings,
            trigger=trigger,
        )

    def restart(self, state: QueryState, failure: Exception) -> RunningQuery | None:
        """Restart a query after a file of a static source disappeared; its batch is retried."""
        if not self.prepared.builder.statics.again(state.query.id, failure):
            return None
        self.scope.notify(STATIC_FILE_DELETED.at(None, sink=state.name))
        return self.begun(self._planned(state.name))

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        """Why a query failed, with all details in the log."""
        spec, log = self.scope.spec, self.scope.directory.failures_log
        problem = failure_problem(failure, self._planned(state.name).sink, spec.tables, spec.root, log)
        unreadable = self.prepared.builder.statics.problem(state.query.id)
        problem = replace(unreadable, detail=problem.detail) if unreadable else problem
        self.scope.log_failure(state.name, problem)
        return problem

    def close(self) -> None:
        """Every query has terminated: release the static sources and the locks."""
        try:
            self.prepared.builder.statics.close()
        finally:
            self.scope.locks.release()

    def _planned(self, name: str) -> PlannedQuery:
        return next(each for each in self.plan if each.sink.name == name)
