"""The demo as a user runs it: stopped, killed and started again, its results are those of a batch run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.run import arrivals, numbers
from headwater.checkpoint import Checkpoint, LocalStore, SinkLog
from tests import short_lives

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 120.0


def environment() -> dict[str, str]:
    return {**os.environ, **short_lives.environment()}


def run(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *options]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )


def run_and_send(demo: Path, until: Callable[[], bool], number: signal.Signals) -> tuple[int, str]:
    """Run the demo until something has come about, send it a signal; its exit code and its output."""
    command = [sys.executable, str(demo / "run.py")]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + LONGEST_SECONDS
        while not until():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        output, _ = process.communicate(timeout=LONGEST_SECONDS)
        return process.returncode, output
    finally:
        process.kill()
        process.wait()


def last_batch(demo: Path, query: str) -> int:
    commit = Checkpoint(LocalStore(demo / "work" / "run" / "checkpoints" / query)).last_commit
    return commit.batch_id if commit else -1


@pytest.mark.timeout(600)
@pytest.mark.feature("H1.1", part="the demo killed once, against the batch result")
def test_killed_and_started_again_it_loses_and_repeats_nothing(tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    shutil.copytree(ROOT / "demo", demo, ignore=shutil.ignore_patterns("work", "__pycache__"))

    if os.environ.get("HEADWATER_SOAK"):
        first = run(demo / "run.py", "--for=3s")
        assert first.returncode == 0, first.stdout + first.stderr
        assert_summed_up(first.stdout)

    stopped_at = last_batch(demo, "revenue")
    run_and_send(demo, lambda: last_batch(demo, "revenue") > stopped_at, signal.SIGKILL)

    exit_code, output = run_and_send(demo, lambda: bool(list_rows(demo / "work" / "revenue")), signal.SIGINT)
    assert exit_code == 0, output
    assert_summed_up(output)

    verified = run(demo / "verify.py")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert re.search(r"^priced: \d{3,} rows, equal", verified.stdout, re.MULTILINE)
    assert re.search(r"^revenue: [1-9]\d* rows, equal", verified.stdout, re.MULTILINE)
    assert_without_gap(demo / "work" / "arrivals")


def list_rows(folder: Path) -> list[Path]:
    """The files with rows that a sink has committed."""
    return [Path(file.path) for file in SinkLog(LocalStore(folder)).files() if file.size]


def assert_summed_up(output: str) -> None:
    for query in ("priced", "revenue"):
        told = rf"^  {query}: stopped, [\d,]+ rows in, [\d,]+ out(, [\d,]+ late in [a-z ]+)?$"
        assert re.search(told, output, re.MULTILINE), output


def assert_without_gap(folder: Path) -> None:
    """Every number up to the last is there, with the rows that belong to it."""
    found = sorted(numbers(folder))
    assert found == list(range(len(found)))
    for number in found:
        text = (folder / f"orders-{number:07}.json").read_text(encoding="utf-8")
        assert [json.loads(line) for line in text.splitlines()] == arrivals(number)
