"""Real processes are killed or paused in the middle of a batch; the database has each row once."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pyspark import SparkContext

from headwater.api.check import check
from tests.databases.conftest import PASSWORD, MysqlStore, Store
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
  slow: {{reads: slow, connector: {connector}, url: "${{secret:SHOP_URL}}", into: {into}}}
"""
OTHER_SINKS = """\
  copied: {reads: slow, connector: files, path: copied, format: json}
  called: {reads: slow, connector: foreach_batch, function: "code.py:called"}
"""
UNAWARE = """
from headwater.checkpoint.lock import CheckpointLock

# This run does not notice that it has lost its lock, so only the database can reject it.
CheckpointLock.heartbeat = lambda self: None
from headwater.cli.main import main

main()
"""
CALLED = """

def called(batch, batch_id):
    pass
"""
GATE = """
CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(17); RETURN NULL; END $$;
CREATE TRIGGER wait AFTER INSERT ON {into} FOR EACH STATEMENT EXECUTE FUNCTION {schema}.wait();
"""

MYSQL_GATE = """
CREATE TRIGGER {schema}.wait AFTER INSERT ON {into} FOR EACH ROW SET @got = GET_LOCK('gate', 60)
"""


@contextmanager
def closed_gate(store: Store) -> Iterator[Callable[[], bool]]:
    """Transactions that have written a row wait; yields what says that one does."""
    if isinstance(store, MysqlStore):
        with store.server.connect() as gate, gate.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('gate', 0)")
            waiting = "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock'"
            yield lambda: bool(cursor.execute(waiting))
        return
    with psycopg.connect(store.keys["url"]) as connection:
        connection.execute("SELECT pg_advisory_lock(17)")
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        yield lambda: bool(connection.execute(waiting.encode()).fetchall())
        connection.execute("SELECT pg_advisory_unlock(17)")


def install_gate(store: Store, into: str) -> None:
    """Let transactions wait at the gate."""
    if isinstance(store, MysqlStore):
        store.run(MYSQL_GATE.format(schema=store.schema, into=into))
        return
    with psycopg.connect(store.keys["url"]) as gate, gate.transaction():
        gate.execute(GATE.format(schema=store.schema, into=into).encode())


def stop(run: Program) -> None:
    run.signal(signal.SIGTERM)
    assert run.wait() == 0, run.told


@pytest.mark.feature("H1.1", part="database sinks: the process is killed inside the transaction")
@pytest.mark.feature("F5")
@pytest.mark.parametrize("name", ["postgres", pytest.param("mysql", marks=pytest.mark.soak)])
def test_killed_and_paused_inside_a_batch(
    context: SparkContext,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    store: Store = request.getfixturevalue(name)
    monkeypatch.setenv("SHOP_URL", store.keys["url"])
    into = store.into("slow")
    write(tmp_path, PIPELINE.format(into=into, connector=name))
    write(tmp_path, CODE.format(folder=str(tmp_path)) + CALLED, "code.py")
    feed(tmp_path / "in", "0", [{"id": 0}], at=1_700_000_000)

    def has(*numbers: int) -> bool:
        return store.rows("slow") == Counter((number,) for number in numbers)

    assert run_until_idle(tmp_path / "pipeline.yml").exit_code == 0
    assert has(0)
    install_gate(store, into)
    feed(tmp_path / "in", "1", [{"id": 1}], at=1_700_000_001)
    with closed_gate(store) as waits, headwater(tmp_path, "run", "pipeline.yml", "--json") as killed:
        killed.until(waits)
        os.kill(killed.pid, signal.SIGKILL)
        os.kill(jvm_of(tmp_path, "slow").pid, signal.SIGKILL)
        killed.wait()

    with program(tmp_path, sys.executable, "-c", UNAWARE, "run", "pipeline.yml", "--json") as paused:
        paused.until(lambda: has(0, 1))
        # A second run cannot work on the checkpoint as long as the first one does.
        with headwater(tmp_path, "run", "pipeline.yml") as second:
            assert second.wait() == 4, second.told
        assert "HW-CHECKPOINT-LOCKED" in second.stderr
        assert f"process {paused.pid}, " in second.stderr
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
    assert store.ledger() == [(3, 4)]
    # `check` has announced that, and what happens in sinks that cannot reject a run.
    others = write(tmp_path, PIPELINE.format(into=into, connector=name) + OTHER_SINKS, "others.yml")
    said = {sink.name: sink.after_suspension or "" for sink in check(others).sinks}
    assert said == {
        "slow": "the database rejects the batches of the suspended process: each row is written once",
        "copied": "readers of the log see each row once; the directory can contain files that the log does not list",
        "called": "your code can receive the batch in progress twice, also at the same time and after later batches: "
        "store its ID in the same transaction as its rows",
    }
    # The address is in no output, no log of Spark and no file of the runs.
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {"spark.log", killed.stdout_file.name, killed.stderr_file.name} <= {each.name for each in files}
    assert [each for each in files if PASSWORD.encode() in each.read_bytes()] == []
