"""Who holds a checkpoint: a process, its JVM, and where process numbers mean the same."""

from __future__ import annotations

import getpass
import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from headwater.errors import CheckpointError
from headwater.errors.catalogue import checkpoints as catalogue
from headwater.values.processes import is_alive, process_start_time

_VERSION = 1


@dataclass(frozen=True)
class Place:
    """Where process numbers mean the same: a host, since its last start, in one process namespace."""

    host: str
    boot_id: str | None
    pid_namespace: str | None

    @staticmethod
    def here() -> Place:
        return Place(socket.gethostname(), _boot_id(), _pid_namespace())


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
     "run_id": "…", "user": "…",
     "place": {"host": "…", "boot_id": "…", "pid_namespace": "…"},      the last two only on Linux
     "process": {"pid": 1, "start_time": "…"},
     "jvm": {"pid": 2, "start_time": "…"},                              null until the JVM is started
     "since": "2026-01-01T00:00:00+00:00", "heartbeat": "2026-01-01T00:00:10+00:00"}
    """

    token: str
    run_id: str
    user: str
    place: Place
    process: Process
    jvm: Process | None
    since: datetime
    heartbeat: datetime

    @staticmethod
    def this_process(run_id: str, now: datetime) -> Owner:
        return Owner(uuid4().hex, run_id, _user(), Place.here(), Process.this(), None, now, now)

    def to_bytes(self) -> bytes:
        times = {"since": self.since.isoformat(), "heartbeat": self.heartbeat.isoformat()}
        return json.dumps({"version": _VERSION, **asdict(self), **times}, indent=1).encode() + b"\n"

    @staticmethod
    def from_bytes(data: bytes, file: str) -> Owner | None:
        """The owner that a lock file names; None when the file is not whole."""
        try:
            fields = json.loads(data)
            version = fields.pop("version")
            owner = _owner(fields) if version == _VERSION else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if owner is None:
            raise CheckpointError(catalogue.LOCK_VERSION.at(file=file, version=version, known=_VERSION))
        return owner


def _owner(fields: dict[str, Any]) -> Owner:
    return Owner(
        token=str(fields["token"]),
        run_id=str(fields["run_id"]),
        user=str(fields["user"]),
        place=Place(**fields["place"]),
        process=_process(fields["process"]),
        jvm=_process(fields["jvm"]) if fields["jvm"] is not None else None,
        since=_moment(fields["since"]),
        heartbeat=_moment(fields["heartbeat"]),
    )


def _process(fields: dict[str, Any]) -> Process:
    return Process(int(fields["pid"]), str(fields["start_time"]))


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return moment


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
