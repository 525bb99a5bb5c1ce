"""How a run looks while it goes on: a live table on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headwater.api.quarantine import QuarantineCounts, Replayed
from headwater.checks import Finding, Severity
from headwater.cli.check_views import STARTING_SPARK
from headwater.cli.render import json_line, show_findings
from headwater.errors import Problem
from headwater.events import (
    EpochCommitted,
    Event,
    Found,
    Notice,
    QueryEnded,
    QueryIdle,
    QueryProgress,
    QueryStarted,
    QueryStatus,
    QuerySummary,
    QueryWaits,
    RunEnded,
    RunStarted,
    SinkBegun,
    SinkWritten,
    SparkStarting,
    StartPhase,
)
from headwater.quarantine import QuarantinedRow
from headwater.values import scrub

_COLUMNS = ("status", "batch", "in", "in/s", "out", "out/s", "bad", "unmet", "late", "watermark", "time")
_IF_ANY = ("bad", "unmet", "late")
"""Columns of the live table that are there only when something stands in them."""


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

    def findings(self, findings: list[Finding], file: str) -> None:
        """What the check before the start found; errors are told by the refusal itself, advice by a check."""
        advice = [f for f in findings if f.severity is Severity.ADVICE and not f.accepted]
        show_findings(f for f in findings if not f.is_error and f not in advice)
        if advice and not any(finding.is_error for finding in findings):
            sys.stderr.write(f"{len(advice)} piece(s) of advice: headwater check {file}\n")


class JsonView(View):
    """One JSON object per line on stdout, with every field that Spark reports; nothing else goes there."""

    def __init__(self) -> None:
        super().__init__()
        self._stdout = sys.stdout
        self._idle: set[str] = set()

    def show(self, event: Event) -> None:
        name = getattr(event, "query", "")
        # An idle query looks several times a second; only that it became idle is news.
        if isinstance(event, QueryIdle):
            if name in self._idle:
                return
            self._idle.add(name)
        else:
            self._idle.discard(name)
        self._write(event.to_json())

    def line(self, line: str) -> None:
        sys.stderr.write(line + "\n")

    def findings(self, findings: list[Finding], file: str) -> None:
        for finding in findings:
            self._write(Found(finding=finding.to_json()).to_json())

    def _write(self, value: object) -> None:
        self._stdout.write(json_line(value))
        self._stdout.flush()


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
    """A table that is kept up to date, or what is going on now, with everything else above it."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False, soft_wrap=True)
        self._rows: dict[str, dict[str, str]] = {}
        self._waits: dict[str, list[str]] = {}
        self._doing: Spinner | None = None
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._picture)

    def show(self, event: Event) -> None:
        if isinstance(event, QueryStarted | QueryProgress | QueryIdle | QueryEnded):
            self._doing = None
        match event:
            case SparkStarting() | StartPhase() | SinkBegun():
                self._doing = Spinner("dots", scrub(describe(event)))
            case QueryStarted(query=name):
                self._rows[name] = {"status": QueryStatus.STARTING.value}
            case QueryProgress(query=name):
                self._row(name).update(progress_cells(event))
                self._add_up(name, event)
            case EpochCommitted(query=name, epoch=epoch):
                self._row(name).update(status=QueryStatus.RUNNING.value, batch=str(epoch))
            case QueryIdle(query=name):
                self._row(name)["status"] = QueryStatus.IDLE.value
            case QueryWaits(query=name):
                self._waits[name] = [scrub(idle["sentence"]) for idle in event.waits_for]
            case QueryEnded(query=name, status=status, problem=problem):
                self._row(name)["status"] = status.value
                if problem:
                    self._console.print(scrub(describe(event)), markup=False)
            case RunStarted() | SinkWritten():
                self._doing = None
                self._console.print(scrub(describe(event)), markup=False)
            case RunEnded():
                # The summary says it, too.
                self._waits.clear()
                self._console.print(scrub(describe(event)), markup=False)
            case Notice():
                self._console.print(scrub(describe(event)), markup=False)

    def line(self, line: str) -> None:
        self._console.print(line, markup=False)

    def start(self) -> None:
        """Show the table from now on."""
        self._live.start()

    def stop(self) -> None:
        """Leave the table as it is."""
        self._doing = None
        self._live.stop()

    def _row(self, name: str) -> dict[str, str]:
        return self._rows.setdefault(name, {})

    def _add_up(self, name: str, event: QueryProgress) -> None:
        """Rows that did not go on, since the start: one batch's alone would be gone with the next."""
        for column, rows in _not_gone_on(event).items():
            before = int(self._row(name).get(column, "").replace(",", "") or 0)
            self._row(name)[column] = f"{before + rows:,}" if before + rows else ""

    def _picture(self) -> RenderableType:
        waits = (Text(line) for lines in self._waits.values() for line in lines)
        return self._doing or (Group(self._table(), *waits) if self._rows else Group())

    def _table(self) -> Table:
        # Eighty columns have to do; where they don't, the name of a query is cut and no number.
        table = Table(box=None, padding=(0, 1), pad_edge=False, collapse_padding=True)
        table.add_column("query", min_width=8, overflow="ellipsis")
        shown = [c for c in _COLUMNS if c not in _IF_ANY or any(row.get(c) for row in self._rows.values())]
        for column in shown:
            side: Literal["left", "right"] = "left" if column in ("status", "watermark") else "right"
            width = max(len(row.get(column, "")) for row in ({}, *self._rows.values()))
            table.add_column(column, justify=side, no_wrap=True, min_width=width)
        for name, row in self._rows.items():
            table.add_row(name, *(row.get(column, "") for column in shown))
        return table


