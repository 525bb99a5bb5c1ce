"""The pytest plugin: collects test files of pipelines and runs them all on one Spark session.

Pytest loads it in every run of the environment, so it imports almost nothing at first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.testing.discovery import is_test_file

if TYPE_CHECKING:
    from headwater.errors import HeadwaterError
    from headwater.testing.results import TestResult
    from headwater.testing.steps import Test
    from headwater.testing.stream_test import StreamTest
    from headwater.testing.test_runner import TestRunner

RUNNER = pytest.StashKey["TestRunner"]()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect test files of pipelines in the directories that pytest searches."""
    return TestFile.from_parent(parent, path=file_path) if is_test_file(file_path) else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop Spark with the session."""
    runner = config.stash.get(RUNNER, None)
    if runner is not None:
        del config.stash[RUNNER]
        runner.close()


def runner_of(config: pytest.Config) -> TestRunner:
    """The one runner of the session; Spark starts with its first test."""
    if RUNNER not in config.stash:
        from headwater.testing.test_runner import TestRunner

        config.stash[RUNNER] = TestRunner({}, lambda text: None)
    return config.stash[RUNNER]


class NotPassed(Exception):
    """A test that failed or had an error; its text is the report."""


class TestFile(pytest.File):
    """A test file of pipelines."""

    __test__ = False

    def collect(self) -> Iterable[pytest.Item]:
        from headwater.errors import HeadwaterError
        from headwater.testing.test_files import load_tests

        try:
            tests = load_tests(self.path)
        except HeadwaterError as error:
            # A collection error would keep all other tests from running.
            yield RefusedFile.from_parent(self, name=self.path.name, error=error)
        else:
            for test in tests:
                yield ScriptedTest.from_parent(self, name=test.name, test=test)


class _Item(pytest.Item):
    """What both kinds of items report in the same way."""

    line = 1

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, NotPassed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        # Pytest would replace every dot of a heading that is only the name with `::`.
        return self.path, self.line - 1, f"{self.name} ({self.path.name})"


class RefusedFile(_Item):
    """An invalid test file: it fails with all its problems."""

    def __init__(self, *, error: HeadwaterError, **rest: Any) -> None:
        super().__init__(**rest)
        self.error = error

    def runtest(self) -> None:
        from headwater.testing.report import problem_lines
        from headwater.values import scrub

        lines = [line for problem in self.error.problems for line in problem_lines(problem)]
        raise NotPassed(scrub("\n".join(lines)))


class ScriptedTest(_Item):
    """One test of a file."""

    def __init__(self, *, test: Test, **rest: Any) -> None:
        super().__init__(**rest)
        self.test = test
        self.line = test.place.line if test.place else 1

    def runtest(self) -> None:
        from headwater.testing.report import details, first_line
        from headwater.values import scrub

        result: TestResult = runner_of(self.config).play(self.test)
        if not result.passed:
            raise NotPassed(scrub("\n".join([first_line(result), *details(result)])))
        if lines := details(result):
            self.add_report_section("call", "headwater", scrub("\n".join(lines)))


@pytest.fixture
def stream_test(request: pytest.FixtureRequest) -> Iterator[StreamTest]:
    """Test streams for a function from DataFrames to a DataFrame, or for a pipeline file."""
    from headwater.testing.stream_test import StreamTest

    runs = StreamTest(runner_of(request.config))
    yield runs
    runs.close()
