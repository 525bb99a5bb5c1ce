"""Run the matrix of queries and modes, and write what it came to; run as `python -m scripts.outcomes`.

The gate compares a fresh run with what is committed; the docs' table of modes is made from that.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from scripts.modes import OUTCOMES
from tests.checker.matrix import all_cases, run_matrix
from tests.checker.outcomes import as_text
from tests.jvm import shared_context


def main() -> int:
    """Write the outcomes; 1 where the check and a real start don't agree."""
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as folder,
        shared_context(Path(folder), lambda line: None),
    ):
        matrix = run_matrix(all_cases(), Path(folder))
    OUTCOMES.write_text(as_text(matrix), encoding="utf-8")
    sys.stdout.write(f"{matrix}\n")
    return 1 if matrix.off_diagonal else 0


if __name__ == "__main__":
    raise SystemExit(main())
