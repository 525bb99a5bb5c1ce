"""Queries without Spark, for the supervisor and the handles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from headwater.engine.memory_tables import MemoryTables
from headwater.engine.query import RunningQuery
from headwater.errors import Problem
from headwater.errors.catalogue.running import QUERY_FAILED
from headwater.events import Event, QueryProgress
from headwater.events.kinds import QueryInputs
from headwater.runtime.handles import Run
from headwater.runtime.query_state import Listener
from headwater.runtime.supervisor import Supervisor
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
        self.has_batches = self.ends_batches = True
        self.trigger: Trigger = Unpaced()
        self.inputs = QueryInputs()
        self.begun_to_stop = threading.Event()
        self.committed: list[QueryProgress] = []

    @property
    def is_gone(self) -> bool:
        return not self.is_active

    def failure(self) -> Exception | None:
        return None

    def progress_after(self, batch: int) -> tuple[QueryProgress, ...]:
        return tuple(each for each in self.committed if each.batch_id > batch)

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


def explain(name: str, error: Exception) -> Problem:
    return QUERY_FAILED.at(None, sink=name, says=str(error), log="none")


@contextmanager
def running(
    *names: str, query: type[FakeQuery] = FakeQuery, listener: Listener | None = None, **options: Any
) -> Iterator[tuple[Run, dict[str, FakeQuery], list[Event]]]:
    """A run of queries that have no end; whatever is left of them is stopped."""
    events: list[Event] = []
    queries = {name: query(name) for name in names}
    supervisor = Supervisor("run", events.append, explain, **options)
    supervisor.watch((cast(RunningQuery, each) for each in queries.values()), listener)
    try:
        yield Run(supervisor, cast(MemoryTables, None)), queries, events
    finally:
        for each in queries.values():
            each.in_batch = each.is_active = False
        assert supervisor.wait(lambda: supervisor.closed, SECONDS)
