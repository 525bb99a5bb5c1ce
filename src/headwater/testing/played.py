"""What a run of several tests tells while it goes on, and what it gave in the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.testing.json_form import result_json
from headwater.testing.results import StepTrace, TestResult


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
class Noted(TestEvent):
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
