"""What a test gave: every step with its batches, and each thing that was not as expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import Place, Problem

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


@dataclass(frozen=True)
class RowDiff:
    """Two multisets of rows that are not the same."""

    columns: tuple[str, ...]
    missing: tuple[Values, ...]
    """Expected, and not there; a row stands here as often as it is missing."""
    unexpected: tuple[Values, ...]
    """There, and not expected."""
    changed: tuple[tuple[Values, Values], ...]
    """Pairs of an expected row and the row that stands in its place: some values are the same."""
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
    def outcome(self) -> str:
        if self.problems:
            return "refused"
        return "failed" if any(step.failures for step in self.steps) else "passed"

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"
