"""The lock beside a checkpoint: one run at a time may write it."""

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
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from uuid import uuid4

from pydantic import AwareDatetime, TypeAdapter

from headwater.checkpoint.store import LocalStore, Store
from headwater.errors import CheckpointError, CheckpointHeld
from headwater.errors.catalogue import running as catalogue
from headwater.values.processes import is_alive, process_start_time

# Who holds a checkpoint: a process, its JVM, and where process numbers mean the same.

_VERSION = 1


@dataclass(frozen=True)
class Host:
    """Where process numbers mean the same: a host, since its last start, in one process namespace."""

    host: str
    boot_id: str | None
    pid_namespace: str | None

    @staticmethod
    def here() -> Host:
        return Host(socket.gethostname(), _boot_id(), _pid_namespace())


@dataclass(frozen=True)
class Process:
    """A process that can't be mistaken for a later one with the same number."""

    pid: int
    start_time: str

    @staticmethod
    def this() -> Process:
        start_time = process_start_time(os.getpid())
        if start_time is None:
            # Without it every other run would take this one for dead.
            raise OSError("the start time of this process can't be read")
        return Process(os.getpid(), start_time)

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.start_time)


@dataclass(frozen=True)
class Owner:
    """A run that holds a checkpoint: the content of the lock file.

    {"version": 1,
     "token": "…",                       made new at every acquisition: tells one's own lock from another's
     "epoch": 7,                         which acquisition it is
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
        """The owner that a lock file names; None when the file is not whole."""
        try:
            fields = json.loads(data)
            version = fields.pop("version")
            owner = _OWNER.validate_python(fields) if version == _VERSION else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if owner is None:
            raise CheckpointError(
                catalogue.LOCK_VERSION_UNSUPPORTED.at(file=file, version=version, known=_VERSION)
            )
        return owner


_OWNER = TypeAdapter(Owner)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Containers run under numbers that have no name.
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


_SILENCE = 60.0  # an owner that can't be looked at is alive while its heartbeat is younger, in seconds
_KILL_WAIT = 5.0  # how long a killed JVM may take to be gone
_GUARD_WAIT = 15.0  # how long a starter waits for others, beyond what they may wait for a JVM
_BEAT_WAIT = 1.0  # the same for an owner, who need not wait
_PAUSE = 0.05

Waiting = Callable[[int], AbstractContextManager[object]]
"""Is entered with the process id of a dead run's JVM while that is about to exit."""


