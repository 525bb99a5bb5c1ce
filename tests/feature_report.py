"""A pytest plugin that records which rows of docs/contribute/contract.md the tests of one folder show.

A run of exactly one folder of tests/, without a selection, replaces build/features/<folder>.json. Other runs
record nothing: half a folder would say too little about a row. A marker with an unknown id ends the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.contract import Outcome, Result, contract, write_results

_RECORDER = pytest.StashKey["Recorder"]()


class Recorder:
    """Collects the outcome of every marked test of one step."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.marks: dict[str, list[tuple[str, str]]] = {}
        self.outcomes: dict[str, Outcome] = {}

    def note(self, report: pytest.TestReport) -> None:
        """Keep the worst of set-up, call and tear-down."""
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")

    def results(self) -> Iterator[Result]:
        """One result for each marker of each test that ran."""
        for test, marks in self.marks.items():
            for feature, part in marks:
                if test in self.outcomes:
                    yield Result(feature, test, part, self.outcomes[test])


def step_of(config: pytest.Config) -> str | None:
    """The folder of tests/ that this run covers wholly, if it does."""
    options = config.option
    narrowed = options.keyword or options.markexpr or options.deselect or getattr(options, "lf", False)
    if len(config.args) != 1 or narrowed:
        return None
    path = Path(config.invocation_params.dir, config.args[0]).resolve()
    return path.name if path.is_dir() and path.parent == config.rootpath / "tests" else None


def pytest_configure(config: pytest.Config) -> None:
    """Forget what the last run of this step said, so that a crash leaves no stale pass."""
    step = step_of(config)
    file = config.rootpath / "build" / "features" / f"{step}.json" if step else None
    config.stash[_RECORDER] = recorder = Recorder(file)
    config.pluginmanager.register(_Reports(recorder))
    if file and not config.option.collectonly:
        file.unlink(missing_ok=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Read the markers; refuse those that name no row."""
    known = {row.id for row in contract()}
    recorder = config.stash[_RECORDER]
    wrong: list[str] = []
    for item in items:
        marks = list(item.iter_markers("feature"))
        wrong += [f"{item.nodeid}: {problem}" for mark in marks if (problem := _problem(mark, known))]
        recorder.marks[item.nodeid] = [] if wrong else [_feature_and_part(mark) for mark in marks]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))


def _feature_and_part(mark: pytest.Mark) -> tuple[str, str]:
    return mark.args[0], mark.kwargs.get("part") or ""


def _problem(mark: pytest.Mark, known: set[str]) -> str | None:
    if len(mark.args) != 1 or set(mark.kwargs) - {"part"}:
        return 'write feature("ID") or feature("ID", part="what is shown")'
    return None if mark.args[0] in known else f"docs/contribute/contract.md has no row {mark.args[0]!r}"


class _Reports:
    """The hooks that carry no config."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.recorder.note(report)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Write the record, unless the run was cut short."""
    recorder = session.config.stash[_RECORDER]
    whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    cut_short = session.shouldstop or session.shouldfail or session.config.option.collectonly
    if recorder.file and whole and not cut_short:
        write_results(recorder.file, recorder.results())
