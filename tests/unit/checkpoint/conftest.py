"""A clock that stands still, folders written by hand, and small processes to kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headwater.checkpoint


class FakeClock:
    """Time that moves only when somebody sleeps; `on_sleep` sees every pause."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self.since_boot = 86_400.0
        self.slept = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.slept

    def uptime(self) -> float:
        return self.since_boot

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.moment += timedelta(seconds=seconds)
        self.on_sleep()


class Child:
    """A Python process that a test talks to by lines and ends with SIGKILL."""

    def __init__(self, code: str, *arguments: str) -> None:
        source = str(Path(headwater.checkpoint.__file__).parents[2])
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=30)

    def end(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def run(code: str, *arguments: str) -> Child:
        children.append(Child(code, *arguments))
        return children[-1]

    yield run
    for child in children:
        child.end()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def run(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return run
