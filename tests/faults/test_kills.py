"""Processes are killed without warning; what they leave is taken up, and the results are those of one run."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.checkpoint.lock import Owner
from tests.pipelines import feed, rows_of, run_until_idle, write
from tests.processes import Program, headwater, jvm_of, lock_of

PIPELINE = """
name: visits
sources:
  visits:
    connector: files
    path: in
    format: json
    schema: {id: int, at: timestamp, page: string}
    max_files_per_batch: 1
    watermark: {column: at, delay: 1 minute}
tables:
  counted: |
    SELECT window.start AS at, page, count(*) AS visits
    FROM visits GROUP BY window(at, '5 minutes'), page
sinks:
  copied: {reads: visits, connector: files, path: copied, format: json}
  counted: {reads: counted, connector: files, path: counted, format: json}
"""

STOCK_FILES = ("--conf", "spark.hadoop.fs.file.impl=org.apache.hadoop.fs.LocalFileSystem")
"""Hadoop's own local file system in place of Headwater's; both must read what the other has written."""
FILES = 7 if os.environ.get("HEADWATER_SOAK") else 4
SCHEMAS = {"copied": "id int, at timestamp, page string", "counted": "at timestamp, page string, visits long"}
Moment = Callable[[Path], bool]


def project(folder: Path) -> Path:
    """Some files, one batch each: the same rows in every project."""
    for number in range(FILES):
        rows = [
            {"id": 10 * number + row, "at": f"2026-01-01T12:{3 * number:02}:{row:02}Z", "page": f"/{row % 3}"}
            for row in range(10)
        ]
        feed(folder / "in", str(number), rows, at=1_700_000_000 + number)
    return write(folder, PIPELINE)


def exists(path: str) -> Moment:
    """The moment at which Spark has written a file."""
    return lambda folder: (folder / path).exists()


def offsets(sink: str, batch: int) -> Moment:
    """A batch is planned and now runs."""
    return exists(f".headwater/checkpoints/{sink}/offsets/{batch}")


def written(sink: str, batch: int) -> Moment:
    """A batch's files are valid for readers; it may not be committed."""
    return exists(f"{sink}/_spark_metadata/{batch}")


def after(seconds: float) -> Moment:
    """Some time after the first look."""
    began: list[float] = []

    def is_over(folder: Path) -> bool:
        began.append(time.monotonic())
        return began[-1] - began[0] >= seconds

    return is_over


def kills() -> list[tuple[str, Moment]]:
    """Who is killed, and when: the same in each gate, other ones in each round of a soak."""
    soak = os.environ.get("HEADWATER_SOAK")
    if soak is None:
        return [("python", offsets("copied", 1)), ("jvm", written("counted", 2))]
    chance = random.Random(int(soak))
    return [(chance.choice(("python", "jvm")), _some_moment(chance, batch)) for batch in range(1, FILES)]


def _some_moment(chance: random.Random, batch: int) -> Moment:
    sink = chance.choice(("copied", "counted"))
    kinds: list[Moment] = [offsets(sink, batch), written(sink, batch), after(chance.uniform(0, 15))]
    return chance.choice(kinds)


def kill(run: Program, victim: str, folder: Path) -> Owner | None:
    """Kill the command, or Spark's process under it, which the command has to tell; the owner that died."""
    owner = lock_of(folder, "copied")
    began = owner is not None and owner.process.pid == run.pid and owner.jvm is not None
    if victim == "python" or not began:
        if owner is not None and owner.jvm is not None:
            # The next life is sure to meet it.
            os.kill(owner.jvm.pid, signal.SIGSTOP)
        run.signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
    else:
        os.kill(jvm_of(folder, "copied").pid, signal.SIGKILL)
        assert run.wait() == 1, run.told
        ended = [event for event in run.events if event["event"] == "query_terminated"]
        assert [(event["status"], event["problem"]["code"]) for event in ended] == [
            ("failed", "HW-SPARK-DIED")
        ] * len(SCHEMAS)
        assert not [event for event in run.events if event["event"] == "query_restarting"]
        assert run.stderr == ""
        return None
    return owner


