"""A test's result as JSON: every step, batch, row and failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from headwater.errors import Place, shown_file
from headwater.testing.results import Batch, Failure, RowDiff, StepTrace, TestResult


def result_json(result: TestResult) -> dict[str, Any]:
    """One test."""
    return {
        "name": result.name,
        "outcome": result.outcome,
        "seconds": round(result.seconds, 3),
        **_place(result.place, str(result.file) if result.file else None),
        "zone": result.zone,
        "day": result.day,
        "event_times": {
            source: {"column": column, "delay_ms": delay}
            for source, (column, delay) in result.event_times.items()
        },
        "steps": [_step(step) for step in result.steps],
        "problems": [problem.to_json() for problem in result.problems],
    }


def _step(step: StepTrace) -> dict[str, Any]:
    return {
        "number": step.number,
        "text": step.text,
        **_place(step.place),
        "clock": value_json(step.clock),
        "fed": value_json(step.fed),
        "batches": {sink: [_batch(batch) for batch in batches] for sink, batches in step.batches.items()},
        "watermarks": value_json(step.watermarks),
        "idle": value_json(step.idle),
        "failures": [_failure(failure) for failure in step.failures],
    }


def _batch(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "watermark": value_json(batch.watermark),
        "rows_in": dict(batch.rows_in),
        "rows": value_json(batch.rows),
        "late": batch.late,
        "state": batch.state,
        "again": batch.again,
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "sentence": failure.sentence,
        "sink": failure.sink,
        **_place(failure.place),
        "diff": _diff(failure.diff) if failure.diff else None,
    }


def _diff(diff: RowDiff) -> dict[str, Any]:
    return {
        "columns": list(diff.columns),
        "missing": value_json(diff.missing),
        "unexpected": value_json(diff.unexpected),
        "changed": [
            {"expected": value_json(expected), "got": value_json(got)} for expected, got in diff.changed
        ],
        "same": diff.same,
    }


def _place(place: Place | None, file: str | None = None) -> dict[str, Any]:
    return {
        "file": shown_file(place.file) if place else file and shown_file(file),
        "line": place.line if place else None,
    }


def value_json(value: Any) -> Any:
    """A value of a row in the nearest form that JSON has; times in ISO form, bytes in hexadecimal."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            # JSON has no words for these.
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray():
            return value.hex()
        case Mapping():
            return {str(value_json(key)): value_json(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [value_json(each) for each in value]
        case _:
            return str(value)
