"""Real processes are killed or paused in the middle of a batch; the database has each row once."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark import SparkContext

from tests.databases.conftest import PASSWORD, PostgresStore
from tests.faults.test_paused import CODE, ELSEWHERE, LEASE_SECONDS, guards
from tests.pipelines import feed, run_until_idle, write
from tests.processes import Program, headwater, jvm_of, lock_of, program

PIPELINE = """
name: killed
spark: {{spark.master: "local[2]"}}
sources:
  rows: {{connector: files, path: in, format: json, schema: {{id: int}}, max_files_per_batch: 1}}
tables:
  slow: {{python: "code.py:slow"}}
sinks:
  slow: {{reads: slow, connector: postgres, url: "${{secret:SHOP_URL}}", into: {into}}}
"""
UNAWARE = """
from headwater.checkpoint.lock import CheckpointLock

# This run does not notice that it has lost its lock, so only the database can reject it.
CheckpointLock.heartbeat = lambda self: None
from headwater.cli.main import main

main()
"""
GATE = """
CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(17); RETURN NULL; END $$;
CREATE TRIGGER wait AFTER INSERT ON {into} FOR EACH STATEMENT EXECUTE FUNCTION {schema}.wait();
"""


def stop(run: Program) -> None:
    run.signal(signal.SIGTERM)
    assert run.wait() == 0, run.told


@pytest.mark.feature("H1.1", part="database sinks: the process is killed inside the transaction")
@pytest.mark.feature("F5", part="database sinks: the database rejects a run that was paused and superseded")
def test_killed_and_paused_inside_a_batch(
    context: SparkContext, postgres: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", postgres.keys["url"])
    into = postgres.into("slow")
    write(tmp_path, PIPELINE.format(into=into))
    write(tmp_path, CODE.format(folder=str(tmp_path)), "code.py")
    feed(tmp_path / "in", "0", [{"id": 0}], at=1_700_000_000)

    def has(*numbers: int) -> bool:
        return postgres.rows("slow") == Counter((number,) for number in numbers)

    assert run_until_idle(tmp_path / "pipeline.yml").exit_code == 0
    assert has(0)
    with psycopg.connect(postgres.keys["url"]) as gate, gate.transaction():
        gate.execute(GATE.format(schema=postgres.schema, into=into).encode())
    feed(tmp_path / "in", "1", [{"id": 1}], at=1_700_000_001)
    with psycopg.connect(postgres.keys["url"]) as gate:
        gate.execute("SELECT pg_advisory_lock(17)")
        with headwater(tmp_path, "run", "pipeline.yml", "--json") as killed:
            killed.until(lambda: _waits(gate))
            os.kill(killed.pid, signal.SIGKILL)
            os.kill(jvm_of(tmp_path, "slow").pid, signal.SIGKILL)
            killed.wait()
        gate.execute("SELECT pg_advisory_unlock(17)")

    with program(tmp_path, sys.executable, "-c", UNAWARE, "run", "pipeline.yml", "--json") as paused:
        paused.until(lambda: has(0, 1))
        (tmp_path / "hold").touch()
        feed(tmp_path / "in", "2", [{"id": 2}], at=1_700_000_002)
        paused.until((tmp_path / "begun-2").exists)
        both = (paused.pid, jvm_of(tmp_path, "slow").pid)
        with guards(tmp_path, "slow"):
            for pid in both:
                os.kill(pid, signal.SIGSTOP)
        (tmp_path / "hold").unlink()
        owner = lock_of(tmp_path, "slow")
        assert owner is not None
        paused.until(lambda: (datetime.now(UTC) - owner.heartbeat).total_seconds() > LEASE_SECONDS + 0.1)
        with program(tmp_path, sys.executable, "-c", ELSEWHERE, "run", "pipeline.yml", "--json") as other:
            other.until(lambda: has(0, 1, 2))
            for pid in both:
                os.kill(pid, signal.SIGCONT)
            assert paused.wait() == 1, paused.told
            (ended,) = [event for event in paused.events if event["event"] == "query_terminated"]
            assert ended["problem"]["code"] == "HW-DATABASE-SUPERSEDED"
            assert "rejected batch 2 of this run (number 3), because run 4" in ended["problem"]["message"]
            feed(tmp_path / "in", "3", [{"id": 3}], at=1_700_000_003)
            other.until(lambda: has(0, 1, 2, 3))
            stop(other)
    assert has(0, 1, 2, 3)
    assert postgres.ledger() == [(3, 4)]
    # The address is in no output, no log of Spark and no file of the runs.
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {"spark.log", killed.stdout_file.name, killed.stderr_file.name} <= {each.name for each in files}
    assert [each for each in files if PASSWORD.encode() in each.read_bytes()] == []


def _waits(connection: psycopg.Connection[Any]) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    row = connection.execute(waiting).fetchone()
    return row is not None and row[0] > 0
