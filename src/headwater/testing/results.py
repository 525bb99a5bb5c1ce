"""What a test gave: every step with its batches, and each thing that was not as expected."""

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
"""A row by column: plain Python values; timestamps with their zone, structs as mappings."""


@dataclass(frozen=True)
class Batch:
    """One batch of one query."""

    id: int
    watermark: datetime | None
    """The watermark that it used."""
    rows_in: Mapping[str, int]
    """How many rows each source brought, by the name of the source; without the silent ones."""
    rows: tuple[Values, ...]
    """What it handed to the sink; empty for a real sink."""
    late: int
    """Rows that operators dropped as late, as Spark counts them."""
    state: int
    """Rows of state that the query keeps after it."""
    again: bool = False
    """It ran a second time, after a crash."""
    captured: bool = True
    """Whether its rows are known; a real sink has taken them."""


class Change(NamedTuple):
    """An expected row and the row that stands in its place: some values are the same."""

    expected: Values
    got: Values


@dataclass(frozen=True)
class RowDiff:
    """Two multisets of rows that are not the same."""

    columns: tuple[str, ...]
    missing: tuple[Values, ...]
    """Expected, and not there; a row stands here as often as it is missing."""
    unexpected: tuple[Values, ...]
    """There, and not expected."""
    changed: tuple[Change, ...]
    same: int
    """How many rows are as expected."""


@dataclass(frozen=True)
class Failure:
    """One thing that was not as expected."""

    kind: str
    """rows, watermark, late, state, idle, replay, fails; query: one that failed unexpectedly."""
    sentence: str
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
    """The rows fed, by the name of the source."""
    batches: Mapping[str, tuple[Batch, ...]] = field(default_factory=dict)
    """The batches of the step, by the name of the sink."""
    watermarks: Mapping[str, datetime | None] = field(default_factory=dict)
    """The watermark that the next batch will use, by the name of the sink."""
    idle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The sources for which a query's watermark waits, by the name of the sink."""
    failures: tuple[Failure, ...] = ()
    place: Place | None = None
    acted: bool = True
    """Something happened in it; else it only checks, and looks back at the last step that did."""
    stopped: bool = False
    """No query runs at its end."""


@dataclass(frozen=True)
class TestResult:
    """How one test ended: passed, failed (an expectation), or refused (it could not be run)."""

    __test__ = False

    name: str
    file: Path | None
    steps: tuple[StepTrace, ...]
    seconds: float
    zone: str = "UTC"
    """The pipeline's time zone, in which times are shown."""
    day: str = "2026-01-01"
    """The day whose times are shown without it."""
    problems: tuple[Problem, ...] = ()
    """Why it could not be run to its end."""
    event_times: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """The event-time column and the delay in milliseconds of each source that has one."""
    place: Place | None = None

    @property
    def local_day(self) -> LocalDay:
        return LocalDay(date.fromisoformat(self.day), ZoneInfo(self.zone))

    @property
    def outcome(self) -> str:
        if self.problems:
            return "refused"
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
    """Steps and what is in them; a value of a row in the nearest form that JSON has."""
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


# What a run of several tests tells while it goes on, and what it gave in the end.


@dataclass(frozen=True)
class TestEvent:
    """Something happened in a run of tests."""

    __test__ = False
    """Pytest takes classes of this name for tests."""


@dataclass(frozen=True)
class TestsChosen(TestEvent):
    """It is known how many tests there are."""

    total: int


@dataclass(frozen=True)
class TestBegun(TestEvent):
    """A test begins."""

    name: str
    file: Path
    steps: int


@dataclass(frozen=True)
class StepPlayed(TestEvent):
    """A step of the test is over."""

    step: StepTrace


@dataclass(frozen=True)
class TestPlayed(TestEvent):
    """A test is over."""

    result: TestResult


@dataclass(frozen=True)
class TestNote(TestEvent):
    """Something the user should know, in a sentence: Spark starts."""

    text: str


@dataclass(frozen=True)
class TestsResult:
    """How all tests of a run ended."""

    __test__ = False

    results: tuple[TestResult, ...]
    seconds: float
    pictures: tuple[str, ...] = ()
    """The files that were drawn."""

    def count(self, outcome: str) -> int:
        """How many tests ended in this way."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def exit_code(self) -> int:
        """A refused test tells nothing of the pipeline, so it weighs more than a failed one."""
        return 3 if self.count("refused") else 1 if self.count("failed") else 0

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in ("passed", "failed", "refused"))
        return f"{counts} in {self.seconds:.1f} s"

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.exit_code == 0,
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "refused": self.count("refused"),
            "seconds": round(self.seconds, 3),
            "tests": [result_json(result) for result in self.results],
            "pictures": list(self.pictures),
        }
