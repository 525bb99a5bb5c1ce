"""A server process that exits with this one, and ports for it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from headwater.dev import guard
from headwater.errors import SetupError
from headwater.errors.catalogue.environment import PORT_IN_USE

HOST = "127.0.0.1"
_ERRORS = ("ERROR", "FATAL", "Exception", "error:")


class GuardedProcess:
    """A command that runs below `guard.py`, with its output in a log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.pid = 0
        """The process of the current or last start."""
        self._guard: subprocess.Popen[bytes] | None = None
        self._began = 0

    @property
    def runs(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def launch(self, command: Sequence[str]) -> bool:
        """Start the command; False if it could not be executed."""
        self._began = self.log.stat().st_size if self.log.exists() else 0
        # Isolated: it loads nothing from the user's Python environment.
        watcher = [sys.executable, "-I", "-S", guard.__file__, str(self.log), *command]
        self._guard = subprocess.Popen(
            watcher, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        line = self._guard.stdout.readline() if self._guard.stdout is not None else b""
        if not line:
            self._guard.wait()
            return False
        self.pid = int(line)
        return True

    def end(self) -> None:
        """Let the guard terminate the command, and wait."""
        if self._guard is None:
            return
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        self._guard.wait()
        self._guard = None

    def output(self) -> str:
        """The log since this start."""
        with self.log.open("rb") as log:
            log.seek(self._began)
            return log.read().decode("utf-8", errors="replace")


def reason_of(output: str) -> str:
    """The last line of a server's output that names an error, else its last line; details are indented."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line[0].isspace()]
    errors = [line for line in lines if any(word in line for word in _ERRORS)]
    return (errors or lines or ["the log is empty"])[-1].rstrip(".")


def free_port(wanted: int, reserved: ExitStack) -> int:
    """The given port if it is free, or any free port for 0; it stays reserved while the socket is open."""
    probe = reserved.enter_context(socket.socket())
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, wanted))
    except OSError as error:
        raise SetupError(PORT_IN_USE.at(port=wanted, host=HOST)) from error
    return int(probe.getsockname()[1])
