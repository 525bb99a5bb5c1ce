"""The pytest plugin, in a pytest run of its own, with a player that needs no Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFTEST = """
import pytest
from tests.unit.testing.fake_player import FakePlayer, put_in_place

put_in_place(pytest.MonkeyPatch())

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    print("players:", [(len(each.played), each.closed) for each in FakePlayer.made])
"""
HEAVY = "assert not {{name for name in sys.modules if name.startswith({modules})}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "p.yml").touch()
    (tmp_path / "test_a.yml").write_text(
        "pipeline: p.yml\ntests:\n  one waits: [restart]\n  two fails: [restart]\n  three: [restart]\n",
        encoding="utf-8",
    )
    (tmp_path / "test_b.yml").write_text("pipeline: p.yml\ntests: {a: [restrat]}\n", encoding="utf-8")
    (tmp_path / "test_other.yml").write_text("kind: of another tool\n", encoding="utf-8")
    return tmp_path


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def outcomes(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^(test_\S+?::.*?) (PASSED|FAILED)", text, re.MULTILINE)


def test_test_files_are_tests_of_pytest(folder: Path) -> None:
    done = run_pytest(folder, "-v", "-rP")
    assert outcomes(done.stdout) == [
        ("test_a.yml::one waits", "PASSED"),
        ("test_a.yml::two fails", "FAILED"),
        ("test_a.yml::three", "PASSED"),
        ("test_b.yml::test_b.yml", "FAILED"),
    ]
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    for line in (
        "  step 2, feed 3 to words · batches 1 to 2 · watermark 11:57 → 12:04",
        "      - missing     {start: 12:00, n: 1}",
        "  test_b.yml:2:13: error HW-TEST-UNKNOWN-STEP",
        "    Did you mean `restart`?",
        "  idle: clicks (blocks the watermark of joined: 11:57)",
    ):
        assert f"\n{line}\n" in done.stdout
    assert "Traceback" not in done.stdout
    # One player for the session, closed at its end.
    assert "players: [(3, True)]" in done.stdout


def test_one_test_by_its_name(folder: Path) -> None:
    done = run_pytest(folder, "-v", "test_a.yml::one waits")
    assert outcomes(done.stdout) == [("test_a.yml::one waits", "PASSED")]
    assert "players: [(1, True)]" in done.stdout


def test_a_run_without_such_tests_loads_nothing_heavy_and_starts_no_player(folder: Path) -> None:
    for name in ("test_a.yml", "test_b.yml"):
        (folder / name).unlink()
    (folder / "conftest.py").unlink()
    heavy = ("pyspark", "py4j", "pandas", "ruamel", "headwater.engine", "headwater.loaders")
    (folder / "test_it.py").write_text(
        f"import sys\n\ndef test_it():\n    {HEAVY.format(modules=heavy)}\n", encoding="utf-8"
    )
    done = run_pytest(folder, "-v")
    assert outcomes(done.stdout) == [("test_it.py::test_it", "PASSED")], done.stdout
