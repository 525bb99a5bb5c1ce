"""What a run does when the reader of its output has gone, as in `headwater run … | head`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def while_read(show: Callable[[T], None]) -> Callable[[T], None]:
    """Show what comes for as long as somebody reads it; then fall silent and ask for a clean stop.

    Lines and events come from Spark's threads, which must not end by an error of ours.
    """

    def shown(value: T) -> None:
        try:
            show(value)
        except BrokenPipeError:
            _fall_silent()
            os.kill(os.getpid(), signal.SIGTERM)

    return shown


def _fall_silent() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # What is written from now on, at the latest when Python ends, goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
