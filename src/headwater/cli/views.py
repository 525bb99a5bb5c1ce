"""How a run looks while it runs: a live table on a terminal, lines elsewhere, or JSON."""

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
from headwater.cli.json_output import json_line
from headwater.cli.render import show_findings
from headwater.errors import Problem
from headwater.events import (
    Alert,
    EpochCommitted,
    Event,
    EventsDropped,
    InputsIdle,
    Notice,
    QueryIdle,
    QueryProgress,
    QueryRestarted,
    QueryRestarting,
    QueryRunning,
    QueryStarted,
    QueryStatus,
    QuerySummary,
    QueryTerminated,
    RunFinished,
    RunStarted,
    SinkFinished,
    SinkStarted,
    SparkStarting,
    StartPhase,
)
from headwater.quarantine import QuarantinedRow
from headwater.values import count_of, scrub

_COLUMNS = ("status", "batch", "in", "in/s", "out", "out/s", "bad", "failed", "late", "watermark", "time")
_IF_ANY = ("bad", "failed", "late")
"""Columns that the live table shows only if they are not empty."""


class View(ABC):
    """Shows events. They arrive on Spark threads; a lock lets one through at a time."""

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
        """The findings of the check before the start. Errors are shown when the start fails, notes by `check`."""
        notes = [f for f in findings if f.severity is Severity.NOTE and not f.suppressed]
        show_findings(f for f in findings if not f.is_error and f not in notes)
        if notes and not any(finding.is_error for finding in findings):
            sys.stderr.write(f"{count_of(len(notes), 'note')}: run `headwater check {file}` for details.\n")


