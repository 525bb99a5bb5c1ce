"""What the ledger protects from, on every database: other queries, older copies, lost answers, earlier runs."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.connectors.databases.ledger import NextBatch
from headwater.connectors.databases.postgres import Postgres
from headwater.connectors.databases.writer import FunctionLedger, TableWriter, ledger_of, ledger_problems
from headwater.errors import PipelineError, QueryFailedError
from tests.databases.conftest import PostgresStore, SqliteStore, Store, a_batch
from tests.databases.test_conformance import problem_of, totals
from tests.pipelines import feed, run_until_idle, write

FOREIGN = "HW-DATABASE-LEDGER-FOREIGN"
PIPELINE = """
name: shop
sources:
  orders: {{connector: files, path: in, format: json, schema: {{id: int}}, max_files_per_batch: 1}}
sinks:
  orders: {{reads: orders, connector: sqlite, path: "{path}", into: t}}
"""


def claimed(store: Store, rows: Any, query: str, **keys: Any) -> TableWriter:
    """A writer that has claimed the table `t` and written nothing."""
    writer = store.writer(rows, "t", **keys)
    writer._claimed = writer._claim(a_batch(0, query=query))
    return writer


def test_two_queries_that_claim_before_either_writes(spark: SparkSession, store: Store) -> None:
    rows = totals(spark, ("a", 1))
    one, two = (claimed(store, rows, query) for query in ("one", "two"))
    one.write(rows, a_batch(0, query="one"))
    # The same run, and its next start.
    for late in (two, store.writer(rows, "t")):
        with pytest.raises(PipelineError) as error:
            late.write(rows, a_batch(0, query="two"))
        assert problem_of(error).code == FOREIGN
    (before,) = ledger_problems(store.database(rows, "t"), "two", NextBatch(0))
    assert before.params == problem_of(error).params
    assert store.rows("t") == Counter([("a", 1)])
    assert store.ledger() == [(-1, 1), (0, 1)]
    one.write(rows, a_batch(1, query="one"))
    store.writer(rows, "t", other_writers="allow").write(rows, a_batch(0, query="two"))
    assert store.ledger() == [(0, 1), (1, 1)]


def test_two_first_batches_at_the_same_time(
    spark: SparkSession, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second query waits for the transaction of the first, and then sees its batch."""
    rows = totals(spark, ("a", 1))
    one, two = (claimed(postgres, rows, query) for query in ("one", "two"))
    merge, late = Postgres.merge, list[Future[None]]()

    def merge_slowly(self: Postgres, *given: Any) -> None:
        merge(self, *given)
        late.append(pool.submit(two.write, rows, a_batch(0, query="two")))
        deadline = time.monotonic() + 60
        while not postgres.run("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
            assert time.monotonic() < deadline

    monkeypatch.setattr(Postgres, "merge", merge_slowly)
    with ThreadPoolExecutor(1) as pool:
        one.write(rows, a_batch(0, query="one"))
        with pytest.raises(PipelineError) as error:
            late[0].result(timeout=60)
    assert problem_of(error).code == FOREIGN
    assert len(late) == 1
    assert postgres.rows("t") == Counter([("a", 1)])


def test_a_function_is_not_called_for_a_second_query(spark: SparkSession, store: Store) -> None:
    rows, calls = totals(spark, ("a", 1)), list[str]()
    one, two = (FunctionLedger(store.database(rows, "t")) for _ in range(2))
    two._claimed = two._claim(a_batch(0, query="two"), "store")
    one.run(rows, a_batch(0, query="one"), "store", calls.append)
    with pytest.raises(PipelineError) as error:
        two.run(rows, a_batch(0, query="two"), "store", calls.append)
    assert problem_of(error).code == "HW-DATABASE-FUNCTION-FOREIGN"
    assert calls == ["one-0"]


def test_tables_are_claimed_independently(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = totals(spark, ("a", 1))
    postgres.write(rows, "t")
    database = postgres.database(rows, "t")
    with database.connect() as session, session.transaction():
        database.exclude(session, ledger_of(database, database.locate(session), "").lock_name)
        postgres.write(rows, "other")
    assert postgres.rows("other") == Counter([("a", 1)])


def test_a_wait_for_a_lock_ends(spark: SparkSession, postgres: PostgresStore) -> None:
    with postgres.database(totals(spark), "t").connect() as session:
        assert session.run("SHOW lock_timeout") == [("10s",)]
        assert session.run("SHOW transaction_isolation") == [("read committed",)]


def test_a_ledger_behind_the_checkpoint(spark: SparkSession, store: Store) -> None:
    """An older copy of the table was restored: batches 2 and 3 are missing."""
    rows = totals(spark, ("a", 1))
    writer = store.writer(rows, "t")
    for number in range(2):
        writer.write(rows, a_batch(number))
    # A run that was active during the restore, and the next start.
    for late in (writer, store.writer(rows, "t")):
        with pytest.raises(QueryFailedError) as error:
            late.write(rows, a_batch(4))
        problem = problem_of(error)
        assert problem.code == "HW-DATABASE-LEDGER-BEHIND"
        assert (problem.params["recorded"], problem.params["batch"]) == (1, 4)
    (before,) = ledger_problems(store.database(rows, "t"), "q", NextBatch(4, planned=False))
    assert before.params == problem.params
    assert list(ledger_problems(store.database(rows, "t"), "q", NextBatch(2, planned=False))) == []
    store.run(str(problem.params["statement"]))
    store.writer(rows, "t").write(rows, a_batch(4))
    assert store.rows("t") == Counter({("a", 1): 3})
    assert store.ledger() == [(4, 1)]


def test_a_batch_that_the_checkpoint_has_not_planned(spark: SparkSession, store: Store) -> None:
    """A checkpoint that is one batch old would plan this batch again, perhaps with other rows."""
    rows, database = totals(spark, ("a", 1)), store.database(totals(spark), "t")
    writer = TableWriter(database, start=NextBatch(0, planned=False))
    for number in range(2):
        writer.write(rows, a_batch(number))
    with pytest.raises(QueryFailedError) as error:
        TableWriter(database, start=NextBatch(1, planned=False)).write(rows, a_batch(1))
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-LEDGER-AHEAD"
    (before,) = ledger_problems(database, "q", NextBatch(1, planned=False))
    assert before.params == problem.params
    (new,) = ledger_problems(database, "q", NextBatch(0, planned=False))
    assert new.code == "HW-DATABASE-LEDGER-AHEAD"
    # Spark has planned it, so it has the same rows.
    TableWriter(database, start=NextBatch(1)).write(rows, a_batch(1))
    assert store.rows("t") == Counter({("a", 1): 2})


def test_a_run_with_a_smaller_number_than_the_ledger(spark: SparkSession, store: Store) -> None:
    """The checkpoint was moved without the numbers of its runs."""
    rows = totals(spark, ("a", 1))
    store.writer(rows, "t").write(rows, a_batch(0, epoch=7))
    (problem,) = ledger_problems(store.database(rows, "t"), "q", NextBatch(1), epoch=1)
    assert problem.code == "HW-DATABASE-LEDGER-RUN-NEWER"
    assert (problem.params["recorded"], problem.params["epoch"]) == (7, 1)
    store.run(str(problem.params["statement"]))
    assert list(ledger_problems(store.database(rows, "t"), "q", NextBatch(1), epoch=1)) == []
    store.writer(rows, "t").write(rows, a_batch(1, epoch=1))
    assert store.ledger() == [(1, 1)]


@pytest.mark.parametrize("name", ["sqlite", "duck"])
@pytest.mark.parametrize("into", ["orders", "main.orders", "MAIN.ORDERS"])
def test_every_spelling_of_a_table_is_one_target(
    spark: SparkSession, request: pytest.FixtureRequest, name: str, into: str
) -> None:
    store: Store = request.getfixturevalue(name)
    rows = totals(spark, ("a", 1))
    store.write(rows, "Orders")
    with pytest.raises(PipelineError) as error:
        store.write(rows, into, query="other")
    assert problem_of(error).code == FOREIGN
    store.write(rows, into, batch=1)
    assert store.rows("orders") == Counter({("a", 1): 2})
    assert store.run("SELECT target, batch_id FROM headwater_ledger") == [('"orders"', 1)]


def staging_tables(postgres: PostgresStore) -> int:
    """How many staging tables the schema has."""
    select = "SELECT count(*) FROM pg_class WHERE relname ^@ 'headwater_staging_' AND relkind = 'r' "
    return int(postgres.run(f"{select} AND relnamespace = to_regnamespace($1)", [postgres.schema])[0][0])


def test_the_staging_of_a_former_checkpoint_is_removed(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = totals(spark, ("a", 1))
    postgres.write(rows, "t", query="old")
    assert staging_tables(postgres) == 1
    # Both write at the same time.
    postgres.write(rows, "t", query="new", other_writers="allow")
    assert staging_tables(postgres) == 2
    postgres.run(f"DELETE FROM {postgres.into('headwater_ledger')}")
    postgres.write(rows, "t", query="newest")
    assert staging_tables(postgres) == 1


def test_a_pipeline_that_was_restored(context: SparkContext, sqlite: SqliteStore, tmp_path: Path) -> None:
    """The run numbers are lost; then the checkpoint is one batch older than the table, which only a start can see."""
    file = write(tmp_path, PIPELINE.format(path=sqlite.keys["path"]))

    def code_of_failed_start() -> str:
        with pytest.raises(PipelineError) as error:
            run_until_idle(file)
        sqlite.run(str(problem_of(error).params["statement"]))
        return problem_of(error).code

    for number in range(3):
        feed(tmp_path / "in", str(number), [{"id": number}], at=1_700_000_000 + number)
        assert run_until_idle(file).exit_code == 0
        assert sqlite.ledger() == [(number, number + 1)]
    (numbers,) = (tmp_path / ".headwater").glob("*.lock.epoch")
    numbers.unlink()
    feed(tmp_path / "in", "3", [{"id": 3}], at=1_700_000_003)
    assert code_of_failed_start() == "HW-DATABASE-LEDGER-RUN-NEWER"
    assert run_until_idle(file).exit_code == 0
    assert sqlite.ledger() == [(3, 2)]
    for name in ("offsets/3", "offsets/.3.crc", "commits/3", "commits/.3.crc"):
        (tmp_path / ".headwater/checkpoints/orders" / name).unlink(missing_ok=True)
    assert code_of_failed_start() == "HW-DATABASE-LEDGER-AHEAD"
    sqlite.run("DELETE FROM t WHERE id = 3")
    assert run_until_idle(file).exit_code == 0
    assert sqlite.rows("t") == Counter((number,) for number in range(4))
