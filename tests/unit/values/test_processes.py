"""A process is named by its number and its start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater.values import processes
from headwater.values.processes import is_alive, process_start_time

Child = subprocess.Popen[bytes]


@pytest.fixture
def child() -> Iterator[Child]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def wait_without_reaping(child: Child) -> None:
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_a_living_process(child: Child) -> None:
    start = process_start_time(child.pid)
    assert start is not None
    assert process_start_time(child.pid) == start
    assert is_alive(child.pid, start)


def test_the_same_number_with_another_start_is_another_process(child: Child) -> None:
    assert not is_alive(child.pid, "long ago")


def test_a_zombie_is_dead(child: Child) -> None:
    start = process_start_time(child.pid)
    assert start is not None
    child.kill()
    wait_without_reaping(child)
    assert process_start_time(child.pid) is None
    assert not is_alive(child.pid, start)


def test_a_process_that_is_gone(child: Child) -> None:
    start = process_start_time(child.pid)
    assert start is not None
    child.kill()
    child.wait()
    assert process_start_time(child.pid) is None
    assert not is_alive(child.pid, start)


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_a_number_that_no_process_has(pid: int) -> None:
    assert process_start_time(pid) is None
    assert not is_alive(pid, "any")


def test_a_process_that_is_hidden_from_us_is_taken_for_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(processes, "process_start_time", lambda pid: None)
    monkeypatch.setattr(os, "kill", refuse)
    assert is_alive(12345, "any")


@pytest.mark.skipif(sys.platform != "linux", reason="a command's name stands in a file only there")
def test_a_command_with_a_bracket_in_its_name(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; open('/proc/self/comm', 'w').write(') Z 1 ('); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-W", "ignore", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as odd:
        assert odd.stdout is not None
        odd.stdout.readline()
        assert process_start_time(odd.pid) is not None
        odd.kill()


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_the_way_without_proc(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    start = processes._from_ps(child.pid)
    assert start is not None
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert processes._from_ps(child.pid) == start
    child.kill()
    wait_without_reaping(child)
    assert processes._from_ps(child.pid) is None
    child.wait()
    assert processes._from_ps(child.pid) is None
