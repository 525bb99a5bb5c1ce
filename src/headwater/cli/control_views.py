"""How runs in other processes look on a terminal: their status, logs, events, and the rows of SQL queries."""

from __future__ import annotations

import csv
import json
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from headwater.api.remote import SqlResult
from headwater.api.run_status import is_critical
from headwater.cli.json_output import print_json, print_json_line
from headwater.control.logs import LogLine
from headwater.values import count_of, scrub

Row = Mapping[str, Any]
_COLUMNS = ("query", "status", "since", "batch", "rows in", "rows out", "lag", "restarts", "health")
_RIGHT = frozenset({"batch", "rows in", "rows out", "lag", "restarts"})
_KIB = 1_024
_MOST_DROPPED = 5


class Shown(ABC):
    """A status that can be printed, with its exit codes."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """Its JSON form."""

    @property
    @abstractmethod
    def critical(self) -> bool:
        """Whether `--check` fails."""

    @property
    @abstractmethod
    def exit_code(self) -> int:
        """The exit code of `wait`."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Its text."""

    def after(self, earlier: Shown) -> Shown:
        """This status with what only `earlier` reported: on a terminal, it replaces `earlier`."""
        return self


@dataclass(frozen=True)
class RunsShown(Shown):
    """The runs on this machine, and those that were just dropped from the list."""

    runs: Sequence[Row]
    dropped: Sequence[Row] = ()

    @property
    def value(self) -> Any:
        return {"version": 1, "runs": list(self.runs), "dropped": list(self.dropped)}

    @property
    def critical(self) -> bool:
        return any(map(is_critical, self.runs))

    @property
    def exit_code(self) -> int:
        return int(self.critical)

    def lines(self) -> Iterator[str]:
        if not self.runs:
            yield "No runs are recorded on this machine."
        for number, run in enumerate(self.runs):
            if number:
                yield ""
            yield from _run_lines(run)
        if self.dropped:
            yield ""
        if len(self.dropped) > _MOST_DROPPED:
            runs = count_of(len(self.dropped), "run")
            yield f"Dropped {runs} from the list: their run directories no longer exist."
            return
        for run in self.dropped:
            name = f"{run['pipeline']} (run {run['run_id']})"
            yield f"Dropped {name} from the list: its run directory {run['run_dir']} no longer exists."

    def after(self, earlier: Shown) -> Shown:
        dropped = earlier.dropped if isinstance(earlier, RunsShown) else ()
        return replace(self, dropped=(*dropped, *self.dropped))


@dataclass(frozen=True)
class RunShown(Shown):
    """One run with a line for each query."""

    run: Row

    @property
    def value(self) -> Any:
        return self.run

    @property
    def critical(self) -> bool:
        return is_critical(self.run)

    @property
    def exit_code(self) -> int:
        """That of the run; while it is active, 1 if a query has failed."""
        if self.run["exit_code"] is not None:
            return int(self.run["exit_code"])
        return int(any(each["status"] in ("failed", "killed") for each in (self.run, *self.run["queries"])))

    def lines(self) -> Iterator[str]:
        return _run_lines(self.run)


@dataclass(frozen=True)
class QueryShown(Shown):
    """One query in detail."""

    run: Row
    name: str

    @property
    def value(self) -> Any:
        return next(each for each in self.run["queries"] if each["query"] == self.name)

    @property
    def critical(self) -> bool:
        return bool(self.value["health"] == "critical")

    @property
    def exit_code(self) -> int:
        return int(self.value["status"] in ("failed", "killed"))

    def lines(self) -> Iterator[str]:
        yield f"Query {self.name} of pipeline {self.run['pipeline']}"
        rows = list(_details(self.value))
        width = max(len(label) for label, _ in rows)
        for label, text in rows:
            yield f"  {label:<{width}}  {text}".rstrip()


def show(shown: Shown, *, as_json: bool) -> None:
    """A status, once."""
    if as_json:
        print_json(shown.value)
    else:
        typer.echo(_text(shown))


def watch(load: Callable[[], Shown], stop: threading.Event, seconds: float, *, as_json: bool) -> None:
    """A status, refreshed until `stop` is set: in place on a terminal, else one after the other."""
    if as_json or not sys.stdout.isatty():
        while True:
            if as_json:
                print_json_line(load().value)
            else:
                typer.echo(_text(load()) + "\n")
            if stop.wait(seconds):
                return
    from rich.live import Live
    from rich.text import Text

    shown = load()
    with Live(Text(_text(shown)), auto_refresh=False, screen=False) as live:
        while not stop.wait(seconds):
            shown = load().after(shown)
            live.update(Text(_text(shown)), refresh=True)


