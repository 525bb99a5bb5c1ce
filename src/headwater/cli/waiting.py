"""What a command that only looks shows while Spark starts, and while it waits for a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from headwater.events import Event, Said, SparkStarting

STARTING_SPARK = "Starting Spark …"


@contextmanager
def waiting(*, as_json: bool) -> Iterator[Callable[[Event], None]]:
    """Takes events; on a terminal a spinner turns until the command is done, elsewhere a line says it.

    Both go to stderr, since stdout is for what the command finds.
    """
    with ExitStack() as shown:

        def event(event: Event) -> None:
            if isinstance(event, SparkStarting) and not as_json:
                _show(shown)
            elif isinstance(event, Said) and not as_json:
                _write(event.text)

        yield event


def _show(shown: ExitStack) -> None:
    if not sys.stderr.isatty():
        _write(STARTING_SPARK)
        return
    # Loaded late: an offline check does without it.
    from rich.console import Console

    shown.enter_context(Console(stderr=True).status(STARTING_SPARK))


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
