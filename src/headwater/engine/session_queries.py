"""The queries of a session in which a program starts them itself, without a pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.engine.listener import EventListener, EventReceiver
from headwater.engine.plain_facts import trigger_text
from headwater.engine.query import RunningQuery
from headwater.engine.translate import failure_problem
from headwater.errors import Problem, UsageError
from headwater.errors.catalogue.programs import (
    WATCH_CONNECT_UNSUPPORTED,
    WATCH_SESSION_EXPECTED,
    WATCH_SPARK_DIED,
)
from headwater.events import QueryDetails, QueryStarted
from headwater.spark.errors import SparkStopped
from headwater.spark.private import has_stopped, is_same_session, stopped_in_jvm
from headwater.spark.query import active_queries, active_query, query_settings
from headwater.spec import SinkOptions, SinkSpec
from headwater.values import Every, Position, Trigger, Unpaced, parse_trigger
from headwater.values.secrets import masked

__all__ = ["SessionListener", "SessionQueries", "Spark", "SparkSession", "session_of"]

_NO_ANSWER = (Py4JError, OSError)
_SINK = re.compile(r"(?:Sink|Table)$")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Spark(Enum):
    """Whether Spark works."""

    ACTIVE = "active"
    STOPPED = "stopped"
    DIED = "died"


def session_of(given: object, place: Position) -> SparkSession:
    """The given session, or the active one; UsageError if it cannot be watched."""
    session = SparkSession.getActiveSession() if given is None else given
    if ".connect." in type(session).__module__:
        raise UsageError(WATCH_CONNECT_UNSUPPORTED.at(place))
    if not isinstance(session, SparkSession):
        got = "none" if session is None else f"a `{type(session).__name__}`"
        raise UsageError(WATCH_SESSION_EXPECTED.at(place, got=got))
    if has_stopped(session.sparkContext):
        raise UsageError(WATCH_SESSION_EXPECTED.at(place, got="a session that was stopped"))
    return session


class SessionListener(EventListener):
    """Listens to a session. It looks a query up while Spark waits for its start: a short one ends soon after."""

    def __init__(self, spark: SparkSession, receiver: EventReceiver) -> None:
        super().__init__(receiver)
        self._spark = spark
        self._handles: dict[str, StreamingQuery] = {}

    def take(self, kind: str, text: str) -> None:
        if kind == "started":
            event = json.loads(text)
            with suppress(*_NO_ANSWER):
                handle = active_query(self._spark, event["id"])
                if handle is not None:
                    self._handles[event["runId"]] = handle
        super().take(kind, text)

    def _terminated(self, event: Mapping[str, Any]) -> None:
        super()._terminated(event)
        # It was the last event of this start. A program can start any number of queries.
        name = self._names.pop(event["runId"], "")
        if self._newest.get(name) == event["runId"]:
            del self._newest[name]

    def handle_of(self, event: QueryStarted) -> StreamingQuery | None:
        """The query that has started; None if Spark could not be asked. It is returned once."""
        return self._handles.pop(event.run_id, None)

    def add(self, query: RunningQuery) -> None:
        """Know the name of a query that was started before: only the event of its start contains it."""
        self._names[query.run_id] = query.name
        self._newest[query.name] = query.run_id


@dataclass(frozen=True)
class SessionQueries:
    """The queries of one session."""

    spark: SparkSession
    root: Path
    """The directory of the program: a failure in its code is reported at the line there."""

    @property
    def name(self) -> str:
        """The name of Spark's application."""
        return str(self.spark.sparkContext.appName)

    @property
    def spark_version(self) -> str:
        return str(self.spark.version)

    @property
    def status(self) -> Spark:
        """Whether Spark works."""
        if has_stopped(self.spark.sparkContext):
            return Spark.STOPPED
        try:
            return Spark.STOPPED if stopped_in_jvm(self.spark.sparkContext) else Spark.ACTIVE
        except _NO_ANSWER:
            return Spark.DIED

    def is_of(self, spark: SparkSession) -> bool:
        """Whether this is the same session; one that has ended is like no other."""
        return self.status is Spark.ACTIVE and is_same_session(self.spark, spark)

    def listen(self, receiver: EventReceiver) -> SessionListener:
        """Listen to the queries; their events arrive once the listener is open."""
        return SessionListener(self.spark, receiver)

    def running(self) -> list[RunningQuery]:
        """The queries that have not terminated."""
        return [self.query(handle) for handle in active_queries(self.spark)]

    def query(self, handle: StreamingQuery) -> RunningQuery:
        """A query of the program; without a name, it is called by its ID."""
        query_id, trigger = str(handle.id), _trigger(query_settings(handle).trigger)
        return RunningQuery(handle.name or query_id, handle, self.spark, query_id, trigger=trigger)

    def details(self, query: RunningQuery) -> QueryDetails:
        """What Spark knows of a query. Its progress names the sources."""
        found = query_settings(query.handle)
        return QueryDetails(
            # `ForeachBatchSink` is shown as `foreach_batch`.
            connector=_WORD.sub("_", _SINK.sub("", found.sink)).lower(),
            mode=found.mode,
            trigger=trigger_text(found.trigger),
            interval_ms=query.trigger.interval.milliseconds if isinstance(query.trigger, Every) else None,
            checkpoint=masked("", found.checkpoint.removeprefix("file:")),
        )

    def explain(self, query: RunningQuery, failure: Exception, log: Path) -> Problem:
        """Why a query failed."""
        if isinstance(failure, SparkStopped):
            return WATCH_SPARK_DIED.at(None, query=query.name)
        sink = SinkSpec(name=query.name, reads="rows", connector="program", options=SinkOptions())
        return failure_problem(failure, sink, (), self.root, log)


def _trigger(java: str) -> Trigger:
    """The trigger of a query; `Unpaced` also if Headwater does not know it."""
    with suppress(ValueError):
        return parse_trigger(trigger_text(java))
    return Unpaced()
