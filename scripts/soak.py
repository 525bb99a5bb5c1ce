"""Run tests/faults round after round; HEADWATER_SOAK tells the tests which round it is."""

from __future__ import annotations

import os
import subprocess
import sys

from scripts.contract import ROOT


def main(rounds: int) -> int:
    """Stop at the first round that fails and say how to run it again."""
    if not any((ROOT / "tests" / "faults").rglob("test_*.py")):
        print("soak: tests/faults holds no tests")
        return 1
    command = [sys.executable, "-m", "pytest", "tests/faults", "-q"]
    for number in range(1, rounds + 1):
        print(f"\n=== soak: round {number} of {rounds} ===", flush=True)
        environment = {**os.environ, "HEADWATER_SOAK": str(number)}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code != 0:
            print(f"soak: round {number} failed; again: HEADWATER_SOAK={number} {' '.join(command)}")
            return code
    print(f"soak: {rounds} rounds passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
