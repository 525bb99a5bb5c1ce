"""Intercepts what a checked script does besides Spark: starting processes and, if needed, writing files.

The sandbox prevents side effects. This module reports the line that has one, and lets the script continue if
possible. It permanently replaces Python functions in this process.
"""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue import programs
from headwater.programs.sandbox.launcher import Kind
from headwater.values.user_frames import own_place, spark_asks

_FORKS = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "pty.spawn")
_NETWORK = ("socket.connect", "socket.sendto", "socket.sendmsg")
_FIRST, _SECOND, _BOTH = slice(0, 1), slice(1, 2), slice(0, 2)
_BELOW = ("os.remove", "os.rmdir", "os.mkdir", "os.rename", "os.link", "os.symlink")
_CHANGES = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown"), _FIRST),
    **dict.fromkeys(("os.utime", "shutil.rmtree", "sqlite3.connect", "open"), _FIRST),
    **dict.fromkeys(("os.link", "os.symlink"), _SECOND),
    "os.rename": _BOTH,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOWHERE = (":memory:", "", os.devnull)
# Arguments that a no-op process does not need or would fail with.
_DROPPED = ("executable", "preexec_fn", "shell", "cwd", "env", "user", "group", "extra_groups")
_MOST_SHOWN = 60

Tell = Callable[[Problem], None]


def catch_outside(kind: Kind, *, network: bool, files: Path, tell: Tell) -> None:
    """Block processes; in a weak sandbox, also block writes outside `files` and network connections."""
    _skip_processes(tell)
    weak = kind is not Kind.NAMESPACES
    # Python would write compiled modules next to the sources.
    sys.dont_write_bytecode |= weak

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FORKS:
            _refuse(programs.SCRIPT_FORKS.at(own_place(sys._getframe(1)), call=event), tell)
        elif weak and event in _CHANGES:
            for path in _written(event, arguments):
                if not path.is_relative_to(files):
                    _refuse(programs.SCRIPT_WRITES.at(own_place(sys._getframe(1)), path=str(path)), tell)
        elif weak and not network and event in _NETWORK:
            error = f"it connects to {arguments[1]}"
            _refuse(programs.SCRIPT_NETWORK.at(own_place(sys._getframe(1)), error=error), tell)

    sys.addaudithook(hear)


def _refuse(problem: Problem, tell: Tell) -> None:
    if not spark_asks(sys._getframe(2)):
        tell(problem)
        raise PipelineError(problem)


def _written(event: str, arguments: tuple[Any, ...]) -> Iterator[Path]:
    """The files that a call would write or change."""
    if event == "open" and not (arguments[2] or 0) & _WRITING:
        return
    for path in arguments[_CHANGES[event]]:
        # For example, the steps of `rmtree`, which is already reported.
        relative = event in _BELOW and arguments[-1] >= 0
        known = isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path) not in _NOWHERE
        if known and not relative:
            yield Path(os.path.realpath(os.fsdecode(path)))


def _skip_processes(tell: Tell) -> None:
    """Replace processes of `subprocess` and `os.system` with a successful no-op, so the script continues."""
    nothing = shutil.which("true") or "/usr/bin/true"
    begin: Any = subprocess.Popen.__init__
    signature = inspect.signature(begin)
    spawn: Any = util.spawnv_passfds

    def begun(self: Any, *given: Any, **named: Any) -> None:
        frame = sys._getframe(1)
        if spark_asks(frame):
            begin(self, *given, **named)
            return
        call = signature.bind(self, *given, **named).arguments
        command = call.pop("args")
        tell(programs.SCRIPT_PROCESS.at(own_place(frame), command=_shown(command)))
        begin(args=[nothing], **{key: value for key, value in call.items() if key not in _DROPPED})
        self.args = command

    def system(command: str | bytes) -> int:
        tell(programs.SCRIPT_PROCESS.at(own_place(sys._getframe(1)), command=_shown(command)))
        return 0

    def spawned(path: Any, *given: Any) -> int:
        frame = sys._getframe(1)
        # Python tracks shared memory in a separate process, which starts no other process.
        if Path(frame.f_code.co_filename).name != "resource_tracker.py":
            _refuse(programs.SCRIPT_FORKS.at(own_place(frame), call="multiprocessing"), tell)
        number: int = spawn(path, *given)
        return number

    for owner, name, part in (
        (subprocess.Popen, "__init__", begun),
        (os, "system", system),
        (util, "spawnv_passfds", spawned),
    ):
        setattr(owner, name, part)


def _shown(command: Any) -> str:
    if isinstance(command, str | bytes | os.PathLike):
        text = os.fsdecode(command)
    else:
        words: Sequence[Any] = command
        text = shlex.join(os.fsdecode(word) for word in words)
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
