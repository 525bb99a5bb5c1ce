"""What every case of the matrix came to, kept beside the tests: the docs' table of modes is made from it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from scripts.modes import OUTCOMES
from tests.checker.cases import Case
from tests.checker.matrix import Matrix
from tests.checker.starting import Outcome


def outcomes(matrix: Matrix) -> dict[str, dict[str, Any]]:
    """By the name of the case: what it is, what a real start showed, and what the check says."""
    return {
        each.case.id: {
            "kind": each.case.kind,
            "variant": each.case.variant,
            "mode": each.case.mode,
            "sink": each.case.sink,
            "trigger": each.case.trigger,
            "outcome": each.outcome.value,
            "codes": sorted({error.problem.code for error in each.errors}),
        }
        for each in matrix.judged
    }


def committed() -> dict[str, dict[str, Any]]:
    """The outcomes that stand beside the tests."""
    found: dict[str, dict[str, Any]] = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    return found


def known_outcomes(cases: Iterable[Case]) -> dict[str, Outcome]:
    """What worked in another mode as well, by what stands beside the tests: one start is enough for a gate.

    Whatever does not work is started in each mode.
    """
    kept, seen = committed(), set[tuple[str, str, str]]()
    known: dict[str, Outcome] = {}
    for case in cases:
        outcome, kind = kept.get(case.id, {}).get("outcome"), (case.kind, case.sink, case.trigger)
        if outcome == Outcome.WORKS.value and kind in seen:
            known[case.id] = Outcome.WORKS
        elif outcome == Outcome.WORKS.value:
            seen.add(kind)
    return known


def as_text(matrix: Matrix) -> str:
    """The file."""
    return json.dumps(outcomes(matrix), indent=1, sort_keys=True) + "\n"
