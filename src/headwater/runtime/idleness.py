"""Whether the queries of a run have read everything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headwater.connectors.contract import Pending
from headwater.errors import CheckpointError, PipelineError, Problem
from headwater.errors.catalogue.running import UNTIL_IDLE_UNSUPPORTED
from headwater.events import QueryStatus
from headwater.events.kinds import now

if TYPE_CHECKING:
    from headwater.runtime.supervisor import Supervisor

_TICK_SECONDS = 0.2


class Idleness:
    """Decides whether a run is idle: every query has polled all its sources, and found nothing."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._found = 0
        self._polls_then: dict[str, int] = {}

    @property
    def _all_quiet(self) -> bool:
        return all(state.status is QueryStatus.IDLE for state in self._supervisor.active)

    def found(self) -> tuple[bool, Problem | None]:
        """Whether every query has committed all available data or has terminated.

        If the queries have nothing else to read, also what keeps them from becoming idle.
        """
        if not self._all_quiet:
            return False, None
        pending = self._supervisor.tasks.pending()
        return self._nothing_new(pending), pending.blocked_by

    def _nothing_new(self, pending: Pending) -> bool:
        """Whether every query has polled since it last received new input.

        Headwater opens some input before Spark sees it, so Spark does not know all available data.
        """
        if pending.undecided:
            return False
        active = self._supervisor.active
        if pending.found != self._found:
            self._found = pending.found
            self._polls_then = {state.name: state.idle_polls for state in self._supervisor.queries.values()}
        return all(state.idle_polls >= self._polls_then.get(state.name, -2) + 2 for state in active)

    def wait(self, timeout: float | None) -> bool:
        """Wait until every query has polled again and found nothing.

        The first reported poll may have started before this call, so wait for a second one. On a busy
        machine, even that may be outdated, so its start time is compared as well.
        """
        supervisor = self._supervisor
        lasting = [state for state in supervisor.active if not state.query.ends_batches]
        if lasting:
            raise PipelineError.of(
                UNTIL_IDLE_UNSUPPORTED.at(None, sink=s.name, trigger=str(s.query.trigger)) for s in lasting
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        while (pending := supervisor.tasks.pending()).undecided and supervisor.active:
            if pending.blocked_by and self._all_quiet:
                raise CheckpointError(pending.blocked_by)
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_TICK_SECONDS)
        queries = supervisor.queries
        before, called = {name: state.idle_polls for name, state in queries.items()}, now()

        def idle() -> bool:
            again = (state.polled(before[state.name] + 2, called) for state in queries.values())
            return self._all_quiet and all(again)

        return supervisor.wait(idle, None if deadline is None else max(0.0, deadline - time.monotonic()))
