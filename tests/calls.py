"""The calls from Python into the JVM that each batch of a query costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from bench.py4j_calls import TIMED, counted_calls

FEW, MANY = 2, 22


def calls_per_batch(run: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The calls by method, from two runs with different numbers of batches; those by time are left out."""
    # On a busy machine, an event that is late is also looked up.
    monkeypatch.setattr("headwater.engine.listener._CATCH_UP_SECONDS", 3600.0)
    found = []
    for batches in (FEW, MANY):
        with counted_calls() as calls:
            run(batches)
        found.append(calls)
    untimed = found[1].keys() - TIMED
    return {name: round((found[1][name] - found[0][name]) / (MANY - FEW), 1) for name in untimed}


def calls_above(found: Mapping[str, float], expected: Mapping[str, int]) -> dict[str, float]:
    """The calls that are made more often than expected."""
    # The last events are looked up once, when the run ends: that is no call per batch.
    return {name: rate for name, rate in found.items() if rate > expected.get(name, 0) + 0.3}
