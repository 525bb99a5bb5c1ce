"""Run tests/faults repeatedly, then the tests marked `soak` once, which are too slow for the gate.

HEADWATER_SOAK is the number of the round, HEADWATER_SOAK_MINUTES the duration of tests/kafka/test_soak.py,
HEADWATER_SOAK_KILLS the number of kills of each proof in tests/proof/test_soak.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from scripts.contract import ROOT

MARKED = ("databases", "spark", "files", "scripted", "checker", "docs", "kafka", "connectors", "proof")
"""The directories with tests marked `soak`, in addition to tests/faults; each runs in its own JVM."""
NO_TESTS = 5


def runs(rounds: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The value of HEADWATER_SOAK and the arguments of pytest for each run."""
    yield from ((str(number), ("tests/faults",)) for number in range(1, rounds + 1))
    yield from (("1", (f"tests/{folder}", "-m", "soak")) for folder in MARKED)


def main(rounds: int) -> int:
    """Stop at the first run that fails, and print the command to repeat it."""
    for number, asked in runs(rounds):
        command = [sys.executable, "-m", "pytest", *asked, "-q"]
        print(f"\n=== soak: round {number} of {rounds}: {' '.join(asked)} ===", flush=True)
        environment = {**os.environ, "HEADWATER_SOAK": number}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code not in (0, NO_TESTS):
            print(f"soak: round {number} failed. To repeat it: HEADWATER_SOAK={number} {' '.join(command)}")
            return code
    print(f"soak: {rounds} rounds passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
