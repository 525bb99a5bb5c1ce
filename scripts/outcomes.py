"""Run the cases of the check matrix on Spark and record the results (`make outcomes`).

By default, this runs the cases without a recorded result for this version of Spark and of the case; `--all` runs all
of them. The gate compares the check with the record. The output mode matrix of the docs is generated from it.
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
    """Write the results. Returns 1 if a check and a real start disagree."""
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
