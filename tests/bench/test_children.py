from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench import children
from bench.children import Batch, JobFailed, JobRun, Usage, batch_of, run_command

BURN = "import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(lines)]


def test_the_cpu_time_of_a_process_left_behind_counts(tmp_path: Path) -> None:
    orphan = BURN.format(seconds=0.3)
    started = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {orphan!r}])"
    done = run_command(python(started), tmp_path)
    assert 0.3 <= done.cpu_seconds < 2


def test_the_usage_is_noted_at_each_commit(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    done = run_command(
        python(
            "import pathlib, time",
            f"log = pathlib.Path({str(commits)!r}); log.mkdir()",
            "for number in range(3):",
            "    end = time.process_time() + 0.1",
            "    while time.process_time() < end: pass",
            "    (log / str(number)).touch()",
            "    time.sleep(0.3)",
        ),
        tmp_path,
        commit_log=commits,
    )
    assert list(done.commits) == [0, 1, 2]
    assert 50 <= done.cpu_ms(0, 2) <= 250
    assert done.first_commit < done.seconds
    assert done.peak_bytes > 1_000_000


def test_memory_after_the_last_commit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "USAGE_SECONDS", 0.1)
    commits = tmp_path / "commits"
    done = run_command(
        python(
            "import pathlib, time",
            f"log = pathlib.Path({str(commits)!r}); log.mkdir()",
            "(log / '0').touch()",
            "time.sleep(0.5)",
            "data = b'x' * 100_000_000",
            "time.sleep(1)",
        ),
        tmp_path,
        commit_log=commits,
    )
    assert list(done.commits) == [0]
    assert len(done.usages) > 2
    assert done.peak_bytes > done.commits[0].python_bytes + 80_000_000


def test_a_failure_shows_the_output(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match=r"code 3:\nbroken") as caught:
        run_command(python("print('broken')", "raise SystemExit(3)"), tmp_path)
    assert "\tat " not in str(caught.value)


def test_a_job_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    sleeper = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    command = python(
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleeper!r}])",
    )
    with pytest.raises(JobFailed, match="did not end within"):
        run_command(command, tmp_path, timeout=2)
    for _ in range(100):
        if not Path("/proc", pid.read_text()).exists() or _is_zombie(int(pid.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("the child still runs")


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def test_only_equal_batch_numbers_are_compared() -> None:
    batches = [Batch(number, 100, float(number)) for number in range(6)]
    commits = {number: Usage(number, number * 0.2, 0, 0, 1) for number in (1, 3, 5)}
    done = JobRun(10, 4, "", batches, commits)
    assert done.median_ms(1, 3) == 2
    # The commits of batches 2 and 4 were not seen: the next ones count, with the number of batches between them.
    assert done.cpu_ms(2, 4) == pytest.approx(200)
    assert done.rows_per_second(after=3) == pytest.approx(1000 * 200 / 9)
    with pytest.raises(JobFailed, match="expected batches 4 to 6"):
        done.between(4, 6)


def test_a_batch_is_read_from_a_progress_report() -> None:
    report = {"batchId": 7, "numInputRows": 1000, "durationMs": {"triggerExecution": 81, "addBatch": 60}}
    assert batch_of(report) == Batch(7, 1000, 81.0, {"triggerExecution": 81, "addBatch": 60})
