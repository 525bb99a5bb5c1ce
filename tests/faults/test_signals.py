"""SIGTERM and SIGINT during a long batch, to the process and to its whole group."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines import feed, rows_of, write
from tests.processes import STOP_SECONDS, headwater, jvm_of, lock_of

PIPELINE = """
name: slow
sources:
  numbers: {connector: files, path: in, format: json, schema: {id: int}}
tables:
  slept: {python: "steps.py:slept"}
sinks:
  called: {reads: numbers, connector: foreach_batch, function: "steps.py:call"}
  copied: {reads: slept, connector: files, path: out, format: json}
"""

# Both kinds of work take their time: a function beside the driver, and a task on an executor.
STEPS = """
import time
from pathlib import Path

from pyspark.sql.functions import udf

FOLDER = Path({folder!r})


def work(what):
    with (FOLDER / "calls.log").open("a") as log:
        log.write(f"{{what}}\\n")
    time.sleep(float((FOLDER / "seconds").read_text()))


def call(batch, batch_id):
    work(f"called {{batch_id}}")


@udf("int")
def slowly(number):
    work(f"copied {{number}}")
    return number


def slept(numbers):
    return numbers.select(slowly("id").alias("id"))
"""

SINKS = ("called", "copied")
STOPS = [
    pytest.param(signal.SIGTERM, False, 5, id="SIGTERM to the process, in a batch of 5 seconds"),
    pytest.param(signal.SIGTERM, True, 10, id="SIGTERM to the group, in 10 seconds", marks=pytest.mark.soak),
    pytest.param(signal.SIGINT, True, 2, id="SIGINT to the group, as Ctrl-C does"),
]


class Project:
    """One project over several lives: batch N of both sinks has the file N, with the number N."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fed = 0
        write(folder, PIPELINE)
        write(folder, STEPS.format(folder=str(folder)), "steps.py")

    def feed(self, seconds: float) -> int:
        """Give the next batch its number; its work takes so long."""
        number = self.fed
        (self.folder / "seconds").write_text(str(seconds))
        feed(self.folder / "in", str(number), [{"id": number}])
        self.fed += 1
        return number

    @property
    def calls(self) -> Counter[str]:
        log = self.folder / "calls.log"
        return Counter(log.read_text().splitlines() if log.exists() else ())

    def works_on(self, number: int, times: int = 1) -> bool:
        return all(self.calls[f"{sink} {number}"] == times for sink in SINKS)

    def committed(self, number: int) -> list[bool]:
        checkpoints = self.folder / ".headwater" / "checkpoints"
        return [(checkpoints / sink / "commits" / str(number)).exists() for sink in SINKS]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("signals"))


@pytest.mark.feature("F4", part="signals")
@pytest.mark.parametrize(("number", "group", "seconds"), STOPS)
def test_the_running_batch_commits(
    project: Project, number: signal.Signals, group: bool, seconds: float
) -> None:
    batch = project.feed(seconds)
    with headwater(project.folder, "run", "pipeline.yml") as run:
        run.until(lambda: project.works_on(batch))
        jvm = jvm_of(project.folder, "called")
        run.signal(number, group=group)
        assert run.wait(STOP_SECONDS) == 0, run.told
        # Already when the command has ended, nothing of it is left.
        assert not jvm.alive
        assert lock_of(project.folder, "called") is None
    assert project.committed(batch) == [True, True]
    assert run.stderr == ""


@pytest.mark.feature("F4", part="a second SIGINT forces; the next start repeats that batch and no other")
def test_a_second_interrupt_forces(project: Project, spark: SparkSession) -> None:
    batch = project.feed(300)
    with headwater(project.folder, "run", "pipeline.yml") as run:
        run.until(lambda: project.works_on(batch))
        run.signal(signal.SIGINT, group=True)
        run.until(lambda: "Received SIGINT" in run.stdout)
        assert project.committed(batch) == [False, False]
        forced = time.monotonic()
        run.signal(signal.SIGINT, group=True)
        assert run.wait(STOP_SECONDS) == 130, run.told
        assert time.monotonic() - forced < STOP_SECONDS
    assert project.committed(batch) == [False, False]
    assert "HW-FORCED-STOP" in run.stderr
    assert "Traceback" not in run.stderr + run.stdout

    (project.folder / "seconds").write_text("0")
    with headwater(project.folder, "run", "pipeline.yml", "--until-idle") as again:
        assert again.wait() == 0, again.told
    once = {f"{sink} {number}": 1 for sink in SINKS for number in range(batch)}
    assert project.calls == Counter({**once, **{f"{sink} {batch}": 2 for sink in SINKS}})
    assert project.committed(batch + 1) == [False, False]
    assert rows_of(spark, project.folder / "out", schema="id int") == Counter(
        {(number,): 1 for number in range(project.fed)}
    )


@pytest.mark.feature("F4", part="SIGTERM during start-up")
def test_a_signal_during_start_up(tmp_path: Path) -> None:
    project = Project(tmp_path)
    batch = project.feed(0)
    with headwater(tmp_path, "run", "pipeline.yml") as run:
        run.until(lambda: (tmp_path / ".headwater" / "logs" / "spark.log").exists())
        run.signal(signal.SIGTERM, group=True)
        assert run.wait() == 0, run.told
        assert lock_of(tmp_path, "called") is None
    assert project.calls == Counter()
    assert project.committed(batch) == [False, False]
    assert run.stderr == ""


HANGING = """
import time
from pathlib import Path


def slept(numbers):
    turns = 0
    while True:
        turns += 1
        Path(__file__).with_name("turns").write_text(str(turns))
        time.sleep(0.02)
"""


@pytest.mark.feature("F4", part="a second SIGINT ends a start that hangs in user code")
def test_a_second_interrupt_ends_a_start_that_hangs(tmp_path: Path) -> None:
    write(tmp_path, PIPELINE.replace("steps.py:call", "calls.py:call"))
    write(tmp_path, "def call(batch, batch_id):\n    pass\n", "calls.py")
    write(tmp_path, HANGING, "steps.py")
    feed(tmp_path / "in", "0", [{"id": 0}])

    def turns() -> int:
        file = tmp_path / "turns"
        return int(file.read_text() or 0) if file.exists() else 0

    with headwater(tmp_path, "run", "pipeline.yml") as run:
        run.until(turns)
        jvm = jvm_of(tmp_path, "called")
        run.signal(signal.SIGINT, group=True)
        # Two signals at once would be one: the first is noted before the code goes on.
        before = turns()
        run.until(lambda: turns() > before + 2)
        run.signal(signal.SIGINT, group=True)
        assert run.wait(STOP_SECONDS) == 130, run.told
        assert not jvm.alive
        assert lock_of(tmp_path, "called") is None
    assert "HW-FORCED-STOP-AT-START" in run.stderr
    assert "Traceback" not in run.stderr + run.stdout
