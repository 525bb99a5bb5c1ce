"""A run in the foreground: one api call, its events shown as they come."""

from __future__ import annotations

from pathlib import Path

from headwater.api.batch import run_batch as batch_command
from headwater.api.running import run as run_command
from headwater.cli.closed_output import while_read
from headwater.cli.render import show_problems
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
            found=while_read(lambda findings: view.findings(findings, file)),
        )
    problems = [query["problem"] for query in result.queries.values() if query["problem"]]
    if not as_json:
        show_problems(problems, as_json=False, verbose=verbose)
    return result.exit_code


def run_batch(file: str, options: RunOptions, into: Path | None, *, append: bool, as_json: bool) -> int:
    """Run the tables once over finished data."""
    with view_of(as_json=as_json) as view:
        # Who reads no more does not end the work: it has an end of its own.
        shown = while_read(view.event, lost=lambda: None)
        batch_command(file, options, into=into, append=append, stdout=view.line, emit=shown)
    return 0
