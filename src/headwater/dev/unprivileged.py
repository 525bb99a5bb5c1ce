"""Runs a command that refuses to run as root: a separate program, started by path.

    unprivileged.py COMMAND…

For any other user, it just executes the command. Root becomes an unknown user in a user namespace of its own; files
that it owns stay its own.
"""

from __future__ import annotations

import ctypes
import os
import sys

_NEW_USER_NAMESPACE = 0x10000000

if __name__ == "__main__":
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "unshare") or libc.unshare(_NEW_USER_NAMESPACE) != 0:
            sys.exit("PostgreSQL does not run as root: run this command as another user")
    os.execv(sys.argv[1], sys.argv[1:])
