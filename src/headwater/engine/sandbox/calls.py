"""System calls of Linux that Python has no function for."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from functools import cache
from typing import Any

_SET_PARENT_DEATH_SIGNAL = 1
_DROP_BOUNDING = 24
_SET_SUBREAPER = 36
_SET_NO_NEW_PRIVILEGES = 38


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: Any) -> int:
    """Call a function of the C library; OSError if it fails."""
    # Arguments that C does not know the width of are as wide as a register.
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = getattr(_libc(), function)(*wide)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result


def die_with_parent() -> None:
    """Let Linux kill this process when its parent ends; elsewhere the launcher does so at its own end."""
    if sys.platform == "linux":
        call("prctl", _SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, daemons included."""
    if sys.platform == "linux":
        call("prctl", _SET_SUBREAPER, 1, 0, 0, 0)


def gain_no_privileges() -> None:
    """Let no later program gain privileges, such as those of `sudo`."""
    call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def keep_capabilities(kept: frozenset[int]) -> None:
    """Take every other capability away from all programs to come, also from those of root."""
    for number in range(64):
        if number not in kept:
            try:
                call("prctl", _DROP_BOUNDING, number, 0, 0, 0)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # The kernel knows no capability of this number, so none above it.
                return