class JsonView(View):
    """One JSON object per line on stdout, with every field that Spark reports; nothing else is written there."""

    def __init__(self) -> None:
        super().__init__()
        self._stdout = sys.stdout
        self._idle: set[str] = set()

    def show(self, event: Event) -> None:
        name = getattr(event, "query", "")
        # An idle query polls several times a second; only the change to idle is worth an event.
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
        """They are events as well."""

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
    """A table that is updated in place, or the current startup step, with all other output above it."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False, soft_wrap=True)
        self._rows: dict[str, dict[str, str]] = {}
        self._idle_inputs: dict[str, list[str]] = {}
        self._doing: Spinner | None = None
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._picture)

    def show(self, event: Event) -> None:
        if isinstance(event, QueryStarted | QueryProgress | QueryIdle | QueryTerminated):
            self._doing = None
        match event:
            case SparkStarting() | StartPhase() | SinkStarted():
                self._doing = Spinner("dots", scrub(describe(event)))
            case QueryStarted(query=name):
                self._rows[name] = {"status": QueryStatus.STARTING.value}
            case QueryProgress(query=name):
                self._row(name).update(progress_cells(event))
                self._add_up(name, event)
            case EpochCommitted(query=name, epoch=epoch):
                self._row(name).update(status=QueryStatus.RUNNING.value, batch=str(epoch))
            case QueryRunning(query=name):
                self._row(name)["status"] = QueryStatus.RUNNING.value
            case QueryIdle(query=name):
                self._row(name)["status"] = QueryStatus.IDLE.value
            case InputsIdle(query=name):
                self._idle_inputs[name] = [scrub(idle["message"]) for idle in event.idle_inputs]
            case QueryTerminated(query=name, status=status, problem=problem):
                self._row(name)["status"] = status.value
                if problem:
                    self._console.print(scrub(describe(event)), markup=False)
            case QueryRestarting(query=name):
                self._row(name)["status"] = QueryStatus.RESTARTING.value
                self._console.print(scrub(describe(event)), markup=False)
            case Alert() | QueryRestarted() | EventsDropped():
                self._console.print(scrub(describe(event)), markup=False)
            case RunStarted() | SinkFinished():
                self._doing = None
                self._console.print(scrub(describe(event)), markup=False)
            case RunFinished():
                # The summary repeats them.
                self._idle_inputs.clear()
                self._console.print(scrub(describe(event)), markup=False)
            case Notice():
                self._console.print(scrub(describe(event)), markup=False)

    def line(self, line: str) -> None:
        self._console.print(line, markup=False)

    def start(self) -> None:
        """Show the table from now on."""
        self._live.start()

    def stop(self) -> None:
        """Stop updating the table."""
        self._doing = None
        self._live.stop()

    def _row(self, name: str) -> dict[str, str]:
        return self._rows.setdefault(name, {})

    def _add_up(self, name: str, event: QueryProgress) -> None:
        """Add up the dropped rows since the start; the number of one batch would disappear with the next."""
        for column, rows in _dropped(event).items():
            before = int(self._row(name).get(column, "").replace(",", "") or 0)
            self._row(name)[column] = f"{before + rows:,}" if before + rows else ""

    def _picture(self) -> RenderableType:
        waits = (Text(line) for lines in self._idle_inputs.values() for line in lines)
        return self._doing or (Group(self._table(), *waits) if self._rows else Group())

    def _table(self) -> Table:
        # Fits 80 columns; if it does not, the query name is truncated, never a number.
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
    """JSON on request, a live table on a terminal, lines elsewhere."""
    if as_json:
        view = JsonView()
        # Output of user code would end up between the objects.
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
        # To the second, as 2026-01-31 12:00:00; the events have the full timestamp.
        "watermark": (event.watermark or "")[:19].replace("T", " "),
        "time": f"{event.batch_ms / 1000:.2f} s",
    }


def describe(event: Event) -> str:
    """An event in one line; idle queries print nothing."""
    match event:
        case SparkStarting():
            return STARTING_SPARK
        case StartPhase():
            count = "" if event.total is None else f": {event.done or 0:,} of {event.total:,}"
            return f"{event.message}{count} …{f' {event.seconds} s' if event.seconds else ''}"
        case RunStarted():
            # The program of `hw.watch` may have none yet.
            queries = f": {', '.join(event.queries)}" if event.queries else ""
            return (
                f"Pipeline {event.pipeline} started{queries} (Spark {event.spark_version}, {event.run_dir})"
            )
        case QueryStarted():
            return f"{event.query}: started (id {event.id})"
        case QueryProgress():
            mark = f", watermark {event.watermark}" if event.watermark else ""
            lost = "".join(f", {count:,} {word}" for word, count in _dropped(event).items() if count)
            rows = f"{_rows(event.rows_in)} in, {event.rows_out or 0:,} out{lost}"
            return f"{event.query}: batch {event.batch_id}, {rows}, {event.batch_ms} ms{mark}"
        case EpochCommitted():
            return f"{event.query}: epoch {event.epoch} committed"
        case QueryRestarting():
            wait = f"in {event.delay_ms / 1_000:.1f} s" if event.delay_ms else "immediately"
            attempt = f"attempt {event.attempt} of {event.attempts}"
            return f"{event.query}: restarts {wait}, {attempt}{_why(event.problem)}"
        case QueryRestarted():
            return f"{event.query}: restarted"
        case Alert():
            if not event.active:
                return f"{event.query}: alert {event.alert} is over"
            return f"{event.query}: {event.severity}: {event.code} {event.message} {event.hint}"
        case EventsDropped():
            return f"{event.consumer}: missed {count_of(event.dropped, 'event')}"
        case QueryTerminated():
            return f"{event.query}: {event.status.value}{_why(event.problem)}"
        case RunFinished():
            return "\n".join(
                ("Run finished", *(_summary(name, query) for name, query in event.queries.items()))
            )
        case SinkStarted():
            return f"{event.sink}: started"
        case SinkFinished():
            rows = "" if event.rows is None else f", {_rows(event.rows)}"
            return f"{event.sink}: written{f' to {event.path}' if event.path else ''}{rows}"
        case Notice():
            return event.text
        case _:
            return ""


def _dropped(event: QueryProgress) -> dict[str, int]:
    """How many rows were not passed on, by cause; a row that fails two expectations counts twice."""
    failed = (counts.failed for counts in event.table_counts.values())
    return {
        "bad": sum(counts.bad for counts in event.source_counts.values()),
        "failed": sum(rows for each in failed for rows in each.values()),
        "late": sum(event.late_rows.values()),
    }


def _rows(number: int) -> str:
    """A number of rows; zero stays a number here, so that columns of a log are easy to parse."""
    return f"{number:,} {'row' if number == 1 else 'rows'}"


def _failing(tables: Mapping[str, Any]) -> list[str]:
    """The failed expectations, each in a few words."""
    return [
        f"{rows:,} of {_rows(counts['rows'])} of {table} failed {expectation}"
        for table, counts in tables.items()
        for expectation, rows in counts["failed"].items()
        if rows
    ]


def _why(problem: Problem | None) -> str:
    """The reason on the same line; other queries can run for days before the summary repeats it."""
    if problem is None:
        return ""
    return f": {problem.code} {problem.message}{f' ({problem.location})' if problem.place else ''}"


def _counts(query: QuerySummary) -> str:
    """The progress of a query. For a continuous query, Spark reports only the epoch, no rows."""
    if query.rows_in is None:
        return "no epochs committed" if query.batch is None else f"epoch {query.batch} committed"
    late = {operator: rows for operator, rows in query.late_rows.items() if rows}
    bad = "".join(f", {each['bad']:,} bad in {name}" for name, each in query.sources.items() if each["bad"])
    dropped = "".join(f", {rows:,} late in {operator}" for operator, rows in late.items())
    failed = "".join(f", {each}" for each in _failing(query.expectations))
    return f"{_rows(query.rows_in)} in, {query.rows_out or 0:,} out{bad}{failed}{dropped}"


def _summary(name: str, query: QuerySummary) -> str:
    why = f": {query.problem.code} {query.problem.message}" if query.problem else ""
    head = f"  {name}: {query.status}, {_counts(query)}{why}"
    return "\n".join((head, *(f"    {idle['message']}" for idle in query.idle_inputs)))


# How quarantines look on a terminal.

_WIDTH = 200


def show_list(held: Sequence[QuarantineCounts]) -> None:
    """A line for each quarantine, and one for each reason."""
    if not held:
        typer.echo("No rows are quarantined.")
    for each in held:
        typer.echo(f"{each.name}: {each.rows:,} quarantined, {each.pending:,} pending")
        for reason, rows in each.reasons.items():
            typer.echo(f"  {rows:,} {reason}")
        if each.files:
            typer.echo(
                f"  {each.files:,} unreadable_file (not replayable; replace the file, and the next batch reads it)"
            )


def show_rows(rows: Sequence[QuarantinedRow], limit: int) -> None:
    """Three lines for each row."""
    if not rows:
        typer.echo("No pending rows match.")
    for row in rows:
        why = f"{row.reason}: {row.detail}" if row.detail else row.reason
        typer.echo(_printable(f"{row.id}  {row.where}  {row.quarantined_at:%Y-%m-%d %H:%M:%S} UTC"))
        typer.echo(_printable(f"  {why}"))
        typer.echo(f"  {_text(row)}")
    if len(rows) == limit:
        typer.echo(f"(first {_rows(limit)}; use `--limit` to show more or `quarantine export` to write all)")


def show_replayed(result: Replayed, file: str) -> None:
    """How many rows were queued for replay, and the next step."""
    queued = "Would queue" if result.dry else "Queued"
    rows = count_of(result.rows, "row")
    typer.echo(f"{queued} {rows} of {result.name} for replay; {result.left:,} still pending.")
    for id_ in result.unknown:
        typer.echo(f"Row {id_} is not pending. It was not replayed.", err=True)
    for id_ in result.unwanted:
        typer.echo(f"Row {id_} is not among the selected rows. It was not replayed.", err=True)
    if result.unchanged:
        were = "was" if result.unchanged == 1 else "were"
        rows = count_of(result.unchanged, "row")
        typer.echo(
            f"Skipped {rows} that {were} not changed: `text` is null and `value` is the same.", err=True
        )
    if result.rows and not result.dry:
        typer.echo(
            f"To process them, run `headwater run {file}`. A run that already reads replayed rows picks them up "
            "automatically."
        )
    if result.unread:
        sinks = ", ".join(f"`{sink}`" for sink in result.behind)
        reach = "reaches" if len(result.behind) == 1 else "reach"
        run = f"headwater run {file} --until-idle"
        rows, stay = count_of(result.unread, "row"), "stays" if result.unread == 1 else "stay"
        typer.echo(f"{rows} {stay} pending until {sinks} {reach} the same offset: {run}")
    if result.redefined:
        typer.echo(
            "Restore the definition from before the fix for this run. Otherwise, rows of "
            f"{result.name} are duplicated."
        )


def _text(row: QuarantinedRow) -> str:
    if row.value is None:
        return "(no bytes)"
    one_line = _printable(row.text if row.text is not None else repr(row.value), _WIDTH + 1)
    return one_line if len(one_line) <= _WIDTH else f"{one_line[:_WIDTH]}… ({len(row.value)} bytes)"


def _printable(text: str, most: int | None = None) -> str:
    """Text from elsewhere must not move the cursor, ring the bell, or hide part of itself."""
    signs = scrub(text)[:most]
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in signs)
