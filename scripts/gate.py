"""The gate: runs every check and test directory in its own process, then prints the slowest tests and a summary.

Three steps run in parallel. The output of a step is stored in build/gate/ and printed when the step completes. A
failed step does not stop the others. With CI=true, the gate fails if a test is skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from scripts.contract import RECORDS, ROOT

REPORTS = ROOT / "build" / "gate"
QUICK_FOLDERS = ("unit", "architecture", "bench")
# The longest steps start first, so that the short ones fill the remaining time.
FOLDERS = (
    "spark",
    "kafka",
    "scripted",
    "files",
    "faults",
    "databases",
    "proof",
    "checker",
    "docs",
    "unit",
    "connectors",
    "bench",
)
# Tests spend a quarter of their time waiting for brokers and processes, so two cores can run three lanes.
LANES = 3
SLOWEST = 30


@dataclass(frozen=True)
class Step:
    """One command of the gate; `report` is the JUnit file that a test step writes."""

    name: str
    command: tuple[str, ...]
    report: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a step."""

    step: str
    seconds: float
    passed: int
    failed: int
    skips: tuple[str, ...] = ()
    tests: tuple[tuple[float, str], ...] = ()
    """The duration of each test in seconds, including fixtures, and its name."""


def phases(quick: bool) -> list[list[Step]]:
    """The steps in the order in which they start; `quick` skips all steps that need a JVM."""
    if quick:
        return [[*tool_steps(), *test_steps(QUICK_FOLDERS)]]
    # JVMs start faster with the archive, so tests that start one wait for it.
    archive = Step("class archive", (sys.executable, "-m", "tests.short_lives"))
    first = [archive, *tool_steps(), *test_steps(("architecture",))]
    return [first, test_steps(FOLDERS)]


def tool_steps() -> list[Step]:
    """The checks that are not tests."""
    scripts = Path(sys.executable).parent
    return [
        Step("ruff check", (f"{scripts}/ruff", "check", ".")),
        Step("ruff format", (f"{scripts}/ruff", "format", "--check", ".")),
        Step("mypy", (f"{scripts}/mypy",)),
        Step("import contracts", (f"{scripts}/lint-imports",)),
        Step("docs build", (sys.executable, "-m", "zensical", "build", "--clean", "--strict")),
    ]


def test_steps(folders: Sequence[str]) -> list[Step]:
    """One step for each directory of tests/ that contains tests."""
    present = [folder for folder in folders if any((ROOT / "tests" / folder).rglob("test_*.py"))]
    return [test_step(folder) for folder in present]


def test_step(folder: str) -> Step:
    """The tests of one directory, in a separate pytest process."""
    report = REPORTS / f"{folder}.xml"
    command = (sys.executable, "-m", "pytest", f"tests/{folder}", f"--junitxml={report}")
    return Step(f"tests/{folder}", command, report)


class Lanes:
    """Runs steps in parallel: each as soon as a lane is free, in the given order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._printing = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self.interrupted = False

    def run(self, steps: Sequence[Step]) -> list[Outcome]:
        """The results in the order of the steps; after Ctrl-C, of those that had started."""
        if self.interrupted:
            return []
        REPORTS.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self._count) as pool:
            began = [pool.submit(self._step, step) for step in steps]
            try:
                for future in began:
                    future.result()
            except KeyboardInterrupt:
                self._interrupt(pool)
        return [future.result() for future in began if not future.cancelled()]

    def _interrupt(self, pool: ThreadPoolExecutor) -> None:
        """Start no more steps, and forward Ctrl-C: steps run in their own sessions and did not receive it."""
        self.interrupted = True
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(self._running):
            process.send_signal(signal.SIGINT)

    def _step(self, step: Step) -> Outcome:
        self._say(f"--- {step.name} started")
        log = REPORTS / f"{Path(step.name).name.replace(' ', '_')}.log"
        if step.report:
            step.report.unlink(missing_ok=True)
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                step.command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._running.append(process)
        code = process.wait()
        self._running.remove(process)
        seconds = time.monotonic() - began
        self._say(f"\n=== {step.name} ===\n{log.read_text(encoding='utf-8', errors='replace')}")
        return judge(step, seconds, code)

    def _say(self, text: str) -> None:
        with self._printing:
            print(text, flush=True)


def judge(step: Step, seconds: float, code: int) -> Outcome:
    """The result of a step that exited with this code."""
    if step.report:
        return judge_tests(step.name, seconds, code, step.report)
    return Outcome(step.name, seconds, passed=int(code == 0), failed=int(code != 0))


def judge_tests(name: str, seconds: float, code: int, report: Path) -> Outcome:
    """Count the tests of a JUnit report. A nonzero exit code is a failure even if no test failed."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skips = [case for case in cases if case.find("skipped") is not None and case not in bad]
    failed = len(bad) or int(code != 0)
    passed = len(cases) - len(bad) - len(skips)
    tests = tuple((float(case.get("time", 0)), _name(case)) for case in cases)
    return Outcome(name, seconds, passed, failed, tuple(_skip_line(case) for case in skips), tests)


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _skip_line(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    reason = "" if skipped is None else skipped.get("message", "")
    return f"{_name(case)}: {reason}"


def summary(outcomes: Sequence[Outcome], strict: bool, wall: float | None = None) -> Iterator[str]:
    """The summary: the slowest tests, the steps, every skipped test with its reason, the totals."""
    slowest = sorted((test for outcome in outcomes for test in outcome.tests), reverse=True)[:SLOWEST]
    if slowest:
        yield f"\nslowest {len(slowest)} tests, in seconds"
        yield from (f"{seconds:>9.1f}  {name}" for seconds, name in slowest)
    yield f"\n{'step':<22}{'seconds':>9}{'passed':>9}{'failed':>9}{'skipped':>9}"
    for outcome in outcomes:
        counts = f"{outcome.passed:>9}{outcome.failed:>9}{len(outcome.skips):>9}"
        yield f"{outcome.step:<22}{outcome.seconds:>9.1f}{counts}"
    if wall is not None:
        yield f"{'elapsed':<22}{wall:>9.1f}"
    skips = [skip for outcome in outcomes for skip in outcome.skips]
    if skips:
        yield "\nskipped" + (" (each fails the gate, because CI=true)" if strict else "")
        yield from (f"  {skip}" for skip in skips)
    passed, failed = sum(o.passed for o in outcomes), sum(o.failed for o in outcomes)
    yield f"\n{passed} passed, {failed} failed, {len(skips)} skipped"


def good(outcomes: Sequence[Outcome], strict: bool) -> bool:
    """Whether the gate passes."""
    return not any(outcome.failed or (strict and outcome.skips) for outcome in outcomes)


def main(arguments: Sequence[str]) -> int:
    """Run the steps; `--quick` skips all steps that need a JVM."""
    strict = os.environ.get("CI") == "true"
    quick = "--quick" in arguments
    if not quick:
        # Old records of a removed step must not count for the contract.
        shutil.rmtree(RECORDS, ignore_errors=True)
    began, lanes = time.monotonic(), Lanes(LANES)
    outcomes = [outcome for phase in phases(quick) for outcome in lanes.run(phase)]
    for line in summary(outcomes, strict, time.monotonic() - began):
        print(line)
    return 130 if lanes.interrupted else int(not good(outcomes, strict))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