@contextmanager
def view_of(*, as_json: bool) -> Iterator[View]:
    """JSON by wish, a live table on a terminal, lines elsewhere."""
    if as_json:
        view = JsonView()
        # What the user's own code prints would stand between the objects.
        with redirect_stdout(sys.stderr):
            yield view
    elif sys.stdout.isatty():
        live = LiveView()
        live.start()
        try:
            yield live
        finally:
            live.stop()
    else:
        yield LineView()


def progress_cells(event: QueryProgress) -> dict[str, str]:
    """A batch as the cells of the live table."""
    seconds = event.batch_ms / 1000 or 1.0
    rows_out = event.rows_out or 0
    return {
        "status": QueryStatus.RUNNING.value,
        "batch": str(event.batch_id),
        "in": f"{event.rows_in:,}",
        "in/s": f"{event.rows_in_per_second:,.0f}",
        "out": f"{rows_out:,}",
        "out/s": f"{rows_out / seconds:,.0f}",
        # To the second, as 2026-01-31 12:00:00: the whole of it is in the events.
        "watermark": (event.watermark or "")[:19].replace("T", " "),
        "time": f"{event.batch_ms / 1000:.2f} s",
    }


def describe(event: Event) -> str:
    """An event in one line; idle queries say nothing."""
    match event:
        case SparkStarting():
            return STARTING_SPARK
        case StartPhase():
            count = "" if event.total is None else f": {event.done or 0:,} of {event.total:,}"
            return f"{event.text}{count} …{f' {event.seconds} s' if event.seconds else ''}"
        case RunStarted():
            queries = ", ".join(event.queries)
            return (
                f"pipeline {event.pipeline} started: {queries} (Spark {event.spark_version}, {event.folder})"
            )
        case QueryStarted():
            return f"{event.query}: started (id {event.id})"
        case QueryProgress():
            mark = f", watermark {event.watermark}" if event.watermark else ""
            lost = "".join(f", {count} {word}" for word, count in _not_gone_on(event).items() if count)
            rows = f"{event.rows_in} rows in, {event.rows_out or 0} out{lost}"
            return f"{event.query}: batch {event.batch_id}, {rows}, {event.batch_ms} ms{mark}"
        case EpochCommitted():
            return f"{event.query}: epoch {event.epoch} committed"
        case QueryEnded():
            return f"{event.query}: {event.status.value}{_why(event.problem)}"
        case RunEnded():
            return "\n".join(("ended", *(_ended(name, query) for name, query in event.queries.items())))
        case SinkBegun():
            return f"{event.sink}: begun"
        case SinkWritten():
            rows = "" if event.rows is None else f", {event.rows} rows"
            return f"{event.sink}: written{f' to {event.place}' if event.place else ''}{rows}"
        case Notice():
            return event.text
        case _:
            return ""


def _not_gone_on(event: QueryProgress) -> dict[str, int]:
    """How many rows did not go on, by why; one that fails two expectations counts twice."""
    failed = (counts.failed for counts in event.table_counts.values())
    return {
        "bad": sum(counts.bad for counts in event.source_counts.values()),
        "unmet": sum(rows for each in failed for rows in each.values()),
        "late": sum(event.late_rows.values()),
    }


