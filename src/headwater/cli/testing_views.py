"""How a run of tests looks: a progress bar on a terminal, lines elsewhere, or JSON at the end."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from contextlib import redirect_stdout
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column
from rich.text import Text

from headwater.cli.render import print_json
from headwater.errors import shown_file
from headwater.testing.played import (
    Noted,
    StepPlayed,
    TestBegun,
    TestEvent,
    TestPlayed,
    TestsChosen,
    TestsResult,
)
from headwater.testing.report import details, headline
from headwater.testing.results import TestResult
from headwater.values import scrub

_COLOURS = {"passed": "green", "failed": "red", "refused": "red"}


class TestsView(ABC):
    """Shows what happens in a run of tests."""

    @abstractmethod
    def event(self, event: TestEvent) -> None:
        """Something happened."""

    @abstractmethod
    def end(self, result: TestsResult) -> None:
        """All tests are over."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class JsonTests(TestsView):
    """One JSON document at the end; what the user's own code prints goes beside it."""

    def __init__(self) -> None:
        self._beside = redirect_stdout(sys.stderr)

    def event(self, event: TestEvent) -> None:
        return None

    def end(self, result: TestsResult) -> None:
        print_json(result.to_json())

    def __enter__(self) -> Self:
        self._beside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._beside.__exit__(None, None, None)


class LineTests(TestsView):
    """A line for each test, and what is wrong with it below."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._file: Path | None = None

    def event(self, event: TestEvent) -> None:
        match event:
            case TestPlayed(result=result):
                self._show(result)
            case Noted(text=text):
                self.beside(text)
            case _:
                self.progress(event)

    def progress(self, event: TestEvent) -> None:
        """What only a terminal shows."""

    def end(self, result: TestsResult) -> None:
        for picture in result.pictures:
            self.line(f"drew {shown_file(picture)}")
        self.line(result.summary)

    def line(self, text: str, outcome: str | None = None) -> None:
        """One line of the output; of one that tells an outcome the first word is coloured."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def beside(self, text: str) -> None:
        """A line that is no result."""
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
    """The same lines, and below them what is played now."""

    def __init__(self, verbose: bool) -> None:
        super().__init__(verbose)
        self._console = Console(highlight=False, soft_wrap=True)
        now = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        )
        self._bar = Progress(
            SpinnerColumn(),
            now,
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._test = ""
        self._steps = 0

    def event(self, event: TestEvent) -> None:
        super().event(event)
        if isinstance(event, TestPlayed):
            self._bar.advance(self._task)

    def progress(self, event: TestEvent) -> None:
        match event:
            case TestsChosen(total=total):
                self._bar.update(self._task, total=total)
            case TestBegun(name=name, steps=steps):
                self._test, self._steps = name, steps
                self._bar.update(self._task, description=scrub(name))
            case StepPlayed(step=step):
                text = f"{self._test} · step {step.number} of {self._steps}, {step.text}"
                self._bar.update(self._task, description=scrub(text))

    def line(self, text: str, outcome: str | None = None) -> None:
        shown = Text(text)
        if outcome is not None:
            shown.stylize(f"bold {_COLOURS[outcome]}", 0, text.index(" "))
        self._console.print(shown)

    def beside(self, text: str) -> None:
        self._bar.update(self._task, description=scrub(text))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def view_of_tests(*, as_json: bool, verbose: bool) -> TestsView:
    """JSON by wish, a progress bar on a terminal, lines elsewhere."""
    if as_json:
        return JsonTests()
    return LiveTests(verbose) if sys.stdout.isatty() else LineTests(verbose)
