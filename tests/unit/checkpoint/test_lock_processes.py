"""The lock between real processes, which are killed."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pytest

from headwater.checkpoint import CheckpointLock, Clock
from headwater.errors import CheckpointLockedError
from headwater.values.processes import is_alive, process_start_time

HOLD = """
import sys
from pathlib import Path
from headwater.checkpoint import CheckpointLock
lock = CheckpointLock.acquire(Path(sys.argv[1]), "first")
if len(sys.argv) > 2:
    lock.name_jvm(int(sys.argv[2]), sys.argv[3])
print("held", flush=True)
sys.stdin.read()
"""

# Takes one checkpoint after the other from its input and keeps what it wins.
RACE = """
import sys
from pathlib import Path
from headwater.checkpoint import CheckpointLock
from headwater.errors import CheckpointLockedError
locks = []
print("ready", flush=True)
for line in sys.stdin:
    try:
        locks.append(CheckpointLock.acquire(Path(line.strip()), sys.argv[1]))
        print("won", flush=True)
    except CheckpointLockedError as held:
        print(*[problem.code for problem in held.problems], flush=True)
"""

STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
sys.stdin.read()
"""


class Child(Protocol):
    @property
    def pid(self) -> int: ...
    def line(self) -> str: ...
    def say(self, text: str) -> None: ...
    def kill(self) -> None: ...


class FakeClock(Clock, Protocol):
    moment: datetime
    slept: float
    on_sleep: Callable[[], None]


Start = Callable[..., Child]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "orders"


def up(start: Start, code: str, *arguments: str) -> Child:
    child = start(code, *arguments)
    assert child.line() in {"held", "up", "ready"}
    return child


def dead_run(start: Start, checkpoint: Path, *jvm: str) -> None:
    up(start, HOLD, str(checkpoint), *jvm).kill()


def jvm(start: Start) -> tuple[Child, str]:
    stand_in = up(start, STUBBORN)
    start_time = process_start_time(stand_in.pid)
    assert start_time is not None
    os.kill(stand_in.pid, signal.SIGTERM)
    assert is_alive(stand_in.pid, start_time)
    return stand_in, start_time


@pytest.mark.feature("F5", part="a second run is refused")
def test_a_living_run_is_named(checkpoint: Path, start: Start) -> None:
    holder = up(start, HOLD, str(checkpoint))
    with pytest.raises(CheckpointLockedError) as caught:
        CheckpointLock.acquire(checkpoint, "second")
    (problem,) = caught.value.problems
    since = json.loads(Path(f"{checkpoint}.lock").read_bytes())["since"]
    assert problem.code == "HW-CHECKPOINT-LOCKED"
    assert problem.params == {
        "checkpoint": str(checkpoint),
        "run": "first",
        "pid": holder.pid,
        "user": getpass.getuser(),
        "host": socket.gethostname(),
        "since": datetime.fromisoformat(since).isoformat(timespec="seconds"),
    }
    assert f"kill {holder.pid}" in problem.hint
    assert not caught.value.retryable


def test_a_paused_run_is_alive(checkpoint: Path, start: Start, clock: FakeClock) -> None:
    holder = up(start, HOLD, str(checkpoint))
    os.kill(holder.pid, signal.SIGSTOP)
    with pytest.raises(CheckpointLockedError):
        CheckpointLock.acquire(checkpoint, "second", clock=clock)


def test_a_killed_run_is_replaced_at_once(checkpoint: Path, start: Start, clock: FakeClock) -> None:
    dead_run(start, checkpoint)
    with CheckpointLock.acquire(checkpoint, "second", clock=clock) as lock:
        assert lock.took_over is not None
        assert lock.took_over.run_id == "first"
    assert clock.slept == 0


def test_a_number_that_was_given_to_another_process_is_not_the_owner(checkpoint: Path, start: Start) -> None:
    up(start, HOLD, str(checkpoint))
    file = Path(f"{checkpoint}.lock")
    fields = json.loads(file.read_bytes())
    fields["process"]["start_time"] = "of the one before"
    file.write_text(json.dumps(fields))
    with CheckpointLock.acquire(checkpoint, "second") as lock:
        assert lock.took_over is not None


def test_the_takeover_waits_until_the_jvm_ends_by_itself(
    checkpoint: Path, start: Start, clock: FakeClock
) -> None:
    stand_in, start_time = jvm(start)
    dead_run(start, checkpoint, str(stand_in.pid), start_time)

    def end_after_two_seconds() -> None:
        assert json.loads(Path(f"{checkpoint}.lock").read_bytes())["run_id"] == "first"
        if clock.slept >= 2:
            stand_in.kill()

    clock.on_sleep = end_after_two_seconds
    with CheckpointLock.acquire(checkpoint, "second", clock=clock) as lock:
        assert lock.took_over is not None
        assert lock.took_over.jvm is not None
        assert lock.took_over.jvm.pid == stand_in.pid
    assert 2 <= clock.slept < 3


def test_a_jvm_that_stays_is_killed(checkpoint: Path, start: Start) -> None:
    stand_in, start_time = jvm(start)
    dead_run(start, checkpoint, str(stand_in.pid), start_time)
    with CheckpointLock.acquire(checkpoint, "second", jvm_wait=0.2) as lock:
        assert not is_alive(stand_in.pid, start_time)
        assert lock.took_over is not None


def test_a_process_with_the_number_of_the_jvm_is_spared(checkpoint: Path, start: Start) -> None:
    stand_in, start_time = jvm(start)
    dead_run(start, checkpoint, str(stand_in.pid), "of the one before")
    with CheckpointLock.acquire(checkpoint, "second", jvm_wait=0.0):
        assert is_alive(stand_in.pid, start_time)


def test_a_jvm_that_can_not_be_killed_keeps_the_checkpoint(
    checkpoint: Path, start: Start, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in, start_time = jvm(start)
    dead_run(start, checkpoint, str(stand_in.pid), start_time)

    kill = os.kill

    def refuse(pid: int, number: int) -> None:
        if pid == stand_in.pid:
            raise PermissionError
        kill(pid, number)

    monkeypatch.setattr(os, "kill", refuse)
    with pytest.raises(CheckpointLockedError) as caught:
        CheckpointLock.acquire(checkpoint, "second", clock=clock)
    monkeypatch.undo()
    (problem,) = caught.value.problems
    assert problem.code == "HW-JVM-STILL-RUNNING"
    assert problem.params == {"run": "first", "pid": stand_in.pid, "checkpoint": str(checkpoint)}
    assert 15 <= clock.slept < 16


@pytest.mark.feature("F5", part="of many starters one wins")
def test_of_many_starters_exactly_one_wins(tmp_path: Path, start: Start) -> None:
    starters = [up(start, RACE, f"run-{number}") for number in range(6)]
    dead_run(start, tmp_path / "dead")
    left = (tmp_path / "dead.lock").read_bytes()
    # What they find: nothing, a dead owner's lock, half a lock; four times each.
    for number in range(12):
        checkpoint = tmp_path / f"checkpoint-{number}"
        if number % 3:
            Path(f"{checkpoint}.lock").write_bytes(left if number % 3 == 1 else left[:50])
        for starter in starters:
            starter.say(str(checkpoint))
        answers = [starter.line() for starter in starters]
        assert sorted(answers) == ["HW-CHECKPOINT-LOCKED"] * 5 + ["won"]
        owner = json.loads(Path(f"{checkpoint}.lock").read_bytes())["run_id"]
        assert owner == f"run-{answers.index('won')}"
