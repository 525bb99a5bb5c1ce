"""`status`, `stop`, `restart`, `wait`, `logs`, `events`, `sql`: a run in another process.

Every command takes the run as its first argument: a pipeline file or a run directory. One argument alone is a run if
it contains `.` or `/` or is a run directory, but `quarantine.orders` is the query that quarantines rows of `orders`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.options import Json, Verbose, duration, seconds
from headwater.errors import UsageError
from headwater.errors.catalogue.control import SINCE_INVALID
from headwater.errors.catalogue.programs import OPTIONS_CONFLICT
from headwater.run_directory import RunDirectory

TIMEOUT_CODE = 124
_WATCH_SECONDS = 1.0

_RUN_HELP = "Pipeline file or run directory [default: ./.headwater, or the only active run on this machine]"
Run = Annotated[str | None, typer.Argument(metavar="[RUN]", help=_RUN_HELP)]
Query = Annotated[str | None, typer.Argument(metavar="[QUERY]", help="Name or ID of a query")]
OneQuery = Annotated[str | None, typer.Option("--query", metavar="NAME", help="Only this query")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Print what is added, until Ctrl-C")]


def status(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Pipeline file or run directory")] = None,
    query: OneQuery = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second, until Ctrl-C")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 1 if a run or query is in a critical state")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the status of a run, or of all runs on this machine."""
    from headwater.api import remote, run_status
    from headwater.cli import control_views as views

    def load() -> views.Shown:
        if query is not None:
            chosen = remote.select(run)
            return views.QueryShown(chosen.to_json(), chosen.query(query).name)
        if run is not None:
            return views.RunShown(remote.connect(run).to_json())
        return views.RunsShown(run_status.list_runs(), run_status.drop_deleted_runs())

    if watch:
        with _until_interrupt() as stop:
            views.watch(load, stop, _WATCH_SECONDS, as_json=as_json)
    shown = load()
    if not watch:
        views.show(shown, as_json=as_json)
    raise typer.Exit(1 if check and shown.critical else 0)


def stop(
    run: Run = None,
    query: Query = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long to wait for running batches [default: --stop-timeout of the run]",
        ),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Stop a run or one of its queries after the current batch."""
    from headwater.api.remote import select

    run, query = _run_and_query(run, query)
    limit = duration("--timeout", timeout)
    chosen = select(run)
    if query is None:
        chosen.stop(limit.seconds if limit else None)
        # The program of `hw.watch` continues without them.
        _done(f"Stopped all queries of {chosen.name}.", chosen.to_json(), as_json=as_json)
    else:
        found = chosen.query(query)
        found.stop(limit.seconds if limit else None)
        _done(f"Stopped query {found.name}.", found.to_json(), as_json=as_json)


def restart(run: Run = None, query: Query = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Restart a query of a run, also one that failed or was stopped."""
    from headwater.api.remote import select

    run, query = _run_and_query(run, query)
    if query is None:
        raise typer.BadParameter("Missing argument 'QUERY'.")
    found = select(run).query(query)
    found.restart()
    _done(f"Restarted query {found.name}.", found.to_json(), as_json=as_json)


def wait(
    run: Run = None,
    query: Query = None,
    any_query: Annotated[bool, typer.Option("--any", help="Wait until any query has terminated")] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", metavar="DURATION", help=f"Exit with code {TIMEOUT_CODE} if it takes longer"
        ),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Wait until a run or a query has terminated; exit with the code of the run."""
    from headwater.api.remote import select
    from headwater.cli import control_views as views

    run, query = _run_and_query(run, query)
    if query is not None and any_query:
        raise typer.BadParameter("expected a query or --any, not both")
    limit = None if timeout is None else seconds("--timeout", timeout)
    chosen = select(run)
    shown: views.Shown
    if query is not None:
        found = chosen.query(query)
        ended = found.wait(limit)
        shown = views.QueryShown(chosen.to_json(), found.name)
    else:
        ended = chosen.wait_any(limit) if any_query else chosen.wait(limit)
        shown = views.RunShown(chosen.to_json())
    views.show(shown, as_json=as_json)
    if not ended:
        typer.echo(f"Not terminated after {timeout}.", err=True)
    raise typer.Exit(shown.exit_code if ended else TIMEOUT_CODE)


def logs(
    run: Run = None,
    follow: Follow = False,
    name: Annotated[str | None, typer.Option("--file", metavar="NAME", help="Only spark or failures")] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, help="Number of lines per file")
    ] = 100,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print the last lines of Spark's log and of the log of failures."""
    from headwater.api.remote import select
    from headwater.cli import control_views as views

    if name not in (None, "spark", "failures"):
        raise typer.BadParameter("expected spark or failures", param_hint="--file")
    with _until_interrupt() as stop:
        chosen = select(run)
        names = [f"{name}.log"] if name else []
        found = chosen.logs(names, lines=lines, follow=stop if follow else None)
        views.show_lines(found, as_json=as_json)


def events(
    run: Run = None,
    follow: Follow = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Events of all runs since a time, such as '10 minutes' or 2026-01-31T12:00:00Z",
        ),
    ] = None,
    query: OneQuery = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print the stored events of the last run, without batches."""
    from headwater.api.remote import select
    from headwater.cli import control_views as views

    start = _time(since)
    with _until_interrupt() as stop:
        found = select(run).events(since=start, query=query, follow=stop if follow else None)
        views.show_events(found, as_json=as_json)


def sql(
    run: Run = None,
    text: Annotated[str | None, typer.Argument(metavar="SQL", help="SELECT over tables of the run")] = None,
    max_rows: Annotated[
        int, typer.Option("--max-rows", metavar="N", min=1, max=100_000, help="Number of rows to print")
    ] = 1_000,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long the query may run")
    ] = "10s",
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header")] = False,
    verbose: Verbose = False,
) -> None:
    """Query the tables of an active run with SQL; read-only."""
    from headwater.api.remote import select
    from headwater.cli import control_views as views

    if as_json and as_csv:
        raise UsageError(OPTIONS_CONFLICT.at(None, one="--json", other="--csv"))
    if run is None:
        raise typer.BadParameter("Missing argument 'SQL'.")
    chosen, query = (None, run) if text is None else (run, text)
    limit = seconds("--timeout", timeout)
    result = select(chosen).sql(query, max_rows=max_rows, timeout=limit)
    views.show_rows(result, as_json=as_json, as_csv=as_csv)


def _run_and_query(first: str | None, second: str | None) -> tuple[str | None, str | None]:
    """The run and the query: one argument alone can be either."""
    if first is None or second is not None:
        return first, second
    is_run = "/" in first or ("." in first and not first.startswith("quarantine."))
    return (first, None) if is_run or RunDirectory(Path(first)).history.exists() else (None, first)


def _time(text: str | None) -> Any:
    """`--since` as a point in time."""
    from datetime import UTC, datetime, timedelta

    from headwater.values import Duration

    if text is None:
        return None
    try:
        return datetime.now(UTC) - timedelta(milliseconds=Duration.parse(text).milliseconds)
    except (ValueError, OverflowError):
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(SINCE_INVALID.at(None, text=text)) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@contextmanager
def _until_interrupt() -> Iterator[threading.Event]:
    """An event that is set by Ctrl-C, which ends these commands normally."""
    stop = threading.Event()
    try:
        yield stop
    except KeyboardInterrupt:
        stop.set()


def _done(text: str, value: dict[str, Any], *, as_json: bool) -> None:
    from headwater.cli.json_output import print_json

    if as_json:
        print_json(value)
    else:
        typer.echo(text)
