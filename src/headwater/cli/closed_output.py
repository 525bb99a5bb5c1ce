"""What a run does when nobody sees its output any more: `headwater run … | head`, a closed terminal."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import TextIO, TypeVar

T = TypeVar("T")
_UNREAD = (errno.EPIPE, errno.EIO)


def ask_for_stop() -> None:
    """Ask this process for a clean stop."""
    os.kill(os.getpid(), signal.SIGTERM)


def while_read(show: Callable[[T], None], lost: Callable[[], None] = ask_for_stop) -> Callable[[T], None]:
    """Show what comes for as long as somebody reads it; then fall silent and call `lost`.

    Lines and events come from Spark's threads, which must not end by an error of ours.
    """

    def shown(value: T) -> None:
        try:
            show(value)
        except OSError as error:
            if error.errno not in _UNREAD and not isinstance(error, BrokenPipeError):
                raise
            _fall_silent()
            lost()

    return shown


def _fall_silent() -> None:
    # Not `sys.stdout`: something may stand in its place that knows nothing of the file behind it.
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None and _is_unread(stream):
            # What is written from now on, at the latest when Python ends, goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _is_unread(stream: TextIO) -> bool:
    try:
        stream.flush()
        # A terminal that was closed is still a device, but no terminal any more.
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode) and not stream.isatty()
    except OSError:
        return True
