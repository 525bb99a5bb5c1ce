"""Streams caught at their start: PySpark's classes are changed in this process, for good.

Only the process of a script under check does this. What starts a query judges it instead and hands out a
stand-in; what waits for queries returns at once.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from headwater.engine.plain.stand_in import CaughtQueries, CaughtQuery
from headwater.engine.plain.written import Written, written_by
from headwater.engine.python_sources import prevent_search, register_installed
from headwater.errors import PipelineError
from headwater.errors.catalogue.programs import CONNECT_SESSION
from headwater.values import Position
from headwater.values.own_code import own_place, own_places
from headwater.values.secret_names import secrets_in

Judge = Callable[[CaughtQuery, Written, tuple[Position, ...]], str]
"""It gets the user's lines that led to the start, the innermost first, and gives the query a name."""
_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def catch_streams(judge: Judge, started: Callable[[CaughtQuery, Written, str], None]) -> None:
    """Let `start` and `toTable` judge their query; `started` then makes visible what it would have made."""
    caught, turn = CaughtQueries(), threading.RLock()

    def catch(writer: Any, path: str | None, table: str) -> CaughtQuery:
        places = tuple(own_places(sys._getframe(2)))
        written = written_by(writer, path, table)
        query = CaughtQuery(written.name or None, writer._df)
        # Scripts may start their queries in threads.
        with turn:
            name = judge(query, written, places)
            caught.add(query)
            started(query, written, name)
        return query

    def start(writer: Any, path: str | None = None, *given: Any, **options: Any) -> CaughtQuery:
        _tell(writer, *given, **options)
        return catch(writer, path, "")

    def to_table(writer: Any, tableName: str, *given: Any, **options: Any) -> CaughtQuery:  # noqa: N803
        _tell(writer, *given, **options)
        return catch(writer, None, tableName)

    def await_any(manager: Any, timeout: float | None = None) -> bool | None:
        caught.end_all()
        return None if timeout is None else True

    _replace(DataStreamWriter, start=start, toTable=to_table)
    _replace(
        StreamingQueryManager,
        active=property(lambda manager: []),
        get=lambda manager, id: caught.get(id),
        awaitAnyTermination=await_any,
        resetTerminated=lambda manager: None,
    )


def _tell(
    writer: Any,
    format: str | None = None,
    outputMode: str | None = None,  # noqa: N803 - PySpark's name
    partitionBy: str | list[str] | None = None,  # noqa: N803
    queryName: str | None = None,  # noqa: N803
    **options: Any,
) -> None:
    """What PySpark's own `start` and `toTable` tell the writer before they start it."""
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
    """Let these settings win over the script's, and refuse sessions of Spark Connect by name.

    `starting` is entered while a Spark of the script's comes up.
    """
    builder: Any = SparkSession.Builder
    get_or_create = builder.getOrCreate

    def made(self: Any) -> SparkSession:
        for key, value in settings.items():
            self.config(key, value)
        _refuse_connect(self._options)
        session: SparkSession = get_or_create(self)
        register_installed(session)
        return session

    def refused(self: Any, *given: Any) -> None:
        raise PipelineError(CONNECT_SESSION.at(own_place(sys._getframe(1))))

    begin: Any = SparkContext.__init__

    def begun(self: Any, *given: Any, **named: Any) -> None:
        with starting():
            begin(self, *given, **named)
            prevent_search(self)

    _replace(builder, getOrCreate=made, remote=refused, create=refused)
    _replace(SparkContext, __init__=begun)


def _refuse_connect(options: dict[str, str]) -> None:
    mode = options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))
    if mode.lower() == "connect" or "spark.remote" in options or any(name in os.environ for name in _CONNECT):
        raise PipelineError(CONNECT_SESSION.at(own_place(sys._getframe(2))))


def watch_options(hide: Callable[[tuple[str, ...]], None], classes: tuple[type, ...] = ()) -> None:
    """Hear of every secret that the script gives Spark in clear, so that no message shows it."""
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

    _replace(kind, **{method: watched})


def _replace(kind: Any, **parts: Any) -> None:
    for name, part in parts.items():
        setattr(kind, name, part)
