"""Runs a command that ends with its parent: a program of its own, started by path.

    guard.py LOG COMMAND…

The parent holds the other end of standard input. Its end, however the parent ended, is the sign to ask the
command to leave, and to kill it when it does not. The command's process id is the first line printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

LEAVE_SECONDS = 15.0


def main(log: str, command: list[str]) -> int:
    """Run the command until it ends or standard input does; its exit code."""
    with open(log, "ab") as output:
        # A session of its own: Ctrl-C in a terminal reaches the parent, which stops the command in order.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    sys.stdout.write(f"{process.pid}\n")
    sys.stdout.flush()
    threading.Thread(target=end_with_input, args=(process,), daemon=True).start()
    return process.wait()


def end_with_input(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of standard input, then end the process."""
    # Not through sys.stdin, whose lock would be held when the program ends for another reason.
    while os.read(0, 1):
        continue
    process.terminate()
    try:
        process.wait(LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
