"""Events of a run as they arrive, for the tests of its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.events import Event, QueryProgress, RunStarted
from headwater.events.status import RunView
from headwater.history.store import text_of

NOON = 1_767_268_800_000
"""2026-01-01, 12:00 UTC."""


def at(ms: int) -> str:
    return str(text_of(ms))


def batch(number: int, ms: int = NOON, query: str = "out", rows: int = 5, **more: Any) -> QueryProgress:
    progress = {
        "batchId": number,
        "timestamp": at(ms),
        "numInputRows": rows,
        "batchDuration": 100,
        "inputRowsPerSecond": 2.5,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 100},
        "sources": [],
        **more,
    }
    return QueryProgress(query=query, at=at(ms), rows_out=rows - 1, progress=progress)


def started(run_id: str = "r1", queries: Sequence[str] = ("out",), ms: int = NOON) -> RunStarted:
    return RunStarted(
        run_id=run_id, pipeline="shop", queries=tuple(queries), run_dir="/d", spark_version="4.1", at=at(ms)
    )


def view_of(*events: Event) -> RunView:
    view = RunView()
    for event in events:
        view.apply(event)
    return view
