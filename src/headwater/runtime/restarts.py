"""Which failed query is restarted, and when."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.errors import Problem
from headwater.errors.catalogue.running import RESTARTS_USED_UP, SPARK_DIED
from headwater.events import QueryRestarting
from headwater.runtime.query_state import QueryState
from headwater.runtime.scope import RunScope
from headwater.spec import RestartPolicy, SinkSpec


@dataclass
class Restarts:
    """Decides about the restarts of a run; the supervisor carries them out, on its own thread.

    A failure is retried if its entry in the catalogue says that a retry can help. When the process of Spark has
    died, every query waits for the same restart of Spark, and the policy of the pipeline counts.
    """

    scope: RunScope
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random
    needs_spark: bool = False
    """Whether Spark's process has died and was not started again yet."""
    _spark_at: float | None = None
    _spark_attempts: deque[float] = field(default_factory=deque)

    def schedule(self, state: QueryState, problem: Problem, changed: threading.Condition) -> bool:
        """Have a failed query wait for its restart; False if it has failed for good."""
        options = self.scope.options
        if not problem.entry.retryable or not options.restarts:
            return False
        if self.needs_spark:
            return self._schedule_with_spark(state, problem, changed)
        if problem.entry is SPARK_DIED:
            # The process belongs to other code, which has to start it.
            return False
        policy = self._policy(state.name)
        attempt = state.next_attempt(policy, self.clock())
        if attempt is None:
            self._report_used_up(state.name, policy)
            return False
        return self._wait(state, problem, changed, attempt, policy, policy.delay(attempt, self.jitter()))

    def is_due(self, state: QueryState) -> bool:
        """Whether the delay of a waiting query is over."""
        # Without a time for Spark, no failure asked for it, but a user who restarted a query: it must not wait
        # forever.
        at = self._spark_at if self.needs_spark and self._spark_at is not None else state.restart_at
        return at is not None and at <= self.clock()

    def ends_run(self, name: str) -> bool:
        """Whether the failure of a query ends the run."""
        return self.scope.options.fail_fast or self.scope.spec.stops_on_failure_of(self._sink(name))

    def spark_died(self) -> None:
        """The process of Spark has died, and every query with it, or it could not be started again."""
        self.needs_spark, self._spark_at = True, None

    def spark_restarted(self) -> None:
        """A new process of Spark runs the queries."""
        self.needs_spark, self._spark_at = False, None

    def _schedule_with_spark(self, state: QueryState, problem: Problem, changed: threading.Condition) -> bool:
        """All queries wait for one attempt to start Spark."""
        policy, now = self.scope.spec.restart_policy(), self.clock()
        if self._spark_at is None:
            while self._spark_attempts and self._spark_attempts[0] <= now - policy.within.seconds:
                self._spark_attempts.popleft()
            if len(self._spark_attempts) >= policy.attempts:
                self._report_used_up(state.name, policy)
                return False
            self._spark_at = now + policy.delay(len(self._spark_attempts) + 1, self.jitter())
            self._spark_attempts.append(self._spark_at)
        attempt, delay = len(self._spark_attempts), max(0.0, self._spark_at - now)
        return self._wait(state, problem, changed, attempt, policy, delay)

    def _wait(
        self,
        state: QueryState,
        problem: Problem,
        changed: threading.Condition,
        attempt: int,
        policy: RestartPolicy,
        delay: float,
    ) -> bool:
        """Let the query wait; False if a stop was requested meanwhile, which waiting would forget."""
        at = self.clock() + delay
        with changed:
            if state.must_stop and not state.restart_requested:
                return False
            state.wait_for_restart(at, problem)
            state.attempts.append(at)
            changed.notify_all()
        self.scope.emit(
            QueryRestarting(
                query=state.name,
                attempt=attempt,
                attempts=policy.attempts,
                delay_ms=round(delay * 1_000),
                problem=problem,
            )
        )
        return True

    def _report_used_up(self, name: str, policy: RestartPolicy) -> None:
        if policy.attempts:
            params = {"attempts": policy.attempts, "within": str(policy.within)}
            self.scope.notify(RESTARTS_USED_UP.at(None, sink=name, **params))

    def _policy(self, name: str) -> RestartPolicy:
        return self.scope.spec.restart_policy(self._sink(name))

    def _sink(self, name: str) -> SinkSpec:
        return self.scope.spec.query(name).sink
