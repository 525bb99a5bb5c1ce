"""Sinks in each mode."""

from __future__ import annotations

from tests.checker.cases import MODES, cases

COUNTED = "SELECT word, count(*) AS c FROM events GROUP BY word"
PLAIN = "SELECT word, n FROM events"
WINDOWS = (
    "SELECT window.start AS start, window.end AS end, count(*) AS c FROM marked "
    "GROUP BY window(at, '10 minutes')"
)

CASES = [
    *cases("into files", PLAIN, MODES, sink="files"),
    *cases("into files", {"counts": COUNTED}, MODES, sink="files", keys=("word",)),
    *cases("into files", {"windows": WINDOWS}, sink="files", final="end <= timestamp'2026-01-01 13:50:00'"),
    *cases("into foreach", PLAIN, MODES, sink="foreach"),
    *cases("into foreach_batch", PLAIN, MODES, sink="foreach_batch"),
    *cases("into foreach_batch", {"counts": COUNTED}, MODES, sink="foreach_batch", keys=("word",)),
    *cases("into console", COUNTED, MODES, sink="console"),
    *cases("into noop", COUNTED, MODES, sink="noop"),
    *cases("into noop", {"rows": PLAIN}, ["append", "update"], sink="noop"),
]
