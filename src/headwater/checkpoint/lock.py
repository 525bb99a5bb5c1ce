"""The lock of a checkpoint: only one run at a time can write to it."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from uuid import uuid4

from pydantic import AwareDatetime, TypeAdapter

from headwater.checkpoint.store import LocalStore, Store
from headwater.errors import CheckpointError, CheckpointLockedError
from headwater.errors.catalogue import running as catalogue
from headwater.values.processes import is_alive, process_start_time

# The owner of a checkpoint: a process, its JVM, and where process IDs are comparable.

_VERSION = 1


@dataclass(frozen=True)
class Host:
    """Where process IDs are comparable: one host, since its last boot, in one process namespace."""

    host: str
    boot_id: str | None
    pid_namespace: str | None

    @staticmethod
    def here() -> Host:
        return Host(socket.gethostname(), _boot_id(), _pid_namespace())


@dataclass(frozen=True)
class Process:
    """A process that cannot be confused with a later one with the same ID."""

    pid: int
    start_time: str

    @staticmethod
    def this() -> Process:
        start_time = process_start_time(os.getpid())
        if start_time is None:
            # Without it, every other run would consider this one dead.
            raise OSError("could not read the start time of this process")
        return Process(os.getpid(), start_time)

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.start_time)


@dataclass(frozen=True)
class Owner:
    """A run that holds a checkpoint: the content of the lock file.

    {"version": 1,
     "token": "…",                       new at every acquisition: identifies one's own lock
     "epoch": 7,                         the number of the acquisition
     "run_id": "…", "user": "…",
     "place": {"host": "…", "boot_id": "…", "pid_namespace": "…"},      the last two only on Linux
     "process": {"pid": 1, "start_time": "…"},
     "jvm": {"pid": 2, "start_time": "…"},                              null until the JVM is started
     "since": "2026-01-01T00:00:00+00:00", "heartbeat": "2026-01-01T00:00:10+00:00"}
    """

    token: str
    run_id: str
    user: str
    place: Host
    process: Process
    jvm: Process | None
    since: AwareDatetime
    heartbeat: AwareDatetime
    epoch: int = 0

    @staticmethod
    def this_process(run_id: str, now: datetime) -> Owner:
        return Owner(uuid4().hex, run_id, _user(), Host.here(), Process.this(), None, now, now)

    def to_bytes(self) -> bytes:
        times = {"since": self.since.isoformat(), "heartbeat": self.heartbeat.isoformat()}
        return json.dumps({"version": _VERSION, **asdict(self), **times}, indent=1).encode() + b"\n"

    @staticmethod
    def from_bytes(data: bytes, file: str) -> Owner | None:
        """The owner in a lock file; None if the file is incomplete."""
        try:
            fields = json.loads(data)
            version = fields.pop("version")
            owner = _owner().validate_python(fields) if version == _VERSION else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if owner is None:
            raise CheckpointError(
                catalogue.LOCK_VERSION_UNSUPPORTED.at(file=file, version=version, known=_VERSION)
            )
        return owner


@cache
def _owner() -> TypeAdapter[Owner]:
    # Built when it is first used: that takes longer than loading the module.
    return TypeAdapter(Owner)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Containers run under user IDs without a name.
        return str(os.getuid())


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


_SILENCE = 60.0  # an owner that cannot be inspected is alive while its heartbeat is younger, in seconds
_KILL_WAIT = 5.0  # how long a killed JVM may take to exit
_GUARD_WAIT = 15.0  # how long a starter waits for others, in addition to their wait for a JVM
_BEAT_WAIT = 1.0  # the same for an owner, which does not need to wait
_PAUSE = 0.05

Waiting = Callable[[int], AbstractContextManager[object]]
"""Entered with the process ID of a dead run's JVM while it is about to exit."""


