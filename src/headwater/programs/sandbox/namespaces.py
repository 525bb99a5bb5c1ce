"""Namespaces of Linux: writes go to memory and are dropped, processes end together, no network.

Every directory of the machine stays readable at its own path, below an overlay that takes the writes. Sockets
of other processes cannot be reached through an overlay.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

# System calls of Linux that Python has no function for.

_SET_PARENT_DEATH_SIGNAL = 1
_DROP_BOUNDING = 24
_SET_SUBREAPER = 36
_SET_NO_NEW_PRIVILEGES = 38


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: Any) -> int:
    """Call a function of the C library; OSError if it fails."""
    # Arguments that C does not know the width of are as wide as a register.
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = getattr(_libc(), function)(*wide)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result


def die_with_parent() -> None:
    """Let Linux kill this process when its parent ends; elsewhere the launcher does so at its own end."""
    if sys.platform == "linux":
        call("prctl", _SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, daemons included."""
    if sys.platform == "linux":
        call("prctl", _SET_SUBREAPER, 1, 0, 0, 0)


def gain_no_privileges() -> None:
    """Let no later program gain privileges, such as those of `sudo`."""
    call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def keep_capabilities(kept: frozenset[int]) -> None:
    """Take every other capability away from all programs to come, also from those of root."""
    for number in range(64):
        if number not in kept:
            try:
                call("prctl", _DROP_BOUNDING, number, 0, 0, 0)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # The kernel knows no capability of this number, so none above it.
                return


_NEW_MOUNTS, _NEW_IPC, _NEW_USER = 0x20000, 0x8000000, 0x10000000
_NEW_PROCESSES, _NEW_NETWORK = 0x20000000, 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_EXEC = 0x1, 0x2, 0x4, 0x8
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH = 0x2
_SET_MOUNT_ATTRIBUTES = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_INTERFACE_UP = 0x1
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
# Those with which root reads and changes files of others; none with which it mounts, makes devices or debugs.
_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID = 0, 1, 3, 4
_KEPT = frozenset({_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID})
_DEVICES = ("null", "zero", "full", "random", "urandom")
_KERNEL = ("/proc", "/sys", "/dev")
_SEPARATORS, _BACKSLASHED = re.compile(r"([,:\\])"), r"\\\1"
_ESCAPED = re.compile(r"\\(\d{3})")


def separate(network: bool) -> bool:
    """Leave the machine's namespaces; the next child is the first process of the new ones.

    An OSError means that this machine allows none. The result: whether a user namespace was needed.
    """
    if platform.machine() not in _PIVOT_ROOT:
        raise OSError(errno.ENOSYS, "not known for this machine")
    kinds = _NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | (0 if network else _NEW_NETWORK)
    try:
        call("unshare", kinds)
        return False
    except PermissionError:
        # Who is not root becomes the owner of a user namespace, in which all this is allowed.
        user, group = os.getuid(), os.getgid()
        call("unshare", kinds | _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return True


def enclose(base: Path, files: Path, own: Iterable[str], *, network: bool, user_namespace: bool) -> None:
    """Give the first process of new namespaces its view: writes last only in `files`.

    `base` is an empty directory for mounts; `own` are directories in which the user writes.
    """
    folder, mounts = os.getcwd(), tuple(_mount_points())
    if not network:
        _loopback_up()
    call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    _mount("tmpfs", base, "tmpfs")
    root, layers = base / "root", base / "layers"
    root.mkdir()
    _mount("tmpfs", root, "tmpfs")
    layers.mkdir()
    cover = _Cover(root, layers, mounts, ",userxattr" if user_namespace else "")
    cover.directory("/")
    if user_namespace:
        # Before a write an overlay copies the directories above it, and fails at one of another user's. An
        # overlay over the user's own directory has none above it.
        for path in sorted(own):
            cover.own(path)
    _kernel_files(root)
    _mount(files, Path(f"{root}{files}"), flags=_BIND)
    # The old root ends up below the new one and is unmounted: no path leads to it anymore.
    os.chdir(root)
    call("syscall", _PIVOT_ROOT[platform.machine()], b".", b".")
    call("umount2", b".", _DETACH)
    os.chdir(folder)
    gain_no_privileges()
    keep_capabilities(_KEPT)


class _Cover:
    """The new root, directory by directory: the kernel allows no overlay over one with mounts below it."""

    def __init__(self, root: Path, layers: Path, mounts: tuple[str, ...], options: str) -> None:
        self._root, self._layers, self._mounts, self._options = root, layers, mounts, options

    def directory(self, path: str) -> None:
        target = Path(f"{self._root}{path}")
        below = path.rstrip("/") + "/"
        target.mkdir(exist_ok=True)
        if not any(point.startswith(below) for point in self._mounts):
            self._overlay(path, target)
            return
        target.chmod(stat.S_IMODE(os.stat(path).st_mode))
        # What can't be looked at, such as mounts of another user's, is missing in the new view.
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError):
            entries = list(os.scandir(path))
        for entry in entries:
            with suppress(OSError):
                self._entry(entry)

    def own(self, path: str) -> None:
        """Another overlay for one directory, if it can have one."""
        with suppress(OSError):
            self._mount(path, Path(f"{self._root}{path}"))

    def _entry(self, entry: os.DirEntry[str]) -> None:
        target = Path(f"{self._root}{entry.path}")
        if entry.path in _KERNEL:
            target.mkdir()
        elif entry.is_symlink():
            target.symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            self.directory(entry.path)
        elif entry.is_file():
            target.touch()
            _read_only(entry.path, target)

    def _overlay(self, path: str, target: Path) -> None:
        try:
            self._mount(path, target)
        except OSError:
            # Some file systems can't be below an overlay; a write there fails instead of going nowhere.
            _read_only(path, target)

    def _mount(self, path: str, target: Path) -> None:
        layer = self._layers / str(len(os.listdir(self._layers)))
        (layer / "upper").mkdir(parents=True)
        (layer / "work").mkdir()
        parts = {"lowerdir": path, "upperdir": layer / "upper", "workdir": layer / "work"}
        options = ",".join(f"{name}={_SEPARATORS.sub(_BACKSLASHED, str(at))}" for name, at in parts.items())
        _mount("overlay", target, "overlay", options=options + self._options)


