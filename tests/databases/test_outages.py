"""Outages that take as long as real ones: a server killed during a run, and tables locked for a minute."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.connectors.databases.writer import TableWriter
from tests.databases.conftest import MysqlStore, Store, a_batch
from tests.databases.test_conformance import totals
from tests.pipelines import feed, run_until_idle, write

PIPELINE = """
name: shop
sources:
  orders: {{connector: files, path: in, format: json, schema: {{id: int}}, max_files_per_batch: 1}}
sinks:
  orders: {{reads: orders, connector: {connector}, url: "${{secret:SHOP_URL}}", into: {into}}}
"""
BATCHES, MINUTE = 8, 55.0
"""A lock is seen after 10 seconds, and waited for another minute."""


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another transaction has locked the table `t`."""
    with ExitStack() as stack:
        if isinstance(store, MysqlStore):
            mysql = stack.enter_context(store.server.connect())
            mysql.begin()
            stack.enter_context(mysql.cursor()).execute(f"UPDATE {store.into('t')} SET total = total + 0")
            stack.enter_context(mysql.cursor()).execute(f"SELECT * FROM {store.into('t')} FOR UPDATE")
            stack.callback(mysql.rollback)
        elif store.kind.name == "sqlite":
            sqlite = stack.enter_context(closing(sqlite3.connect(store.keys["path"], isolation_level=None)))
            sqlite.execute("BEGIN EXCLUSIVE")
            stack.callback(sqlite.rollback)
        else:
            postgres = stack.enter_context(psycopg.connect(store.keys["url"]))
            postgres.execute(f"LOCK TABLE {store.into('t')} IN ACCESS EXCLUSIVE MODE".encode())
            stack.callback(postgres.rollback)
        yield


@pytest.mark.soak
@pytest.mark.parametrize("name", ["postgres", "mysql", "sqlite"])
def test_a_table_that_is_locked_for_a_minute(
    spark: SparkSession, request: pytest.FixtureRequest, name: str
) -> None:
    store: Store = request.getfixturevalue(name)
    keys = {"mode": "update", "key": "name"}
    TableWriter(store.database(totals(spark), "t", **keys)).write(totals(spark, ("a", 1)), a_batch(0))
    over, has_lock = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(store):
            has_lock.set()
            over.wait(MINUTE)

    holder = threading.Thread(target=hold)
    holder.start()
    assert has_lock.wait(30)
    began = time.monotonic()
    try:
        again = TableWriter(store.database(totals(spark), "t", **keys))
        again.write(totals(spark, ("a", 2), ("b", 1)), a_batch(1, epoch=2))
    finally:
        over.set()
        holder.join(30)
    assert time.monotonic() - began > MINUTE - 5
    assert store.rows("t") == Counter([("a", 2), ("b", 1)])
    assert store.ledger() == [(1, 2)]


@pytest.mark.soak
@pytest.mark.feature("H1.1", part="database sinks: the server is killed several times during a run")
@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_a_server_that_is_killed_during_a_run(
    context: SparkContext,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    store: Store = request.getfixturevalue(name)
    server = request.getfixturevalue("server" if name == "postgres" else "mariadb")
    monkeypatch.setenv("SHOP_URL", store.keys["url"])
    file = write(tmp_path, PIPELINE.format(connector=name, into=store.into("t")))
    for number in range(BATCHES):
        feed(tmp_path / "in", str(number), [{"id": number}], at=1_700_000_000 + number)
    apply: Callable[..., None] = TableWriter._apply
    attempts: list[int] = []

    def killed_around(self: TableWriter, *given: object) -> None:
        """Every third attempt, the server is killed: before the transaction or after it."""
        attempts.append(1)
        if len(attempts) % 3 == 1:
            server.kill()
            threading.Thread(target=server.start).start()
        apply(self, *given)
        if len(attempts) % 3 == 2:
            server.kill()
            server.start()
            raise store.lost()

    monkeypatch.setattr(TableWriter, "_apply", killed_around)
    assert run_until_idle(file).exit_code == 0
    assert len(attempts) > BATCHES + 2
    assert store.rows("t") == Counter((number,) for number in range(BATCHES))
    assert store.ledger() == [(BATCHES - 1, 1)]
