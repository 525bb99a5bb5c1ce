"""Sinks in each mode."""

from __future__ import annotations

from tests.checker.cases import Case, in_modes

COUNTED = "SELECT word, count(*) AS c FROM events GROUP BY word"
PLAIN = "SELECT word, n FROM events"
WINDOWS = (
    "SELECT window.start AS start, window.end AS end, count(*) AS c FROM marked "
    "GROUP BY window(at, '10 minutes')"
)

CASES = [
    *in_modes(Case("into files", PLAIN, sink="files")),
    *in_modes(Case("into files", COUNTED, sink="files", keys=("word",), variant="counts")),
    Case(
        "into files", WINDOWS, sink="files", variant="windows", final="end <= timestamp'2026-01-01 13:50:00'"
    ),
    *in_modes(Case("into foreach", PLAIN, sink="foreach")),
    *in_modes(Case("into foreach_batch", PLAIN, sink="foreach_batch")),
    *in_modes(Case("into foreach_batch", COUNTED, sink="foreach_batch", keys=("word",), variant="counts")),
    *in_modes(Case("into console", COUNTED, sink="console")),
    *in_modes(Case("into noop", COUNTED, sink="noop")),
    *in_modes(Case("into noop", PLAIN, sink="noop", variant="rows"), ["append", "update"]),
]
