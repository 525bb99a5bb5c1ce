"""Runs of the scratch pipeline as processes of their own: started, watched, killed, and waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headwater.checkpoint import Owner, Process
from headwater.errors import CheckpointError, QueryFailedError
from headwater.errors.catalogue.proving import PROVE_TIMEOUT
from headwater.proof.checkpoints import QueryLog
from headwater.proof.points import Victim
from headwater.proof.scratch import ENVIRONMENT, ScratchPlan
from headwater.run_directory import RunDirectory
from headwater.values.processes import process_start_time

LOOK_SECONDS = 0.001
"""How often the logs are read: a kill comes within about this time."""
_DEATH_SECONDS = 30.0
_KILL = signal.SIGKILL


@dataclass
class Deadline:
    """The end of the time of a proof."""

    at: float
    timeout: str
    planned: int
    done: int = 0

    def check(self) -> None:
        """QueryFailedError after it."""
        if time.monotonic() > self.at:
            params = {"timeout": self.timeout, "kills": self.done, "planned": self.planned}
            raise QueryFailedError(PROVE_TIMEOUT.at(None, **params))


@dataclass
class ScratchRun:
    """One process of the driver, and its JVM."""

    process: subprocess.Popen[bytes]
    plan: ScratchPlan
    output: Path
    jvms: set[Process] = field(default_factory=set)
    was_killed: bool = False
    """A part of it was killed, so it can fail if the pipeline does not restart its queries."""

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        return self.process.poll()

    def look_for_jvm(self) -> Process | None:
        """The newest JVM of this run that is known; the lock of the run names it."""
        file = RunDirectory(self.plan.run_dir).checkpoints.with_name("checkpoints.lock")
        with suppress(OSError, CheckpointError):
            owner = Owner.from_bytes(file.read_bytes(), str(file))
            if owner and owner.process.pid == self.process.pid and owner.jvm:
                self.jvms.add(owner.jvm)
                return owner.jvm
        return None

    def kill(self, victim: Victim) -> bool:
        """SIGKILL; False if there was nothing to kill."""
        killed = self._kill(victim)
        self.was_killed = self.was_killed or killed
        return killed

    def _kill(self, victim: Victim) -> bool:
        jvm = self.look_for_jvm()
        if victim is Victim.WORKER:
            return self._kill_workers(jvm)
        if victim is Victim.JVM:
            return jvm is not None and _killed(jvm)
        if self.ended:
            return False
        # The driver first: it would notice the end of its JVM.
        self.process.kill()
        if victim is Victim.BOTH:
            for each in self.jvms:
                _killed(each)
        self.process.wait()
        if victim is Victim.BOTH:
            self._wait_for_jvms()
        return True

    def _kill_workers(self, jvm: Process | None) -> bool:
        found = _workers(jvm.pid) if jvm else []
        killed = 0
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, _KILL)
                killed += 1
        return killed > 0

    def _wait_for_jvms(self) -> None:
        deadline = time.monotonic() + _DEATH_SECONDS
        while any(each.alive for each in self.jvms) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Request a graceful stop."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def wait_until(self, condition: Callable[[], object], deadline: Deadline, seconds: float = 300.0) -> bool:
        """Whether a condition came true while the run was active."""
        last = time.monotonic() + seconds
        looked = time.perf_counter()
        while not condition():
            if self.ended or time.monotonic() > last:
                return bool(condition())
            deadline.check()
            # A question to a database takes longer than one to the logs, and is asked less often.
            time.sleep(max(LOOK_SECONDS, time.perf_counter() - looked))
            looked = time.perf_counter()
        return True

    def wait(self, deadline: Deadline) -> int:
        """The exit code of the run, without a kill."""
        while self.process.poll() is None:
            deadline.check()
            self.look_for_jvm()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)
        return self.process.returncode

    @property
    def last_words(self) -> str:
        """The last lines of its output, for a message."""
        text = self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        named = [line for line in lines if line.startswith("HW-") or ": HW-" in line]
        return (named or lines or ["no output"])[-1].rstrip(".")


def _killed(process: Process) -> bool:
    # Not a later process with the same number.
    if process_start_time(process.pid) != process.start_time:
        return False
    with suppress(ProcessLookupError):
        os.kill(process.pid, _KILL)
        return True
    return False


def _workers(jvm: int) -> list[int]:
    """The Python workers below a JVM, without the process that forks them."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    daemons = [pid for pid, parent in pairs if parent == jvm]
    return [pid for pid, parent in pairs if parent in daemons]


@dataclass
class Launcher:
    """Starts runs of the scratch pipeline, and ends what is left of them."""

    plan: ScratchPlan
    master: str | None
    conf: Mapping[str, str]
    module: str
    """Runs the scratch pipeline, as `headwater run --until-idle` does."""
    started: list[ScratchRun] = field(default_factory=list)

    def start(self) -> ScratchRun:
        """Start a run in a session of its own, so that a signal of the terminal does not reach it."""
        number = len(self.started)
        output = self.plan.path / f"run-{number}.log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                self._command(),
                env={**os.environ, ENVIRONMENT: self.plan.code},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        run = ScratchRun(process, self.plan, output)
        self.started.append(run)
        return run

    def _command(self) -> Sequence[str]:
        settings = [f"{key}={value}" for key, value in self.conf.items()]
        return [sys.executable, "-m", self.module, str(self.plan.file_of_plan), self.master or "", *settings]

    def close(self) -> None:
        """Kill what still runs."""
        for run in self.started[-2:]:
            run.look_for_jvm()
            if not run.ended:
                run.process.kill()
                run.process.wait()
            for jvm in run.jvms:
                _killed(jvm)


def query_log(plan: ScratchPlan, sink: str, group: str | None) -> QueryLog:
    """The logs of the query that writes a sink: sinks of a group share one."""
    directory = RunDirectory(plan.run_dir)
    own = directory.checkpoint(sink)
    return QueryLog(directory.checkpoint(group) if group and not own.is_dir() else own)
