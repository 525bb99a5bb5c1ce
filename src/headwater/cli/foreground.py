"""A run in the foreground: one api call, its events shown as they come."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import typer

from headwater.api.batch import run_batch as batch_command
from headwater.api.running import run as run_command
from headwater.cli.render import print_json, show_problems
from headwater.cli.unread import while_read
from headwater.cli.views import view_of
from headwater.runtime import RunOptions
from headwater.values import Duration


def run_stream(
    file: str, options: RunOptions, limit: Duration | None, *, as_json: bool, verbose: bool
) -> int:
    """Run the queries under a live table, a line log or JSON lines."""
    with view_of(as_json=as_json) as view:
        result = run_command(
            file,
            options,
            limit=limit,
            emit=while_read(view.event),
            stdout=while_read(view.line),
            found=while_read(view.findings),
        )
    problems = [query["problem"] for query in result.queries.values() if query["problem"]]
    if not as_json:
        show_problems(problems, as_json=False, verbose=verbose)
    return result.exit_code


def run_batch(file: str, options: RunOptions, into: Path | None, *, as_json: bool) -> int:
    """Run the tables once over finished data."""
    # With --json stdout holds one document; the console sink's tables go beside it.
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        result = batch_command(file, options, into=into, stdout=_to_stdout)
    if as_json:
        print_json(result.to_json())
    else:
        for sink, place in result.written.items():
            typer.echo(f"{sink}: written{f' to {place}' if place else ''}")
    return 0


def _to_stdout(line: str) -> None:
    sys.stdout.write(line + "\n")
