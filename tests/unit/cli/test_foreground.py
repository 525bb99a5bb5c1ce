"""Output that nobody reads any more."""

from __future__ import annotations

import errno
import os
import pty
import signal
import subprocess
import sys

import pytest

from headwater.cli.foreground import while_read


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.EIO, "a terminal that was closed")])
def test_a_lost_reader_asks_for_a_clean_stop(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))

    def show(line: str) -> None:
        if line == "unread":
            raise error

    shown = while_read(show)
    shown("read")
    assert sent == []
    shown("unread")
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_the_process_stays_silent_from_then_on() -> None:
    program = """
import signal, sys
from headwater.cli.foreground import while_read
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


def test_any_other_error_is_not_hidden() -> None:
    def show(line: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(OSError, match="no space left"):
        while_read(show)("line")


def test_a_batch_goes_on_unread() -> None:
    lost: list[str] = []

    def show(line: str) -> None:
        raise BrokenPipeError

    while_read(show, lost=lambda: lost.append("unread"))("line")
    assert lost == ["unread"]


def test_a_closed_terminal_leaves_the_process_to_end_in_good_order() -> None:
    """Both streams are the terminal; what rich puts in their place must not matter."""
    program = """
import os, sys, time
from headwater.cli.foreground import while_read
from headwater.cli.views import view_of
from headwater.events import Notice
from headwater.runtime.signals import Signals
with Signals() as signals, view_of(as_json=False) as view:
    os.write(int(sys.argv[1]), b"ready")
    while not signals.stop:
        time.sleep(0.01)
    while_read(view.event)(Notice(code="HW-NOTICE", message="Stopping"))
print("said to nobody", file=sys.stderr, flush=True)
sys.exit(7)
"""
    told, tell = os.pipe()
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-c", program, str(tell)]
    with subprocess.Popen(
        command, stdin=its_end, stdout=its_end, stderr=its_end, pass_fds=[tell], start_new_session=True
    ) as process:
        try:
            assert os.read(told, 5) == b"ready"
        finally:
            for descriptor in (told, tell, terminal, its_end):
                os.close(descriptor)
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 7
