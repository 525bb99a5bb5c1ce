"""Results of tests as the player would give them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.errors import Entry
from headwater.testing.results import Batch, Change, Failure, RowDiff, StepTrace, TestResult
from headwater.values import Position

BROKEN = Entry("It is broken: {why}.", "Mend it.", code="HW-BROKEN")
FILE = Path("tests/test_words.yml")


def at(hour: int, minute: int, day: int = 1) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def batch(number: int, watermark: datetime | None = None, **rest: Any) -> Batch:
    given = {"rows_in": {}, "rows": (), "late": 0, "state": 0, **rest}
    return Batch(number, watermark, **given)


def step(number: int, text: str = "feed 2 to words", **rest: Any) -> StepTrace:
    return StepTrace(number, text, at(0, 0), **rest)


def result(*steps: StepTrace, name: str = "late rows", seconds: float = 1.23, **rest: Any) -> TestResult:
    return TestResult(name, FILE, steps, seconds, **rest)


DIFF = RowDiff(
    columns=("start", "n"),
    missing=({"start": at(12, 0), "n": 1},),
    unexpected=(),
    changed=(Change({"start": at(12, 5), "n": 2}, {"start": at(12, 5), "n": 3}),),
    same=2,
)
ROWS_FAIL = Failure(
    "rows", "the rows of counts do not match the expected rows", "counts", DIFF, Position(str(FILE), 7)
)


def failed(**rest: Any) -> TestResult:
    """A test whose second step failed."""
    first = step(1, batches={"counts": (batch(0),)}, watermarks={"counts": at(11, 57)})
    second = step(
        2,
        "feed 3 to words",
        batches={"counts": (batch(1, at(11, 57)), batch(2, at(12, 4)))},
        watermarks={"counts": at(12, 4)},
        failures=(ROWS_FAIL,),
    )
    return result(first, second, **rest)


def refused(**rest: Any) -> TestResult:
    return result(problems=(BROKEN.at(Position(str(FILE), 3, 5), why="so"),), **rest)
