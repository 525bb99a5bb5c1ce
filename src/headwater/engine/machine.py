"""What this machine has: memory, cores, and the kind of file system that a folder is on."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def read_memory(proc: Path = _PROC, cgroup: Path = _CGROUP) -> tuple[int, int | None]:
    """Total and free memory in bytes, within the limits of a container; free is None where unknown."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = _free_memory(proc)
    limit = _number(cgroup / "memory.max")
    if limit is None or limit >= total:
        return total, free
    used = _number(cgroup / "memory.current") or 0
    # What is used includes pages of files that Linux gives back at need, so this is the cautious answer.
    room = max(limit - used, 0)
    return limit, room if free is None else min(free, room)


def count_cores() -> int:
    """The cores that this process may use."""
    # macOS has no such limit to ask for.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def file_system_of(path: Path) -> str:
    """The kind of file system (`ext4`, `nfs4`, …) that holds an existing path; empty where unknown."""
    best = ("", "")
    for point, kind in _mounts():
        # Of two mounts at the same point the later one covers the earlier.
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def _free_memory(proc: Path) -> int | None:
    try:
        text = (proc / "meminfo").read_text()
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # `max` stands for no limit
        return None


def _mounts() -> list[tuple[str, str]]:
    """Mount points with their kind."""
    try:
        return read_mounts((_PROC / "self/mounts").read_text(errors="replace"))
    except OSError:
        asked = subprocess.run(["mount"], capture_output=True, text=True, check=False)
        return re.findall(r"^.* on (/.*) \((\w+)", asked.stdout, re.MULTILINE)


def read_mounts(text: str) -> list[tuple[str, str]]:
    """The points and kinds in Linux's table of mounts, where odd characters stand as octal numbers."""
    fields = [line.split() for line in text.splitlines()]
    return [(_unescaped(line[1]), line[2]) for line in fields if len(line) > 2]


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
