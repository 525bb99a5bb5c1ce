"""Runs a job in a child process, and measures it from outside: batches, CPU time and memory of the process tree.

While the child runs, the parent watches the commit log of its checkpoint and notes the CPU time of the whole tree
(Python, JVM, the processes that they start) at each commit. The duration of a batch is Spark's own figure
(`triggerExecution`). So only batches with the same numbers are compared, and no listener is added to a query.

- `run_headwater`: a pipeline file with `headwater run`
- `run_by_hand`: a function that starts a query with plain PySpark; `bench/by_hand.py` is the child's program
- `run_command`: any other command
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.variants import Settings

ROOT = Path(__file__).resolve().parents[1]
LONGEST_SECONDS = 1800.0
POLL_SECONDS = 0.02
USAGE_SECONDS = 1.0
"""The longest time between two readings of the usage, from the first commit on."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: a process whose parent has ended becomes a child of ours."""


class JobFailed(Exception):
    """A child process ended with an error; the text contains the end of its output."""


@dataclass(frozen=True)
class Usage:
    """What a process tree has used at one moment."""

    at: float
    """Seconds since the child started."""
    cpu: float
    """CPU seconds since the start, including processes that have ended."""
    jvm_bytes: int
    python_bytes: int
    threads: int


@dataclass(frozen=True)
class Batch:
    """One batch, as Spark reports it."""

    number: int
    rows: int
    ms: float
    """Duration of the batch (`triggerExecution`)."""
    durations: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRun:
    """What a child process did."""

    seconds: float
    """From its start to its exit."""
    cpu_seconds: float
    """CPU time of the whole tree."""
    output: str
    batches: Sequence[Batch] = ()
    commits: Mapping[int, Usage] = field(default_factory=dict)
    """The usage when the commit of a batch was seen."""
    usages: Sequence[Usage] = ()
    """The usage at each commit that was seen, and at least each second after the first one."""

    @property
    def peak_bytes(self) -> int:
        """The largest memory of the tree that was seen."""
        return max((usage.jvm_bytes + usage.python_bytes for usage in self.usages), default=0)

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def first_commit(self) -> float:
        """Seconds from the start of the command to the first committed batch."""
        return min(usage.at for usage in self.commits.values())

    def between(self, first: int, last: int) -> list[Batch]:
        """The batches with these numbers, both ends included; fewer is an error."""
        found = [batch for batch in self.batches if first <= batch.number <= last]
        if len(found) != last - first + 1:
            have = [batch.number for batch in self.batches]
            raise JobFailed(f"expected batches {first} to {last}, got {have}:\n{excerpt(self.output)}")
        return found

    def median_ms(self, first: int, last: int) -> float:
        """The median duration of the batches with these numbers."""
        return statistics.median(batch.ms for batch in self.between(first, last))

    def cpu_ms(self, first: int, last: int) -> float:
        """CPU milliseconds per batch, from the commit of one batch to the commit of another."""
        (start, before), (end, after) = self.usage_at(first), self.usage_at(last)
        return 1000 * (after.cpu - before.cpu) / (end - start)

    def usage_at(self, batch: int) -> tuple[int, Usage]:
        """The usage at the commit of a batch, or at the next one that was seen."""
        seen = [number for number in self.commits if number >= batch]
        if not seen:
            raise JobFailed(f"no commit of batch {batch} or a later one was seen:\n{excerpt(self.output)}")
        return min(seen), self.commits[min(seen)]

    def rows_per_second(self, after: int) -> float:
        """The rows of all batches after this one per second in these batches."""
        batches = [batch for batch in self.batches if batch.number > after and batch.rows]
        return 1000 * sum(batch.rows for batch in batches) / sum(batch.ms for batch in batches)


def excerpt(output: str) -> str:
    """The start and the end of a long output, without the stack frames of Java."""
    rows = [row for row in output.splitlines() if not row.lstrip().startswith("at ")]
    return "\n".join(rows if len(rows) <= 60 else [*rows[:30], "…", *rows[-30:]])[:10_000]


def run_command(
    command: Sequence[str],
    folder: Path,
    *,
    commit_log: Path | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float = LONGEST_SECONDS,
    codes: Iterable[int] = (0,),
) -> JobRun:
    """Run a command in a directory, and measure its process tree until all its processes have ended.

    No other process may be started meanwhile: every new child of this process counts as part of the command.
    """
    before, output = set(_children(os.getpid())), folder / "output.txt"
    with output.open("wb") as file, _adopted_orphans():
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            commits, usages = _watch(process.pid, commit_log, began, timeout)
            seconds = time.monotonic() - began
            cpu = _reap(process, before, timeout)
        except BaseException:
            _kill(process, before)
            raise
    text = output.read_text(encoding="utf-8", errors="replace")
    if process.returncode not in codes:
        shown = " ".join(command)[:500]
        raise JobFailed(f"{shown}: exited with code {process.returncode}:\n{excerpt(text)}")
    return JobRun(seconds, cpu, text, commits=commits, usages=usages)


def run_headwater(
    pipeline: str,
    folder: Path,
    *arguments: str,
    query: str = "out",
    command: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    timeout: float = LONGEST_SECONDS,
) -> JobRun:
    """Run a pipeline with `headwater run`, or another `command`; its triggers or an option must end the run."""
    file = folder / "pipeline.yml"
    file.write_text(pipeline, encoding="utf-8")
    run = [str(Path(sys.executable).parent / "headwater"), "run", "--json"]
    words = [*(command or run), *arguments, str(file)]
    commits = folder / ".headwater" / "checkpoints" / query / "commits"
    done = run_command(words, folder, commit_log=commits, environ=environ, timeout=timeout)
    events = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    reports = [each["progress"] for each in events if is_progress(each) and each["query"] == query]
    return _with_batches(done, reports)


