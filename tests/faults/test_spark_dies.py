"""Spark's process is killed, or Spark is stopped in it: queries continue in a new one, and each row is there once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines import committed, feed, write
from tests.processes import Program, headwater, jvm_of, lock_of, queries_of

PIPELINE = """
name: {name}
restart: {{backoff: 100 ms, attempts: 20}}
spark: {{spark.master: "local[2]"}}
sources:
  rows: {{connector: files, path: in, format: json, schema: {{id: int}}, max_files_per_batch: 1}}
tables:
  counted: SELECT id, count(*) AS n FROM rows GROUP BY id
sinks:
  copied: {{reads: rows, connector: files, path: out, format: json}}
  counted: {{reads: counted, connector: noop, mode: update}}
"""
STOPS = """
sinks:
  copied: {reads: rows, connector: files, path: out, format: json}
  stops: {reads: rows, connector: foreach_batch, function: "code.py:stops"}
"""
CODE = """
from pathlib import Path


def stops(rows, batch):
    first = Path("{folder}/first")
    if batch == 1 and not first.exists():
        first.touch()
        # Spark itself does this after an error such as a lack of memory in one of its threads.
        rows.sparkSession.sparkContext._jsc.sc().stopInNewThread()
    rows.collect()
"""
NAMES = ("orders", "visits")
QUERIES = [f"{name}.{sink}" for name in NAMES for sink in ("copied", "counted")]


class Two:
    """Two pipelines side by side; the file N of each has the row N."""

    def __init__(self, folder: Path) -> None:
        self.folders = [folder / name for name in NAMES]
        self.files = [write(each, PIPELINE.format(name=each.name)) for each in self.folders]
        self.fed = 0
        self.feed()

    def feed(self, rows: int = 3) -> None:
        for number in range(self.fed, self.fed + rows):
            for folder in self.folders:
                feed(folder / "in", str(number), [{"id": number}], at=1_700_000_000 + number)
        self.fed += rows

    @property
    def expected(self) -> Counter[int]:
        return Counter(range(self.fed))

    def have_all(self) -> bool:
        return all(committed(folder / "out").total() >= self.fed for folder in self.folders)

    def jvms(self) -> set[int]:
        """Those that the locks name."""
        owners = [lock_of(folder, "copied") for folder in self.folders]
        return {owner.jvm.pid for owner in owners if owner and owner.jvm}

    def statuses(self, key: str = "status") -> list[Any]:
        return [query[key] for folder in self.folders for query in queries_of(folder).values()]


def jvms(run: Program) -> list[int]:
    """The process in which the run starts Spark: at first a script, then the JVM with the same number."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    found = (line.split() for line in listed.stdout.splitlines())
    return [int(pid) for pid, parent, state in found if int(parent) == run.pid and "Z" not in state]


def kill(run: Program, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    run.until(lambda: pid not in jvms(run), 10)


def lines(run: Program, kind: str) -> list[dict[str, Any]]:
    return [event for event in run.events if event["event"] == kind]


def summaries(run: Program) -> dict[str, dict[str, Any]]:
    """What the end of each pipeline tells of its queries."""
    return {query: each for event in lines(run, "run_finished") for query, each in event["queries"].items()}


@pytest.mark.feature("H1.1", part="a JVM that dies")
@pytest.mark.feature("F3", part="Spark is restarted")
def test_both_pipelines_continue_in_a_new_spark(tmp_path: Path) -> None:
    two = Two(tmp_path)
    with headwater(tmp_path, "run", *two.files, "--json") as run:
        run.until(two.have_all)
        first = jvm_of(two.folders[0], "copied").pid
        two.feed()
        run.until(lambda: committed(two.folders[0] / "out").total() > 3)
        kill(run, first)
        two.feed()
        run.until(lambda: two.statuses() == ["restarting"] * 4)
        assert {problem["code"] for problem in two.statuses("problem")} == {"HW-SPARK-DIED"}

        # The next one dies while it starts, and the one after that when the first query is about to start.
        run.until(lambda: set(jvms(run)) - {first})
        (second,) = jvms(run)
        kill(run, second)
        run.until(lambda: two.jvms() - {first, second})
        (third,) = two.jvms() - {first, second}
        kill(run, third)

        run.until(two.have_all)
        two.feed()
        run.until(two.have_all)
        run.until(lambda: set(two.statuses()) == {"idle"})
        assert two.statuses("restarts") == [1] * 4
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.told
    assert [committed(folder / "out") for folder in two.folders] == [two.expected] * 2
    restarted = [(event["query"], event["restarts"]) for event in lines(run, "query_restarted")]
    assert sorted(restarted) == [(query, 1) for query in QUERIES]
    failed = {(event["query"], event["problem"]["code"]) for event in lines(run, "query_restarting")}
    assert failed == {(query, "HW-SPARK-DIED") for query in QUERIES}
    ended = [event["exit_code"] for event in lines(run, "run_finished")]
    statuses = {query: each["status"] for query, each in summaries(run).items()}
    assert (ended, statuses) == ([0, 0], dict.fromkeys(QUERIES, "stopped"))
    assert run.stderr == ""


@pytest.mark.feature("H1.1", part="Spark is stopped in a JVM that continues")
def test_a_spark_that_stops_in_its_process_is_replaced(tmp_path: Path) -> None:
    pipeline = PIPELINE.format(name="stopped")
    file = write(tmp_path, pipeline[: pipeline.index("tables:")] + STOPS.lstrip())
    write(tmp_path, CODE.format(folder=tmp_path), "code.py")
    for number in range(3):
        feed(tmp_path / "in", str(number), [{"id": number}], at=1_700_000_000 + number)
    with headwater(tmp_path, "run", file, "--until-idle", "--json") as run:
        assert run.wait() == 0, run.told
    assert committed(tmp_path / "out") == Counter(range(3))
    failed = {(event["query"], event["problem"]["code"]) for event in lines(run, "query_restarting")}
    assert ("stops", "HW-SPARK-DIED") in failed
    assert {code for _, code in failed} == {"HW-SPARK-DIED"}
    restarts = {query: each["restarts"] for query, each in summaries(run).items()}
    assert restarts["stops"] == 1
    assert run.stderr == ""
