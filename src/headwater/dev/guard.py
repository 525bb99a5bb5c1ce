"""Runs a command that exits with its parent: a separate program, started by path.

    guard.py LOG COMMAND…

The parent holds the other end of standard input. When it closes, for any reason, the guard terminates the
command, and kills it if it does not exit. The first printed line is the process ID of the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

LEAVE_SECONDS = 15.0


def main(log: str, command: list[str]) -> int:
    """Run the command until it exits or standard input closes; returns its exit code."""
    with open(log, "ab") as output:
        # A separate session: Ctrl-C in a terminal reaches only the parent, which stops the command gracefully.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    sys.stdout.write(f"{process.pid}\n")
    sys.stdout.flush()
    threading.Thread(target=end_with_input, args=(process,), daemon=True).start()
    return process.wait()


def end_with_input(process: subprocess.Popen[bytes]) -> None:
    """Wait until standard input closes, then terminate the process."""
    # Not through sys.stdin, whose lock would be held if the program exits for another reason.
    while os.read(0, 1):
        continue
    process.terminate()
    try:
        process.wait(LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
