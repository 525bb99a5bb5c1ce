"""The process that starts a sandboxed command, ends all of it, and goes when its own parent goes.

It runs in a bare Python (`-I -S`): nothing of the user's, such as a `sitecustomize`, runs out of the sandbox.
Its standard input is a pipe that the parent holds open for as long as the command may run.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import sleep

from headwater.programs.sandbox.namespaces import (
    adopt_orphans,
    die_with_parent,
    enclose,
    restrict_writes,
    separate,
)

FILES, MOUNTS = "changes", "mounts"
"""Below the scratch directory: what the command may write, and where the sandbox mounts its view."""
_UNAVAILABLE = 97
_BY_SIGNAL = 128


class Kind(StrEnum):
    """How a command is isolated; it is the last argument of the command."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Order:
    """What to run, and where."""

    command: tuple[str, ...]
    kinds: tuple[str, ...]
    """The sandboxes to try."""
    scratch: str
    own: tuple[str, ...]
    """Directories in which the user writes."""
    network: bool
    """Whether it may use the network."""
    parent: int
    """The process that holds the pipe."""
    begin: int
    """A pipe that hears of the beginning."""


def main() -> None:
    """Run one command; the first argument has the order as JSON."""
    order = json.loads(sys.argv[1])
    adopt_orphans()
    heard, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    begun, begin = os.pipe()
    status = None
    for kind in map(Kind, order["kinds"]):
        status = _run(kind, Order(**order, begin=begin), heard)
        # Once the command has begun, its exit code is its own, and it never runs a second time.
        if status is None or select.select([begun], [], [], 0)[0]:
            break
    if os.getppid() != order["parent"]:
        # The parent is gone and cannot clean up.
        shutil.rmtree(order["scratch"], ignore_errors=True)
    sys.exit(_BY_SIGNAL + signal.SIGKILL if status is None else status)


def _run(kind: Kind, order: Order, heard: int) -> int | None:
    """Run the command in one kind of sandbox: its exit code, or None where it was to be ended."""
    first = os.fork()
    if first == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            _STARTS[kind](order)
        finally:
            os._exit(_UNAVAILABLE)
    status = None
    while status is None:
        ready, _, _ = select.select([sys.stdin.fileno(), heard], [], [])
        if sys.stdin.fileno() in ready:
            break
        os.read(heard, 1024)
        status = _reap(first)
    _end_all(first)
    return status


def _in_namespaces(order: Order) -> None:
    base, network = Path(order.scratch), order.network
    user_namespace = separate(network)
    # Linux may forget this when a process gets other privileges.
    die_with_parent()
    first = os.fork()
    if first:
        os._exit(_wait(first))
    die_with_parent()
    # The first process of a namespace gets only the signals that it has a handler for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    enclose(base / MOUNTS, base / FILES, order.own, network=network, user_namespace=user_namespace)
    script = os.fork()
    if not script:
        _become(order, Kind.NAMESPACES)
    # When this process ends, the kernel kills all others of the namespace.
    os._exit(_wait(script))


def _behind_landlock(order: Order) -> None:
    restrict_writes(Path(order.scratch, FILES))
    _become(order, Kind.LANDLOCK)


def _become(order: Order, kind: Kind) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.write(order.begin, b".")
    os.execv(order.command[0], [*order.command, kind])


_STARTS: dict[Kind, Callable[[Order], None]] = {
    Kind.NAMESPACES: _in_namespaces,
    Kind.LANDLOCK: _behind_landlock,
    Kind.NONE: lambda order: _become(order, Kind.NONE),
}


def _wait(child: int) -> int:
    """Reap every process that ends, until this one does."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            return _code(status)


def _reap(first: int) -> int | None:
    """Take note of processes that have ended; the result is that of the first one."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found = _code(ended[1]) if ended[0] == first else found
    return found


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return _BY_SIGNAL - code if code < 0 else code


def _end_all(group: int) -> None:
    """Kill every descendant, and return when none is left."""
    while True:
        left = list(_descendants(group))
        for each in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        _reap(group)
        if not left:
            return
        sleep(0.005)


def _descendants(group: int) -> Iterator[int]:
    """What is left of a command, whose first process also leads its group.

    On Linux every orphan has become a child of this process; elsewhere one that left the group is missed.
    """
    known = {os.getpid()}
    table = list(_from_proc() if sys.platform == "linux" else _from_ps())
    for _ in table:
        found = {pid for pid, parent, at in table if parent in known or at == group} - known
        if not found:
            return
        known |= found
        yield from found


def _from_proc() -> Iterator[tuple[int, int, int]]:
    """The number, the parent and the group of every process."""
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, parent, group = each.read_text(errors="replace").rpartition(")")[2].split()[:3]
            yield int(each.parent.name), int(parent), int(group)


def _from_ps() -> Iterator[tuple[int, int, int]]:
    """The same elsewhere, without the process that lists them."""
    lister = subprocess.Popen(["ps", "-axo", "pid=,ppid=,pgid="], stdout=subprocess.PIPE, text=True)
    for line in lister.communicate()[0].splitlines():
        pid, parent, group = map(int, line.split())
        if pid != lister.pid:
            yield pid, parent, group
