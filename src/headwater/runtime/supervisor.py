"""Monitors the queries of a run: their status, their termination, and how to stop them."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from headwater.connectors.contract import RunTask, Tick
from headwater.engine.query import RunningQuery
from headwater.engine.sql_tables import SqlTables
from headwater.errors import CheckpointLockedError, ForcedStopError, HeadwaterError, Problem, UsageError
from headwater.errors.catalogue.notices import QUERY_RESTART_FAILED, STOPPED_BY_FAILURE
from headwater.errors.catalogue.running import (
    EVENT_PROCESSING_FAILED,
    FORCED_STOP,
    MONITOR_FAILED,
    PROGRESS_LOST,
    PROGRESS_UNREADABLE,
    QUERY_STOPPING,
    QUERY_STUCK,
    RUN_ENDED,
    STOP_TIMEOUT,
)
from headwater.events import Event, QueryProgress, QueryRestarted, QueryStatus, QueryTerminated, RunFinished
from headwater.runtime.idleness import Idleness
from headwater.runtime.parts import Listener, Starter
from headwater.runtime.query_state import QueryState, in_order, missed
from headwater.runtime.restarts import Restarts
from headwater.runtime.scope import RunScope
from headwater.runtime.tasks import BacklogWatch, EpochWatch, IdleWatch, Tasks, TaskThread
from headwater.values import scrub

_LOG = logging.getLogger("headwater")
_TICK_SECONDS = 0.2
_ASK_SECONDS = 1.0
"""How often each query is asked whether it still runs, which takes several calls into the JVM per query."""
_LAST_EVENTS_SECONDS = 5.0


class Supervisor:
    """Owns the state of a run. Events arrive on the listener's thread; everything else waits on a condition.

    A query has terminated when Spark's listener reports it. If that event is lost, the status of the query
    itself counts after a few seconds. Progress whose event is late or lost is read from the query itself.
    """

    def __init__(
        self, scope: RunScope, starter: Starter, tasks: Iterable[RunTask] = (), own: Iterable[RunTask] = ()
    ) -> None:
        self.run_id = scope.run_id
        self.queries: dict[str, QueryState] = {}
        self.closed = False
        self.scope = scope
        self._emit = scope.emit
        self._starter = starter
        self.restarts = Restarts(scope)
        self._ending = False
        self._idleness = Idleness(self)
        self._committed: set[str] = set()
        self._progress: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._listener: Listener | None = None
        self._not_handled: set[str] = set()
        self._forced = threading.Event()
        self._interrupted_by_user = False
        self._changed = threading.Condition(threading.RLock())
        self._over: set[str] = set()
        self._asked, self._more_due = 0.0, False
        self._task_thread = TaskThread(f"headwater tasks {self.run_id}", self.end)
        self.use(tasks, own)
        self._thread = threading.Thread(target=self._watch, name=f"headwater run {self.run_id}", daemon=True)

    def use(self, tasks: Iterable[RunTask], own: Iterable[RunTask]) -> None:
        """The tasks of the connectors, which have a thread, and those of the run, which take no time."""
        emit, queries = self.scope.emit, self.queries
        watches = (BacklogWatch(queries, emit), IdleWatch(queries, emit), EpochWatch(queries, self.handle))
        self.tasks, self._own = Tasks(self.scope, tasks), Tasks(self.scope, (*own, *watches))

    def adopt(self, query: RunningQuery, newest: int = -1) -> None:
        """Register a query as soon as it started, with the last batch of previous runs."""
        with self._changed:
            state = self.queries.get(query.name)
            if state is None:
                self.queries[query.name] = QueryState(query, newest)
                return
            # Spark was started again: batches whose events died with it are not counted.
            lost, state.newest = newest - state.newest, newest
            state.restarted(query)
            self._changed.notify_all()
        if lost > 0:
            self.scope.notify(PROGRESS_LOST.at(None, sink=query.name, lost=lost))
        self._emit(QueryRestarted(query=query.name, restarts=state.restarts))

    def watch(self, listener: Listener | None = None) -> None:
        """Start monitoring; called once, when all queries have started. The listener is closed at the end."""
        self._listener = listener
        with self._changed:
            # The first tick completes what a crash interrupted.
            self._committed |= self.queries.keys()
        self._task_thread.start()
        self._thread.start()

    # Events of Spark's listener, on its own thread.

    def handle(self, event: Event) -> None:
        """Take in an event of Spark's listener and pass it on."""
        for each in in_order(self.queries, event):
            self._take_in(each)

    def catch_up(self) -> None:
        """Take in every committed batch, whether or not Spark's listener has reported it."""
        for each in missed(self.queries):
            self._take_in(each)

    def not_handled(self, error: Exception) -> None:
        """Report an event that could not be handled, once per reason; later events are handled."""
        says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
        if says not in self._not_handled:
            self._not_handled.add(says)
            self.scope.notify(EVENT_PROCESSING_FAILED.at(None, says=says))

    def over(self, name: str) -> None:
        """Spark's listener reports that a query has terminated."""
        with self._changed:
            self._over.add(name)
            self._changed.notify_all()

    def _take_in(self, event: Event) -> None:
        with self._changed:
            state = self.queries.get(getattr(event, "query", ""))
            if state is not None:
                if isinstance(event, QueryProgress):
                    if state.ended:
                        return
                    self._committed.add(state.name)
                    self._progress[state.name] = (*self._progress.get(state.name, ()), event.progress)
                state.apply(event)
            self._changed.notify_all()
        self._emit(event)

    # Questions from other threads.

    @property
    def active(self) -> list[QueryState]:
        return [state for state in self.queries.values() if not state.ended]

    @property
    def stuck(self) -> bool:
        """Whether the only queries left are those that could not be stopped."""
        active = self.active
        return bool(active) and all(state.stuck for state in active)

    @property
    def is_alive(self) -> bool:
        """Whether the queries are monitored, or have all ended."""
        return self._thread.is_alive() or not self.active

    @property
    def exit_code(self) -> int | None:
        if self.active:
            return None
        if self._interrupted_by_user:
            return ForcedStopError.exit_code
        return 1 if any(state.problem for state in self.queries.values()) else 0

    @property
    def tables(self) -> SqlTables:
        """The tables that a program can query, in the current process of Spark."""
        return self._starter.tables

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until the condition is true."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def idleness(self) -> tuple[bool, Problem | None]:
        """Whether every query has committed all available data or has terminated.

        If the queries have nothing else to read, also what keeps them from becoming idle.
        """
        return self._idleness.found()

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until every query has polled again and found nothing."""
        return self._idleness.wait(timeout)

    # Stopping.

    def stop(self, names: Iterable[str] | None = None, timeout: float | None = None) -> None:
        """Let the current batches commit, then stop; all queries together, so that the waits overlap."""
        chosen = [self.queries[name] for name in (self.queries if names is None else names)]
        if names is None:
            # Spark may be restarting, which takes a while.
            self.scope.cancel()
        with self._changed:
            self._ending |= names is None
            for state in chosen:
                # It replaces a request for a restart that has not happened yet.
                state.restart_requested = False
        self._stop(chosen, timeout)

    def _stop(self, chosen: Iterable[QueryState], timeout: float | None = None) -> None:
        with self._changed:
            active = [state for state in chosen if not state.ended and not state.stopping]
            for state in active:
                state.stopping = True
        for state in active:
            state.query.begin_no_further_batch()
        limit = self.scope.options.stop_seconds if timeout is None else timeout
        deadline = time.monotonic() + limit
        late = [each for each in active if not each.query.finish_batch(deadline, self._forced.is_set)]
        for state in late if not self._forced.is_set() else ():
            problem = STOP_TIMEOUT.at(None, sink=state.name, limit=f"{limit:g} s")
            with self._changed:
                state.problem = problem
            self.scope.notify(problem)
        stuck = [state for state in active if not state.query.stop()]
        with self._changed:
            for state in stuck:
                # The batch can neither finish nor be interrupted: only the exit of the JVM stops it.
                state.stuck = True
            self._changed.notify_all()
        for state in stuck:
            self.scope.notify(QUERY_STUCK.at(None, sink=state.name))

    def _stop_beside(self, names: list[str]) -> None:
        threading.Thread(target=self.stop, args=(names,), daemon=True, name="headwater stop").start()

    def kill(self, why: Problem | None = None) -> None:
        """Stop waiting for the current batches, because of `why` or at the user's request."""
        with self._changed:
            for state in self.active:
                state.problem = state.problem or why or FORCED_STOP.at(None)
                self._interrupted_by_user |= why is None
        self._forced.set()

    def restart(self, name: str) -> None:
        """Let the current batch commit and start the query again, also if it has terminated, but not if it stops."""
        with self._changed:
            state = self.queries[name]
            if self._ending or not self.active:
                raise UsageError(RUN_ENDED.at(None, sink=name))
            if state.is_stopping:
                raise UsageError(QUERY_STOPPING.at(None, sink=name))
            waits = state.ended or state.restart_at is not None
            state.attempts.clear()
            if waits:
                failure = state.problem if state.ended else state.last_failure
                state.wait_for_restart(time.monotonic(), failure)
            state.restart_requested = not waits
            before = state.restarts
        if not waits:
            self._stop([state])
        self.wait(lambda: state.restarts > before or state.ended or bool(state.attempts) or state.stuck, None)

    def lost(self, held: CheckpointLockedError) -> None:
        """Another run has the checkpoint: stop immediately, because both runs might write to it."""
        self.kill(held.problems[0])
        for problem in held.problems:
            self.scope.notify(problem)
        self.stop()

    def end(self, problems: Mapping[str, Problem]) -> None:
        """Stop queries that must not continue; they have failed. The current batches may commit."""
        with self._changed:
            active = [state for state in self.active if state.name in problems]
            for state in active:
                state.problem, state.must_end = state.problem or problems[state.name], True
        self._stop_beside([state.name for state in active if not state.stopping])

    # The loop.

    def _watch(self) -> None:
        try:
            while self.active:
                self._tick()
            failed = any(state.problem for state in self.queries.values())
            healthy, patience = not failed and not self._forced.is_set(), self.scope.options.stop_seconds
            left = self._task_thread.settle()
            self._own.tick(tick := Tick(frozenset(self.queries), True, healthy, patience, left.progress))
            self.tasks.tick(tick)
        except BaseException as error:  # noqa: BLE001 - no other code sees it, and waiting callers would hang
            self._give_up(error)
        finally:
            self._close()

    def _tick(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._over), 0 if self._more_due else _TICK_SECONDS)
            asks = time.monotonic() - self._asked >= _ASK_SECONDS
            running = [state for state in self.active if state.restart_at is None]
            over, self._over = self._over, set()
            committed, self._committed = frozenset(self._committed), set()
            progress, self._progress = self._progress, {}
        # Without the lock: a JVM that does not respond must not keep others from stopping the run.
        ended = [
            state
            for state in running
            if state.name in over or ((asks or state.stopping) and state.seems_over())
        ]
        self._asked = time.monotonic() if asks else self._asked
        # The last batches of terminated queries may not have arrived yet.
        complete = not (ended and self._listener) or self._listener.drain(_LAST_EVENTS_SECONDS)
        if self._starter.restarts_spark and any(state.query.is_gone for state in ended):
            # Every query has ended with Spark, or is about to.
            ended = running
            self.restarts.spark_died()
        for state in ended:
            self._end(state, complete)
        self._restart_due()
        if self.restarts.needs_spark:
            # The tasks belong to the process that died. In the next one, their first tick has all queries.
            return
        self._own.tick(tick := Tick(committed, progress=progress))
        self._task_thread.tick(self.tasks, tick)

    def _end(self, state: QueryState, complete: bool) -> None:
        failure = state.failure()
        if failure and state.may_restart_for_static and self._restarted_for_static(state, failure):
            return
        problem = state.problem or (self._starter.explain(state, failure) if failure else None)
        # If Spark died before the query could stop for its restart, the query waits for Spark with the others.
        requested = state.restart_requested and not self._ending
        if requested and not self.restarts.needs_spark and self._restart_requested(state):
            return
        retried = requested or not state.must_stop
        if problem and retried and self.restarts.schedule(state, problem, self._changed):
            return
        status = state.outcome(failed=failure is not None)
        if not complete and state.query.has_batches:
            limit = f"{_LAST_EVENTS_SECONDS:g} s"
            self.scope.notify(PROGRESS_UNREADABLE.at(None, sink=state.name, limit=limit))
        self._ended(state, status, problem)
        self._stop_others(state)

    def _stop_others(self, failed: QueryState) -> None:
        """End the run if a query has failed for good and the pipeline says so."""
        if failed.status is QueryStatus.FAILED and self.restarts.ends_run(failed.name):
            others = [other.name for other in self.active]
            for name in others:
                self.scope.notify(STOPPED_BY_FAILURE.at(None, sink=name))
            self._stop_beside(others)

    def _ended(self, state: QueryState, status: QueryStatus, problem: Problem | None) -> None:
        with self._changed:
            state.problem, state.status, state.restart_at = problem, status, None
            self._changed.notify_all()
        self._emit(QueryTerminated(query=state.name, status=status, problem=problem))

    # Restarts.

    def _restart_requested(self, state: QueryState) -> bool:
        """Restart it as the user wants, unless a stop came after that. An interrupted batch is retried."""
        with self._changed:
            if self._ending or not state.restart_requested:
                return False
            state.wait_for_restart(time.monotonic())
            return True

    def _restart_due(self) -> None:
        """Restart the queries whose delay is over, and end those that are stopped while they wait."""
        waiting = [state for state in self.active if state.restart_at is not None]
        for state in (each for each in waiting if each.must_stop):
            problem = state.problem or state.last_failure
            self._ended(state, QueryStatus.FAILED if problem else QueryStatus.STOPPED, problem)
        due = [each for each in waiting if not each.ended and self.restarts.is_due(each)]
        self._more_due = len(due) > 1 and not self.restarts.needs_spark
        if due and self.restarts.needs_spark:
            # They restart together: none can run without Spark.
            self._restart_spark([state for state in waiting if not state.ended])
        elif due:
            # One in each tick: a start takes a while, and what happened meanwhile comes before the next one.
            self._restart(min(due, key=lambda each: each.restart_at or 0.0))

    def _restart(self, state: QueryState) -> None:
        try:
            query = self._starter.restart(state.name)
            newest = self.scope.directory.last_batch(state.name)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything: the others continue
            self._not_restarted(state, self._problem_of(state, error))
            return
        with self._changed:
            # A query that starts from scratch has batches with lower numbers than before.
            state.newest = min(state.newest, newest)
            state.restarted(query)
            self._changed.notify_all()
        self._emit(QueryRestarted(query=state.name, restarts=state.restarts))
        # A stop that was requested meanwhile has only reached the old start.
        if state.must_stop:
            query.stop()

    def _restart_spark(self, states: list[QueryState]) -> None:
        self._discard_spark()
        try:
            self._starter = self._starter.with_new_spark(self, [state.name for state in states])
        except Exception as error:  # noqa: BLE001 - whatever kept Spark from starting is reported per query
            self.restarts.spark_died()
            for state in states:
                self._not_restarted(state, self._problem_of(state, error))
            return
        self.restarts.spark_restarted()
        for state in (each for each in states if each.must_stop):
            state.query.stop()

    def _discard_spark(self) -> None:
        """Release what belongs to the process of Spark that died; calls into it fail."""
        for step in (
            self._task_thread.settle,
            self.tasks.close,
            self._starter.release,
            *([self._listener.close] if self._listener else ()),
        ):
            try:
                step()
            except Exception:  # noqa: BLE001 - the process is gone, and nothing of it is used again
                _LOG.debug("could not release a part of the dead Spark", exc_info=True)

    def continue_with(self, listener: Listener) -> None:
        """Spark was started again: the listener of the new process."""
        self._listener = listener
        with self._changed:
            self._over.clear()
            self._committed |= self.queries.keys()

    def _problem_of(self, state: QueryState, error: Exception) -> Problem:
        if self._starter.restarts_spark and state.query.is_gone and not self.restarts.needs_spark:
            self.restarts.spark_died()
            error = state.failure() or error
        return error.problems[0] if isinstance(error, HeadwaterError) else self._starter.explain(state, error)

    def _not_restarted(self, state: QueryState, problem: Problem) -> None:
        if state.must_stop or self.scope.is_cancelled:
            # A stop that was requested meanwhile keeps it from starting; what it failed with is known.
            problem = state.last_failure or problem
        elif self.restarts.schedule(state, problem, self._changed):
            return
        self._ended(state, QueryStatus.FAILED, state.problem or problem)
        self._stop_others(state)

    def _restarted_for_static(self, state: QueryState, failure: Exception) -> bool:
        """Whether a query continues with a restart, because only a file of a static source had disappeared."""
        try:
            query = self._starter.restart_for_static(state, failure)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything: the others continue
            # The failure itself is reported when the query terminates; this only explains why it terminates.
            says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
            self.scope.notify(QUERY_RESTART_FAILED.at(None, sink=state.name, says=says))
            return False
        if query is None:
            return False
        with self._changed:
            state.restarted(query, for_static=True)
        self._emit(QueryRestarted(query=state.name, restarts=state.restarts))
        # A stop that was requested meanwhile has only reached the old start.
        if state.must_stop:
            query.stop()
        return True

    def _give_up(self, error: BaseException) -> None:
        """Stop the queries that are no longer monitored, and report why."""
        says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
        problem = replace(MONITOR_FAILED.at(None, says=says), detail=scrub(traceback.format_exc()))
        self.scope.notify(problem)
        unwatched = self.active
        self.stop()
        # Nothing may write once the locks are released; what cannot be stopped ends with its JVM.
        while any(state.query.is_active for state in unwatched):
            time.sleep(_TICK_SECONDS)
        for state in unwatched:
            self._ended(state, QueryStatus.FAILED, state.problem or problem)

    def _close(self) -> None:
        with ExitStack() as steps:
            steps.callback(self._closed)
            # The locks last: a new run in this directory has the same socket and history.
            steps.callback(self._starter.close)
            steps.callback(self._tell_the_end)
            steps.callback(self.tasks.close)
            steps.callback(self._task_thread.close)
            if self._listener:
                self._listener.close()

    def _tell_the_end(self) -> None:
        summary = {state.name: state.summary() for state in self.queries.values()}
        try:
            code = 1 if self.exit_code is None else self.exit_code
            self._emit(RunFinished(run_id=self.run_id, exit_code=code, queries=summary))
        finally:
            if self.scope.observers is not None:
                self.scope.observers.close()

    def _closed(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()
