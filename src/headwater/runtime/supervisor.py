"""Monitors the queries of a run: their status, their termination, and how to stop them."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

from headwater.connectors.contract import Pending, RunTask, Tick
from headwater.engine.query import RunningQuery
from headwater.errors import CheckpointError, CheckpointLockedError, ForcedStopError, PipelineError, Problem
from headwater.errors.catalogue.notices import QUERY_RESTART_FAILED, STOPPED_BY_FAILURE
from headwater.errors.catalogue.running import (
    EVENT_PROCESSING_FAILED,
    FORCED_STOP,
    MONITOR_FAILED,
    PROGRESS_UNREADABLE,
    STOP_TIMEOUT,
    UNTIL_IDLE_UNSUPPORTED,
)
from headwater.events import Event, QueryProgress, QueryStatus, QueryTerminated, RunFinished
from headwater.events.kinds import now
from headwater.runtime.query_state import QueryState, in_order, missed
from headwater.runtime.scope import RunScope
from headwater.runtime.tasks import BacklogWatch, EpochWatch, IdleWatch, Tasks
from headwater.values import scrub

_TICK_SECONDS = 0.2
_ASK_SECONDS = 1.0
"""How often each query is asked whether it still runs, which takes several calls into the JVM per query."""
_LAST_EVENTS_SECONDS = 5.0


class Starter(Protocol):
    """Where the queries come from."""

    def restart(self, state: QueryState, failure: Exception) -> RunningQuery | None:
        """The restarted query if the failure was transient; else None."""

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        """Why it failed."""

    def close(self) -> None:
        """Every query has terminated."""


class Listener(Protocol):
    """Delivers the events of the queries."""

    def drain(self, seconds: float) -> bool:
        """Wait until everything so far is handled; False if that takes longer."""

    def close(self) -> None:
        """Deliver no more events."""


class Supervisor:
    """Owns the state of a run. Events arrive on the listener's thread; everything else waits on a condition.

    A query has terminated when Spark's listener reports it. If that event is lost, the status of the query
    itself counts after a few seconds. Progress whose event is late or lost is read from the query itself.
    """

    def __init__(self, scope: RunScope, starter: Starter, tasks: Iterable[RunTask] = ()) -> None:
        self.run_id = scope.run_id
        self.queries: dict[str, QueryState] = {}
        watches = (
            BacklogWatch(self.queries),
            IdleWatch(self.queries, scope.emit),
            EpochWatch(self.queries, self.handle),
        )
        self.tasks = Tasks(scope, (*tasks, *watches))
        self.closed = False
        self.stuck = False
        self.scope = scope
        self._emit = scope.emit
        self._starter = starter
        self._found = 0
        self._polls_then: dict[str, int] = {}
        self._committed: set[str] = set()
        self._progress: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._listener: Listener | None = None
        self._not_handled: set[str] = set()
        self._forced = threading.Event()
        self._interrupted_by_user = False
        self._changed = threading.Condition(threading.RLock())
        self._over: set[str] = set()
        self._asked = 0.0
        self._thread = threading.Thread(target=self._watch, name=f"headwater run {self.run_id}", daemon=True)

    def adopt(self, query: RunningQuery, newest: int = -1) -> None:
        """Register a query as soon as it started, with the last batch of previous runs."""
        with self._changed:
            self.queries[query.name] = QueryState(query, newest)

    def watch(self, listener: Listener | None = None) -> None:
        """Start monitoring; called once, when all queries have started. The listener is closed at the end."""
        self._listener = listener
        with self._changed:
            # The first tick completes what a crash interrupted.
            self._committed |= self.queries.keys()
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
    def exit_code(self) -> int | None:
        if self.active:
            return None
        if self._interrupted_by_user:
            return ForcedStopError.exit_code
        return 1 if any(state.problem for state in self.queries.values()) else 0

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until the condition is true."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    @property
    def _all_quiet(self) -> bool:
        return all(state.status is QueryStatus.IDLE for state in self.active)

    def idleness(self) -> tuple[bool, Problem | None]:
        """Whether every query has committed all available data or has terminated.

        If the queries have nothing else to read, also what keeps them from becoming idle.
        """
        if not self._all_quiet:
            return False, None
        pending = self.tasks.pending()
        return self._nothing_new(pending), pending.blocked_by

    def _nothing_new(self, pending: Pending) -> bool:
        """Whether every query has polled since it last received new input.

        Headwater opens some input before Spark sees it, so Spark does not know all available data.
        """
        if pending.undecided:
            return False
        if pending.found != self._found:
            self._found = pending.found
            self._polls_then = {name: state.idle_polls for name, state in self.queries.items()}
        return all(s.idle_polls >= self._polls_then.get(s.name, -2) + 2 for s in self.active)

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until every query has polled again and found nothing.

        The first reported poll may have started before this call, so wait for a second one. On a busy
        machine, even that may be outdated, so its start time is compared as well.
        """
        lasting = [state for state in self.active if not state.query.ends_batches]
        if lasting:
            raise PipelineError.of(
                UNTIL_IDLE_UNSUPPORTED.at(None, sink=s.name, trigger=str(s.query.trigger)) for s in lasting
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        while (pending := self.tasks.pending()).undecided and self.active:
            if pending.blocked_by and self._all_quiet:
                raise CheckpointError(pending.blocked_by)
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_TICK_SECONDS)
        before, called = {name: state.idle_polls for name, state in self.queries.items()}, now()

        def idle() -> bool:
            anew = (state.polled(before[state.name] + 2, called) for state in self.queries.values())
            return self._all_quiet and all(anew)

        return self.wait(idle, None if deadline is None else max(0.0, deadline - time.monotonic()))

    # Stopping.

    def stop(self, names: Iterable[str] | None = None, timeout: float | None = None) -> None:
        """Let the current batches commit, then stop; all queries together, so that the waits overlap."""
        chosen = [self.queries[name] for name in (self.queries if names is None else names)]
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
        stopped = [state.query.stop() for state in active]
        if not all(stopped):
            # The batch can neither finish nor be interrupted: only the exit of the JVM stops it.
            with self._changed:
                self.stuck = True
                self._changed.notify_all()

    def _stop_beside(self, names: list[str]) -> None:
        threading.Thread(target=self.stop, args=(names,), daemon=True, name="headwater stop").start()

    def kill(self, why: Problem | None = None) -> None:
        """Stop waiting for the current batches, because of `why` or at the user's request."""
        with self._changed:
            for state in self.active:
                state.problem = state.problem or why or FORCED_STOP.at(None)
                self._interrupted_by_user |= why is None
        self._forced.set()

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
            self.tasks.tick(Tick(frozenset(self.queries), last=True, healthy=healthy, patience=patience))
        except BaseException as error:  # noqa: BLE001 - no other code sees it, and waiting callers would hang
            self._give_up(error)
        finally:
            self._close()

    def _tick(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._over), _TICK_SECONDS)
            asks = time.monotonic() - self._asked >= _ASK_SECONDS
            ended = [
                state
                for state in self.active
                if state.name in self._over or ((asks or state.stopping) and state.seems_over())
            ]
            self._asked = time.monotonic() if asks else self._asked
            self._over.clear()
            committed, self._committed = frozenset(self._committed), set()
            progress, self._progress = self._progress, {}
        # The last batches of terminated queries may not have arrived yet.
        complete = not (ended and self._listener) or self._listener.drain(_LAST_EVENTS_SECONDS)
        for state in ended:
            self._end(state, complete)
        stops = self.tasks.tick(Tick(committed, progress=progress))
        if stops:
            self.end(stops)

    def _end(self, state: QueryState, complete: bool) -> None:
        failure = state.query.failure()
        if failure and state.may_restart and self._restarted(state, failure):
            return
        problem = state.problem or (self._starter.explain(state, failure) if failure else None)
        status = state.outcome(failed=failure is not None)
        if not complete and state.query.has_batches:
            limit = f"{_LAST_EVENTS_SECONDS:g} s"
            self.scope.notify(PROGRESS_UNREADABLE.at(None, sink=state.name, limit=limit))
        self._ended(state, status, problem)
        if status is QueryStatus.FAILED and self.scope.options.fail_fast:
            others = [other.name for other in self.active]
            for name in others:
                self.scope.notify(STOPPED_BY_FAILURE.at(None, sink=name))
            self._stop_beside(others)

    def _ended(self, state: QueryState, status: QueryStatus, problem: Problem | None) -> None:
        with self._changed:
            state.problem, state.status = problem, status
            self._changed.notify_all()
        self._emit(QueryTerminated(query=state.name, status=status, problem=problem))

    def _restarted(self, state: QueryState, failure: Exception) -> bool:
        """Whether a query continues with a restart, because its failure was transient."""
        try:
            query = self._starter.restart(state, failure)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything: the others continue
            # The failure itself is reported when the query terminates; this only explains why it terminates.
            says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
            self.scope.notify(QUERY_RESTART_FAILED.at(None, sink=state.name, says=says))
            return False
        if query is None:
            return False
        with self._changed:
            state.restarted(query)
        # A stop that was requested meanwhile has only reached the old start.
        if state.stopping or state.problem:
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
            steps.callback(self._tell_the_end)
            steps.callback(self._starter.close)
            steps.callback(self.tasks.close)
            if self._listener:
                self._listener.close()

    def _tell_the_end(self) -> None:
        summary = {state.name: state.summary() for state in self.queries.values()}
        try:
            code = 1 if self.exit_code is None else self.exit_code
            self._emit(RunFinished(run_id=self.run_id, exit_code=code, queries=summary))
        finally:
            with self._changed:
                self.closed = True
                self._changed.notify_all()
