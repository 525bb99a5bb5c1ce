"""What Spark reports of a session's queries, as the events of a run. The program starts and restarts the queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, Protocol

from headwater.connectors.contract import Tick
from headwater.engine.listener import EventReceiver
from headwater.engine.query import RunningQuery
from headwater.engine.session_queries import Spark
from headwater.errors import Problem, UsageError
from headwater.errors.catalogue.programs import WATCH_RESTART_UNSUPPORTED, WATCH_SQL_UNSUPPORTED
from headwater.errors.catalogue.running import EVENT_PROCESSING_FAILED, STOP_TIMEOUT
from headwater.events import (
    Emit,
    Event,
    Notice,
    QueryDetails,
    QueryProgress,
    QueryRestarted,
    QueryStarted,
    QueryStatus,
    QuerySummary,
    QueryTerminated,
)
from headwater.events.status import EndedQueries
from headwater.runtime.query_state import QueryState, in_order, missed
from headwater.runtime.scope import STOP_SECONDS, append_failure
from headwater.runtime.tasks import BacklogWatch, EpochWatch
from headwater.spark.errors import SparkStopped
from headwater.values import AvailableNow, Once, scrub

_END_SECONDS = 10.0


class ProgramListener(Protocol):
    """Delivers the events of a session, and knows its queries."""

    def open(self, spark: Any) -> None:
        """Start to listen."""

    def handle_of(self, event: QueryStarted) -> Any:
        """The query that has started."""

    def add(self, query: RunningQuery) -> None:
        """Know the name of a query that was started before."""

    def drain(self, seconds: float) -> bool:
        """Wait until everything so far is handled; False if that takes longer."""

    def close(self) -> None:
        """Deliver no more events."""


class ProgramQueries(Protocol):
    """The queries of a session."""

    @property
    def spark(self) -> Any:
        """The session."""

    @property
    def spark_version(self) -> str: ...

    @property
    def status(self) -> Spark:
        """Whether Spark works."""

    def is_of(self, spark: Any) -> bool:
        """Whether this is the same session."""

    def listen(self, receiver: EventReceiver) -> ProgramListener:
        """Listen to the queries; their events arrive once the listener is open."""

    def running(self) -> list[RunningQuery]:
        """The queries that have not terminated."""

    def query(self, handle: Any) -> RunningQuery:
        """A query of the program."""

    def details(self, query: RunningQuery) -> QueryDetails:
        """What Spark knows of a query."""

    def explain(self, query: RunningQuery, failure: Exception, log: Path) -> Problem:
        """Why a query failed."""


class WatchedQueries:
    """The queries of a session, from `open` to `close`. `ended` is called when Spark itself has ended.

    Of the queries that have terminated, only the last ones are kept. The history has the others.

    Everything that Spark reports is handled on the listener's thread, so that no query waits for it.
    """

    def __init__(self, session: ProgramQueries, emit: Emit, log: Path, ended: Callable[[], None]) -> None:
        self.queries: dict[str, QueryState] = {}
        self._session = session
        self._emit = emit
        self._log = log
        self._ended = ended
        self._changed = threading.Condition(threading.RLock())
        self._committed: set[str] = set()
        self._last_ended = EndedQueries()
        self._forgotten_failed = False
        self._not_handled: set[str] = set()
        self._backlogs = BacklogWatch(self.queries, emit)
        self._epochs = EpochWatch(self.queries, self.handle)
        self._listener = session.listen(self)

    def open(self) -> None:
        """Listen to the session, and take in the queries that it has already."""
        with self._changed:
            self._listener.open(self._session.spark)
            for query in self._session.running():
                self._listener.add(query)
                self._adopt(query)
            self._take_in_missed()

    # Events of Spark's listener, on its own thread.

    def handle(self, event: Event) -> None:
        """Take in an event of Spark's listener and pass it on."""
        with self._changed:
            if isinstance(event, QueryStarted):
                handle = self._listener.handle_of(event)
                if handle is not None:
                    self._adopt(self._session.query(handle))
                return
            state = self.queries.get(getattr(event, "query", ""))
            if state is not None:
                self._settle(state, event)
                for each in in_order(self.queries, event):
                    self._take_in(state, each)

    def over(self, name: str) -> None:
        """Spark's listener reports that a query has terminated."""
        with self._changed:
            state = self.queries.get(name)
            if state is not None and not state.ended:
                self._end(state)

    def catch_up(self) -> None:
        """Take in what Spark's listener has not reported; called about once a second."""
        with self._changed:
            status = self._session.status
            if status is Spark.ACTIVE:
                self._take_in_missed()
                self._watch()
            else:
                self._end_with_spark(status)
        if status is not Spark.ACTIVE:
            self._ended()

    def not_handled(self, error: Exception) -> None:
        """Report an event that could not be handled, once per reason; later events are handled."""
        says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
        if says not in self._not_handled:
            self._not_handled.add(says)
            self._emit(Notice.of(EVENT_PROCESSING_FAILED.at(None, says=says)))

    def _adopt(self, query: RunningQuery) -> None:
        state = self.queries.get(query.name)
        if state is not None and state.query.run_id == query.run_id:
            return
        if state is None:
            state = self.queries[query.name] = QueryState(query)
        else:
            if not state.ended:
                self._end(state)
            state.restarted(query)
            state.newest, state.stopping, state.problem = -1, False, None
            self._last_ended.started(query.name)
        details = self._session.details(query)
        self._emit(QueryStarted(query=query.name, id=query.id, run_id=query.run_id, details=details))
        if state.restarts:
            self._emit(QueryRestarted(query=query.name, restarts=state.restarts))

    def _settle(self, state: QueryState, event: Event | None = None) -> None:
        """Find out which batch is the first: the program may have started the query long ago."""
        if state.newest < 0 and not state.ended:
            known = [each.batch_id for each in state.query.progress_after(-1)]
            known += [event.batch_id] if isinstance(event, QueryProgress) else []
            state.newest = min(known, default=0) - 1

    def _take_in_missed(self) -> None:
        for state in self.queries.values():
            self._settle(state)
        for event in missed(self.queries):
            self._take_in(self.queries[getattr(event, "query", "")], event)

    def _take_in(self, state: QueryState, event: Event) -> None:
        state.apply(event)
        if isinstance(event, QueryProgress):
            self._committed.add(state.name)
            event = replace(event, at=_end_of(event))
        self._emit(event)

    def _watch(self) -> None:
        """Check what Spark does not report: lost terminations, backlogs of files, epochs."""
        for state in self._active:
            if state.seems_over():
                self._end(state)
        committed, self._committed = frozenset(self._committed), set()
        # Its notices are about the keys of pipelines; the alerts say the same.
        for _ in self._backlogs.tick(Tick(committed)):
            pass
        self._epochs.tick(Tick(committed))

    def _end(self, state: QueryState) -> None:
        self._settle(state)
        for event in missed({state.name: state}):
            self._take_in(state, event)
        failure = state.query.failure()
        # Only these triggers end a query; any other one was stopped by the program.
        state.stopping |= not isinstance(state.query.trigger, AvailableNow | Once)
        problem = self._explain(state, failure) if failure and not state.problem else state.problem
        self._terminated(state, state.outcome(failed=failure is not None), problem)

    def _end_with_spark(self, status: Spark) -> None:
        for state in self._active:
            if status is Spark.DIED:
                problem = self._explain(state, SparkStopped("the JVM exited"))
                self._terminated(state, QueryStatus.FAILED, problem)
            else:
                self._terminated(state, QueryStatus.STOPPED, state.problem)

    def _explain(self, state: QueryState, failure: Exception) -> Problem:
        problem = self._session.explain(state.query, failure, self._log)
        append_failure(self._log, state.name, problem)
        return problem

    def _terminated(self, state: QueryState, status: QueryStatus, problem: Problem | None) -> None:
        state.status, state.problem = status, problem
        self._emit(QueryTerminated(query=state.name, status=status, problem=problem))
        for oldest in self._last_ended.ended(state.name):
            self._forgotten_failed |= self.queries.pop(oldest).status is QueryStatus.FAILED
            self._committed.discard(oldest)
            self._backlogs.forget(oldest)
        self._changed.notify_all()

    @property
    def _active(self) -> list[QueryState]:
        return [state for state in self.queries.values() if not state.ended]

    # From other threads.

    def stop(self, names: list[str], timeout: float | None) -> None:
        """Let the current batches commit, then stop these queries; return when they have stopped."""
        limit = STOP_SECONDS if timeout is None else timeout
        with self._changed:
            active = [state for state in self._active if state.name in names]
            for state in active:
                state.stopping = True
        for state in active:
            state.query.begin_no_further_batch()
        deadline = time.monotonic() + limit
        for state in active:
            if not state.query.finish_batch(deadline, lambda: False):
                state.problem = STOP_TIMEOUT.at(None, sink=state.name, limit=f"{limit:g} s")
            state.query.stop()
        with self._changed:
            self._changed.wait_for(lambda: all(state.ended for state in active), _END_SECONDS)

    def drain(self, seconds: float) -> None:
        """Take in everything so far, `seconds` at most. The program may know that a query has terminated before
        Spark reports it."""
        deadline = time.monotonic() + seconds
        self._listener.drain(seconds)
        with self._changed:
            for state in self._active:
                if state.query.has_terminated(deadline):
                    self._end(state)

    def close(self) -> None:
        """Stop to listen. The queries continue."""
        self._listener.close()

    def end_with_program(self) -> None:
        """The program exits, and its queries with it."""
        with self._changed:
            self._end_with_spark(Spark.STOPPED)

    @property
    def exit_code(self) -> int:
        failed = any(state.status is QueryStatus.FAILED for state in self.queries.values())
        return int(failed or self._forgotten_failed)

    @property
    def summary(self) -> Mapping[str, QuerySummary]:
        """The summary of each query that is not forgotten, by name."""
        return {state.name: state.summary() for state in self.queries.values()}


@dataclass(frozen=True)
class ControlledWatch:
    """What other processes can do with the queries of a program: stop them."""

    name: str
    watched: WatchedQueries

    @property
    def is_alive(self) -> bool:
        return True

    def stop(self, name: str | None, timeout: float | None) -> None:
        self.watched.stop([*self.watched.queries] if name is None else [name], timeout)

    def restart(self, name: str) -> NoReturn:
        raise UsageError(WATCH_RESTART_UNSUPPORTED.at(None, query=name))

    def plan(self, name: str) -> str:
        return scrub(self.watched.queries[name].query.plan())

    def sql(self, text: str, max_rows: int, seconds: float) -> NoReturn:
        raise UsageError(WATCH_SQL_UNSUPPORTED.at(None, name=self.name))


def _end_of(event: QueryProgress) -> str:
    """When a batch ended, by Spark's own clock: the same whenever it is read, so that no history has it twice."""
    try:
        begun = datetime.fromisoformat(str(event.progress["timestamp"]))
    except (KeyError, ValueError):
        return event.at
    end = begun + timedelta(milliseconds=event.batch_ms)
    return end.isoformat(timespec="milliseconds").replace("+00:00", "Z")