class Clock(Protocol):
    """The time as the lock sees it."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def monotonic(self) -> float: ...

    def uptime(self) -> float:
        """Seconds since this machine booted."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def uptime(self) -> float:
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class CheckpointLock:
    """One run's lock on one checkpoint; a context manager that releases it at the end.

        orders/             the checkpoint
        orders.lock         the owner, as JSON: run, user, host, process, JVM, since when, last heartbeat
        orders.lock.epoch   the number of the newest acquisition; it stays when the lock is released
        orders.lock.guard   empty; held by flock while a process reads the lock in order to change it

    The lock file is created atomically, only if it does not exist. Reading an owner, finding it dead and
    taking over are three steps; the guard makes them one, so exactly one of many starters wins. The kernel
    releases the guard when its holder dies, so it is never stale. It is never deleted, because two starters
    could then each hold a guard of their own.

    An owner is alive
    - on this host, boot and process namespace: while its process is alive, regardless of its heartbeat;
    - on this host before its last boot: never;
    - anywhere else: while its heartbeat is younger than 60 seconds.

    A dead owner's JVM keeps running for some seconds and would be a second writer: no run takes over before
    it has exited. An owner must therefore call `name_jvm` before it starts a query. The lock does not stop a
    process on another host that was paused for more than a minute and then continues: its next `heartbeat`
    raises an error. Data stored for a run can be distinguished from that of the next run by its `epoch`,
    which only grows.
    """

    def __init__(self, files: _Files, owner: Owner, took_over: Owner | None, clock: Clock) -> None:
        self._files = files
        self._owner = owner
        self._clock = clock
        self._held = True
        # The heartbeat runs in its own thread and may coincide with `release`. A signal handler that releases
        # may interrupt a release in the same thread.
        self._turn = threading.RLock()
        self.took_over = took_over

    @classmethod
    def acquire(
        cls,
        checkpoint: Path,
        run_id: str,
        *,
        clock: Clock | None = None,
        store: Store | None = None,
        jvm_wait: float = 10.0,
        waiting: Waiting = lambda pid: nullcontext(),
    ) -> Self:
        """Lock a checkpoint or raise `CheckpointLockedError`; `took_over` is the dead run it replaced.

        `store` is the directory that contains the checkpoint. A dead owner's JVM gets `jvm_wait` seconds to
        exit before it is killed; meanwhile, `waiting` is entered with its process ID.
        """
        clock = clock or SystemClock()
        # Resolve links, so that every path of one checkpoint leads to the same lock.
        real = Path(os.path.realpath(checkpoint))
        files = _Files(real, store or LocalStore(real.parent))
        patience = jvm_wait + _KILL_WAIT + _GUARD_WAIT
        with files.usable():
            real.parent.mkdir(parents=True, exist_ok=True)
            mine = Owner.this_process(run_id, clock.now())
            with files.guarded(clock, patience) as guarded:
                if not guarded:
                    raise CheckpointLockedError(
                        catalogue.CHECKPOINT_BUSY.at(
                            checkpoint=str(real), seconds=patience, guard=str(files.guard)
                        )
                    )
                mine = replace(mine, epoch=files.epoch() + 1)
                took_over = _take(files, mine, clock, jvm_wait, waiting)
                files.note_epoch(mine)
        return cls(files, mine, took_over, clock)

    @property
    def owner(self) -> Owner:
        return self._owner

    @property
    def epoch(self) -> int:
        """Greater than that of every earlier acquisition."""
        return self._owner.epoch

    def name_jvm(self, pid: int, start_time: str) -> None:
        """Record which JVM works for this run. Call this before any query starts in it."""
        self._renew(Process(pid, start_time))

    def heartbeat(self) -> None:
        """Renew the heartbeat, every 10 seconds; `CheckpointLockedError` if the checkpoint was taken over."""
        self._renew()

    def release(self) -> None:
        """Release the lock; a lock that another run has taken stays."""
        # A process forked from the owner also has this object, but not the checkpoint, and the lock that it
        # inherits may be held forever.
        if os.getpid() != self._owner.process.pid:
            return
        with self._turn, self._files.usable():
            if not self._held:
                return
            self._held = False
            # If the whole directory is gone, there is nothing to release.
            with suppress(FileNotFoundError), self._files.guarded(self._clock, _BEAT_WAIT):
                if self._is_ours(self._files.read()):
                    self._files.store.delete(self._files.name)

    def _renew(self, jvm: Process | None = None) -> None:
        with self._turn, self._files.usable():
            if not self._held:
                return
            try:
                with self._files.guarded(self._clock, _BEAT_WAIT) as guarded:
                    self._confirm()
                    # A starter that holds the guard finds this process alive and changes nothing, so the JVM
                    # is recorded anyway. A mere heartbeat is skipped: no run can take over meanwhile.
                    if guarded or jvm:
                        self._write(
                            replace(self._owner, heartbeat=self._clock.now(), jvm=jvm or self._owner.jvm)
                        )
            except FileNotFoundError as failure:
                raise CheckpointLockedError(catalogue.LOCK_REMOVED.at(file=self._files.path)) from failure

    def _write(self, owner: Owner) -> None:
        self._files.store.replace(self._files.name, owner.to_bytes())
        self._owner = owner

    def _confirm(self) -> None:
        data = self._files.read()
        if self._is_ours(data):
            return
        other = Owner.from_bytes(data, self._files.path) if data else None
        if other is None:
            raise CheckpointLockedError(catalogue.LOCK_REMOVED.at(file=self._files.path))
        raise CheckpointLockedError(catalogue.LOCK_LOST.at(**self._files.held_by(other)))

    def _is_ours(self, data: bytes | None) -> bool:
        owner = Owner.from_bytes(data, self._files.path) if data else None
        return owner is not None and owner.token == self._owner.token

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.release()
        else:
            # A lock that cannot be removed must not hide the original error; the next start finds a dead
            # owner.
            with suppress(CheckpointError):
                self.release()


