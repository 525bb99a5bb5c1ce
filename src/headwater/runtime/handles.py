"""What a user holds of a run: the run, and its queries by name or id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.engine.memory_tables import DataFrame, MemoryTables
from headwater.errors import Problem, QueryFailed, UnknownQuery
from headwater.errors.catalogue.notices import ALL_DATA_READ, INPUT_UNREAD
from headwater.errors.catalogue.programs import QUERY_NOT_FOUND
from headwater.events import QueryStatus, QuerySummary
from headwater.events.kinds import SourceCounts, TableCounts
from headwater.runtime.query_state import QueryState
from headwater.runtime.supervisor import Supervisor
from headwater.values import nearest, scrub

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
        """The same after each restart."""
        return self._state.query.id

    @property
    def run_id(self) -> str:
        """New at each start."""
        return self._state.query.run_id

    @property
    def status(self) -> QueryStatus:
        return self._state.status

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The last batch, with every field that Spark reports."""
        return self._state.recent[-1] if self._state.recent else None

    @property
    def recent_progress(self) -> tuple[Mapping[str, Any], ...]:
        """The last batches, oldest first."""
        return tuple(self._state.recent)

    @property
    def rows_in(self) -> int | None:
        """The rows read since the start; None for a continuous query, whose rows Spark does not count."""
        return self._state.rows_in if self._state.query.has_batches else None

    @property
    def rows_out(self) -> int | None:
        """The rows handed to the sink since the start; None for a continuous query."""
        return self._state.rows_out if self._state.query.has_batches else None

    @property
    def sources(self) -> Mapping[str, SourceCounts]:
        """Rows read, good and bad since the start, by the source that tells them apart."""
        return dict(self._state.sources)

    @property
    def expectations(self) -> Mapping[str, TableCounts]:
        """Rows judged and failed since the start, by the table that has expectations."""
        return dict(self._state.tables)

    @property
    def late_rows(self) -> Mapping[str, int]:
        """Rows that came behind the watermark and were dropped since the start, by operator."""
        return dict(self._state.late)

    @property
    def epoch(self) -> int | None:
        """The newest epoch that a continuous query has committed."""
        return self._state.epoch

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The sources that hold its watermark back, because they bring no rows while others do."""
        return tuple(dict.fromkeys(name for idle in self._state.waits_for for name in idle.sources))

    @property
    def problem(self) -> Problem | None:
        """Why it failed."""
        return self._state.problem

    @property
    def exception(self) -> QueryFailed | None:
        """The failure as an exception, as Spark's own handle has it."""
        return QueryFailed(self._state.problem) if self._state.problem else None

    def plan(self) -> str:
        """Spark's plan of the last batch."""
        return scrub(self._state.query.plan())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until this query has ended; False if it still runs after `timeout` seconds."""
        return self._supervisor.wait(lambda: self._state.ended, timeout)

    def stop(self, timeout: float | None = None) -> None:
        """Let the running batch commit, then stop this query alone."""
        self._supervisor.stop([self.name], timeout)

    def __repr__(self) -> str:
        if not self._state.query.has_batches:
            return f"<Query {self.name}: {self.status.value}, epoch {self.epoch}>"
        return f"<Query {self.name}: {self.status.value}, {self.rows_in} rows in, {self.rows_out} out>"


class Queries(dict[str, Query]):
    """The queries of a run by name; a name that is not there is told with those that are."""

    def __missing__(self, name: str) -> Query:
        meant = nearest(name, self)
        hint = f"Did you mean `{meant}`?" if meant else "Look at its spelling."
        raise UnknownQuery(QUERY_NOT_FOUND.at(None, name=name, known=", ".join(self), hint=hint))


class Run:
    """A running pipeline. Starting one does not block; every query is independent of the others."""

    def __init__(self, supervisor: Supervisor, tables: MemoryTables) -> None:
        self._supervisor = supervisor
        self._tables = tables

    @property
    def id(self) -> str:
        return self._supervisor.run_id

    @property
    def queries(self) -> Mapping[str, Query]:
        """The queries by the name of their sink."""
        states = self._supervisor.queries.values()
        return Queries({state.name: Query(state, self._supervisor) for state in states})

    def query(self, name_or_id: str) -> Query:
        """A query by its name or its id."""
        queries = self.queries
        by_id = {query.id: query for query in queries.values()}
        return by_id.get(name_or_id) or queries[name_or_id]

    @property
    def is_active(self) -> bool:
        return bool(self._supervisor.active)

    @property
    def summary(self) -> Mapping[str, QuerySummary]:
        """What each query did, by the name of its sink."""
        return {state.name: state.summary() for state in self._supervisor.queries.values()}

    @property
    def exit_code(self) -> int | None:
        """0 when every query ended well, 1 when one failed, 130 when forced; None while the run goes on."""
        return self._supervisor.exit_code

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all queries have ended; False if some still run after `timeout` seconds."""
        return self._supervisor.wait(lambda: self._supervisor.closed, timeout)

    def wait_any(self, timeout: float | None = None) -> bool:
        """Wait until any query has ended; False if all still run after `timeout` seconds."""
        return self._supervisor.wait(
            lambda: any(state.ended for state in self._supervisor.queries.values()), timeout
        )

    @property
    def is_idle(self) -> bool:
        """Every query, at its last look, found nothing more to read, or has ended."""
        return self._supervisor.idleness()[0]

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing more is there to read; False if that is not so after `timeout` seconds.

        PipelineError where a query is continuous or in real time, which never comes to an end;
        CheckpointError where all that is left is input that could not be taken in for 30 seconds.
        """
        return self._supervisor.wait_idle(timeout)

    def stop_when_idle(self) -> None:
        """Wait until nothing is left to read, then stop, as `headwater run --until-idle` does."""
        try:
            while not self.is_stuck and not self.wait(_TICK_SECONDS):
                reason = self.reason_to_end()
                if reason:
                    self._supervisor.scope.notify(reason)
                    break
        finally:
            self.stop()

    def reason_to_end(self) -> Problem | None:
        """Why a run that stops when it is idle stops now; None as long as there is something to do.

        It ends as failed where nothing is left to read but input that could not be taken in for long.
        """
        idle, blocked_by = self._supervisor.idleness() if self.is_active else (False, None)
        if idle:
            return ALL_DATA_READ.at(None)
        if blocked_by:
            self._supervisor.end(dict.fromkeys(self._supervisor.queries, blocked_by))
            return INPUT_UNREAD.at(None)
        return None

    def stop(self, timeout: float | None = None) -> None:
        """Let the running batches commit, then stop; the next start goes on from there.

        A batch that takes longer than `timeout` seconds is interrupted. Where even that can't be done (Python
        code that hangs) this returns all the same, and `is_stuck` is true.
        """
        self._supervisor.stop(None, timeout)
        self._supervisor.wait(lambda: self._supervisor.closed or self._supervisor.stuck, None)

    @property
    def is_stuck(self) -> bool:
        """A batch could neither be finished nor interrupted; it ends with this process."""
        return self._supervisor.stuck and not self._supervisor.closed

    def force(self) -> None:
        """Wait no longer for running batches; they are repeated at the next start."""
        self._supervisor.force()

    def sql(self, query: str) -> DataFrame:
        """The result of a query over the tables of `memory` sinks, each named after its sink.

        It holds what was committed when its first action runs; ask again for what came later.
        """
        return self._tables.query(query)

    def raise_failures(self) -> None:
        """Raise QueryFailed when a query failed."""
        problems = [state.problem for state in self._supervisor.queries.values() if state.problem]
        if problems:
            raise QueryFailed.of(problems)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        queries = ", ".join(f"{query.name}: {query.status.value}" for query in self.queries.values())
        return f"<Run {self.id}: {queries}>"
