"""The user's handles: a run, and its queries by name or ID."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.engine.sql_tables import DataFrame
from headwater.errors import Problem, QueryFailedError, QueryNotFoundError
from headwater.errors.catalogue.notices import ALL_DATA_READ, INPUT_UNREAD
from headwater.errors.catalogue.programs import QUERY_NOT_FOUND
from headwater.events import QueryStatus, QuerySummary
from headwater.events.counts import SourceCounts, TableCounts
from headwater.runtime.query_state import QueryState
from headwater.runtime.supervisor import Supervisor
from headwater.values import count_of, nearest, scrub

_TICK_SECONDS = 0.2


class Query:
    """One query of a run."""

    def __init__(self, state: QueryState, supervisor: Supervisor) -> None:
        self._state = state
        self._supervisor = supervisor

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def id(self) -> str:
        """The query ID. It stays the same after each restart."""
        return self._state.query.id

    @property
    def run_id(self) -> str:
        """The run ID. It changes at each start."""
        return self._state.query.run_id

    @property
    def status(self) -> QueryStatus:
        return self._state.status

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The progress of the last batch, with every field that Spark reports."""
        return self._state.recent.last

    @property
    def recent_progress(self) -> tuple[Mapping[str, Any], ...]:
        """The progress of the last batches, oldest first."""
        return self._state.recent.all

    @property
    def rows_in(self) -> int | None:
        """Rows read since the start; None for a continuous query, because Spark does not count its rows."""
        return self._state.rows_in if self._state.query.has_batches else None

    @property
    def rows_out(self) -> int | None:
        """Rows sent to the sink since the start; None for a continuous query."""
        return self._state.rows_out if self._state.query.has_batches else None

    @property
    def sources(self) -> Mapping[str, SourceCounts]:
        """Rows read, good and bad since the start, for each source that detects bad rows."""
        return dict(self._state.sources)

    @property
    def expectations(self) -> Mapping[str, TableCounts]:
        """Rows checked and rows failed since the start, for each table with expectations."""
        return dict(self._state.tables)

    @property
    def late_rows(self) -> Mapping[str, int]:
        """Rows dropped as late (behind the watermark) since the start, by operator."""
        return dict(self._state.late)

    @property
    def epoch(self) -> int | None:
        """The newest epoch that a continuous query has committed."""
        return self._state.epoch

    @property
    def idle_inputs(self) -> tuple[str, ...]:
        """The idle sources that block the watermark: they deliver no rows while other sources do."""
        return tuple(dict.fromkeys(name for idle in self._state.idle_inputs for name in idle.sources))

    @property
    def problem(self) -> Problem | None:
        """The failure, or None."""
        return self._state.problem

    @property
    def exception(self) -> QueryFailedError | None:
        """The failure as an exception, as in Spark's own handle."""
        return QueryFailedError(self._state.problem) if self._state.problem else None

    def plan(self) -> str:
        """Spark's plan of the last batch."""
        return scrub(self._state.query.plan())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until this query has terminated. Return False if it still runs after `timeout` seconds."""
        return self._supervisor.wait(lambda: self._state.ended, timeout)

    def stop(self, timeout: float | None = None) -> None:
        """Let the current batch commit, then stop this query only."""
        self._supervisor.stop([self.name], timeout)

    def restart(self) -> None:
        """Let the current batch commit, then start the query again; also one that has stopped or failed."""
        self._supervisor.restart(self.name)

    @property
    def restarts(self) -> int:
        """How often it was restarted since the start of the run, after failures or at your request."""
        return self._state.restarts

    def __repr__(self) -> str:
        if not self._state.query.has_batches:
            return f"<Query {self.name}: {self.status.value}, epoch {self.epoch}>"
        rows = f"{count_of(self.rows_in or 0, 'row')} in, {count_of(self.rows_out or 0, 'row')} out"
        return f"<Query {self.name}: {self.status.value}, {rows}>"


class Queries(dict[str, Query]):
    """The queries of a run by name. For an unknown name, the error lists the known ones."""

    def __missing__(self, name: str) -> Query:
        meant = nearest(name, self)
        hint = f"Did you mean `{meant}`?" if meant else "Check the spelling."
        raise QueryNotFoundError(QUERY_NOT_FOUND.at(None, name=name, known=", ".join(self), hint=hint))


class Run:
    """A running pipeline. Starting it does not block, and its queries are independent of each other."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    @property
    def id(self) -> str:
        return self._supervisor.run_id

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return self._supervisor.scope.spec.name

    @property
    def queries(self) -> Mapping[str, Query]:
        """The queries by sink name."""
        states = self._supervisor.queries.values()
        return Queries({state.name: Query(state, self._supervisor) for state in states})

    def query(self, name_or_id: str) -> Query:
        """A query by its name or ID."""
        queries = self.queries
        by_id = {query.id: query for query in queries.values()}
        return by_id.get(name_or_id) or queries[name_or_id]

    @property
    def is_active(self) -> bool:
        return bool(self._supervisor.active)

    @property
    def has_ended(self) -> bool:
        """Whether all queries have terminated and every event was delivered."""
        return self._supervisor.closed

    def notify(self, problem: Problem) -> None:
        """Report a notice as an event of this run."""
        self._supervisor.scope.notify(problem)

    @property
    def summary(self) -> Mapping[str, QuerySummary]:
        """The summary of each query, by sink name."""
        return {state.name: state.summary() for state in self._supervisor.queries.values()}

    @property
    def exit_code(self) -> int | None:
        """0 if every query succeeded, 1 if one failed, 130 after a forced stop; None during the run."""
        return self._supervisor.exit_code

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all queries have terminated. Return False if some still run after `timeout` seconds."""
        return self._supervisor.wait(lambda: self._supervisor.closed, timeout)

    def wait_any(self, timeout: float | None = None) -> bool:
        """Wait until any query has terminated. Return False if all still run after `timeout` seconds."""
        return self._supervisor.wait(
            lambda: any(state.ended for state in self._supervisor.queries.values()), timeout
        )

    @property
    def is_idle(self) -> bool:
        """Whether every query has read all available data or has terminated."""
        return self._supervisor.idleness()[0]

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until all available data is read. Return False if that takes longer than `timeout` seconds.

        Raises PipelineError if a query has a continuous or real-time trigger, because it never becomes idle.
        Raises CheckpointError if the only data left could not be read for 30 seconds.
        """
        return self._supervisor.wait_idle(timeout)

    def stop_when_idle(self) -> None:
        """Wait until all available data is read, then stop, as `headwater run --until-idle` does."""
        try:
            while not self.is_stuck and not self.wait(_TICK_SECONDS):
                reason = self.reason_to_end()
                if reason:
                    self._supervisor.scope.notify(reason)
                    break
        finally:
            self.stop()

    def reason_to_end(self) -> Problem | None:
        """Why a run that stops when idle stops now; None as long as there is data to read.

        The run fails if the only data left could not be read for a long time.
        """
        idle, blocked_by = self._supervisor.idleness() if self.is_active else (False, None)
        if idle:
            return ALL_DATA_READ.at(None)
        if blocked_by:
            self._supervisor.end(dict.fromkeys(self._supervisor.queries, blocked_by))
            return INPUT_UNREAD.at(None)
        return None

    def stop(self, timeout: float | None = None) -> None:
        """Let the current batches commit, then stop. The next start resumes from there.

        A batch that takes longer than `timeout` seconds is interrupted. If it cannot be interrupted (Python
        code that hangs), this method returns anyway, and `is_stuck` is true.
        """
        self._supervisor.stop(None, timeout)
        self._supervisor.wait(lambda: self._supervisor.closed or self._supervisor.stuck, None)

    @property
    def is_stuck(self) -> bool:
        """Whether a batch could neither finish nor be interrupted. It stops when this process exits."""
        return self._supervisor.stuck and not self._supervisor.closed

    def kill(self) -> None:
        """Stop without waiting for the current batches. They are retried at the next start."""
        self._supervisor.kill()

    def sql(self, query: str) -> DataFrame:
        """The result of a SQL query over what `memory` and `files` sinks have written.

        Each table has the name of its sink. Call again to see later rows.
        """
        return self._supervisor.tables.query(query)

    def raise_for_failure(self) -> None:
        """Raise QueryFailedError if a query failed."""
        problems = [state.problem for state in self._supervisor.queries.values() if state.problem]
        if problems:
            raise QueryFailedError.of(problems)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        queries = ", ".join(f"{query.name}: {query.status.value}" for query in self.queries.values())
        return f"<Run {self.id}: {queries}>"
