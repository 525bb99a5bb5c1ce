"""Spark's streaming events, turned into ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headwater.engine.query import OBSERVED, ROWS_OUT
from headwater.events import Event, QueryIdle, QueryProgress, QueryStarted


class EventListener(StreamingQueryListener):
    """Hands each event of the session's queries on; the end of a query comes after all its progress."""

    def __init__(self, emit: Callable[[Event], None], ended: Callable[[str], None]) -> None:
        self._emit = emit
        self._ended = ended
        self._names: dict[str, str] = {}
        self._newest: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        name, run_id = event.name or str(event.id), str(event.runId)
        self._names[run_id] = name
        self._newest[name] = run_id
        self._emit(QueryStarted(query=name, id=str(event.id), run_id=run_id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 (Spark's name)
        progress = json.loads(event.progress.json)
        name = self._names.get(str(event.progress.runId), str(event.progress.name))
        self._emit(QueryProgress(query=name, rows_out=_rows_out(progress), progress=progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 (Spark's name)
        name = self._names.get(str(event.runId), str(event.id))
        self._emit(QueryIdle(query=name, begun=str(event.timestamp)))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 (Spark's name)
        name = self._names.get(str(event.runId), str(event.id))
        # The end of a query that was started again in the meantime is no news.
        if self._newest.get(name, str(event.runId)) == str(event.runId):
            self._ended(name)


def _rows_out(progress: dict[str, Any]) -> int | None:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    return int(observed[ROWS_OUT]) if observed else None