def _kernel_files(root: Path) -> None:
    _mount("proc", root / "proc", "proc", _READ_ONLY | _NO_SETUID | _NO_DEVICES | _NO_EXEC)
    with suppress(OSError):
        _read_only("/sys", root / "sys")
    devices = root / "dev"
    _mount("tmpfs", devices, "tmpfs", _NO_SETUID | _NO_EXEC, "mode=755")
    for name in _DEVICES:
        (devices / name).touch()
        _read_only(f"/dev/{name}", devices / name)
    for name, place in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (devices / name).symlink_to(f"/proc/self/{place}")
    (devices / "shm").mkdir()
    (devices / "shm").chmod(0o1777)


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        asked = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sH14x", b"lo", 0))
        flags: int = struct.unpack("16sH14x", asked)[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _INTERFACE_UP))


def _mount_points() -> Iterator[str]:
    with open("/proc/self/mountinfo") as lines:
        for line in lines:
            yield _ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split()[4])


def _read_only(path: str, target: Path) -> None:
    _mount(Path(path), target, flags=_BIND | _RECURSIVE)
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    at_recursive = 0x8000
    call("syscall", _SET_MOUNT_ATTRIBUTES, -1, os.fsencode(target), at_recursive, attributes, len(attributes))


def _mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    call(
        "mount",
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        flags,
        options.encode() or None,
    )


# Landlock of Linux, where namespaces are not allowed: a process writes only below given directories.

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_WRITE_FILE = 1 << 1
# Bits 4 to 12: remove and make entries of every kind.
_CHANGE_DIR = sum(1 << bit for bit in range(4, 13))
# Since version 2: links between directories. Since 3: truncation.
_REFER, _TRUNCATE = 1 << 13, 1 << 14
# Since version 6: sockets and processes outside.
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1


def restrict_writes(*allowed: Path) -> None:
    """Let this process and its descendants write below these directories alone.

    An OSError means that the kernel has no Landlock.
    """
    version = call("syscall", _CREATE_RULESET, None, 0, _ASK_VERSION)
    handled = _WRITE_FILE | _CHANGE_DIR | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    # Older kernels take a longer structure if what they don't know is zero.
    attributes = struct.pack("QQQ", handled, 0, scoped)
    ruleset = call("syscall", _CREATE_RULESET, attributes, len(attributes), 0)
    for path in (*allowed, Path("/dev/shm"), Path("/dev/null")):
        if path.exists():
            _allow(ruleset, path, handled)
    gain_no_privileges()
    call("syscall", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: Path, handled: int) -> None:
    rights = handled if path.is_dir() else handled & (_WRITE_FILE | _TRUNCATE)
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, place)
        call("syscall", _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
