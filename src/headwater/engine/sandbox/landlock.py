"""Landlock of Linux, where namespaces are not allowed: a process writes only below given directories."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from headwater.engine.sandbox.calls import call, gain_no_privileges

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