class _Files:
    """The lock file and the guard of one checkpoint."""

    def __init__(self, checkpoint: Path, store: Store) -> None:
        self.checkpoint = checkpoint
        self.store = store
        self.name = f"{checkpoint.name}.lock"
        self.path = store.locate(self.name)
        self._epoch = f"{self.name}.epoch"
        self.guard = checkpoint.parent / f"{self.name}.guard"

    def held_by(self, owner: Owner) -> dict[str, object]:
        """The parameters of a problem that names an owner."""
        return {
            "checkpoint": str(self.checkpoint),
            "run": owner.run_id,
            "pid": owner.process.pid,
            "user": owner.user,
            "host": owner.place.host,
            "since": _text(owner.since),
        }

    def read(self) -> bytes | None:
        try:
            return self.store.read(self.name)
        except FileNotFoundError:
            return None

    def epoch(self) -> int:
        """The newest epoch; only under the guard."""
        # A kill may have happened after the lock was written and before the epoch was.
        data = self.read()
        owner = Owner.from_bytes(data, self.path) if data else None
        try:
            noted = int(self.store.read(self._epoch))
        except FileNotFoundError:
            noted = 0
        except ValueError as failure:
            raise OSError(f"{self.store.locate(self._epoch)} does not contain a number") from failure
        return max(noted, owner.epoch if owner else 0)

    def note_epoch(self, owner: Owner) -> None:
        """Store the epoch of a new owner; on failure, release its lock."""
        try:
            self.store.replace(self._epoch, b"%d\n" % owner.epoch)
        except BaseException:
            # Including an interrupt: no other code could release a lock of this process.
            self.store.delete(self.name)
            raise

    @contextmanager
    def usable(self) -> Iterator[None]:
        """Turn file system errors into an error of the catalogue."""
        try:
            yield
        except OSError as failure:
            reason = failure.strerror or str(failure)
            directory = str(self.checkpoint.parent)
            problem = catalogue.LOCK_UNUSABLE.at(file=self.path, reason=reason, directory=directory)
            raise CheckpointError(problem) from failure

    @contextmanager
    def guarded(self, clock: Clock, patience: float) -> Iterator[bool]:
        """Hold the guard; the value is False if others held it for all of `patience` seconds."""
        descriptor = os.open(self.guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            yield _wait(lambda: _flock(descriptor), clock, patience)
        finally:
            # Closing is not enough: a child forked meanwhile would keep the guard through its copy.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(condition: Callable[[], bool], clock: Clock, patience: float) -> bool:
    deadline = clock.monotonic() + patience
    while not condition():
        if clock.monotonic() >= deadline:
            return False
        clock.sleep(_PAUSE)
    return True


def _take(files: _Files, mine: Owner, clock: Clock, jvm_wait: float, waiting: Waiting) -> Owner | None:
    """Write this run into the lock; returns the dead owner it replaced, if any. Only under the guard."""
    while not files.store.create(files.name, mine.to_bytes()):
        data = files.read()
        if data is None:
            continue
        # The file is written under the guard, which this run holds, or renamed when it is complete. An
        # incomplete one was left by a crash: its writer is dead and had not started to work, so its age does
        # not matter.
        dead = Owner.from_bytes(data, files.path)
        if dead is not None:
            _refuse_if_alive(files, dead, mine, clock)
            if dead.jvm and dead.place == mine.place and dead.jvm.alive:
                with waiting(dead.jvm.pid):
                    _end_jvm(files, dead, dead.jvm, clock, jvm_wait)
        files.store.replace(files.name, mine.to_bytes())
        return dead
    return None


def _refuse_if_alive(files: _Files, owner: Owner, mine: Owner, clock: Clock) -> None:
    if owner.place != mine.place:
        _refuse_if_heard(files, owner, mine.place, clock)
    elif owner.process == mine.process:
        raise CheckpointLockedError(catalogue.CHECKPOINT_LOCKED_BY_THIS_PROCESS.at(**files.held_by(owner)))
    elif owner.process.alive:
        raise CheckpointLockedError(catalogue.CHECKPOINT_LOCKED.at(**files.held_by(owner)))


def _refuse_if_heard(files: _Files, owner: Owner, here: Host, clock: Clock) -> None:
    """Reject an owner whose process cannot be inspected if its heartbeat is recent."""
    # The file's own time comes from the file server, so a host whose clock is behind is not considered dead.
    written = datetime.fromtimestamp(files.store.modified(files.name), UTC)
    seen, now = max(owner.heartbeat, written), clock.now()
    booted = now - timedelta(seconds=clock.uptime())
    # A heartbeat after this machine's boot comes from a different machine with the same name.
    restarted = owner.place.host == here.host and owner.place.boot_id != here.boot_id and seen < booted
    free_at = seen + timedelta(seconds=_SILENCE)
    if not restarted and now < free_at:
        params = {**files.held_by(owner), "seen": _text(seen), "free_at": _text(free_at)}
        raise CheckpointLockedError(catalogue.CHECKPOINT_LOCKED_ELSEWHERE.at(**params))


def _end_jvm(files: _Files, dead: Owner, jvm: Process, clock: Clock, jvm_wait: float) -> None:
    """Wait until a dead owner's JVM has exited, and kill it if it does not."""
    if _wait(lambda: not jvm.alive, clock, jvm_wait):
        return
    # It was just seen alive under its own start time, so the ID is still its own.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(jvm.pid, signal.SIGKILL)
    if not _wait(lambda: not jvm.alive, clock, _KILL_WAIT):
        raise CheckpointLockedError(
            catalogue.JVM_STILL_RUNNING.at(run=dead.run_id, pid=jvm.pid, checkpoint=str(files.checkpoint))
        )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
