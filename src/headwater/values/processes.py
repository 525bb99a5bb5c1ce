"""Identifies a process so that another process with the same ID is not mistaken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROC = Path("/proc")
_DEAD_STATES = ("Z", "X", "x")


def process_start_time(pid: int) -> str | None:
    """The start time of a process, as text that is unique to that process; None if it is dead.

    A zombie counts as dead: it has no open files and writes nothing.
    """
    if pid <= 0:
        return None
    return _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)


def is_alive(pid: int, start_time: str) -> bool:
    """Whether the process with this ID and start time is still running."""
    now = process_start_time(pid)
    return now == start_time if now is not None else _is_hidden(pid)


def _from_proc(pid: int) -> str | None:
    try:
        # A dead process (ENOENT) and one that exits during the read (ESRCH) both raise OSError.
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the command is in parentheses and can contain anything, so count fields after the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in _DEAD_STATES:
        return None
    return f"{_boot()}:{fields[19]}"


def _boot() -> str:
    # Ticks start at boot: without the boot ID, a process after a reboot could have the same start time.
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _from_ps(pid: int) -> str | None:
    # `lstart` depends on locale and time zone: both are pinned, so that the text is comparable.
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
    # Some machines hide the processes of other users. A process that exists but cannot be read may be the
    # right one, and treating it as dead would allow two writers.
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    return False


# The cache directory of this user.


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Headwater's directory in the user's cache directory."""
    named = environ.get("XDG_CACHE_HOME", "")
    # The XDG standard says to ignore a relative path here.
    base = Path(named) if os.path.isabs(named) else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "headwater"