class Clock(Protocol):
    """The time as the lock sees it."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def monotonic(self) -> float: ...

    def uptime(self) -> float:
        """Seconds since this machine started."""

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
    """One run's hold on one checkpoint; a context manager that lets go at the end.

        orders/             the checkpoint
        orders.lock         who holds it, as JSON: run, user, host, process, JVM, since when, last heartbeat
        orders.lock.epoch   the number of the newest acquisition; it stays when the lock goes
        orders.lock.guard   empty; held by flock while somebody looks at the lock in order to change it

    The lock file is made by create-if-absent. Looking at an owner, finding it dead and putting oneself in its
    place are three steps; the guard makes them one, so of many starters exactly one wins. The kernel frees
    the guard when its holder dies, so it is never stale; and it is never deleted, since two starters could
    then each hold a guard of their own.

    An owner is alive
    - in this place (same host, boot and process namespace): while its process is, however silent;
    - on this host before its last start: never;
    - anywhere else: while its heartbeat is younger than 60 seconds.

    A dead owner's JVM goes on for some seconds and would be a second writer: nobody takes over before it is
    gone. An owner must therefore call `name_jvm` before it starts a query. The lock does not stop a process
    that is paused for more than a minute on another host and then goes on: its next `heartbeat` tells it.
    Whoever stores something for a run can tell it from the next one by its `epoch`, which only ever grows.
    """

    def __init__(self, files: _Files, owner: Owner, took_over: Owner | None, clock: Clock) -> None:
        self._files = files
        self._owner = owner
        self._clock = clock
        self._held = True
        # The heartbeat comes from a thread of its own and may meet `release`; a signal handler that releases
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
        """Hold a checkpoint or raise `CheckpointHeld`; `took_over` then says whose dead run was replaced.

        `store` is the folder that holds the checkpoint. A dead owner's JVM gets `jvm_wait` seconds to end by
        itself before it is killed; `waiting` is entered with its process id meanwhile.
        """
        clock = clock or SystemClock()
        # Links are followed, so that every spelling of one checkpoint leads to the same lock.
        real = Path(os.path.realpath(checkpoint))
        files = _Files(real, store or LocalStore(real.parent))
        patience = jvm_wait + _KILL_WAIT + _GUARD_WAIT
        with files.usable():
            real.parent.mkdir(parents=True, exist_ok=True)
            mine = Owner.this_process(run_id, clock.now())
            with files.guarded(clock, patience) as guarded:
                if not guarded:
                    raise CheckpointHeld(
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
        """Greater than that of every acquisition before."""
        return self._owner.epoch

    def name_jvm(self, pid: int, start_time: str) -> None:
        """Write down which JVM works for this run; before any query starts in it."""
        self._renew(Process(pid, start_time))

    def heartbeat(self) -> None:
        """Say, every 10 seconds, that this run is alive; `CheckpointHeld` if another has the checkpoint."""
        self._renew()

    def release(self) -> None:
        """Let go; a lock that has become another's stays."""
        # A process forked from the owner has this object too, but not the checkpoint; and the turn that it
        # inherits may be taken for ever.
        if os.getpid() != self._owner.process.pid:
            return
        with self._turn, self._files.usable():
            if not self._held:
                return
            self._held = False
            # Where the whole folder is gone there is nothing left to let go of.
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
                    # A starter that keeps the guard finds this process alive and changes nothing, so a JVM is
                    # written down all the same. A mere beat is left out: nobody can take over meanwhile.
                    if guarded or jvm:
                        self._write(
                            replace(self._owner, heartbeat=self._clock.now(), jvm=jvm or self._owner.jvm)
                        )
            except FileNotFoundError as failure:
                raise CheckpointHeld(catalogue.LOCK_REMOVED.at(file=self._files.path)) from failure

    def _write(self, owner: Owner) -> None:
        self._files.store.replace(self._files.name, owner.to_bytes())
        self._owner = owner

    def _confirm(self) -> None:
        data = self._files.read()
        if self._is_ours(data):
            return
        other = Owner.from_bytes(data, self._files.path) if data else None
        if other is None:
            raise CheckpointHeld(catalogue.LOCK_REMOVED.at(file=self._files.path))
        raise CheckpointHeld(catalogue.LOCK_LOST.at(**self._files.held_by(other)))

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
            # A lock that can't be removed must not hide why the run ended; the next start sees a dead owner.
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
        """The newest epoch; under the guard only."""
        # A kill may have come after the lock was written and before the number was.
        data = self.read()
        owner = Owner.from_bytes(data, self.path) if data else None
        try:
            noted = int(self.store.read(self._epoch))
        except FileNotFoundError:
            noted = 0
        except ValueError as failure:
            raise OSError(f"{self.store.locate(self._epoch)} holds no number") from failure
        return max(noted, owner.epoch if owner else 0)

    def note_epoch(self, owner: Owner) -> None:
        """Keep the epoch of a new owner, who otherwise gives the lock back."""
        try:
            self.store.replace(self._epoch, b"%d\n" % owner.epoch)
        except BaseException:
            # An interrupt, too: nobody else could give back a lock of this process.
            self.store.delete(self.name)
            raise

    @contextmanager
    def usable(self) -> Iterator[None]:
        """What the file system refuses becomes an error of the catalogue."""
        try:
            yield
        except OSError as failure:
            reason = failure.strerror or str(failure)
            folder = str(self.checkpoint.parent)
            problem = catalogue.LOCK_UNUSABLE.at(file=self.path, reason=reason, folder=folder)
            raise CheckpointError(problem) from failure

    @contextmanager
    def guarded(self, clock: Clock, patience: float) -> Iterator[bool]:
        """Hold the guard; the value is False if others kept it for all of `patience` seconds."""
        descriptor = os.open(self.guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            yield _wait(lambda: _flock(descriptor), clock, patience)
        finally:
            # Closing is not enough: a child forked meanwhile would keep the guard with its copy.
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
    """Write this run into the lock; the dead owner that stood there, if any. Under the guard only."""
    while not files.store.create(files.name, mine.to_bytes()):
        data = files.read()
        if data is None:
            continue
        # The file is written under the guard, which is ours now, or renamed into place whole. One that is not
        # whole was left by a crash: its writer is dead and had not begun to work, so its age is not asked.
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
        raise CheckpointHeld(catalogue.CHECKPOINT_LOCKED_BY_THIS_PROCESS.at(**files.held_by(owner)))
    elif owner.process.alive:
        raise CheckpointHeld(catalogue.CHECKPOINT_LOCKED.at(**files.held_by(owner)))


def _refuse_if_heard(files: _Files, owner: Owner, here: Host, clock: Clock) -> None:
    """Judge an owner whose process can't be looked at by its last sign of life."""
    # The file's own time comes from the file server: a host whose clock is behind is not taken for dead.
    written = datetime.fromtimestamp(files.store.modified(files.name), UTC)
    seen, now = max(owner.heartbeat, written), clock.now()
    booted = now - timedelta(seconds=clock.uptime())
    # A sign of life after this machine's start comes from another machine with the same name.
    restarted = owner.place.host == here.host and owner.place.boot_id != here.boot_id and seen < booted
    free_at = seen + timedelta(seconds=_SILENCE)
    if not restarted and now < free_at:
        params = {**files.held_by(owner), "seen": _text(seen), "free_at": _text(free_at)}
        raise CheckpointHeld(catalogue.CHECKPOINT_LOCKED_ELSEWHERE.at(**params))


def _end_jvm(files: _Files, dead: Owner, jvm: Process, clock: Clock, jvm_wait: float) -> None:
    """Wait until a dead owner's JVM is gone, and kill it if it stays."""
    if _wait(lambda: not jvm.alive, clock, jvm_wait):
        return
    # It has just been seen alive under its own start time, so the number is still its own.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(jvm.pid, signal.SIGKILL)
    if not _wait(lambda: not jvm.alive, clock, _KILL_WAIT):
        raise CheckpointHeld(
            catalogue.JVM_STILL_RUNNING.at(run=dead.run_id, pid=jvm.pid, checkpoint=str(files.checkpoint))
        )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
