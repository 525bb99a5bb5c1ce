from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from headwater.dev import guard
from headwater.values.processes import process_start_time

SECONDS = 30


def guarded(log: Path, *code: str) -> tuple[subprocess.Popen[bytes], int]:
    """A guard over a Python that runs some code, and that Python's process id."""
    command = [sys.executable, "-I", "-S", guard.__file__, str(log), sys.executable, "-c", "\n".join(code)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def ended(process: subprocess.Popen[bytes]) -> int:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
    return process.wait(SECONDS)


def test_the_command_ends_with_the_input(tmp_path: Path) -> None:
    process, pid = guarded(tmp_path / "log", "import signal", "signal.pause()")
    assert ended(process) == -signal.SIGTERM % 256
    assert process_start_time(pid) is None


def test_the_guard_ends_with_the_command_and_keeps_what_it_said(tmp_path: Path) -> None:
    process, _ = guarded(tmp_path / "log", "import sys", "print('out', flush=True)", "sys.exit('err')")
    assert process.wait(SECONDS) == 1
    assert (tmp_path / "log").read_text(encoding="utf-8") == "out\nerr\n"
    ended(process)


def test_a_killed_command_ends_the_guard(tmp_path: Path) -> None:
    process, pid = guarded(tmp_path / "log", "import signal", "signal.pause()")
    os.kill(pid, signal.SIGKILL)
    assert process.wait(SECONDS) == -signal.SIGKILL % 256
    ended(process)
