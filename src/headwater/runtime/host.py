"""What other processes can ask a run to do, through its control socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headwater.errors import HeadwaterError, QueryNotFoundError, UsageError
from headwater.errors.catalogue.programs import QUERY_NOT_FOUND
from headwater.errors.catalogue.running import QUERY_STUCK, RUN_STARTING, SPARK_RESTARTING
from headwater.events.kinds import now
from headwater.events.status import RunView
from headwater.values import did_you_mean, scrub

if TYPE_CHECKING:
    from headwater.runtime.supervisor import Supervisor


class Controlled(Protocol):
    """The part of a run that can be controlled."""

    @property
    def is_alive(self) -> bool:
        """Whether the queries are monitored, or have all ended."""

    def stop(self, name: str | None, timeout: float | None) -> None:
        """Stop one query or all; return when they have stopped."""

    def restart(self, name: str) -> None:
        """Restart a query; return when it runs again."""

    def plan(self, name: str) -> str:
        """Spark's plan of the last batch of a query."""

    def sql(self, text: str, max_rows: int, seconds: float) -> Mapping[str, Any]:
        """The first rows of a query."""


@dataclass(frozen=True)
class ControlledRun:
    """A run whose queries are monitored by a supervisor."""

    supervisor: Supervisor

    @property
    def is_alive(self) -> bool:
        return self.supervisor.is_alive

    def stop(self, name: str | None, timeout: float | None) -> None:
        supervisor = self.supervisor
        supervisor.stop(None if name is None else [name], timeout)
        # Not until the run is closed: that waits for the answer to this request.
        states = [*supervisor.queries.values()] if name is None else [supervisor.queries[name]]
        # One that is no longer stopping had stopped, and was restarted since.
        supervisor.wait(lambda: all(s.ended or s.stuck or not s.stopping for s in states), None)
        if name is not None:
            self._refuse_if_stuck(name)

    def restart(self, name: str) -> None:
        self.supervisor.restart(name)
        self._refuse_if_stuck(name)

    def _refuse_if_stuck(self, name: str) -> None:
        """HeadwaterError if a query could not be stopped."""
        state = self.supervisor.queries[name]
        if state.stuck and not state.ended:
            raise HeadwaterError(QUERY_STUCK.at(None, sink=name))

    def plan(self, name: str) -> str:
        self._refuse_without_spark()
        return scrub(self.supervisor.queries[name].query.plan())

    def sql(self, text: str, max_rows: int, seconds: float) -> Mapping[str, Any]:
        self._refuse_without_spark()
        return self.supervisor.tables.rows(text, max_rows, seconds).to_json()

    def _refuse_without_spark(self) -> None:
        if self.supervisor.restarts.needs_spark:
            raise UsageError(SPARK_RESTARTING.at(None))


class RunHost:
    """Answers the requests to one run; before its queries run, it shows its status and can stop the start."""

    def __init__(self, name: str, run_dir: Path, run_id: str) -> None:
        self.view = RunView()
        self.view.run_id, self.view.pipeline, self.view.started_at = run_id, name, now()
        self.view.run_dir = str(run_dir)
        self._run: Controlled | None = None
        self._cancel: Callable[[], None] | None = None
        self._decided = threading.Event()

    def starting(self, cancel: Callable[[], None]) -> None:
        """The run is starting; `cancel` stops that at its next step."""
        self._cancel = cancel

    def control(self, run: Controlled) -> None:
        """The run has started."""
        self._run = run
        self._decided.set()

    def ended(self) -> None:
        """The run has ended, or could not start."""
        self._decided.set()

    def is_alive(self) -> bool:
        """Whether the run works: its queries are monitored, or it is still starting."""
        return self._run is None or self._run.is_alive

    def status(self) -> Mapping[str, Any]:
        return self.view.to_json()

    def stop(self, query: str | None, timeout: float | None) -> Mapping[str, Any]:
        if query is None and self._run is None and self._cancel is not None:
            self._cancel()
            self._decided.wait()
            if self._run is None:
                return self.status()
        # A start that could not be stopped any more.
        run = self._started()
        run.stop(None if query is None else self._known(query), timeout)
        return self.status()

    def restart(self, query: str) -> Mapping[str, Any]:
        run = self._started()
        run.restart(self._known(query))
        return self.status()

    def plan(self, query: str) -> Mapping[str, Any]:
        return {"plan": self._started().plan(self._known(query))}

    def sql(self, text: str, max_rows: int, seconds: float) -> Mapping[str, Any]:
        return self._started().sql(text, max_rows, seconds)

    def _started(self) -> Controlled:
        if self._run is None:
            raise UsageError(RUN_STARTING.at(None, pipeline=self.view.pipeline))
        return self._run

    def _known(self, name: str) -> str:
        """The name of a query that is given by its name or ID."""
        queries = self.view.queries
        by_id = {query.id: query.name for query in queries.values()}
        if name not in queries and name not in by_id:
            hint = did_you_mean(name, queries, "Check the spelling.")
            raise QueryNotFoundError(QUERY_NOT_FOUND.at(None, name=name, known=", ".join(queries), hint=hint))
        return name if name in queries else by_id[name]
