"""Intercepts the start of streaming queries by permanently patching PySpark classes in this process.

Only the process of a checked script does this. Methods that start a query check it instead and return a
stand-in; methods that wait for queries return immediately.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from headwater.engine.plain_facts import WriterSettings, writer_settings
from headwater.errors import PipelineError
from headwater.errors.catalogue.programs import CONNECT_SESSION_UNSUPPORTED
from headwater.spark.interception import Method, replace_methods
from headwater.spark.query import writer_frame
from headwater.spark.session import prevent_search, register_installed
from headwater.values import Position
from headwater.values.secrets import secrets_in
from headwater.values.user_frames import own_place, own_places

# A checked script gets this instead of a started query: a query that has already stopped, without any work.


class FinishedQuery(StreamingQuery):
    """A query that was checked but never started; waiting for it returns immediately."""

    def __init__(self, name: str | None, frame: DataFrame) -> None:
        self._name = name
        self.frame = frame
        self.over = False
        """Whether the script has awaited or stopped it."""
        self._id, self._run_id = str(uuid.uuid4()), str(uuid.uuid4())

    @property
    def id(self) -> str:
        return self._id

    @property
    def runId(self) -> str:  # noqa: N802 - PySpark's name
        return self._run_id

    @property
    def name(self) -> str:
        # PySpark says `str` and returns None for a query without a name.
        return self._name  # type: ignore[return-value]

    @property
    def isActive(self) -> bool:  # noqa: N802 - PySpark's name
        return False

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802 - PySpark's name
        return []

    @property
    def lastProgress(self) -> None:  # noqa: N802 - PySpark's name
        return None

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - PySpark's name
        self.over = True
        return None if timeout is None else True

    def processAllAvailable(self) -> None:  # noqa: N802 - PySpark's name
        return None

    def stop(self) -> None:
        self.over = True

    def explain(self, extended: bool = False) -> None:
        self.frame.explain(extended)

    def exception(self) -> None:
        return None


Judge = Callable[[FinishedQuery, WriterSettings, tuple[Position, ...]], None]
"""It receives the lines of user code that led to the start, innermost first."""
_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def catch_streams(judge: Judge) -> dict[str, Method]:
    """Replacements for `start` and `toTable` that check the query."""
    # The queries that the script has "started", for `spark.streams`: all have stopped.
    caught: dict[str, FinishedQuery] = {}
    turn = threading.RLock()

    def catch(writer: Any, path: str | None, table: str) -> FinishedQuery:
        places = tuple(own_places(sys._getframe(2)))
        settings = writer_settings(writer, path, table)
        query = FinishedQuery(settings.name or None, writer_frame(writer))
        # Scripts can start their queries in threads.
        with turn:
            judge(query, settings, places)
            caught[query.id] = query
        return query

    def start(writer: Any, path: str | None = None, *given: Any, **options: Any) -> FinishedQuery:
        _tell(writer, *given, **options)
        return catch(writer, path, "")

    def to_table(writer: Any, tableName: str, *given: Any, **options: Any) -> FinishedQuery:  # noqa: N803
        _tell(writer, *given, **options)
        return catch(writer, None, tableName)

    def await_any(manager: Any, timeout: float | None = None) -> bool | None:
        for query in caught.values():
            query.over = True
        return None if timeout is None else True

    replace_methods(
        StreamingQueryManager,
        active=property(lambda manager: []),
        get=lambda manager, id: caught.get(id),
        awaitAnyTermination=await_any,
        resetTerminated=lambda manager: None,
    )
    return {"start": start, "toTable": to_table}


def _tell(
    writer: Any,
    format: str | None = None,
    outputMode: str | None = None,  # noqa: N803 - PySpark's name
    partitionBy: str | list[str] | None = None,  # noqa: N803
    queryName: str | None = None,  # noqa: N803
    **options: Any,
) -> None:
    """Set the arguments of PySpark's `start` and `toTable` on the writer."""
    writer.options(**options)
    for value, tell in (
        (outputMode, writer.outputMode),
        (partitionBy, writer.partitionBy),
        (format, writer.format),
        (queryName, writer.queryName),
    ):
        if value is not None:
            tell(value)


def catch_sessions(settings: dict[str, str], starting: Callable[[], AbstractContextManager[None]]) -> None:
    """Override the settings of the script with these, and reject Spark Connect sessions.

    `starting` is entered while a Spark of the script starts.
    """
    builder: Any = SparkSession.Builder
    get_or_create = builder.getOrCreate

    def refused(self: Any, *given: Any) -> None:
        raise PipelineError(CONNECT_SESSION_UNSUPPORTED.at(own_place(sys._getframe(1))))

    def made(self: Any) -> SparkSession:
        for key, value in settings.items():
            self.config(key, value)
        mode = self._options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))
        connects = "spark.remote" in self._options or any(name in os.environ for name in _CONNECT)
        if mode.lower() == "connect" or connects:
            refused(self)
        session: SparkSession = get_or_create(self)
        register_installed(session)
        return session

    begin: Any = SparkContext.__init__

    def begun(self: Any, *given: Any, **named: Any) -> None:
        with starting():
            begin(self, *given, **named)
            prevent_search(self)

    replace_methods(builder, getOrCreate=made, remote=refused, create=refused)
    replace_methods(SparkContext, __init__=begun)


def watch_options(hide: Callable[[tuple[str, ...]], None], classes: tuple[type, ...] = ()) -> None:
    """Collect every plain-text secret that the script passes to Spark, so that no message shows it."""
    for kind in (DataStreamReader, DataStreamWriter, *classes):
        _watch(kind, "option", hide)
        _watch(kind, "options", hide)
    _watch(SparkSession.Builder, "config", hide)
    for kind in (SparkConf, RuntimeConfig):
        _watch(kind, "set", hide)


def _watch(kind: Any, method: str, hide: Callable[[tuple[str, ...]], None]) -> None:
    original = getattr(kind, method)

    def watched(self: Any, *given: Any, **named: Any) -> Any:
        pairs = {**named, **({given[0]: given[1]} if len(given) == 2 else {})}
        for key, value in {**pairs, **(named.get("map") or {})}.items():
            hide(secrets_in(str(key), str(value)))
        return original(self, *given, **named)

    replace_methods(kind, **{method: watched})
