"""The locks of a run: one per checkpoint and one for the directory, acquired and released together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from headwater.checkpoint import CheckpointLock, Owner
from headwater.checkpoint.lock import Waiting
from headwater.errors import CheckpointError, CheckpointLockedError

BEAT_SECONDS = 10.0


class RunLocks:
    """Locks every checkpoint of a run, or none."""

    def __init__(
        self,
        checkpoints: Iterable[Path],
        run_id: str,
        waiting: Waiting = lambda pid: nullcontext(),
    ) -> None:
        self._waiting = waiting
        self._waited: dict[int, float] = {}
        self._locks: list[CheckpointLock] = []
        self._done = threading.Event()
        self._turn = threading.Lock()
        self._held: CheckpointLockedError | None = None
        self._when_lost: Callable[[CheckpointLockedError], None] | None = None
        self._thread = threading.Thread(target=self._beat, daemon=True, name="headwater locks")
        try:
            for checkpoint in checkpoints:
                self._locks.append(CheckpointLock.acquire(checkpoint, run_id, waiting=self._timed))
        except BaseException:
            self.release()
            raise

    @property
    def epoch(self) -> int:
        """The number of this run in its directory, whose lock is the last one."""
        return self._locks[-1].epoch

    @property
    def taken_over(self) -> list[str]:
        """Descriptions of the dead owners whose locks this run took over."""
        owners = [lock.took_over for lock in self._locks if lock.took_over]
        return sorted(
            {f"process {each.process.pid} on {each.place.host}{self._exit_of(each)}" for each in owners}
        )

    def _exit_of(self, dead: Owner) -> str:
        seconds = self._waited.get(dead.jvm.pid) if dead.jvm else None
        return "" if seconds is None else f", whose JVM took {seconds:.1f} s to exit"

    @contextmanager
    def _timed(self, pid: int) -> Iterator[None]:
        began = time.monotonic()
        with self._waiting(pid):
            yield
        self._waited[pid] = time.monotonic() - began

    def name_jvm(self, pid: int | None, start_time: str | None) -> None:
        """Record which JVM will write. Call this before any query starts."""
        if pid is not None and start_time is not None:
            for lock in self._locks:
                lock.name_jvm(pid, start_time)

    def keep_alive(self) -> None:
        """Renew the locks until release. Start early: a startup can take many minutes."""
        self._thread.start()

    def when_lost(self, lost: Callable[[CheckpointLockedError], None]) -> None:
        """Call `lost` when another run has taken a lock; immediately if that has already happened."""
        with self._turn:
            self._when_lost = lost
            held = self._held
        if held:
            lost(held)

    def refuse_if_lost(self) -> None:
        """Raise `CheckpointLockedError` if another run has taken a lock."""
        if self._held:
            raise self._held

    def confirm(self) -> None:
        """Renew the heartbeat; `CheckpointLockedError` if another run has taken a checkpoint."""
        self.refuse_if_lost()
        for lock in self._locks:
            lock.heartbeat()

    def release(self) -> None:
        """Release every lock."""
        self._done.set()
        for lock in self._locks:
            # A lock that cannot be removed names a process that is about to exit. The next start detects
            # this.
            with suppress(CheckpointError):
                lock.release()

    def _beat(self) -> None:
        while not self._done.wait(BEAT_SECONDS):
            for lock in self._locks:
                try:
                    lock.heartbeat()
                except CheckpointLockedError as held:
                    self._lose(held)
                    return
                except CheckpointError:
                    # The disk did not respond. No run can take over meanwhile, and the next beat retries.
                    continue

    def _lose(self, held: CheckpointLockedError) -> None:
        # Either this call or `when_lost` sees the other's value, so `lost` is called exactly once.
        with self._turn:
            self._held = held
            lost = self._when_lost
        if lost:
            lost(held)
