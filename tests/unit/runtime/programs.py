"""A session without Spark whose queries a program starts, for what watches them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from headwater.engine.listener import EventReceiver
from headwater.engine.query import RunningQuery
from headwater.engine.session_queries import Spark
from headwater.errors import Problem
from headwater.errors.catalogue.running import QUERY_FAILED
from headwater.events import QueryDetails, QueryStarted
from tests.unit.runtime.queries import FakeQuery


class FakeListener:
    """Calls its receiver on the thread of the test."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.known: list[str] = []
        self.is_open = False

    def open(self, spark: object) -> None:
        self.is_open = True

    def handle_of(self, event: QueryStarted) -> FakeQuery:
        return self.session.queries[event.run_id]

    def add(self, query: RunningQuery) -> None:
        self.known.append(query.name)

    def drain(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        self.is_open = False


class FakeSession:
    """A session with the queries that a test starts in it."""

    spark_version = "4.1"

    def __init__(self) -> None:
        self.status = Spark.ACTIVE
        self.spark = object()
        self.queries: dict[str, FakeQuery] = {}
        """All that were ever started, by run ID."""
        self.listener = FakeListener(self)
        self.receiver: EventReceiver | None = None

    def start(self, query: FakeQuery) -> FakeQuery:
        """Start a query; if the session is watched, its listener reports it."""
        self.queries[query.run_id] = query
        if self.listener.is_open and self.receiver:
            self.receiver.handle(QueryStarted(query=query.name, id=query.id, run_id=query.run_id))
        return query

    def is_of(self, spark: object) -> bool:
        return self.status is Spark.ACTIVE and self.spark is spark

    def listen(self, receiver: EventReceiver) -> FakeListener:
        self.receiver = receiver
        return self.listener

    def running(self) -> list[RunningQuery]:
        return [cast(RunningQuery, query) for query in self.queries.values() if query.is_active]

    def query(self, handle: Any) -> RunningQuery:
        return cast(RunningQuery, handle)

    def details(self, query: RunningQuery) -> QueryDetails:
        return QueryDetails(connector="noop", trigger=str(query.trigger))

    def explain(self, query: RunningQuery, failure: Exception, log: Path) -> Problem:
        return QUERY_FAILED.at(None, sink=query.name, says=str(failure), log=str(log))


def headwater_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headwater ")]


def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition becomes true in time."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition() and time.monotonic() < deadline:
        pause.wait(0.01)
    return condition()
