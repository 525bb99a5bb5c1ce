"""Output that nobody reads any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headwater.cli.unread import while_read


def test_a_lost_reader_asks_for_a_clean_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))

    def show(line: str) -> None:
        if line == "unread":
            raise BrokenPipeError

    shown = while_read(show)
    shown("read")
    assert sent == []
    shown("unread")
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_the_process_stays_silent_from_then_on() -> None:
    program = """
import signal, sys
from headwater.cli.unread import while_read
signal.signal(signal.SIGTERM, lambda *_: None)
show = while_read(lambda line: print(line, flush=True))
sys.stdin.readline()
for number in range(1000):
    show(f"line {number}")
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
