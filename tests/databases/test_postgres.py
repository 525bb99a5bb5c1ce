"""What only PostgreSQL has: its types, its server's crashes, its locks, and loading by several tasks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.connectors.databases.postgres import _SMALL_STAGING, Postgres
from headwater.connectors.databases.writer import TableWriter, reachable_problems, table_problems
from headwater.dev import PostgresServer
from headwater.errors import QueryFailedError
from tests.databases.conftest import PASSWORD, PostgresStore, a_batch
from tests.databases.test_conformance import problem_of, totals

NATIVE = """
CREATE TABLE {table} (
    id bigint PRIMARY KEY, code varchar(3), who uuid, tags text[], sizes double precision[], extra json,
    price numeric(12, 4), made timestamptz DEFAULT now(), label text GENERATED ALWAYS AS (code || '!') STORED
)
"""


def test_existing_columns_of_native_types(spark: SparkSession, postgres: PostgresStore) -> None:
    postgres.run(NATIVE.format(table=postgres.into("t")))
    rows = spark.sql(
        "SELECT 1 AS id, 'abc' AS code, '00000000-0000-0000-0000-000000000001' AS who, array('a\"', null, '') AS tags, "
        "array(1.5D, double('NaN'), null) AS sizes, named_struct('x', 1) AS extra, 1.25BD AS price "
        "UNION ALL SELECT 2, null, null, array(), null, null, null"
    )
    postgres.write(rows, "t", "update", key="id")
    found = postgres.run(
        "SELECT id, code, who, tags, sizes::text, extra->>'x', price::text, label, made IS NOT NULL "
        f"FROM {postgres.into('t')} ORDER BY id"
    )
    assert found == [
        (1, "abc", UUID(int=1), ['a"', None, ""], "{1.5,NaN,NULL}", "1", "1.2500", "abc!", True),
        (2, None, None, [], None, None, None, None, True),
    ]


def test_a_value_that_does_not_fit_is_never_cut(spark: SparkSession, postgres: PostgresStore) -> None:
    postgres.run(f"CREATE TABLE {postgres.into('t')} (code varchar(3))")
    with pytest.raises(QueryFailedError) as error:
        postgres.write(spark.sql("SELECT 'abcd' AS code"), "t")
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-WRITE-FAILED"
    assert problem.params["says"] == "value too long for type character varying(3) (SQLSTATE 22001)"
    assert postgres.rows("t") == Counter()


@pytest.mark.parametrize(
    ("column", "spark_type", "accepted"),
    [
        ("numeric", "decimal(38,18)", True),
        ("numeric(12,2)", "decimal(10,2)", True),
        ("numeric(10,2)", "decimal(10,3)", False),
        ("numeric(10,3)", "decimal(10,2)", False),
        ("integer", "bigint", False),
        ("bigint", "int", True),
        ("real", "double", False),
        ("text[]", "array<string>", True),
        ("bytea[]", "array<binary>", False),
        ("text[]", "array<array<string>>", False),
        ("timestamp without time zone", "timestamp", False),
        ("timestamp with time zone", "timestamp_ntz", False),
        ("character varying(10)", "string", True),
        ("character(3)", "string", False),
    ],
)
def test_which_columns_take_which_types(column: str, spark_type: str, accepted: bool) -> None:
    assert Postgres.__new__(Postgres).accepts(column, spark_type) is accepted


def test_a_view_is_refused(spark: SparkSession, postgres: PostgresStore) -> None:
    postgres.run(f"CREATE VIEW {postgres.into('t')} AS SELECT text 'a' AS name, bigint '1' AS total")
    (problem,) = table_problems(postgres.database(totals(spark), "t"))
    assert problem.params["differences"] == "it is a view"


def test_nul_in_a_text_is_refused_by_column(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = spark.sql("SELECT id, IF(id = 700, concat('a', char(0)), 'b') AS note FROM range(1000)")
    with pytest.raises(QueryFailedError) as error:
        postgres.write(rows, "t")
    problem = problem_of(error)
    assert (problem.code, problem.params["column"], problem.params["value"]) == (
        "HW-DATABASE-VALUE-REJECTED",
        "note",
        "a NUL character",
    )
    nested = spark.sql("SELECT array(concat('a', char(0))) AS notes")
    with pytest.raises(QueryFailedError) as error:
        postgres.write(nested, "n", query="nested")
    problem_of_nested = problem_of(error)
    assert problem_of_nested.params["column"] == "notes"
    postgres.write(nested.where(str(problem_of_nested.params["condition"])), "n", query="nested")
    assert postgres.rows("n") == Counter()
    kept = rows.where(str(problem.params["condition"]))
    postgres.write(kept, "t")
    assert postgres.rows("t", "count(*)") == Counter([(999,)])


def test_invalid_utf_8_is_refused_by_column(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = spark.sql("SELECT id, CAST(IF(id = 7, x'ff', x'61') AS STRING) AS note FROM range(10)")
    with pytest.raises(QueryFailedError) as error:
        postgres.write(rows, "t")
    problem = problem_of(error)
    assert (problem.code, problem.params["column"], problem.params["value"]) == (
        "HW-DATABASE-VALUE-REJECTED",
        "note",
        "a text that is not valid UTF-8",
    )
    postgres.write(rows.where(str(problem.params["condition"])), "t")
    assert postgres.rows("t", "count(*)") == Counter([(9,)])


def test_a_null_key_where_nulls_differ(spark: SparkSession, postgres: PostgresStore) -> None:
    postgres.run(f"CREATE TABLE {postgres.into('t')} (name text UNIQUE, total bigint)")
    with pytest.raises(QueryFailedError) as error:
        postgres.write(totals(spark, ("a", 1), (None, 2)), "t", "update", key="name")
    assert problem_of(error).code == "HW-DATABASE-KEY-NULL"
    # A table that Headwater creates treats them as equal.
    keys: dict[str, Any] = {"mode": "update", "key": "name", "delete_when": "total = 0"}
    writer = postgres.writer(totals(spark), "own", **keys)
    for number, total in enumerate((2, 3)):
        writer.write(totals(spark, (None, total)), a_batch(number))
    assert postgres.rows("own") == Counter([(None, 3)])
    writer.write(totals(spark, (None, 0)), a_batch(2))
    assert postgres.rows("own") == Counter()


def test_rows_of_failed_and_repeated_tasks_do_not_count(
    spark: SparkSession, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark can run a task twice, and both copies commit; the job returns the number of one."""
    stage = Postgres.stage

    def twice(self: Postgres, rows: Any, *place: Any) -> Any:
        stage(self, rows, *place)
        return stage(self, rows, *place)

    monkeypatch.setattr(Postgres, "stage", twice)
    rows = spark.range(0, 100, 1, 4).selectExpr("id")
    postgres.write(rows, "t")
    assert postgres.rows("t") == Counter((n,) for n in range(100))
    assert postgres.staged() == 0