def is_progress(event: Mapping[str, object]) -> bool:
    """Whether a line of `headwater run --json` reports a batch."""
    return event.get("event") == "query_progress"


def run_by_hand(
    job: str,
    folder: Path,
    settings: Settings,
    parameters: Mapping[str, object] | None = None,
    *,
    timeout: float = LONGEST_SECONDS,
) -> JobRun:
    """Run a query of plain PySpark. `job` names a function `module:function`, which gets a session, the directory and
    the parameters, starts a query with `folder / "checkpoint"` and returns it. The query must end without a stop."""
    progress, description = folder / "progress.json", folder / "job.json"
    description.write_text(
        json.dumps(
            {"job": job, "conf": settings.conf, "progress": str(progress), "parameters": parameters or {}}
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "bench.by_hand", str(description)]
    environ = {**os.environ, **settings.environ, "PYTHONPATH": str(ROOT)}
    commits = folder / "checkpoint" / "commits"
    done = run_command(command, folder, commit_log=commits, environ=environ, timeout=timeout)
    return _with_batches(done, json.loads(progress.read_text(encoding="utf-8")))


def _with_batches(done: JobRun, reports: Iterable[Mapping[str, object]]) -> JobRun:
    batches = [batch_of(report) for report in reports]
    # A query that looks for data and finds none also reports, with the number of the batch before.
    executed = [batch for batch in batches if "addBatch" in batch.durations]
    return replace(done, batches=executed)


def batch_of(report: Mapping[str, object]) -> Batch:
    """A batch, from Spark's progress report."""
    durations = report["durationMs"]
    assert isinstance(durations, dict)
    return Batch(
        int(str(report["batchId"])),
        int(str(report["numInputRows"])),
        float(durations["triggerExecution"]),
        durations,
    )


# The process tree, from /proc.


def usage(root: int, began: float) -> Usage:
    """What the tree of a process has used; processes that ended count where their parent has waited for them."""
    cpu, java, python, threads = 0.0, 0, 0, 0
    for pid in tree(root):
        stat = _stat(pid)
        if stat is None:
            continue
        name, fields = stat
        cpu += sum(map(int, fields[11:15])) / _TICKS
        threads += int(fields[17])
        if name == "java":
            java += int(fields[21]) * _PAGE
        else:
            python += int(fields[21]) * _PAGE
    return Usage(time.monotonic() - began, cpu, java, python, threads)


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    parents: dict[int, list[int]] = {}
    for pid in _processes():
        stat = _stat(pid)
        if stat is not None:
            parents.setdefault(int(stat[1][1]), []).append(pid)
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def _children(parent: int) -> list[int]:
    stats = {pid: _stat(pid) for pid in _processes()}
    return [pid for pid, stat in stats.items() if stat is not None and int(stat[1][1]) == parent]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """The name and the fields after it, from the state on; nothing if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def _watch(
    pid: int, commit_log: Path | None, began: float, timeout: float
) -> tuple[dict[int, Usage], list[Usage]]:
    """Read the usage at each commit, and each second after the first one, until the process ends; it stays a zombie,
    so that its CPU time is kept. Returns the usage by commit, and all readings."""
    seen: dict[int, Usage] = {}
    usages: list[Usage] = []
    end = os.pidfd_open(pid)
    try:
        ended = select.poll()
        ended.register(end, select.POLLIN)
        while not ended.poll(1000 * POLL_SECONDS):
            elapsed = time.monotonic() - began
            if elapsed > timeout:
                raise JobFailed(f"the job did not end within {timeout:g} s")
            newest = max(_committed(commit_log), default=-1) if commit_log else -1
            if newest >= 0 and (newest not in seen or elapsed - usages[-1].at >= USAGE_SECONDS):
                usages.append(usage(pid, began))
                seen.setdefault(newest, usages[-1])
    finally:
        os.close(end)
    return seen, usages


def _committed(commit_log: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(commit_log) if name.isdigit()]
    except FileNotFoundError:
        return []


def _reap(process: subprocess.Popen[bytes], before: set[int], timeout: float) -> float:
    """Wait for the process and for those that it left behind, such as a JVM. Returns their CPU seconds."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, deadline = used.ru_utime + used.ru_stime, time.monotonic() + timeout
    while left := set(_children(os.getpid())) - before:
        for pid in left:
            ended, _, used = os.wait4(pid, os.WNOHANG)
            if ended:
                seconds += used.ru_utime + used.ru_stime
        if time.monotonic() > deadline:
            raise JobFailed(f"processes that the job left behind did not end: {sorted(left)}")
        time.sleep(POLL_SECONDS)
    return seconds


def _kill(process: subprocess.Popen[bytes], before: set[int]) -> None:
    """Kill everything that the job started."""
    started = set(tree(process.pid)).union(*(tree(pid) for pid in set(_children(os.getpid())) - before))
    for pid in started:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if process.returncode is None:
        process.wait()


@contextmanager
def _adopted_orphans() -> Iterator[None]:
    """Be the parent of processes that a child leaves behind, so that their CPU time can be read."""
    prctl: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl failed")
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0, 0, 0, 0)
