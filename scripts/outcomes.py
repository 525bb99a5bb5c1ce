"""Start the cases of the checker's matrix for real, and record what they come to (`make outcomes`).

A case is started when no outcome is recorded for this Spark and for the case as it is written now; `--all`
starts every one. The gate holds the check against the record, and the docs' table of modes is made from it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from scripts.modes import OUTCOMES
from tests.checker.matrix import all_cases, run_matrix
from tests.checker.outcomes import as_text, known_outcomes
from tests.jvm import shared_context


def main(every: bool) -> int:
    """Write the outcomes; 1 where the check and a real start don't agree."""
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as folder,
        shared_context(Path(folder), lambda line: None),
    ):
        cases = all_cases()
        matrix = run_matrix(cases, Path(folder), {} if every else known_outcomes(cases))
    OUTCOMES.write_text(as_text(matrix), encoding="utf-8")
    sys.stdout.write(f"{matrix}\n")
    return 1 if matrix.off_diagonal else 0


if __name__ == "__main__":
    raise SystemExit(main("--all" in sys.argv[1:]))
