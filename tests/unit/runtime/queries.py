"""Queries without Spark, for the supervisor and the handles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Self, cast
from unittest.mock import MagicMock

from headwater.connectors.contract import Pending, RunTask
from headwater.engine.query import RunningQuery
from headwater.engine.sql_tables import SqlTables
from headwater.errors import Problem
from headwater.errors.catalogue.running import QUERY_FAILED
from headwater.events import Event, QueryProgress
from headwater.events.idle import InputMark, QueryInputs
from headwater.runtime.handles import Run
from headwater.runtime.parts import Listener, Starter
from headwater.runtime.query_state import QueryState
from headwater.runtime.scope import RunOptions, RunScope
from headwater.runtime.supervisor import Supervisor
from headwater.spark.query import UnreadFiles
from headwater.spec import RestartPolicy
from headwater.values import Trigger, Unpaced

SECONDS = 20.0


class FakeQuery:
    """A query in the middle of a batch, which `finish` ends well and `stop` interrupts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = f"id of {name}"
        self.run_id = f"run of {name}"
        self.is_active = True
        self.in_batch = True
        self.is_processing = False
        self.has_batches = self.ends_batches = True
        self.trigger: Trigger = Unpaced()
        self.inputs = QueryInputs()
        self.begun_to_stop = threading.Event()
        self.committed: list[QueryProgress] = []

    @property
    def is_gone(self) -> bool:
        return not self.is_active

    def has_terminated(self, deadline: float) -> bool:
        return not self.is_active

    def failure(self) -> Exception | None:
        return None

    def progress_after(self, batch: int) -> tuple[QueryProgress, ...]:
        return tuple(each for each in self.committed if each.batch_id > batch)

    def waiting(self) -> tuple[UnreadFiles, ...]:
        return ()

    def marks(self) -> tuple[tuple[InputMark, ...], datetime | None] | None:
        return None

    def epoch(self) -> int | None:
        return None

    def begin_no_further_batch(self) -> None:
        self.begun_to_stop.set()

    def finish_batch(self, deadline: float, forced: Callable[[], bool]) -> bool:
        while self.in_batch and not forced():
            threading.Event().wait(0.001)
        return not self.in_batch

    def stop(self) -> bool:
        self.is_active = False
        return True


class FailedQuery(FakeQuery):
    """A query whose batch has failed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.in_batch = self.is_active = False

    def failure(self) -> Exception | None:
        return RuntimeError("a file is gone")


class FakeStarter:
    """Explains failures, and starts nothing again."""

    restarts_spark = False

    def restart_for_static(self, state: QueryState, failure: Exception) -> RunningQuery | None:
        return None

    def restart(self, name: str) -> RunningQuery:
        raise NotImplementedError

    def with_new_spark(self, supervisor: Supervisor, names: Iterable[str]) -> Self:
        raise NotImplementedError

    @property
    def tables(self) -> SqlTables:
        raise NotImplementedError

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        return QUERY_FAILED.at(None, sink=state.name, says=str(failure), log="none")

    def close(self) -> None:
        """Nothing is held."""

    def release(self) -> None:
        """Nothing is held."""


class Blocked(RunTask):
    """Input that was found and can't be taken in."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def pending(self) -> Pending:
        return Pending(undecided=True, blocked_by=self.problem)


class AnySpec:
    """A pipeline with these sinks, for what a supervisor asks of it."""

    def __init__(self, *names: str, policy: RestartPolicy | None = None, stops: bool = False) -> None:
        self.queries = {name: SimpleNamespace(name=name, sink=SimpleNamespace(name=name)) for name in names}
        self._policy = policy or RestartPolicy()
        self._stops = stops

    def query(self, name: str) -> SimpleNamespace:
        return self.queries[name]

    def restart_policy(self, sink: object = None) -> RestartPolicy:
        return self._policy

    def stops_on_failure_of(self, sink: object) -> bool:
        return self._stops


def scope_of(events: list[Event], spec: Any = None, **options: Any) -> RunScope:
    """A run without a directory and without locks."""
    directory, locks = MagicMock(), MagicMock()
    directory.last_batch.return_value = -1
    return RunScope("run", spec, RunOptions(**options), directory, locks, events.append)


@contextmanager
def running(
    *names: str,
    query: type[FakeQuery] = FakeQuery,
    listener: Listener | None = None,
    starter: Starter | None = None,
    tasks: Sequence[RunTask] = (),
    policy: RestartPolicy | None = None,
    stops: bool = False,
) -> Iterator[tuple[Run, dict[str, FakeQuery], list[Event]]]:
    """A run of queries that have no end; whatever is left of them is stopped."""
    events: list[Event] = []
    queries = {name: query(name) for name in names}
    spec = AnySpec(*names, policy=policy, stops=stops)
    supervisor = Supervisor(scope_of(events, spec), starter or FakeStarter(), tasks)
    for each in queries.values():
        supervisor.adopt(cast(RunningQuery, each))
    supervisor.watch(listener)
    try:
        yield Run(supervisor), queries, events
    finally:
        for each in queries.values():
            each.in_batch = each.is_active = False
        assert supervisor.wait(lambda: supervisor.closed, SECONDS)