def show_lines(lines: Iterable[LogLine], *, as_json: bool) -> None:
    """Lines of log files, below the name of the file whenever it changes."""
    last = ""
    for file, line in lines:
        if as_json:
            print_json_line({"file": file, "line": line})
            continue
        if file != last:
            typer.echo(f"{'' if not last else chr(10)}==> {file} <==")
            last = file
        typer.echo(scrub(line))


def show_events(events: Iterable[Row], *, as_json: bool) -> None:
    """Stored events, a line each."""
    # Imported late: the live views of a run take a moment to load.
    from headwater.cli.views import describe
    from headwater.events.stored import event_from_json

    for each in events:
        if as_json:
            print_json_line(each)
            continue
        event = event_from_json(each)
        text = (describe(event) if event else "") or _plain(each)
        typer.echo(scrub(f"{each['at']} {text}"))


def show_rows(result: SqlResult, *, as_json: bool, as_csv: bool) -> None:
    """The rows of a SQL query; that there are more goes to stderr."""
    names = [name for name, _ in result.columns]
    if as_json:
        print_json(result.to_json())
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        # Quotes protect line breaks, so that text stays as it is.
        writer.writerows(
            [value if isinstance(value, str) else _cell(value, "") for value in row] for row in result.rows
        )
    else:
        right = {n for n, (_, type_) in enumerate(result.columns) if _is_number(type_)}
        typer.echo("\n".join(_table([names, *([_cell(v) for v in row] for row in result.rows)], right)))
        typer.echo(f"({count_of(len(result.rows), 'row')})")
    if result.truncated and not as_json:
        more = f"Showing the first {count_of(len(result.rows), 'row')}; set --max-rows for more."
        typer.echo(more, err=True)


# The status of a run.


def _text(shown: Shown) -> str:
    return scrub("\n".join(shown.lines()))


def _run_lines(run: Row) -> Iterator[str]:
    since = f" since {_second(run['started_at'])}" if run["status"] in ("starting", "running") else ""
    if run["ended_at"]:
        since = f" at {_second(run['ended_at'])}"
    yield f"{run['pipeline']}: {run['status']}{since} (run {run['run_id']}, {run['run_dir']})"
    if run.get("problem"):
        yield f"  {_problem_line(run['problem'])}"
        yield f"  {run['problem']['hint']}"
    for consumer, events in run["events_dropped"].items():
        yield f"  {consumer}: missed {count_of(events, 'event')}"
    if not run["queries"]:
        return
    rows = [list(_COLUMNS), *(_cells(each) for each in run["queries"])]
    right = {number for number, name in enumerate(_COLUMNS) if name in _RIGHT}
    yield from (f"  {line}" for line in _table(rows, right))
    for query in run["queries"]:
        yield from (f"  {query['query']}: {line}" for line in _troubles(query))


def _cells(query: Row) -> list[str]:
    lag = _lag(query)
    return [
        query["query"],
        query["status"],
        _second(query["since"]),
        "" if query["batch"] is None else str(query["batch"]),
        f"{query['rows_in']:,}",
        f"{query['rows_out']:,}",
        "" if lag is None else f"{lag:,}",
        str(query["restarts"]),
        query["health"],
    ]


def _lag(query: Row) -> int | None:
    found = [each["total_lag"] for each in query["sources"] if each["total_lag"] is not None]
    return sum(found) if found else None


def _problem_line(problem: Row) -> str:
    """A problem with its code, and its place in the user's files."""
    place = f" ({problem['file']}:{problem['line']}:{problem['column']})" if problem.get("file") else ""
    return f"{problem['code']} {problem['message']}{place}"


def _troubles(query: Row) -> Iterator[str]:
    """The current failure and the active alerts, a line each."""
    if query["problem"] and query["status"] in ("failed", "restarting"):
        yield _problem_line(query["problem"])
    for alert in query["alerts"]:
        yield f"{alert['severity']} {alert['code']} {alert['message']}"


