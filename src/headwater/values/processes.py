"""Naming a process so that another process with the same number is never taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROC = Path("/proc")
_DEAD_STATES = ("Z", "X", "x")


def process_start_time(pid: int) -> str | None:
    """When a process began, as text that only ever compares equal for that process; None when it is dead.

    A zombie counts as dead: it holds no file and writes nothing.
    """
    if pid <= 0:
        return None
    return _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)


def is_alive(pid: int, start_time: str) -> bool:
    """Whether the process that had this number and this start still runs."""
    now = process_start_time(pid)
    return now == start_time if now is not None else _is_hidden(pid)


def _from_proc(pid: int) -> str | None:
    try:
        # Both a finished process (ENOENT) and one that ends while it is read (ESRCH) raise OSError.
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command's name stands in brackets and may hold anything, so fields are counted after the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in _DEAD_STATES:
        return None
    return f"{_boot()}:{fields[19]}"


def _boot() -> str:
    # Ticks count from the machine's start: without it, a process of the next boot could have the same ones.
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _from_ps(pid: int) -> str | None:
    # `lstart` is local time in the user's language: both are pinned, so that the text stays comparable.
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, start = asked.stdout.strip().partition(" ")
    if not start or state.startswith(_DEAD_STATES):
        return None
    return " ".join(start.split())


def _is_hidden(pid: int) -> bool:
    # Some machines hide other users' processes. One that exists but can't be read may be the one that is
    # asked for, and taking it for dead would let two writers in.
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    return False


# Where this user's caches lie.


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Headwater's folder below the user's caches."""
    named = environ.get("XDG_CACHE_HOME", "")
    # The standard says that a relative path there is to be ignored.
    base = Path(named) if os.path.isabs(named) else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "headwater"
