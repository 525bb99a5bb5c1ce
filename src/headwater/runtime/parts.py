"""What a supervisor needs: where its queries come from, and who delivers their events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, Self

from headwater.engine.query import RunningQuery
from headwater.engine.sql_tables import SqlTables
from headwater.errors import Problem
from headwater.runtime.query_state import QueryState

if TYPE_CHECKING:
    from headwater.runtime.supervisor import Supervisor


class Starter(Protocol):
    """Where the queries come from."""

    def restart_for_static(self, state: QueryState, failure: Exception) -> RunningQuery | None:
        """The restarted query if only a file of a static source has disappeared; else None."""

    def restart(self, name: str) -> RunningQuery:
        """Start a query again that has terminated."""

    def with_new_spark(self, supervisor: Supervisor, names: Iterable[str]) -> Self:
        """Start Spark again after its process died, and these queries in it."""

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        """Why it failed."""

    @property
    def restarts_spark(self) -> bool:
        """Whether Spark can be started again if its process dies."""

    @property
    def tables(self) -> SqlTables:
        """The tables that a program can query."""

    def close(self) -> None:
        """Every query has terminated."""

    def release(self) -> None:
        """Release what belongs to a Spark process that has died."""


class Listener(Protocol):
    """Delivers the events of the queries."""

    def drain(self, seconds: float) -> bool:
        """Wait until everything so far is handled; False if that takes longer."""

    def close(self) -> None:
        """Deliver no more events."""
