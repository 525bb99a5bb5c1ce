"""A run is paused for longer than its lock lives, and another one takes over on what it takes for another host."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.pipelines import committed, feed, write
from tests.processes import headwater, jvm_of, lock_of, program, queries_of

PIPELINE = """
name: paused
spark: {spark.master: "local[2]"}
sources:
  rows: {connector: files, path: in, format: json, schema: {id: int}, max_files_per_batch: 1}
tables:
  slow: {python: "code.py:slow"}
sinks:
  copied: {reads: rows, connector: files, path: copied, format: json}
  slow: {reads: slow, connector: files, path: slow, format: json}
"""
CODE = """
import time
from pathlib import Path

from pyspark.sql.functions import udf

FOLDER = Path({folder!r})


@udf("int")
def wait(number):
    (FOLDER / f"begun-{{number}}").touch()
    while (FOLDER / "hold").exists():
        time.sleep(0.02)
    return number


def slow(rows):
    return rows.select(wait("id").alias("id"))
"""
LEASE_SECONDS = 1.0
ELSEWHERE = f"""
import sys

from headwater.checkpoint import lock

lock.Host.here = staticmethod(lambda: lock.Host("elsewhere", None, None))
lock._SILENCE = {LEASE_SECONDS}
from headwater.cli.main import main

main()
"""


@contextmanager
def guards(folder: Path, *sinks: str) -> Iterator[None]:
    """Nobody changes the locks of a run meanwhile: one that is suspended while it does blocks every other start."""
    with ExitStack() as files:
        for name in sinks:
            guard = folder / ".headwater" / "checkpoints" / f"{name}.lock.guard"
            fcntl.flock(files.enter_context(guard.open("ab")), fcntl.LOCK_EX)
        whole = files.enter_context((folder / ".headwater" / "checkpoints.lock.guard").open("ab"))
        fcntl.flock(whole, fcntl.LOCK_EX)
        yield


@pytest.mark.feature("F5", part="a paused run that lost its lock stops, and its files count no more")
def test_a_run_that_was_paused_for_longer_than_its_lock_lives(tmp_path: Path) -> None:
    write(tmp_path, PIPELINE)
    write(tmp_path, CODE.format(folder=str(tmp_path)), "code.py")
    feed(tmp_path / "in", "0", [{"id": 0}], at=1_700_000_000)

    def rows() -> list[Counter[int]]:
        return [committed(tmp_path / sink) for sink in ("copied", "slow")]

    def all_have(*numbers: int) -> bool:
        return rows() == [Counter(numbers)] * 2

    with headwater(tmp_path, "run", "pipeline.yml", "--json") as paused:
        paused.until(lambda: all_have(0))
        (tmp_path / "hold").touch()
        feed(tmp_path / "in", "1", [{"id": 1}], at=1_700_000_001)
        paused.until(lambda: committed(tmp_path / "copied").total() == 2 and (tmp_path / "begun-1").exists())
        # In the middle of a batch, which ends when the other run has written it.
        both = (paused.pid, jvm_of(tmp_path, "slow").pid)
        with guards(tmp_path, "copied", "slow"):
            for pid in both:
                os.kill(pid, signal.SIGSTOP)
        (tmp_path / "hold").unlink()
        owner = lock_of(tmp_path, "slow")
        assert owner is not None
        paused.until(lambda: (datetime.now(UTC) - owner.heartbeat).total_seconds() > LEASE_SECONDS + 0.1)
        with program(tmp_path, sys.executable, "-c", ELSEWHERE, "run", "pipeline.yml", "--json") as other:
            feed(tmp_path / "in", "2", [{"id": 2}], at=1_700_000_002)
            other.until(lambda: all_have(0, 1, 2))
            for pid in both:
                os.kill(pid, signal.SIGCONT)
            assert paused.wait() == 1, paused.told
            ended = [event for event in paused.events if event["event"] == "query_terminated"]
            assert {event["query"]: event["problem"]["code"] for event in ended} == dict.fromkeys(
                ("copied", "slow"), "HW-LOCK-LOST"
            )
            assert not [event for event in paused.events if event["event"] == "query_restarting"]
            # The checkpoints are those of the other run, which goes on.
            holders = [lock_of(tmp_path, sink) for sink in ("copied", "slow")]
            assert [holder.process.pid for holder in holders if holder] == [other.pid] * 2
            # So is its control socket.
            assert {query["status"] for query in queries_of(tmp_path).values()} <= {"running", "idle"}
            assert queries_of(tmp_path).keys() == {"copied", "slow"}
            feed(tmp_path / "in", "3", [{"id": 3}], at=1_700_000_003)
            other.until(lambda: all_have(0, 1, 2, 3))
            other.signal(signal.SIGTERM)
            assert other.wait() == 0, other.told
    assert all_have(0, 1, 2, 3)