def test_a_server_that_crashes_after_the_staging(
    spark: SparkSession, postgres: PostgresStore, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crash empties the staging, which is not logged; the batch is loaded again."""
    rows, attempts = totals(spark, ("a", 1), ("b", 2)), []
    writer = postgres.writer(rows, "t")
    writer.write(rows, a_batch(0))
    postgres.run("CHECKPOINT")
    apply = TableWriter._apply

    def after_a_crash(self: TableWriter, *given: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            server.kill()
            server.start()
        apply(self, *given)

    monkeypatch.setattr(TableWriter, "_apply", after_a_crash)
    writer.write(rows, a_batch(1))
    assert len(attempts) == 2
    assert postgres.rows("t") == Counter({("a", 1): 2, ("b", 2): 2})


def test_a_server_that_is_gone(spark: SparkSession, postgres: PostgresStore, server: PostgresServer) -> None:
    rows = totals(spark, ("a", 1))
    database = postgres.database(rows, "t")
    server.stop()
    try:
        (problem,) = reachable_problems(database)
        assert problem.code == "HW-DATABASE-UNAVAILABLE"
        assert problem.entry.retryable
        assert PASSWORD not in str(problem)
        timer = threading.Timer(0.5, server.start)
        timer.start()
        TableWriter(database, patience=30).write(rows, a_batch(0))
        timer.join()
    finally:
        server.start()
    assert postgres.rows("t") == Counter([("a", 1)])


def test_tls_that_the_server_does_not_have(spark: SparkSession, postgres: PostgresStore) -> None:
    database = postgres.database(totals(spark), "t", tls={"mode": "require"})
    (problem,) = reachable_problems(database)
    assert problem.code == "HW-DATABASE-UNAVAILABLE"
    assert "server does not support SSL, but SSL was required" in str(problem.params["says"])


def test_connections_that_are_cut(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id", "repeat('x', 100) AS x")
    writer = postgres.writer(rows, "t")
    writer.write(rows, a_batch(0))
    cut, blocked, over = list[int](), threading.Event(), threading.Event()

    def cut_until(count: int) -> None:
        with psycopg.connect(postgres.keys["url"], autocommit=True) as connection:
            while len(cut) < count and not over.wait(0.01):
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity "
                    "WHERE CASE WHEN application_name = 'headwater out' THEN pg_terminate_backend(pid) END"
                ).fetchall()
                cut.extend(pid for (pid,) in found)

    def cut_some() -> None:
        # No batch can end before the first connection is cut.
        with locked(postgres, "t"):
            blocked.set()
            cut_until(1)
        cut_until(3)

    cutter = threading.Thread(target=cut_some)
    cutter.start()
    try:
        assert blocked.wait(30)
        for number in (1, 2):
            writer.write(rows, a_batch(number))
    finally:
        over.set()
        cutter.join(30)
    assert cut
    assert postgres.rows("t", "count(*), count(DISTINCT id)") == Counter([(60_000, 20_000)])
    assert postgres.ledger() == [(2, 1)]


@contextmanager
def locked(postgres: PostgresStore, table: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.keys["url"]) as connection:
        connection.execute(f"LOCK TABLE {postgres.into(table)} IN ACCESS EXCLUSIVE MODE".encode())
        yield connection


def test_a_locked_table_delays_a_batch(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = totals(spark, ("a", 1))
    writer = postgres.writer(rows, "t")
    writer.write(rows, a_batch(0))
    with locked(postgres, "t") as connection:
        timer = threading.Timer(1.0, connection.rollback)
        began = time.monotonic()
        timer.start()
        writer.write(rows, a_batch(1))
        assert time.monotonic() - began > 0.9
    limited = TableWriter(postgres.database(rows, "t", statement_timeout="200 ms"), patience=0.5)
    with locked(postgres, "t"), pytest.raises(QueryFailedError) as error:
        limited.write(rows, a_batch(2))
    problem = problem_of(error)
    assert (problem.code, problem.entry.retryable) == ("HW-DATABASE-UNAVAILABLE", True)
    assert problem.params["says"] == "canceling statement due to statement timeout"
    assert postgres.rows("t") == Counter({("a", 1): 2})
    limited.write(rows, a_batch(2))
    assert postgres.rows("t") == Counter({("a", 1): 3})


@pytest.mark.parametrize("limit", [0, _SMALL_STAGING])
def test_a_suspended_task_does_not_hold_up_batches(
    spark: SparkSession, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """A COPY that never ends locks the staging: if it is large, the batches use another one. Its rows do not count."""
    monkeypatch.setattr("headwater.connectors.databases.postgres._SMALL_STAGING", limit)
    rows = totals(spark, ("a", 1))
    writer = postgres.writer(rows, "t")
    writer.write(rows, a_batch(0))
    (first,) = postgres.staging()
    into = f'COPY {postgres.schema}."{first}" (task, c0, c1) FROM STDIN'.encode()
    with psycopg.connect(postgres.keys["url"]) as suspended, suspended.cursor().copy(into) as copy:
        copy.write_row((1, "late", 7))
        writer.write(rows, a_batch(1))
        writer.write(rows, a_batch(2))
    # The task has continued, and committed.
    writer.write(rows, a_batch(3))
    assert sorted(postgres.staging()) == ([first] if limit else [first, f"{first}_1"])
    # Those of batch 1 and of the task.
    assert postgres.staged() == (0 if limit else 2)
    assert postgres.rows("t") == Counter({("a", 1): 4})
    postgres.writer(rows, "t").write(rows, a_batch(4, epoch=2))
    assert [name.rpartition("_")[2] for name in postgres.staging()] == ["2"]
    assert postgres.staged() == 0


def test_a_staging_table_that_has_grown_is_truncated(
    spark: SparkSession, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DELETE is faster for a small batch, but the file keeps its size."""
    page = 8192
    monkeypatch.setattr("headwater.connectors.databases.postgres._SMALL_STAGING", 8 * page)
    rows, sizes = spark.range(1000).selectExpr("id"), []
    writer = postgres.writer(rows, "t")
    for number in range(4):
        writer.write(rows, a_batch(number))
        (name,) = postgres.staging()
        ((size,),) = postgres.run("SELECT pg_relation_size($1::regclass)", [f'{postgres.schema}."{name}"'])
        sizes.append(size // page)
        assert postgres.staged() == 0
    assert (0 < sizes[0] <= 8, sizes[1:]) == (True, [0, sizes[0], 0])
    assert postgres.rows("t") == Counter({(n,): 4 for n in range(1000)})


def test_errors_that_pass_are_retryable(spark: SparkSession, postgres: PostgresStore) -> None:
    """After a failover, the old primary can be read-only until the address leads to the new one."""
    rows = totals(spark, ("a", 1))
    url = f"{postgres.keys['url']}?options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(QueryFailedError) as error:
        TableWriter(postgres.database(rows, "t", url=url), patience=0).write(rows, a_batch(0))
    problem = problem_of(error)
    assert (problem.code, problem.entry.retryable) == ("HW-DATABASE-UNAVAILABLE", True)
    assert "read-only transaction" in str(problem.params["says"])


def test_staging_of_dead_runs_is_removed(spark: SparkSession, postgres: PostgresStore) -> None:
    rows = totals(spark, ("a", 1))
    writer = postgres.writer(rows, "t")
    writer.write(rows, a_batch(0))
    claimed = writer._claimed
    assert claimed is not None
    database = postgres.database(rows, "t")
    database.stage(rows.selectExpr("name c0", "total c1"), claimed.place, claimed.staging)
    assert postgres.staged() == 1
    postgres.writer(rows, "t").write(rows, a_batch(1, epoch=2))
    assert [name.rpartition("_")[2] for name in postgres.staging()] == ["2"]


def test_a_staging_table_that_was_dropped_is_created_again(
    spark: SparkSession, postgres: PostgresStore
) -> None:
    rows = totals(spark, ("a", 1))
    writer = postgres.writer(rows, "t")
    writer.write(rows, a_batch(0))
    (name,) = postgres.staging()
    postgres.run(f'DROP TABLE {postgres.schema}."{name}"')
    writer.write(rows, a_batch(1))
    assert postgres.rows("t") == Counter({("a", 1): 2})
