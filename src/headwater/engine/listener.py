"""Spark's streaming events, converted to Headwater's.

PySpark's own listener rebuilds each event field by field, with hundreds of calls into the JVM, on the thread
that delivers the events of all queries. Under load, that thread falls behind permanently. Here, the callback
only asks for the event's JSON, which is one call, and a separate thread does the rest.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from headwater.engine.query import progress_event
from headwater.events import Event, QueryIdle, QueryStarted
from headwater.events.counts import BranchCounts
from headwater.spark.callbacks import QueryListener, observed_row
from headwater.spark.output_rows import OutputRows

_CATCH_UP_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


class EventReceiver(Protocol):
    """Receives the events."""

    def handle(self, event: Event) -> None:
        """Something happened."""

    def over(self, name: str) -> None:
        """A query has terminated."""

    def catch_up(self) -> None:
        """Check for events that did not arrive."""

    def not_handled(self, error: Exception) -> None:
        """What one of the three raised."""


class EventListener(QueryListener):
    """Forwards each event of a session's queries, in the order of each query, until it is closed.

    Everything that it calls runs on one thread. `catch_up` is called about once a second: Spark drops events
    when its queue is full, and another listener of the session may delay it.
    """

    def __init__(
        self,
        receiver: EventReceiver,
        output_rows: OutputRows | None = None,
        branch_counts: BranchCounts | None = None,
    ) -> None:
        self._receiver = receiver
        self._output_rows = output_rows
        self._branch_counts = branch_counts
        self._names: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._remove: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._work, name="headwater listener", daemon=True)

    def open(self, spark: SparkSession) -> None:
        """Listen to the queries of a session."""
        self._remove = self.listen(spark)
        if self._output_rows:
            self._output_rows.open()
        self._thread.start()

    def drain(self, seconds: float) -> bool:
        """Wait until everything so far is handled; False if that takes longer."""
        done = threading.Event()
        self._queue.put(self._receiver.catch_up)
        self._queue.put(done.set)
        return done.wait(seconds)

    def close(self) -> None:
        """Stop listening, and end the thread when the earlier events are handled."""
        # A JVM that has exited has no listeners.
        with suppress(Py4JError, OSError):
            self._remove()
        with suppress(Py4JError, OSError):
            if self._output_rows:
                self._output_rows.close()
        self._remove = lambda: None
        self._queue.put(None)
        # What is called on the thread may close it.
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def take(self, kind: str, text: str) -> None:
        # Spark waits for this, so it only stores the event.
        handle = {
            "started": self._started,
            "progress": self._progressed,
            "idle": self._idle,
            "terminated": self._terminated,
        }[kind]
        self._queue.put(lambda: handle(json.loads(text)))

    def _work(self) -> None:
        due = time.monotonic() + _CATCH_UP_SECONDS
        while True:
            with suppress(Empty):
                step = self._queue.get(timeout=max(0.0, due - time.monotonic()))
                if step is None:
                    return
                self._try(step)
            if time.monotonic() >= due:
                self._try(self._receiver.catch_up)
                due = time.monotonic() + _CATCH_UP_SECONDS

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the events after this one must still be handled
            self._receiver.not_handled(error)

    def _started(self, event: Mapping[str, Any]) -> None:
        name, run_id = event["name"] or event["id"], event["runId"]
        self._names[run_id] = name
        self._newest[name] = run_id
        self._receiver.handle(QueryStarted(query=name, id=event["id"], run_id=run_id))

    def _progressed(self, event: Mapping[str, Any]) -> None:
        progress = event["progress"]
        name, counts = self._name(progress), self._branch_counts
        self._receiver.handle(progress_event(name, progress, self._output_rows, counts))

    def _idle(self, event: Mapping[str, Any]) -> None:
        self._receiver.handle(QueryIdle(query=self._name(event), started_at=event["timestamp"]))

    def _terminated(self, event: Mapping[str, Any]) -> None:
        name = self._name(event)
        # The termination of a query that was restarted in the meantime is ignored.
        if self._newest.get(name, event["runId"]) == event["runId"]:
            self._receiver.over(name)

    def _name(self, event: Mapping[str, Any]) -> str:
        return self._names.get(event["runId"]) or str(event.get("name") or event["id"])


# Counting the rows of a DataFrame while a batch run writes them.

_METRICS_SECONDS = 5.0
"""How long Spark may take to report it: shortly after the write, on another thread."""


def counted(rows: DataFrame) -> tuple[DataFrame, Callable[[], int | None]]:
    """The same rows, and a function that returns their number after the write; None if it is unknown."""
    observation = Observation()
    return rows.observe(observation, count(lit(1)).alias("rows")), lambda: _number_of_rows(observation)


def observed_counts(observation: Observation) -> dict[str, int] | None:
    """What was counted under each name; None if Spark does not report it."""
    row = observed_row(observation, _METRICS_SECONDS)
    return {name: int(row.getAs(name)) for name in row.schema().fieldNames()} if row is not None else None


def _number_of_rows(observation: Observation) -> int | None:
    row = observed_row(observation, _METRICS_SECONDS)
    return int(row.getLong(0)) if row is not None else None