def take_over(run: Program, dead: Owner, folder: Path) -> None:
    """Whoever comes to hold the checkpoint does so when the dead run's JVM can't write any more."""

    def is_other() -> bool:
        now = lock_of(folder, "copied")
        return now is not None and now.run_id != dead.run_id

    if dead.jvm is not None:
        run.until(lambda: any(event["event"] == "start_phase" for event in run.events))
        first = run.events[0]
        waits = f"Waiting for the JVM of the previous run (process {dead.jvm.pid}) to exit"
        assert (first["phase"], first["message"], first["seconds"]) == ("previous_jvm", waits, 0)
        assert not is_other()
        os.kill(dead.jvm.pid, signal.SIGCONT)
    run.until(is_other)
    assert dead.jvm is None or not dead.jvm.alive
    run.until(lambda: any(event["event"] == "notice" for event in run.events))
    said = [event["message"] for event in run.events if event["event"] == "notice"]
    assert f"process {dead.process.pid} " in said[0]
    assert dead.jvm is None or re.search(r"whose JVM took \d+\.\d s to exit", said[0])


def refused(folder: Path) -> None:
    """A second run on the same checkpoints says who is in its way, and changes nothing."""
    holder = lock_of(folder, "copied")
    assert holder is not None
    with headwater(folder, "run", "pipeline.yml") as second:
        assert second.wait() == 4, second.told
    assert second.stdout == ""
    since = holder.since.isoformat(timespec="seconds")
    for word in (
        "HW-CHECKPOINT-LOCKED",
        f"process {holder.process.pid}, ",
        since,
        f"kill {holder.process.pid}",
    ):
        assert word in second.stderr
    now = lock_of(folder, "copied")
    assert now is not None
    assert now.token == holder.token


def noting_commands(folder: Path) -> tuple[str, Path]:
    """A PATH on which the commands that Hadoop starts leave a line in a file, and that file."""
    notes, commands = folder / "started", folder / "bin"
    commands.mkdir(parents=True)
    for name in ("chmod", "ls", "readlink"):
        command = commands / name
        command.write_text(f'#!/bin/sh\necho {name} >>"{notes}"\nexec {shutil.which(name)} "$@"\n')
        command.chmod(0o755)
    return os.pathsep.join([str(commands), os.environ["PATH"]]), notes


@pytest.mark.feature("H1.1", part="files")
@pytest.mark.feature("F3", part="--no-restart")
@pytest.mark.feature("F5", part="lock")
@pytest.mark.timeout(1200)
def test_results_are_those_of_a_run_without_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    killed, clean = tmp_path / "killed", tmp_path / "clean"
    path, started = noting_commands(tmp_path)
    project(killed)
    dead: Owner | None = None
    with ExitStack() as lives:
        for number, (victim, moment) in enumerate(kills()):
            # The next life begins at once, while the JVM of the last may still be there.
            files = STOCK_FILES if number == 0 else ()
            command = headwater(killed, "run", "pipeline.yml", "--json", "--no-restart", *files, PATH=path)
            run = lives.enter_context(command)
            if dead:
                take_over(run, dead, killed)
            if number == 1:
                # Until then, Hadoop's file system was used, which starts processes.
                assert started.exists() or not offsets("copied", 0)(killed)
                started.unlink(missing_ok=True)
            if number == 0:
                run.until(lambda: lock_of(killed, "copied"))
                refused(killed)
            run.until(partial(moment, killed))
            dead = kill(run, victim, killed)
        # Headwater's file system, which took over from Hadoop's, starts no process; Hadoop's takes over again.
        assert not started.exists()
        back = headwater(killed, "run", "pipeline.yml", "--until-idle", *STOCK_FILES, PATH=path)
        last = lives.enter_context(back)
        assert last.wait() == 0, last.told
        assert "chmod" in started.read_text()

    assert run_until_idle(project(clean)).exit_code == 0
    for sink, schema in SCHEMAS.items():
        rows = rows_of(spark, clean / sink, schema=schema)
        assert rows_of(spark, killed / sink, schema=schema) == rows
        assert rows
