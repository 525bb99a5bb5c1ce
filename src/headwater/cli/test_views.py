"""How a run of tests looks: a progress bar on a terminal, lines elsewhere, or JSON at the end."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column
from rich.text import Text

from headwater.cli.json_output import print_json
from headwater.errors import UsageError, shown_file
from headwater.errors.catalogue.testing import TEST_OUTPUT_UNWRITABLE
from headwater.testing.report import details, headline
from headwater.testing.results import (
    StepPlayed,
    TestBegun,
    TestEvent,
    TestNote,
    TestPlayed,
    TestResult,
    TestsChosen,
    TestsResult,
)
from headwater.values import scrub

_COLORS = {"passed": "green", "failed": "red", "error": "red"}


class TestsView(ABC):
    """Shows what happens in a run of tests."""

    @abstractmethod
    def event(self, event: TestEvent) -> None:
        """Something happened."""

    @abstractmethod
    def end(self, result: TestsResult) -> None:
        """All tests have run."""


class JsonTests(TestsView):
    """One JSON document at the end."""

    def event(self, event: TestEvent) -> None:
        return None

    def end(self, result: TestsResult) -> None:
        print_json(result.to_json())


class LineTests(TestsView):
    """A line for each test, and what is wrong with it below."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._file: Path | None = None

    def event(self, event: TestEvent) -> None:
        match event:
            case TestPlayed(result=result):
                self._show(result)
            case TestNote(text=text):
                self.status(text)
            case _:
                self.progress(event)

    def progress(self, event: TestEvent) -> None:
        """What only a terminal shows."""

    def end(self, result: TestsResult) -> None:
        for picture in result.diagrams:
            self.line(f"drew {shown_file(picture)}")
        self.line(result.summary)

    def line(self, text: str, outcome: str | None = None) -> None:
        """One line of the output; the first word of an outcome is colored."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def status(self, text: str) -> None:
        """A line that is not a result."""
        sys.stderr.write(scrub(text) + "\n")
        sys.stderr.flush()

    def _show(self, result: TestResult) -> None:
        if result.file != self._file and result.file and result.name != shown_file(str(result.file)):
            self.line(shown_file(str(result.file)))
        self._file = result.file
        self.line(scrub(headline(result)), result.outcome)
        for line in details(result, self._verbose):
            self.line(scrub(line))


class LiveTests(LineTests):
    """The same lines, and below them the test that is running."""

    def __init__(self, verbose: bool) -> None:
        super().__init__(verbose)
        self._console = Console(highlight=False, soft_wrap=True)
        now = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        )
        self.bar = Progress(
            SpinnerColumn(),
            now,
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self.bar.add_task("", total=None)
        self._test = ""
        self._steps = 0

    def event(self, event: TestEvent) -> None:
        super().event(event)
        if isinstance(event, TestPlayed):
            self.bar.advance(self._task)

    def progress(self, event: TestEvent) -> None:
        match event:
            case TestsChosen(total=total):
                self.bar.update(self._task, total=total)
            case TestBegun(name=name, steps=steps):
                self._test, self._steps = name, steps
                self.bar.update(self._task, description=scrub(name))
            case StepPlayed(step=step):
                text = f"{self._test} · step {step.number} of {self._steps}, {step.text}"
                self.bar.update(self._task, description=scrub(text))

    def line(self, text: str, outcome: str | None = None) -> None:
        shown = Text(text)
        if outcome is not None:
            shown.stylize(f"bold {_COLORS[outcome]}", 0, text.index(" "))
        self._console.print(shown)

    def status(self, text: str) -> None:
        self.bar.update(self._task, description=scrub(text))


@contextmanager
def view_of_tests(*, as_json: bool, verbose: bool) -> Iterator[TestsView]:
    """JSON on request, a progress bar on a terminal, lines elsewhere."""
    if as_json:
        # Output of user code would end up before the document.
        with redirect_stdout(sys.stderr):
            yield JsonTests()
    elif sys.stdout.isatty():
        live = LiveTests(verbose)
        with live.bar:
            yield live
    else:
        yield LineTests(verbose)


# Test results as JUnit XML, which CI servers read.

_ELEMENTS = {"failed": "failure", "error": "error"}
# XML cannot contain these characters, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(result: TestsResult, file: Path) -> None:
    """Write the report; raise UsageError if the file cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(junit(result), encoding="utf-8")
    except OSError as error:
        raise UsageError(TEST_OUTPUT_UNWRITABLE.at(None, path=str(file), reason=error.strerror)) from None


def junit(result: TestsResult) -> str:
    """The report: a suite for each file, a case for each test."""
    root = ElementTree.Element("testsuites", _counts(result.results, result.seconds))
    for file, results in groupby(result.results, key=_file):
        suite = tuple(results)
        seconds = sum(each.seconds for each in suite)
        element = ElementTree.SubElement(root, "testsuite", {"name": file, **_counts(suite, seconds)})
        for each in suite:
            _add_case(element, each)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, result: TestResult) -> None:
    place = {"line": str(result.place.line)} if result.place else {}
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": _file(result),
            "name": _clean(result.name),
            "file": _file(result),
            **place,
            "time": f"{result.seconds:.3f}",
        },
    )
    lines = details(result)
    if result.outcome in _ELEMENTS:
        why = ElementTree.SubElement(case, _ELEMENTS[result.outcome], {"message": _clean(_message(result))})
        why.text = _clean("\n".join(lines))
    elif lines:
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join(lines))


def _message(result: TestResult) -> str:
    """The first failure, in one line."""
    if result.problems:
        return f"{result.problems[0].code}: {result.problems[0].message}"
    step = next(step for step in result.steps if step.failures)
    return f"step {step.number}, {step.text}: {step.failures[0].message}"


def _counts(results: tuple[TestResult, ...], seconds: float) -> dict[str, str]:
    outcomes = [each.outcome for each in results]
    return {
        "tests": str(len(results)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "skipped": "0",
        "time": f"{seconds:.3f}",
    }


def _file(result: TestResult) -> str:
    return _clean(shown_file(str(result.file))) if result.file else ""


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", scrub(text))
