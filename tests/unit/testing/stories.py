"""Results of tests made by hand, as real Spark gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.testing.results import Batch, StepTrace, TestResult

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Window = tuple[str, str, int]
"""When it starts, the word, the count."""


def at(text: str) -> datetime:
    """`12:07` on the day of the tests, `+12:07` on the next one."""
    hours, minutes = text.removeprefix("+").split(":")
    return datetime(2026, 1, 2 if text[0] == "+" else 1, int(hours), int(minutes), tzinfo=UTC)


def word(text: str) -> dict[str, Any]:
    """`12:07 owl` as a row."""
    time, _, name = text.partition(" ")
    return {"at": at(time), "word": name}


def counted(window: Window) -> dict[str, Any]:
    start, name, count = window
    return {
        "window": {"start": at(start), "end": at(start) + timedelta(minutes=10)},
        "word": name,
        "n": count,
    }


def feed(
    number: int,
    rows: Sequence[str],
    *batches: tuple[str | None, Sequence[Window], int, int],
    first: int,
    after: str,
) -> StepTrace:
    """A step that feeds words; each batch as watermark, windows, late rows and state."""
    ran = tuple(
        Batch(
            first + index,
            at(watermark) if watermark else None,
            {} if index else {"words": len(rows)},
            tuple(map(counted, windows)),
            late,
            state,
        )
        for index, (watermark, windows, late, state) in enumerate(batches)
    )
    return StepTrace(
        number,
        f"feed {len(rows)} to words",
        NOON,
        {"words": tuple(map(word, rows))},
        {"counts": ran},
        {"counts": at(after)},
    )


def result(
    steps: Sequence[StepTrace], event_times: Mapping[str, tuple[str, int]], name: str = "a test", **more: Any
) -> TestResult:
    return TestResult(name, None, tuple(steps), 1.0, event_times=event_times, **more)


WORDS = {"words": ("at", 600_000)}
OUTPUT: tuple[Sequence[Window], ...] = (
    [("12:00", "dog", 1), ("12:00", "owl", 1), ("12:05", "dog", 1), ("12:05", "owl", 1)],
    [("12:00", "cat", 1), ("12:05", "cat", 1), ("12:05", "dog", 2), ("12:10", "dog", 1)],
    [
        *[("12:00", "dog", 2), ("12:05", "dog", 3), ("12:05", "owl", 2)],
        *[("12:10", "cat", 1), ("12:10", "owl", 1), ("12:15", "cat", 1)],
    ],
    [("12:10", "cat", 2), ("12:15", "cat", 2), ("12:15", "owl", 1), ("12:20", "owl", 1)],
    [("12:20", "owl", 2), ("12:25", "owl", 1)],
)
FED = (
    ["12:07 owl", "12:08 dog"],
    ["12:14 dog", "12:09 cat"],
    ["12:15 cat", "12:08 dog", "12:13 owl"],
    ["12:21 owl", "12:17 cat"],
    ["12:04 donkey", "12:26 owl"],
)


def textbook() -> TestResult:
    """Windows of 10 minutes every 5, delay 10 minutes, update mode; each batch moves the watermark."""
    moves = [(None, "11:58"), ("11:58", "12:04"), ("12:04", "12:05"), ("12:05", "12:11"), ("12:11", "12:16")]
    states = [(4, 4), (7, 7), (10, 10), (12, 9), (10, 7)]
    steps = [
        feed(
            index + 1,
            FED[index],
            (before, OUTPUT[index], 2 if index == 4 else 0, state),
            (after, [], 0, cleared),
            first=2 * index,
            after=after,
        )
        for index, ((before, after), (state, cleared)) in enumerate(zip(moves, states, strict=True))
    ]
    return result(steps, WORDS, "late rows update old windows until the watermark passes")


def without_no_data_batches() -> TestResult:
    """The same, where the donkey still finds one of its two windows: late is judged a batch behind."""
    moves = [(None, "11:58"), ("11:58", "12:04"), ("12:04", "12:05"), ("12:05", "12:11"), ("12:11", "12:16")]
    outputs = [*OUTPUT[:4], [("12:00", "donkey", 1), *OUTPUT[4]]]
    steps = [
        feed(index + 1, FED[index], (before, outputs[index], int(index == 4), 4), first=index, after=after)
        for index, (before, after) in enumerate(moves)
    ]
    return result(steps, WORDS, "without no-data batches")
