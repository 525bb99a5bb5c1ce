"""`headwater test`: the tests of files and directories, run one after the other on one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Protocol

from headwater.errors import HeadwaterError, UsageError, shown_file
from headwater.errors.catalogue.testing import TEST_FILES_NOT_FOUND, TEST_NO_MATCH
from headwater.testing.chart import Pictures
from headwater.testing.discovery import chosen, find_tests
from headwater.testing.results import (
    StepPlayed,
    StepTrace,
    TestBegun,
    TestEvent,
    TestNote,
    TestPlayed,
    TestResult,
    TestsChosen,
    TestsResult,
)
from headwater.testing.steps import Test, crashed, shuffled
from headwater.testing.test_files import load_tests
from headwater.values import Position, count_of, nearest

STARTING_SPARK = "Starting Spark …"
_MOST_NAMES = 10


class Plays(Protocol):
    """Runs tests on one Spark session, which it starts on first use."""

    def play(self, test: Test, on_step: Callable[[StepTrace], None]) -> TestResult: ...

    def close(self) -> None: ...


Say = Callable[[str], None]
MakesPlayer = Callable[[Mapping[str, str], Say, float | None], Plays]


def _spark_player(conf: Mapping[str, str], say: Say, limit: float | None) -> Plays:
    # Loaded only here: what is wrong with the test files is told without PySpark.
    from headwater.testing.test_runner import TestRunner

    say(STARTING_SPARK)
    return TestRunner(conf, say) if limit is None else TestRunner(conf, say, limit)


@dataclass(frozen=True)
class PlannedTest:
    """A test to run, or the error of a file that could not be read."""

    name: str
    file: Path
    test: Test | None = None
    refusal: TestResult | None = None
    variant: bool = False
    """A test run again under harder conditions."""


def run_tests(
    paths: Sequence[Path],
    *,
    k: str | None = None,
    conf: Mapping[str, str] | None = None,
    limit: float | None = None,
    stop_at_first: bool = False,
    shuffle: int = 0,
    crash: bool = False,
    draw: Path | None = None,
    emit: Callable[[TestEvent], None] = lambda event: None,
    player: MakesPlayer = _spark_player,
) -> TestsResult:
    """Run every selected test; raise UsageError if there is none.

    `limit` is how long a batch can take, in seconds.
    """
    begun = monotonic()
    plan = planned(paths, k)
    pictures = Pictures(draw, sum(each.test is not None for each in plan)) if draw else None
    plan = [variant for each in plan for variant in _variants(each, shuffle, crash)]
    emit(TestsChosen(len(plan)))
    results: list[TestResult] = []
    with ExitStack() as held:

        @cache
        def plays() -> Plays:
            # Made for the first test that is played: files that are all refused need none.
            made = player(conf or {}, lambda text: emit(TestNote(text)), limit)
            held.callback(made.close)
            return made

        for each in plan:
            results.append(_played(each, plays, emit))
            if pictures and not each.variant:
                pictures.draw(results[-1])
            if stop_at_first and not results[-1].passed:
                break
    return TestsResult(tuple(results), monotonic() - begun, tuple(pictures.written) if pictures else ())


def planned(paths: Sequence[Path], k: str | None = None) -> list[PlannedTest]:
    """The selected tests of all files, in order, and the files that could not be read."""
    choice = chosen(k) if k is not None else None
    files = find_tests(paths)
    if not files:
        raise UsageError(TEST_FILES_NOT_FOUND.at(None, where=", ".join(map(str, paths))))
    every = [each for file in files for each in _of_file(file)]
    # As in pytest, the expression also applies to the file name.
    named = [(each, f"{each.file.name}::{each.name}") for each in every]
    plan = [each for each, name in named if choice is None or each.refusal or choice(name)]
    if not plan:
        names = [each.name for each in every]
        meant, shown = nearest(k or "", names), ", ".join(f"`{name}`" for name in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        hint = (
            f"Did you mean `-k '{meant}'`?" if meant else f"Use a word of one of these names: {shown}{more}."
        )
        raise UsageError(
            TEST_NO_MATCH.at(None, expression=k or "", count=count_of(len(names), "test"), hint=hint)
        )
    return plan


def _of_file(file: Path) -> Iterator[PlannedTest]:
    begun = monotonic()
    try:
        tests = load_tests(file)
    except HeadwaterError as error:
        name, took = shown_file(str(file)), monotonic() - begun
        refusal = TestResult(name, file, (), took, problems=error.problems, place=Position(str(file), 1))
        yield PlannedTest(name, file, refusal=refusal)
    else:
        yield from (PlannedTest(test.name, file, test) for test in tests)


def _variants(planned: PlannedTest, shuffle: int, crash: bool) -> Iterator[PlannedTest]:
    yield planned
    if planned.test is None:
        return
    harder = [shuffled(planned.test, number) for number in range(1, shuffle + 1)]
    harder += [crashed(planned.test)] if crash else []
    yield from (PlannedTest(test.name, planned.file, test, variant=True) for test in harder)


def _played(
    planned: PlannedTest, plays: Callable[[], Plays], emit: Callable[[TestEvent], None]
) -> TestResult:
    emit(TestBegun(planned.name, planned.file, len(planned.test.steps) if planned.test else 0))
    if planned.test is not None:
        result = plays().play(planned.test, lambda step: emit(StepPlayed(step)))
    else:
        assert planned.refusal is not None, "an entry without a test has an error"
        result = planned.refusal
    emit(TestPlayed(result))
    return result
