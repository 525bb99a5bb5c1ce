"""The gate and the contract's report tell the truth about a test run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.contract import ROOT, Result, Row, read_results, read_rows, state_of, write_results
from scripts.features import report
from scripts.gate import Outcome, good, judge_tests, phases, summary
from scripts.soak import runs
from tests.conftest import pytest_collection_modifyitems

ROWS = [Row("A1.1", "first", "A. Model"), Row("A2", "second", "A. Model"), Row("B1", "third", "B. Sources")]

MARKED = """
import pytest

@pytest.mark.feature("A1.1")
def test_whole(): pass

@pytest.mark.feature("A2", part="half")
@pytest.mark.feature("A3")
def test_two(): assert False

@pytest.mark.feature("A4")
def test_skipped(): pytest.skip("no reason")
"""


def result(part: str, outcome: str, feature: str = "A1.1") -> Result:
    return Result(feature, "test", part, outcome)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of marked tests in a repository of its own."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = feature\n", encoding="utf-8")
    folder = tmp_path / "tests" / "step"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(MARKED, encoding="utf-8")
    return folder


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    settings = folder.parents[1] / "pytest.ini"
    command = [sys.executable, "-m", "pytest", "-p", "tests.feature_report", "-c", str(settings)]
    return subprocess.run(
        [*command, *options, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_rows_are_read_with_their_section() -> None:
    text = "| state | meaning |\n## A. Model\n| id | claim |\n|---|---|\n| A1.1 | a | b |\n| A2 | c |\n"
    assert read_rows(text) == [Row("A1.1", "a | b", "A. Model"), Row("A2", "c", "A. Model")]


@pytest.mark.parametrize(
    ("results", "state"),
    [
        ([], "missing"),
        ([result("", "skipped")], "missing"),
        ([result("", "passed")], "pass"),
        ([result("", "passed"), result("half", "passed")], "pass"),
        ([result("half", "passed")], "part"),
        ([result("half", "passed"), result("", "skipped")], "part"),
        ([result("half", "failed"), result("", "passed")], "fail"),
    ],
)
def test_the_state_of_a_row(results: list[Result], state: str) -> None:
    assert state_of(results) == state


def test_the_report_names_parts_and_failures_and_ends_with_totals() -> None:
    results = [result("half", "passed"), result("", "failed", "A2")]
    assert list(report(ROWS, results)) == [
        "\nA. Model",
        "  part     A1.1   first",
        "                  part: half",
        "  fail     A2     second",
        "                  failed: test",
        "\nB. Sources",
        "  missing  B1     third",
        "",
        "features: 0 pass, 1 part, 1 fail, 1 missing",
    ]


def test_records_are_read_back(tmp_path: Path) -> None:
    write_results(tmp_path / "records" / "unit.json", [result("", "passed")])
    write_results(tmp_path / "records" / "spark.json", [result("half", "failed")])
    assert read_results(tmp_path / "records") == [result("half", "failed"), result("", "passed")]


def test_an_unknown_id_ends_the_run_at_collection(folder: Path) -> None:
    (folder / "test_it.py").write_text(MARKED.replace("A4", "Z99"), encoding="utf-8")
    done = run_pytest(folder)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "docs/contribute/contract.md has no row 'Z99'" in done.stderr


def test_a_run_of_a_whole_folder_is_recorded(folder: Path) -> None:
    run_pytest(folder)
    results = read_results(folder.parents[1] / "build" / "features")
    assert [(r.feature, r.part, r.outcome) for r in results] == [
        ("A1.1", "", "passed"),
        ("A3", "", "failed"),
        ("A2", "half", "failed"),
        ("A4", "", "skipped"),
    ]


@pytest.mark.parametrize("options", [("-k", "whole"), ("--collect-only",), ("-x",)], ids=" ".join)
def test_a_run_of_less_is_not_recorded(folder: Path, options: tuple[str, ...]) -> None:
    run_pytest(folder, *options)
    assert read_results(folder.parents[1] / "build" / "features") == []


def test_a_junit_report_is_counted(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    done = run_pytest(folder, f"--junitxml={file}")
    outcome = judge_tests("tests/step", 1.0, done.returncode, file)
    assert (outcome.passed, outcome.failed) == (1, 1)
    assert [skip.rpartition("::")[2] for skip in outcome.skips] == ["test_skipped: no reason"]
    assert [name.rpartition("::")[2] for _, name in outcome.tests] == [
        "test_whole",
        "test_two",
        "test_skipped",
    ]


def test_a_process_that_dies_without_a_report_has_failed(tmp_path: Path) -> None:
    assert judge_tests("tests/x", 1.0, -9, tmp_path / "none.xml") == Outcome("tests/x", 1.0, 0, 1)


def test_a_skip_counts_against_the_gate_only_when_strict() -> None:
    outcomes = [Outcome("mypy", 1.0, 1, 0), Outcome("tests/unit", 2.0, 5, 0, ("t::a: no server",))]
    assert good(outcomes, strict=False)
    assert not good(outcomes, strict=True)
    assert not good([Outcome("mypy", 1.0, 0, 1)], strict=False)


def test_the_summary_ends_with_the_totals() -> None:
    outcomes = [Outcome("mypy", 1.0, 1, 0), Outcome("tests/unit", 2.0, 5, 2, ("t::a: no server",))]
    lines = list(summary(outcomes, strict=False))
    assert lines[1].split() == ["mypy", "1.0", "1", "0", "0"]
    assert "  t::a: no server" in lines
    assert lines[-1].strip() == "6 passed, 2 failed, 1 skipped"


def test_the_summary_begins_with_the_slowest_tests() -> None:
    outcomes = [
        Outcome("tests/a", 9.0, 40, 0, tests=tuple((float(n), f"a::{n}") for n in range(40))),
        Outcome("tests/b", 9.0, 1, 0, tests=((12.5, "b::x"),)),
    ]
    lines = list(summary(outcomes, strict=False, wall=18.0))
    assert lines[0].strip() == "slowest 30 tests, in seconds"
    assert lines[1].split() == ["39.0", "a::39"]
    assert [line.split() for line in lines[27:29]] == [["13.0", "a::13"], ["12.5", "b::x"]]
    assert [line.split()[-1] for line in lines if line.startswith("elapsed")] == ["18.0"]


@pytest.mark.parametrize(("soak", "left"), [("", ["usual"]), ("3", ["usual", "rare"])])
def test_the_gate_leaves_out_what_is_marked_for_the_soak(
    monkeypatch: pytest.MonkeyPatch, soak: str, left: list[str]
) -> None:
    monkeypatch.setenv("HEADWATER_SOAK", soak)
    told: list[Any] = []
    config: Any = SimpleNamespace(
        option=SimpleNamespace(markexpr=""),
        hook=SimpleNamespace(pytest_deselected=lambda items: told.extend(items)),
    )
    items: Any = [
        SimpleNamespace(name=name, get_closest_marker={"soak": name == "rare"}.get)
        for name in ("usual", "rare")
    ]
    pytest_collection_modifyitems(config, items)
    assert [item.name for item in items] == left
    assert len(items) + len(told) == 2


def test_what_is_left_for_the_soak_is_not_all_that_shows_a_row() -> None:
    for file in (ROOT / "tests").rglob("test_*.py"):
        for test in re.split(r"\n\n\n", file.read_text(encoding="utf-8")):
            if re.match(r"(?:@.*\n)*@pytest\.mark\.soak\n", test):
                assert not re.search(r'^@pytest\.mark\.feature\("[^"]+"\)$', test, re.MULTILINE), test


def test_a_soak_runs_every_folder_that_has_something_for_it() -> None:
    tests = ROOT / "tests"
    marked = {
        file.relative_to(tests).parts[0]
        for file in tests.rglob("test_*.py")
        if "pytest.mark.soak" in file.read_text(encoding="utf-8") and file != Path(__file__)
    }
    asked = [words for _, words in runs(rounds=2)]
    assert asked[:2] == [("tests/faults",)] * 2
    assert {words[0] for words in asked} >= {f"tests/{folder}" for folder in marked}


def test_the_gate_builds_the_docs_also_without_a_jvm() -> None:
    for quick in (True, False):
        (command,) = [step.command for phase in phases(quick) for step in phase if step.name == "docs build"]
        assert command[1:] == ("-m", "zensical", "build", "--clean", "--strict")


def test_every_target_that_makes_no_file_is_phony() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE)) <= set(phony.split())


def test_an_isolated_build_uses_the_locked_compiler() -> None:
    """The jar's bytes depend on the compiler, which PySpark contains."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (pyspark,) = [each for each in declared["build-system"]["requires"] if each.startswith("pyspark")]
    assert f"\n{pyspark} \\\n" in (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
