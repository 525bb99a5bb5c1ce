"""One kill: wait for its point, kill, and find out which point was really reached.

Where a moment is too short to be hit, such as between the commits of a sink and of Spark, the run is killed just
after it, and the log is edited to what a crash in that moment leaves behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.contract import HoldLost
from headwater.proof.checkpoints import Progress, QueryLog
from headwater.proof.contents import Contents
from headwater.proof.points import PlannedKill, Victim
from headwater.proof.runs import Deadline, ScratchRun
from headwater.values import count_of

if TYPE_CHECKING:
    from headwater.connectors.contract import Held

_START_SECONDS = 2.5
"""How late in a start a kill comes at most, after the JVM is launched."""
_STOP_SECONDS = 0.3
"""How long after the request of a graceful stop a kill comes at most."""
_COMMIT_SECONDS = 0.02
"""How long after the end of a wait a transaction is killed at most."""
_BLOCKED_SECONDS = 20.0
_STAGE_BATCHES = 1.5
"""Where the store does not show that a commit waits: after this many usual batches, it does."""


@dataclass(frozen=True)
class KillResult:
    """What one kill hit."""

    reached: bool
    batch: int | None = None
    """The batch that was planned last."""
    state: str = ""
    """Where its query was, by the logs and the sink."""
    edited: bool = False
    """A log was edited afterwards to the state that a crash in that moment leaves."""
    killed: bool = True
    """Something was killed, at the point or not."""
    finished: bool = False
    """The run had processed all input before the point."""


@dataclass
class Strike:
    """The scene of one kill."""

    kill: PlannedKill
    run: ScratchRun
    log: QueryLog
    contents: Contents
    deadline: Deadline
    usual: float
    """How long a batch usually takes, in seconds."""
    others: tuple[QueryLog, ...] = ()
    """The logs of the other queries."""

    def __call__(self) -> KillResult:
        """Kill at the point; not reached if the run was done before."""
        steps: dict[str, Callable[[], KillResult]] = {
            "before-offsets": self._between_batches,
            "after-offsets": lambda: self._in_batch(0.0),
            "mid-task": lambda: self._in_batch(max(0.02, self.usual * self.kill.chance)),
            "worker": self._worker,
            "after-staging": lambda: self._held(release=False),
            "before-sink-commit": lambda: self._held(release=True),
            "after-sink-commit": self._after_sink_commit,
            "before-spark-commit": self._before_spark_commit,
            "during-restart": self._restart,
            "during-stop": self._stop,
            "connection": self._connection,
            "random": self._random,
        }
        return steps[self.kill.point.name]()

    # Waiting for a moment.

    def _next_plan(self) -> bool:
        """Wait for a batch that no earlier run has planned."""
        before = self.log.planned
        return self.run.wait_until(lambda: self.log.planned > before, self.deadline)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.run.wait_until(lambda: time.monotonic() >= end, self.deadline)

    @property
    def _newest(self) -> int | None:
        return self.contents.newest_batch(self.kill.sink)

    # The points.

    def _between_batches(self) -> KillResult:
        before = self.log.committed
        if not self.run.wait_until(lambda: self.log.committed > before, self.deadline):
            return self._missed()
        killed, edited = self.run.kill(self.kill.victim), False
        progress, newest = self.log.progress, self._newest
        dead = killed and self.kill.victim is Victim.BOTH
        if dead and progress.unfinished and newest is not None and newest < progress.planned:
            # The next batch was planned before the kill, and the sink has nothing of it.
            self.log.forget_plan(progress.planned)
            progress, edited = self.log.progress, True
        reached = killed and not progress.unfinished
        return KillResult(reached, progress.planned, _state(progress, newest), edited=edited, killed=killed)

    def _in_batch(self, later: float) -> KillResult:
        if not self._next_plan():
            return self._missed()
        self._pause(later)
        return self._strike(_is_unwritten)

    def _worker(self) -> KillResult:
        if not self._next_plan():
            return self._missed()
        before = self.log.progress
        killed = self.run.wait_until(
            lambda: self.run.kill(Victim.WORKER) or self.log.committed >= before.planned, self.deadline
        )
        reached = killed and self.log.committed < before.planned
        state = f"batch {before.planned} was planned" if reached else "no worker runs"
        return KillResult(reached, before.planned, state)

    def _held(self, *, release: bool) -> KillResult:
        if not self._past_first_batch():
            return self._missed()
        killed = False
        try:
            with self.contents.hold(self.kill.sink) as held:
                if not self._until_waiting(held):
                    return self._missed()
                if not release:
                    killed = self.run.kill(self.kill.victim)
        except HoldLost:
            if not killed:
                return self._missed()
        if release:
            self._pause(_COMMIT_SECONDS * self.kill.chance)
            killed = self.run.kill(self.kill.victim)
        # Only now: an embedded database has one connection at a time.
        return self._inspect(killed, _is_unwritten)

    def _connection(self) -> KillResult:
        if not self._past_first_batch():
            return self._missed()
        terminated = 0
        try:
            with self.contents.hold(self.kill.sink) as held:
                if held is None or not self._until_waiting(held):
                    return self._missed()
                planned, terminated = self.log.planned, held.disconnect()
                self.run.was_killed = self.run.was_killed or terminated > 0
        except HoldLost:
            if not terminated:
                return self._missed()
        state = f"{count_of(terminated, 'connection')} terminated"
        return KillResult(terminated > 0, planned, state)

    def _past_first_batch(self) -> bool:
        """Wait for a commit of this run: its first batch also claims the ledger."""
        before = self.log.committed
        return self.run.wait_until(lambda: self.log.committed > before, self.deadline)

    def _until_waiting(self, held: Held | None) -> bool:
        """Until the commit of a new batch waits for the lock."""
        if held is None or not self.run.wait_until(lambda: self.log.progress.unfinished, self.deadline):
            return False
        if held.waiting() is None:
            self._pause(max(0.2, _STAGE_BATCHES * self.usual))
            return not self.run.ended
        return self.run.wait_until(held.waiting, self.deadline, _BLOCKED_SECONDS)

    def _after_sink_commit(self) -> KillResult:
        planned, committed = self.log.planned, self.log.committed

        def is_there() -> bool:
            # An earlier run can have written the batch that was planned before.
            newest = self._newest
            return (newest is not None and newest > planned) or self.log.committed > max(planned, committed)

        if not self.run.wait_until(is_there, self.deadline):
            return self._missed()
        return self._strike_before_commit()

    def _before_spark_commit(self) -> KillResult:
        committed = self.log.committed
        if not self.run.wait_until(lambda: self.log.committed > committed, self.deadline):
            return self._missed()
        return self._strike_before_commit()

    def _restart(self) -> KillResult:
        before = self.log.progress
        if not self.run.wait_until(self.run.look_for_jvm, self.deadline):
            return self._missed()
        self._pause(_START_SECONDS * self.kill.chance)
        return self._strike(lambda progress, newest: progress == before)

    def _stop(self) -> KillResult:
        if not self._next_plan():
            return self._missed()
        self.run.stop()
        self._pause(_STOP_SECONDS * self.kill.chance)
        if self.run.ended:
            return KillResult(False, self.log.planned, "the run had stopped", killed=False)
        return self._strike(lambda progress, newest: True)

    def _random(self) -> KillResult:
        if not self.run.wait_until(self.run.look_for_jvm, self.deadline):
            return self._missed()
        self._pause((3.0 + 4 * self.usual) * self.kill.chance)
        if self.run.ended:
            return self._missed()
        return self._strike(lambda progress, newest: True)

    # Killing.

    def _missed(self) -> KillResult:
        finished = self.run.exit_code == 0
        why = "the run had no more batches" if finished else "the run did not come to this point"
        return KillResult(False, None, why, killed=False, finished=finished)

    def _strike(self, is_at_point: Callable[[Progress, int | None], bool]) -> KillResult:
        """Kill, and compare the logs with the point."""
        return self._inspect(self.run.kill(self.kill.victim), is_at_point)

    def _inspect(self, killed: bool, is_at_point: Callable[[Progress, int | None], bool]) -> KillResult:
        progress, newest = self.log.progress, self._newest
        reached = killed and is_at_point(progress, newest)
        return KillResult(reached, progress.planned, _state(progress, newest), killed=killed)

    def _strike_before_commit(self) -> KillResult:
        """Kill, and let the newest batch of every query be without Spark's commit: all can crash in that moment."""
        killed = self.run.kill(Victim.BOTH)
        edited = killed and self._forget_commit(self.log)
        for other in self.others if killed else ():
            self._forget_commit(other)
        progress, newest = self.log.progress, self._newest
        # A store that does not show its batches has this one: Spark had committed it.
        written = edited or (newest is not None and newest >= progress.planned)
        reached = killed and progress.unfinished and written
        return KillResult(reached, progress.planned, _state(progress, newest), edited=edited)

    def _forget_commit(self, log: QueryLog) -> bool:
        progress = log.progress
        if progress.unfinished or progress.committed < 0:
            return False
        log.forget_commit(progress.committed)
        return True


def _is_unwritten(progress: Progress, newest: int | None) -> bool:
    return progress.unfinished and (newest is None or newest < progress.planned)


def _state(progress: Progress, newest: int | None) -> str:
    if progress.planned < 0:
        return "no batch was planned"
    if not progress.unfinished:
        return f"batch {progress.committed} was committed"
    if newest is not None and newest >= progress.planned:
        return f"the sink had batch {progress.planned}, and Spark had not committed it"
    return f"batch {progress.planned} was planned"
