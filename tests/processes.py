"""Real processes of the command: started in a group of their own, signalled, killed, watched to the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.checkpoint.lock import Owner, Process
from headwater.control.client import RunClient, RunNotActiveError
from headwater.errors import HeadwaterError
from tests import short_lives

COMMAND = Path(sys.executable).with_name("headwater")
START_SECONDS = 120.0
STOP_SECONDS = 15.0
_LOOK_SECONDS = 0.005
_MARK = "HEADWATER_TEST_PROCESS"


@dataclass(frozen=True)
class Program:
    """A running program, and everything that it writes."""

    process: subprocess.Popen[bytes]
    mark: str
    stdout_file: Path
    stderr_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stdout(self) -> str:
        return self.stdout_file.read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        return self.stderr_file.read_text(encoding="utf-8")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What `--json` has told so far, line by line; a line that is no JSON fails the test."""
        whole, _, _ = self.stdout.rpartition("\n")
        return [json.loads(line) for line in whole.split("\n") if whole]

    def until(self, condition: Callable[[], object], seconds: float = START_SECONDS) -> None:
        """Wait for something that has to happen while the program runs."""
        deadline = time.monotonic() + seconds
        looked = time.thread_time()
        while not condition():
            assert self.process.poll() is None, f"ended too early\n{self.told}"
            assert time.monotonic() < deadline, f"did not happen within {seconds:g} seconds\n{self.told}"
            # A dear look comes less often: the program needs the core more than the one who waits for it.
            time.sleep(max(_LOOK_SECONDS, 4 * (time.thread_time() - looked)))
            looked = time.thread_time()

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """A signal to the process, or to its whole group as a terminal sends it."""
        if group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def wait(self, seconds: float = START_SECONDS) -> int:
        """The exit code, which has to come within the time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {seconds:g} seconds\n{self.told}") from None

    @property
    def told(self) -> str:
        """All of its output, for the message of a failed test."""
        return f"stdout:\n{self.stdout}\nstderr:\n{self.stderr}"


@contextmanager
def program(folder: Path, *command: str | Path, **environment: str) -> Iterator[Program]:
    """Run a program in a folder. Afterwards it is gone, and so is every process that it ever started."""
    mark = uuid.uuid4().hex
    outputs = (folder / f".{mark}.stdout", folder / f".{mark}.stderr")
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env={**os.environ, **short_lives.environment(), **environment, _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    running = Program(process, mark, *outputs)
    try:
        yield running
        running.wait(STOP_SECONDS)
        assert _soon(lambda: not _marked(mark)), f"processes are left behind: {_marked(mark)}"
    finally:
        _kill_all(running)


def headwater(folder: Path, *arguments: str | Path, **environment: str) -> Any:
    """The command in a folder, as a context manager that gives the running Program."""
    return program(folder, COMMAND, *arguments, **environment)


def status_of(folder: Path) -> dict[str, Any]:
    """What the run in a folder answers to `headwater status`; nothing before it answers, and after its end."""
    try:
        return RunClient(folder / ".headwater").status()
    except HeadwaterError as error:
        if not error.retryable and not isinstance(error, RunNotActiveError):
            raise
        return {}


def queries_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The queries in that status, by name."""
    return {query["query"]: query for query in status_of(folder).get("queries", ())}


def lock_of(folder: Path, sink: str) -> Owner | None:
    """Who holds a sink's checkpoint, by its lock file."""
    file = folder / ".headwater" / "checkpoints" / f"{sink}.lock"
    try:
        return Owner.from_bytes(file.read_bytes(), str(file))
    except FileNotFoundError:
        return None


def jvm_of(folder: Path, sink: str) -> Process:
    """The JVM that works for the run on this checkpoint."""
    owner = lock_of(folder, sink)
    assert owner is not None
    assert owner.jvm is not None
    return owner.jvm


def _soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def _kill_all(running: Program) -> None:
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()
    for pid in _marked(running.mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _marked(mark: str) -> dict[int, str]:
    """The living processes that inherited the mark, with their commands: JVM and Python workers too."""
    listed = subprocess.run(
        ["ps", "axeww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    lines = (line.strip().partition(" ") for line in listed.stdout.splitlines() if f"{_MARK}={mark}" in line)
    return {int(pid): command[:200] for pid, _, command in lines}
