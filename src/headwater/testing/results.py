"""The result of a test: every step with its batches, and every difference from the expectations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from headwater.errors import Place, Problem, shown_file
from headwater.testing.values import LocalDay

Values = Mapping[str, Any]
"""A row by column: plain Python values; timestamps with their time zone, structs as mappings."""


@dataclass(frozen=True)
class Batch:
    """One batch of one query."""

    id: int
    watermark: datetime | None
    """The watermark that it used."""
    rows_in: Mapping[str, int]
    """How many rows each source delivered, by source name; without idle ones."""
    rows: tuple[Values, ...]
    """The rows that it sent to the sink; empty for a real sink."""
    late: int
    """Rows that operators dropped as late, as Spark counts them."""
    state: int
    """State rows of the query after it."""
    retried: bool = False
    """It was retried after a crash."""
    captured: bool = True
    """Whether its rows are known; those of a real sink are not."""


class Change(NamedTuple):
    """An expected row and the row that was found instead: some values are equal."""

    expected: Values
    got: Values


@dataclass(frozen=True)
class RowDiff:
    """Two multisets of rows that differ."""

    columns: tuple[str, ...]
    missing: tuple[Values, ...]
    """Expected, but missing; a row appears as often as it is missing."""
    unexpected: tuple[Values, ...]
    """Found, but not expected."""
    changed: tuple[Change, ...]
    same: int
    """How many rows are as expected."""


@dataclass(frozen=True)
class Failure:
    """One difference from the expectations."""

    kind: str
    """rows, watermark, late, state, idle, replay, fails; query: one that failed unexpectedly."""
    message: str
    sink: str | None = None
    diff: RowDiff | None = None
    place: Place | None = None


@dataclass(frozen=True)
class StepTrace:
    """What happened in one step."""

    number: int
    """From 1."""
    text: str
    clock: datetime
    """Processing time at the end of the step."""
    fed: Mapping[str, tuple[Values, ...]] = field(default_factory=dict)
    """The rows fed, by source name."""
    batches: Mapping[str, tuple[Batch, ...]] = field(default_factory=dict)
    """The batches of the step, by sink name."""
    watermarks: Mapping[str, datetime | None] = field(default_factory=dict)
    """The watermark that the next batch will use, by sink name."""
    idle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The idle sources that block a query's watermark, by sink name."""
    failures: tuple[Failure, ...] = ()
    place: Place | None = None
    acted: bool = True
    """Something happened in it; otherwise it only checks, and covers the last step that did something."""
    stopped: bool = False
    """No query is running at its end."""


@dataclass(frozen=True)
class TestResult:
    """The outcome of one test: passed, failed (an expectation), or error (it could not run)."""

    __test__ = False

    name: str
    file: Path | None
    steps: tuple[StepTrace, ...]
    seconds: float
    zone: str = "UTC"
    """The pipeline's time zone, in which times are shown."""
    day: str = "2026-01-01"
    """The day that is omitted when times are shown."""
    problems: tuple[Problem, ...] = ()
    """Why it could not run to its end."""
    event_times: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """The event-time column and the delay in milliseconds of each source that has one."""
    place: Place | None = None

    @property
    def local_day(self) -> LocalDay:
        return LocalDay(date.fromisoformat(self.day), ZoneInfo(self.zone))

    @property
    def outcome(self) -> str:
        if self.problems:
            return "error"
        return "failed" if any(step.failures for step in self.steps) else "passed"

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


# A test's result as JSON: every step, batch, row and failure.


_NOT_TOLD = ("acted", "stopped", "captured")


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
        "steps": value_json(result.steps),
        "problems": [problem.to_json() for problem in result.problems],
    }


def _place(place: Place | None, file: str | None = None) -> dict[str, Any]:
    return {
        "file": shown_file(place.file) if place else file and shown_file(file),
        "line": place.line if place else None,
    }


def value_json(value: Any) -> Any:
    """Steps and their contents; a value of a row in its closest JSON form."""
    match value:
        case StepTrace() | Batch() | Failure() | RowDiff():
            told = {
                each.name: getattr(value, each.name) for each in fields(value) if each.name not in _NOT_TOLD
            }
            place = _place(told.pop("place")) if "place" in told else {}
            return {**value_json(told), **place}
        case Change():
            return value_json(value._asdict())
        case None | bool() | int() | str():
            return value
        case float():
            # JSON has no representation for these.
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


# The events of a run of several tests, and its result.


@dataclass(frozen=True)
class TestEvent:
    """Something happened in a run of tests."""

    __test__ = False
    """Pytest treats classes of this name as tests."""


@dataclass(frozen=True)
class TestsChosen(TestEvent):
    """The number of tests is known."""

    total: int


@dataclass(frozen=True)
class TestBegun(TestEvent):
    """A test starts."""

    name: str
    file: Path
    steps: int


@dataclass(frozen=True)
class StepPlayed(TestEvent):
    """A step of the test has finished."""

    step: StepTrace


@dataclass(frozen=True)
class TestPlayed(TestEvent):
    """A test has finished."""

    result: TestResult


@dataclass(frozen=True)
class TestNote(TestEvent):
    """A notice to the user, such as that Spark starts."""

    text: str


@dataclass(frozen=True)
class TestsResult:
    """The outcomes of all tests of a run."""

    __test__ = False

    results: tuple[TestResult, ...]
    seconds: float
    diagrams: tuple[str, ...] = ()
    """The files of the diagrams."""

    def count(self, outcome: str) -> int:
        """How many tests have this outcome."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def exit_code(self) -> int:
        """An error says nothing about the pipeline, so it takes precedence over a failure."""
        return 3 if self.count("error") else 1 if self.count("failed") else 0

    @property
    def summary(self) -> str:
        errors = self.count("error")
        counts = f"{self.count('passed')} passed, {self.count('failed')} failed, {errors} "
        return f"{counts}{'error' if errors == 1 else 'errors'} in {self.seconds:.1f} s"

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.exit_code == 0,
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "error": self.count("error"),
            "seconds": round(self.seconds, 3),
            "tests": [result_json(result) for result in self.results],
            "diagrams": list(self.diagrams),
        }
