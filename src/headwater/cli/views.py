"""How a run looks while it goes on: a live table on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import json
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from rich.live import Live
from rich.table import Table

from headwater.checks import Finding, Severity
from headwater.cli.render import out, show_findings
from headwater.events import (
    Event,
    QueryEnded,
    QueryIdle,
    QueryProgress,
    QueryStarted,
    QueryStatus,
    RunEnded,
    RunStarted,
    Said,
)
from headwater.values import scrub


class View(ABC):
    """Shows events; they come from Spark's threads, one at a time through a lock."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def event(self, event: Event) -> None:
        """Something happened."""
        with self._turn:
            self.show(event)

    @abstractmethod
    def show(self, event: Event) -> None:
        """Show one event."""

    @abstractmethod
    def line(self, line: str) -> None:
        """A line that Spark printed: the console sink's tables."""

    def findings(self, findings: list[Finding]) -> None:
        """What the check before the start found; errors are told by the refusal itself."""
        show_findings(finding for finding in findings if finding.severity is not Severity.ERROR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class JsonView(View):
    """One JSON object per line on stdout, with every field that Spark reports."""

    def show(self, event: Event) -> None:
        sys.stdout.write(scrub(json.dumps(event.to_json(), default=str)) + "\n")
        sys.stdout.flush()

    def line(self, line: str) -> None:
        sys.stderr.write(line + "\n")

    def findings(self, findings: list[Finding]) -> None:
        for finding in findings:
            sys.stdout.write(scrub(json.dumps({"event": "finding", **finding.to_json()})) + "\n")


class LineView(View):
    """One line per event, for logs."""

    def show(self, event: Event) -> None:
        text = describe(event)
        if text:
            sys.stdout.write(scrub(f"{event.at} {text}") + "\n")
            sys.stdout.flush()

    def line(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LiveView(View):
    """A table that is kept up to date, with everything else above it."""

    def __init__(self) -> None:
        super().__init__()
        self._console = out()
        self._rows: dict[str, dict[str, str]] = {}
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table)

    def show(self, event: Event) -> None:
        match event:
            case QueryStarted(query=name):
                self._rows[name] = {"status": QueryStatus.STARTING.value}
            case QueryProgress(query=name):
                self._row(name).update(progress_cells(event))
            case QueryIdle(query=name):
                self._row(name)["status"] = QueryStatus.IDLE.value
            case QueryEnded(query=name, status=status):
                self._row(name)["status"] = status.value
            case RunStarted() | Said() | RunEnded():
                self._console.print(scrub(describe(event)), markup=False)

    def line(self, line: str) -> None:
        self._console.print(line, markup=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _row(self, name: str) -> dict[str, str]:
        return self._rows.setdefault(name, {})

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2))
        columns = (
            "query",
            "status",
            "batch",
            "rows in",
            "in/s",
            "rows out",
            "out/s",
            "watermark",
            "batch time",
        )
        for column in columns:
            table.add_column(
                column, justify="left" if column in ("query", "status", "watermark") else "right"
            )
        for name, row in self._rows.items():
            table.add_row(name, *(row.get(column, "") for column in columns[1:]))
        return table


def view_of(*, as_json: bool) -> View:
    """JSON by wish, a live table on a terminal, lines elsewhere."""
    if as_json:
        return JsonView()
    return LiveView() if sys.stdout.isatty() else LineView()


def progress_cells(event: QueryProgress) -> dict[str, str]:
    """A batch as the cells of the live table."""
    seconds = event.batch_ms / 1000 or 1.0
    rows_out = event.rows_out or 0
    return {
        "status": QueryStatus.RUNNING.value,
        "batch": str(event.batch_id),
        "rows in": f"{event.rows_in:,}",
        "in/s": f"{event.rows_in_per_second:,.0f}",
        "rows out": f"{rows_out:,}",
        "out/s": f"{rows_out / seconds:,.0f}",
        "watermark": event.watermark or "",
        "batch time": f"{event.batch_ms / 1000:.2f} s",
    }


def describe(event: Event) -> str:
    """An event in one line; idle queries say nothing."""
    match event:
        case RunStarted():
            queries = ", ".join(event.queries)
            return (
                f"pipeline {event.pipeline} started: {queries} (Spark {event.spark_version}, {event.folder})"
            )
        case QueryStarted():
            return f"{event.query}: started (id {event.id})"
        case QueryProgress():
            mark = f", watermark {event.watermark}" if event.watermark else ""
            rows = f"{event.rows_in} rows in, {event.rows_out or 0} out"
            return f"{event.query}: batch {event.batch_id}, {rows}, {event.batch_ms} ms{mark}"
        case QueryEnded():
            return f"{event.query}: {event.status.value}"
        case RunEnded():
            return "\n".join(("ended", *(_ended(name, query) for name, query in event.queries.items())))
        case Said():
            return event.text
        case _:
            return ""


def _ended(name: str, query: Mapping[str, Any]) -> str:
    problem = query["problem"]
    why = f": {problem['code']} {problem['sentence']}" if problem else ""
    return f"  {name}: {query['status']}, {query['rows_in']} rows in, {query['rows_out']} out{why}"
