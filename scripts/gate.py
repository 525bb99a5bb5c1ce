"""The gate: every check and test folder in its own process, then one table of what they said.

A step that fails does not stop the later ones. With CI=true a skipped test counts against the gate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from scripts.contract import RECORDS, ROOT

REPORTS = ROOT / "build" / "gate"
QUICK_FOLDERS = ("unit", "architecture")
FOLDERS = (*QUICK_FOLDERS, "spark", "connectors", "faults", "docs")


@dataclass(frozen=True)
class Step:
    """One command of the gate; `report` is the JUnit file that a test step writes."""

    name: str
    command: tuple[str, ...]
    report: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """What a step came to."""

    step: str
    seconds: float
    passed: int
    failed: int
    skips: tuple[str, ...] = ()


def tool_steps() -> list[Step]:
    """The checks that are no tests."""
    scripts = Path(sys.executable).parent
    return [
        Step("ruff check", (f"{scripts}/ruff", "check", ".")),
        Step("ruff format", (f"{scripts}/ruff", "format", "--check", ".")),
        Step("mypy", (f"{scripts}/mypy",)),
        Step("import contracts", (f"{scripts}/lint-imports",)),
    ]


def test_steps(folders: Sequence[str]) -> list[Step]:
    """One step for each folder of tests/ that holds tests."""
    present = [folder for folder in folders if any((ROOT / "tests" / folder).rglob("test_*.py"))]
    return [test_step(folder) for folder in present]


def test_step(folder: str) -> Step:
    """The tests of one folder, in a pytest process of their own."""
    report = REPORTS / f"{folder}.xml"
    command = (sys.executable, "-m", "pytest", f"tests/{folder}", f"--junitxml={report}")
    return Step(f"tests/{folder}", command, report)


def run(step: Step) -> Outcome:
    """Run one step with its output passed through."""
    print(f"\n=== {step.name} ===", flush=True)
    if step.report:
        step.report.unlink(missing_ok=True)
    began = time.monotonic()
    code = subprocess.run(step.command, cwd=ROOT, check=False).returncode
    seconds = time.monotonic() - began
    if step.report:
        return judge_tests(step.name, seconds, code, step.report)
    return Outcome(step.name, seconds, passed=int(code == 0), failed=int(code != 0))


def judge_tests(name: str, seconds: float, code: int, report: Path) -> Outcome:
    """Count a JUnit report; a process that ended badly is a failure even when no test says so."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skips = [case for case in cases if case.find("skipped") is not None and case not in bad]
    failed = len(bad) or int(code != 0)
    passed = len(cases) - len(bad) - len(skips)
    return Outcome(name, seconds, passed, failed, tuple(_skip_line(case) for case in skips))


def _skip_line(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    reason = "" if skipped is None else skipped.get("message", "")
    return f"{case.get('classname')}::{case.get('name')}: {reason}"


def summary(outcomes: Sequence[Outcome], strict: bool) -> Iterator[str]:
    """The closing lines: the table, every skip with its reason, the totals."""
    yield f"\n{'step':<22}{'seconds':>9}{'passed':>9}{'failed':>9}{'skipped':>9}"
    for outcome in outcomes:
        counts = f"{outcome.passed:>9}{outcome.failed:>9}{len(outcome.skips):>9}"
        yield f"{outcome.step:<22}{outcome.seconds:>9.1f}{counts}"
    skips = [skip for outcome in outcomes for skip in outcome.skips]
    if skips:
        yield "\nskipped" + (" (each counts against the gate, because CI=true)" if strict else "")
        yield from (f"  {skip}" for skip in skips)
    passed, failed = sum(o.passed for o in outcomes), sum(o.failed for o in outcomes)
    yield f"\n{passed} passed, {failed} failed, {len(skips)} skipped"


def good(outcomes: Sequence[Outcome], strict: bool) -> bool:
    """Whether the gate lets this pass."""
    return not any(outcome.failed or (strict and outcome.skips) for outcome in outcomes)


def main(arguments: Sequence[str]) -> int:
    """Run the steps; `--quick` leaves out whatever needs a JVM."""
    strict = os.environ.get("CI") == "true"
    quick = "--quick" in arguments
    if not quick:
        # Results of a step that no longer exists must not speak for the contract.
        shutil.rmtree(RECORDS, ignore_errors=True)
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for step in [*tool_steps(), *test_steps(QUICK_FOLDERS if quick else FOLDERS)]:
            outcomes.append(run(step))
    except KeyboardInterrupt:
        interrupted = True
    for line in summary(outcomes, strict):
        print(line)
    return 130 if interrupted else int(not good(outcomes, strict))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
