"""A run in the foreground: one api call, its events shown as they arrive."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from headwater.api.run import Output
from headwater.api.run import run as run_command
from headwater.checks import Finding
from headwater.cli.render import show_problems
from headwater.cli.views import view_of
from headwater.runtime import RunOptions
from headwater.values import Duration

# What a run does when its output is no longer read: `headwater run … | head`, a closed terminal.

T = TypeVar("T")
_UNREAD = (errno.EPIPE, errno.EIO)


def ask_for_stop() -> None:
    """Ask this process for a clean stop."""
    os.kill(os.getpid(), signal.SIGTERM)


def while_read(show: Callable[[T], object], lost: Callable[[], None] = ask_for_stop) -> Callable[[T], None]:
    """Show values as long as the output is read; then discard the output and call `lost`.

    Lines and events arrive on Spark threads, which must not fail because of this output.
    """

    def shown(value: T) -> None:
        try:
            show(value)
        except OSError as error:
            if error.errno not in _UNREAD and not isinstance(error, BrokenPipeError):
                raise
            _discard_output()
            lost()

    return shown


def _discard_output() -> None:
    # Not `sys.stdout`: a replacement may not know the file behind it.
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None and _is_unread(stream):
            # Discard what is written from now on, including when Python exits.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _is_unread(stream: TextIO) -> bool:
    try:
        stream.flush()
        # A closed terminal is still a device, but no longer a terminal.
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode) and not stream.isatty()
    except OSError:
        return True


def run_stream(
    files: Sequence[str], options: RunOptions, limit: Duration | None, *, as_json: bool, verbose: bool
) -> int:
    """Run the queries under a live table, a line log or JSON lines."""
    with view_of(as_json=as_json) as view:

        def findings(found: list[Finding], file: str) -> None:
            def show(every: list[Finding]) -> None:
                view.findings(every, file)

            while_read(show)(found)

        output = Output(while_read(view.event), while_read(view.line), findings)
        results = run_command(files, options, output, limit=limit)
    of_queries = [query.problem for each in results for query in each.queries.values() if query.problem]
    problems = [*(problem for each in results for problem in each.problems), *of_queries]
    if not as_json:
        show_problems(problems, as_json=False, verbose=verbose)
    return max(result.exit_code for result in results)


def run_batch(file: str, options: RunOptions, into: Path | None, *, append: bool, as_json: bool) -> int:
    """Run the tables once, as a batch job."""
    # It loads PySpark, which a stream loads only when its JVM is on its way.
    from headwater.api.batch import run_batch as batch_command

    with view_of(as_json=as_json) as view:
        # A batch run completes even if its output is no longer read.
        shown = while_read(view.event, lost=lambda: None)
        batch_command(file, options, into=into, append=append, stdout=view.line, emit=shown)
    return 0