def _details(query: Row) -> Iterator[tuple[str, str]]:
    yield "id", query["id"]
    yield "run id", query["run_id"]
    attempt = f", restart {query['restart_attempt']} is due" if query["restart_attempt"] else ""
    yield "status", f"{query['status']} since {_second(query['since'])}{attempt}"
    yield "health", query["health"]
    yield "sink", f"{query['connector']}, {query['mode']} mode, trigger {query['trigger']}"
    if query["guarantee"]:
        yield "guarantee", query["guarantee"]
    yield "checkpoint", query["checkpoint"]
    yield "restarts", str(query["restarts"])
    yield "rows", f"{query['rows_in']:,} in, {query['rows_out']:,} out{_dropped(query)}"
    yield from _batch(query)
    for source in query["sources"]:
        yield from _source(source)
    for path, files in query["waiting_files"].items():
        yield "backlog", f"{count_of(files, 'file')} in {path}"
    yield from _watermark(query)
    for state in query["state"]:
        yield "state", f"{state['operator']}: {state['rows']:,} rows, {_size(state['bytes'])}"
    yield from _failure(query)
    for alert in query["alerts"]:
        yield "alert", f"{alert['severity']} {alert['code']} {alert['message']}"
        if alert["hint"]:
            yield "", alert["hint"]


def _dropped(query: Row) -> str:
    bad = "".join(f", {n['bad']:,} bad in {name}" for name, n in query["rows_by_source"].items() if n["bad"])
    late = "".join(f", {rows:,} late in {name}" for name, rows in query["late_rows"].items() if rows)
    return bad + late


def _batch(query: Row) -> Iterator[tuple[str, str]]:
    batch = query["last_batch"]
    if batch is None:
        if query["batch"] is not None:
            yield "epoch", str(query["batch"])
        return
    rows = f"{batch['rows_in']:,} rows in, {batch['rows_out'] or 0:,} out"
    yield "last batch", f"{batch['batch_id']} at {_second(batch['at'])}, {batch['duration_ms']:,} ms, {rows}"
    phases = sorted(batch["phases_ms"].items(), key=lambda phase: -phase[1])
    times = [f"{name} {ms:,} ms" for name, ms in phases if name != "triggerExecution"]
    if times:
        yield "", ", ".join(times)


def _source(source: Row) -> Iterator[tuple[str, str]]:
    lag = "" if source["total_lag"] is None else f", lag {count_of(source['total_lag'], 'row')}"
    yield "source", f"{source['name']}: {count_of(source['rows'], 'row')} in the last batch{lag}"
    yield "", f"offset {_offset(source['end_offset'])}"


def _offset(offset: Any) -> str:
    return offset if isinstance(offset, str) else json.dumps(offset)


def _watermark(query: Row) -> Iterator[tuple[str, str]]:
    if query["watermark"] or query["event_time"] or query["idle_inputs"]:
        held = ", ".join(query["held_back_by"])
        reached = _second(query["watermark"]) if query["watermark"] else "not reached"
        yield "watermark", f"{reached}, held back by {held}" if held else reached
    for idle in query["idle_inputs"]:
        yield "", str(idle.get("message", ""))


def _failure(query: Row) -> Iterator[tuple[str, str]]:
    problem = query["problem"]
    if problem:
        yield "last failure", f"{_second(query['failed_at'])} {_problem_line(problem)}"
        if problem["hint"]:
            yield "", problem["hint"]


def _plain(event: Row) -> str:
    """An event that has no line in the output of a run."""
    query, kind = event.get("query"), str(event["event"])
    head = f"{query}: {kind.removeprefix('query_')}" if query else kind.replace("_", " ")
    problem = event.get("problem") or {}
    text = event.get("message") or problem.get("message") or ""
    code = event.get("code") or problem.get("code") or ""
    return " ".join(filter(None, (f"{head}:" if code or text else head, code, text)))


# Text in columns.


def _table(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cell(value: Any, null: str = "NULL") -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return str(value).lower()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Text from elsewhere must neither break a line nor move the cursor.
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _is_number(type_: str) -> bool:
    return type_.startswith(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"))


def _second(at: str | None) -> str:
    """A time to the second, as 2026-01-31T12:00:00Z."""
    return f"{at[:19]}Z" if at else ""


def _size(number: int) -> str:
    size, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < _KIB:
            break
        size, unit = size / _KIB, larger
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