def _failing(tables: Mapping[str, Any]) -> list[str]:
    """What failed expectations, each in a few words."""
    return [
        f"{rows} of {counts['rows']} rows of {table} fail {expectation}"
        for table, counts in tables.items()
        for expectation, rows in counts["failed"].items()
        if rows
    ]


def _why(problem: Problem | None) -> str:
    """The reason in the same line; others may run for days before the summary tells it again."""
    if problem is None:
        return ""
    return f": {problem.code} {problem.sentence}{f' ({problem.where})' if problem.place else ''}"


def _counts(query: QuerySummary) -> str:
    """How far a query came. Of a continuous one only that is known: Spark counts no rows there."""
    if query.rows_in is None:
        return "no epoch committed" if query.batch is None else f"epoch {query.batch} committed"
    late = {operator: rows for operator, rows in query.late_rows.items() if rows}
    bad = "".join(f", {each['bad']} bad of {name}" for name, each in query.sources.items() if each["bad"])
    dropped = "".join(f", {rows} late at {operator}" for operator, rows in late.items())
    unmet = "".join(f", {each}" for each in _failing(query.expectations))
    return f"{query.rows_in} rows in, {query.rows_out} out{bad}{unmet}{dropped}"


def _ended(name: str, query: QuerySummary) -> str:
    why = f": {query.problem.code} {query.problem.sentence}" if query.problem else ""
    head = f"  {name}: {query.status}, {_counts(query)}{why}"
    return "\n".join((head, *(f"    {idle['sentence']}" for idle in query.waits_for)))


# How quarantines look on a terminal.

_WIDTH = 200


def show_list(held: Sequence[QuarantineCounts]) -> None:
    """A line for each quarantine, and one for each reason."""
    if not held:
        typer.echo("Nothing was set aside.")
    for each in held:
        typer.echo(f"{each.name}: {each.rows} rows set aside, {each.waiting} wait")
        for reason, rows in each.reasons.items():
            typer.echo(f"  {rows} {reason}")
        if each.files:
            typer.echo(f"  {each.files} unreadable file: not fed, a mended file is read by itself")


def show_rows(rows: Sequence[QuarantinedRow], limit: int) -> None:
    """Three lines for each row."""
    if not rows:
        typer.echo("No such row waits.")
    for row in rows:
        why = f"{row.reason}: {row.detail}" if row.detail else row.reason
        typer.echo(_printable(f"{row.id}  {row.where}  {row.set_aside_at:%Y-%m-%d %H:%M:%S} UTC"))
        typer.echo(_printable(f"  {why}"))
        typer.echo(f"  {_text(row)}")
    if len(rows) == limit:
        typer.echo(f"(the first {limit}; --limit shows more, `quarantine export` writes all)")


def show_replayed(result: Replayed, file: str) -> None:
    """How many rows were fed, and what comes next."""
    would = "would be fed" if result.dry else "are fed"
    typer.echo(f"{result.rows} rows of {result.name} {would} again, {result.left} more wait.")
    for id_ in result.unknown:
        typer.echo(f"No row {id_} waits; it was not fed.", err=True)
    for id_ in result.unwanted:
        typer.echo(f"The row {id_} is not one of those asked for; it was not fed.", err=True)
    if result.passed_over:
        told = "they have no `text`, and their `value` is as it was"
        typer.echo(f"{result.passed_over} rows of the file were not fed: {told}.", err=True)
    if result.rows and not result.dry:
        typer.echo(
            f"They are read by the next start, or by a run that feeds rows already: headwater run {file}"
        )
    if result.unread:
        sinks = ", ".join(f"`{sink}`" for sink in result.behind)
        have = "has" if len(result.behind) == 1 else "have"
        run = f"headwater run {file} --until-idle"
        typer.echo(f"{result.unread} rows are left until {sinks} {have} read as far: {run}")
    if result.redefined:
        typer.echo(f"Run it with the definition from before the fix, or rows of {result.name} come twice.")


def _text(row: QuarantinedRow) -> str:
    if row.value is None:
        return "(no bytes)"
    one_line = _printable(row.text if row.text is not None else repr(row.value), _WIDTH + 1)
    return one_line if len(one_line) <= _WIDTH else f"{one_line[:_WIDTH]}… ({len(row.value)} bytes)"


def _printable(text: str, most: int | None = None) -> str:
    """What others have written must not move the cursor, ring, or hide a part of itself."""
    signs = scrub(text)[:most]
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in signs)
