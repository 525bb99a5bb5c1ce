"""A run that answers on a real control socket, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.control.server import ControlServer, Limits
from headwater.errors import Problem, QueryNotFoundError
from headwater.errors.catalogue.programs import QUERY_NOT_FOUND
from headwater.errors.catalogue.running import CONNECTION_FAILED
from headwater.events import Event, QueryProgress, QueryStarted, QueryStatus, QueryTerminated, RunStarted
from headwater.events.kinds import QueryDetails, QueryRestarted, RunFinished
from headwater.events.status import RunView
from headwater.history.recorder import Recorder
from headwater.run_directory import RunDirectory

AT = "2026-01-31T12:00:00.000Z"
NOW = 1_769_860_800.0
"""The same time, in seconds."""
PROBLEM = Problem(CONNECTION_FAILED, {"sink": "by_day", "says": "refused"})


def started(run_dir: Path, run_id: str = "r1") -> list[Event]:
    """The events of a run with the query `by_day` after its first batch."""
    details = QueryDetails(
        connector="files", trigger="every 10 seconds", guarantee="exactly-once", sources=("clicks",)
    )
    progress = {
        "batchId": 0,
        "timestamp": AT,
        "numInputRows": 1204,
        "batchDuration": 412,
        "durationMs": {"addBatch": 300, "queryPlanning": 100, "triggerExecution": 412},
        "sources": [
            {
                "numInputRows": 1204,
                "endOffset": {"clicks": {"0": 70}},
                "latestOffset": {"clicks": {"0": 100}},
            }
        ],
        "eventTime": {"watermark": "2026-01-31T11:50:00.000Z"},
        "stateOperators": [
            {
                "operatorName": "dedupe",
                "numRowsTotal": 10,
                "memoryUsedBytes": 3_072,
                "numRowsDroppedByWatermark": 3,
            }
        ],
    }
    return [
        RunStarted(
            at=AT,
            run_id=run_id,
            pipeline="orders",
            queries=("by_day",),
            run_dir=str(run_dir),
            spark_version="4.1.0",
            details={"by_day": details},
        ),
        QueryStarted(at=AT, query="by_day", id="i1", run_id="q1"),
        QueryProgress(at=AT, query="by_day", rows_out=10, progress=progress),
    ]


def finished(run_id: str = "r1", status: QueryStatus = QueryStatus.STOPPED) -> list[Event]:
    """The events at the end of a run."""
    failed = status is QueryStatus.FAILED
    return [
        QueryTerminated(at=AT, query="by_day", status=status, problem=PROBLEM if failed else None),
        RunFinished(at=AT, run_id=run_id, exit_code=int(failed), queries={}),
    ]


def view_of(events: list[Event]) -> RunView:
    """The status after some events."""
    view = RunView()
    for event in events:
        view.apply(event)
    return view


@dataclass
class FakeHost:
    """Stands for the runtime: it keeps a status, and records what it is asked to do."""

    view: RunView
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    """What `sql("wait")` waits for."""

    def status(self) -> Mapping[str, Any]:
        return self.view.to_json()

    def stop(self, query: str | None, timeout: float | None) -> Mapping[str, Any]:
        self.asked.append(("stop", query, timeout))
        if query is None:
            for event in finished(self.view.run_id):
                self.view.apply(event)
        else:
            self.view.apply(QueryTerminated(at=AT, query=query, status=QueryStatus.STOPPED))
        return {}

    def restart(self, query: str) -> Mapping[str, Any]:
        self.asked.append(("restart", query))
        if query not in self.view.queries:
            raise QueryNotFoundError(QUERY_NOT_FOUND.at(None, name=query, known="by_day", hint="Check it."))
        self.view.apply(QueryRestarted(at=AT, query=query, restarts=1))
        return {}

    def plan(self, query: str) -> Mapping[str, Any]:
        self.asked.append(("plan", query))
        return {"plan": "== Physical Plan =="}

    def sql(self, text: str, max_rows: int, seconds: float) -> Mapping[str, Any]:
        self.asked.append(("sql", text, max_rows, seconds))
        if text == "wait":
            assert self.release.wait(20)
        if text == "bug":
            raise ZeroDivisionError("division by zero")
        columns = [{"name": "shop", "type": "string"}, {"name": "total", "type": "double"}]
        return {
            "columns": columns,
            "rows": [["north", 12.0], ["a\nb", None]][:max_rows],
            "truncated": max_rows < 2,
        }


@contextmanager
def serving(
    run_dir: Path, run_id: str = "r1", limits: Limits | None = None
) -> Iterator[tuple[FakeHost, ControlServer]]:
    """A run that is active in a run directory."""
    host = FakeHost(view_of(started(run_dir, run_id)))
    server = ControlServer(host, run_dir, run_id, limits)
    server.start()
    try:
        yield host, server
    finally:
        host.release.set()
        server.close()


def record(run_dir: Path, events: list[Event]) -> None:
    """Write the history of a run, as the run itself does."""
    run_dir.mkdir(parents=True, exist_ok=True)
    view = RunView()
    recorder = Recorder(RunDirectory(run_dir).history, view, clock=lambda: NOW)
    for event in events:
        view.apply(event)
        recorder(event)
    recorder.close()
