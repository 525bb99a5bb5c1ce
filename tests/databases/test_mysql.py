"""What only MySQL and MariaDB have: collations, engines, several unique indexes, LOAD DATA, and their locks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from headwater.connectors.databases.mysql import Mysql
from headwater.connectors.databases.writer import TableWriter, reachable_problems, table_problems
from headwater.errors import PipelineError, QueryFailedError
from tests.databases.conftest import PASSWORD, MysqlStore, a_batch
from tests.databases.mariadb import MariadbServer
from tests.databases.test_conformance import problem_of, totals

NAMES = ["a", "A", "a ", "\u00e4", "a\u0308", "", " ", "x" * 255]
"""Keys that other collations or comparisons would treat as equal, and the longest one."""


def test_keys_are_compared_exactly(spark: SparkSession, mysql: MysqlStore) -> None:
    rows = totals(spark, *((name, number) for number, name in enumerate(NAMES)))
    writer = mysql.writer(rows, "t", "update", key="name")
    for batch in range(2):
        writer.write(rows.selectExpr("name", f"total + {100 * batch} AS total"), a_batch(batch))
        expected = Counter((name, number + 100 * batch) for number, name in enumerate(NAMES))
        assert mysql.rows("t") == expected
    with pytest.raises(QueryFailedError) as error:
        writer.write(totals(spark, ("x" * 256, 1)), a_batch(2))
    assert "Data too long for column 'name'" in str(problem_of(error).params["says"])


def test_long_keys_that_differ_at_their_end(spark: SparkSession, mysql: MysqlStore) -> None:
    mysql.run(
        f"CREATE TABLE {mysql.into('t')} (id varchar(768) PRIMARY KEY, n bigint) "
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
    )
    rows = spark.range(50).selectExpr("concat(repeat('é', 766), lpad(id, 2, '0')) AS id", "id AS n")
    mysql.write(rows, "t", "update", key="id")
    assert mysql.rows("t", "count(DISTINCT id), sum(n)") == Counter([(50, 50 * 49 // 2)])
    with pytest.raises(QueryFailedError) as error:
        mysql.write(rows.union(rows.limit(1)), "t", "update", key="id", batch=1)
    assert problem_of(error).code == "HW-DATABASE-KEY-REPEATED"


def test_a_table_that_compares_keys_loosely_is_refused(spark: SparkSession, mysql: MysqlStore) -> None:
    create = (
        "CREATE TABLE {} (name varchar(20) UNIQUE, total bigint) CHARACTER SET utf8mb4 COLLATE utf8mb4_{}"
    )
    mysql.run(create.format(mysql.into("t"), "bin"))
    database = mysql.database(totals(spark), "t", "update", key="name")
    (problem,) = table_problems(database)
    assert problem.params["differences"] == (
        "column `name` of `key` has collation utf8mb4_bin, in which different texts can be equal"
    )
    mysql.run(str(problem.params["hint"]).removeprefix("Run `").partition("`. Or change")[0])
    assert list(table_problems(database)) == []
    # In append mode, nothing is compared.
    mysql.run(create.format(mysql.into("log"), "general_ci"))
    mysql.write(totals(spark, ("a", 1)), "log")
    with pytest.raises(QueryFailedError) as error:
        mysql.write(totals(spark, ("A", 1)), "log", batch=1)
    assert "Duplicate entry 'A'" in str(problem_of(error).params["says"])
    assert mysql.rows("log") == Counter([("a", 1)])


def test_a_table_without_transactions_is_refused(spark: SparkSession, mysql: MysqlStore) -> None:
    mysql.run(f"CREATE TABLE {mysql.into('t')} (name text, total bigint) ENGINE=MyISAM")
    with pytest.raises(PipelineError) as error:
        mysql.write(totals(spark, ("a", 1)), "t")
    problem = problem_of(error)
    assert (problem.code, problem.params["differences"]) == (
        "HW-DATABASE-TABLE-MISMATCH",
        "its storage engine MyISAM is not InnoDB",
    )
    mysql.run(str(problem.params["hint"]).removeprefix("Run `").partition("`. Or change")[0])
    mysql.write(totals(spark, ("a", 1)), "t")
    assert mysql.rows("t") == Counter([("a", 1)])
    own = mysql.run(
        "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = %s", [mysql.schema]
    )
    assert own == [("InnoDB",)]


def test_an_upsert_never_overwrites_the_row_of_another_key(spark: SparkSession, mysql: MysqlStore) -> None:
    """ON DUPLICATE KEY UPDATE would: it acts on every unique index."""
    mysql.run(
        f"CREATE TABLE {mysql.into('t')} (id bigint PRIMARY KEY AUTO_INCREMENT, name varchar(20) UNIQUE, "
        "total bigint UNIQUE, note text) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
    )
    keys: dict[str, Any] = {"mode": "update", "key": "name"}
    writer = mysql.writer(totals(spark), "t", **keys)
    writer.write(totals(spark, ("a", 1), ("b", 2)), a_batch(0))
    mysql.run(f"UPDATE {mysql.into('t')} SET note = 'mine'")
    with pytest.raises(QueryFailedError) as error:
        writer.write(totals(spark, ("c", 2)), a_batch(1))
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-WRITE-FAILED"
    assert problem.params["says"] == "Duplicate entry '2' for key 'total' (error 1062)"
    writer.write(totals(spark, ("c", 3), ("a", 7)), a_batch(1))
    assert mysql.rows("t") == Counter(
        [(1, "a", 7, "mine"), (2, "b", 2, "mine"), (mysql.run("SELECT max(id) FROM t")[0][0], "c", 3, None)]
    )


def test_a_key_that_another_writer_inserts_at_the_same_time(
    spark: SparkSession, mysql: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, inserted, insert_from = totals(spark, ("a", 1)), list[int](), Mysql.insert_from
    writer = mysql.writer(rows, "t", "update", key="name")
    writer.write(totals(spark), a_batch(0))

    def after_the_other(self: Mysql, *given: Any) -> str:
        inserted.append(1)
        if len(inserted) == 1:
            mysql.run(f"INSERT INTO {mysql.into('t')} VALUES ('a', 100)")
        return insert_from(self, *given)

    monkeypatch.setattr(Mysql, "insert_from", after_the_other)
    # The other writer has committed after the UPDATE and before the INSERT.
    monkeypatch.setattr(Mysql, "put_rows", _insert_without_look(Mysql.put_rows, inserted))
    writer.write(rows, a_batch(1))
    assert len(inserted) == 2
    assert mysql.rows("t") == Counter([("a", 1)])


def _insert_without_look(put_rows: Any, attempts: list[int]) -> Any:
    """The first INSERT does not see that the row exists, as if it had come a moment later."""

    def put(self: Mysql, session: Any, table: str, found: Any, source: str) -> None:
        if attempts:
            put_rows(self, session, table, found, source)
        else:
            session.run(self.insert_from(table, found, source))

    return put


@pytest.mark.parametrize("text", ["abcd", "abc "])
def test_a_value_that_does_not_fit_is_never_cut(spark: SparkSession, mysql: MysqlStore, text: str) -> None:
    """The server itself cuts spaces without an error."""
    mysql.run(f"CREATE TABLE {mysql.into('t')} (code varchar(3))")
    with pytest.raises(QueryFailedError) as error:
        mysql.write(spark.sql(f"SELECT '{text}' AS code"), "t")
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-WRITE-FAILED"
    assert "for column 'code'" in str(problem.params["says"])
    assert mysql.rows("t") == Counter()


def test_zero_in_a_column_that_counts(spark: SparkSession, mysql: MysqlStore) -> None:
    mysql.run(f"CREATE TABLE {mysql.into('t')} (id bigint PRIMARY KEY AUTO_INCREMENT, at timestamp(6) NULL)")
    rows = spark.sql("SELECT 0L AS id, timestamp'2026-07-01T12:00:00.000001Z' AS at")
    mysql.write(rows, "t", "update", key="id")
    assert mysql.values(rows, "t") == Counter([(0, datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=UTC))])
    with pytest.raises(QueryFailedError) as error:
        mysql.write(
            spark.sql("SELECT 1L AS id, timestamp'1960-01-01T00:00:00Z' AS at"), "t", "update", 1, key="id"
        )
    assert "Incorrect datetime value" in str(problem_of(error).params["says"])


@pytest.mark.parametrize(
    ("column", "spark_type", "accepted"),
    [
        ("decimal(12,2)", "decimal(10,2)", True),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("decimal(10,3)", "decimal(10,2)", False),
        ("int", "bigint", False),
        ("int unsigned", "int", False),
        ("bigint", "int", True),
        ("float", "double", False),
        ("float", "float", True),
        ("char(3)", "string", False),
        ("varchar(3)", "string", True),
        ("enum('a')", "string", False),
        ("datetime", "timestamp", False),
        ("timestamp(6)", "timestamp", True),
        ("timestamp(6)", "timestamp_ntz", False),
        ("binary(3)", "binary", False),
        ("varbinary(3)", "binary", True),
        ("longtext", "map<string,int>", True),
    ],
)
def test_which_columns_take_which_types(column: str, spark_type: str, accepted: bool) -> None:
    assert Mysql.__new__(Mysql).accepts(column, spark_type) is accepted


@pytest.mark.parametrize("allowed", [True, False])
def test_every_byte_and_large_batches_on_both_ways(
    spark: SparkSession, mysql: MysqlStore, allowed: bool
) -> None:
    """Rows go through LOAD DATA, and through INSERT if the server does not allow it."""
    rows = spark.range(0, 12_000, 1, 4).selectExpr(
        "id",
        "unhex(lpad(hex(id % 256), 2, '0')) AS y",
        "concat('\\\\N', char(id % 128), '\\t\\n\\\\', id) AS x",
        "IF(id % 3 = 0, null, id / 7) AS d",
    )
    with mysql.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL local_infile = {int(allowed)}")
        try:
            mysql.write(rows, "t")
        finally:
            cursor.execute("SET GLOBAL local_infile = 1")
    assert mysql.values(rows, "t") == Counter(tuple(row) for row in rows.collect())
    assert mysql.staged() == 0


def test_a_null_key_is_refused(spark: SparkSession, mysql: MysqlStore) -> None:
    with pytest.raises(QueryFailedError) as error:
        mysql.write(totals(spark, ("a", 1), (None, 2)), "t", "update", key="name")
    assert problem_of(error).code == "HW-DATABASE-KEY-NULL"
    assert mysql.rows("t") == Counter()


def test_rows_of_failed_and_repeated_tasks_do_not_count(
    spark: SparkSession, mysql: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Mysql.stage

    def twice(self: Mysql, rows: Any, *place: Any) -> Any:
        stage(self, rows, *place)
        return stage(self, rows, *place)

    monkeypatch.setattr(Mysql, "stage", twice)
    rows = spark.range(0, 100, 1, 4).selectExpr("id")
    mysql.write(rows, "t")
    assert mysql.rows("t") == Counter((n,) for n in range(100))
    assert mysql.staged() == 0


def test_a_suspended_task_does_not_hold_up_batches(spark: SparkSession, mysql: MysqlStore) -> None:
    """A load that never ends locks the staging against DDL; its rows do not count."""
    rows = totals(spark, ("a", 1))
    writer = mysql.writer(rows, "t")
    writer.write(rows, a_batch(0))
    (first,) = mysql.staging()
    with mysql.server.connect() as suspended, suspended.cursor() as cursor:
        suspended.begin()
        cursor.execute(f"INSERT INTO {mysql.schema}.{first} VALUES (1, 1, 'late', 7)")
        writer.write(rows, a_batch(1))
        suspended.commit()
        # What a late task has committed is removed with the next batch.
        writer.write(rows, a_batch(2))
    assert mysql.rows("t") == Counter({("a", 1): 3})
    assert mysql.staged() == 0


def test_staging_of_dead_runs_is_removed(spark: SparkSession, mysql: MysqlStore) -> None:
    rows = totals(spark, ("a", 1))
    writer = mysql.writer(rows, "t")
    writer.write(rows, a_batch(0))
    claimed = writer._claimed
    assert claimed is not None
    database = mysql.database(rows, "t")
    with database.connect():
        database.stage(rows.selectExpr("name c0", "total c1"), claimed.place, claimed.staging)
    assert mysql.staged() == 1
    mysql.writer(rows, "t").write(rows, a_batch(1, epoch=2))
    assert [name.rpartition("_")[2] for name in mysql.staging()] == ["2"]
    assert mysql.staged() == 0
    (name,) = mysql.staging()
    late = mysql.writer(rows, "t")
    late.write(rows, a_batch(2, epoch=2))
    mysql.run(f"DROP TABLE {mysql.schema}.{name}")
    late.write(rows, a_batch(3, epoch=2))
    assert mysql.rows("t") == Counter({("a", 1): 4})


@contextmanager
def locked(mysql: MysqlStore, table: str) -> Iterator[pymysql.Connection[Any]]:
    """A transaction that has locked all rows of a table."""
    with mysql.server.connect() as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.execute(f"SELECT count(*) FROM {mysql.into(table)} FOR UPDATE")
        yield connection
        connection.rollback()


def test_a_locked_table_and_a_deadlock_delay_a_batch(
    spark: SparkSession, mysql: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = totals(spark, ("a", 1))
    keys: dict[str, Any] = {"mode": "update", "key": "name"}
    writer = mysql.writer(rows, "t", **keys)
    writer.write(rows, a_batch(0))
    with locked(mysql, "t") as connection:
        timer = threading.Timer(1.0, connection.rollback)
        began = time.monotonic()
        timer.start()
        writer.write(totals(spark, ("a", 2)), a_batch(1))
        assert time.monotonic() - began > 0.9
        timer.join()
    limited = TableWriter(mysql.database(rows, "t", statement_timeout="200 ms", **keys), patience=0.5)
    with locked(mysql, "t"), pytest.raises(QueryFailedError) as error:
        limited.write(rows, a_batch(2))
    problem = problem_of(error)
    assert (problem.code, problem.entry.retryable) == ("HW-DATABASE-UNAVAILABLE", True)
    assert "max_statement_time exceeded" in str(problem.params["says"])
    assert mysql.rows("t") == Counter([("a", 2)])
    _deadlock(mysql, limited, spark, monkeypatch)
    assert mysql.rows("t") == Counter([("a", 3)])
    assert mysql.ledger() == [(2, 1)]


def waiting_for_lock(mysql: MysqlStore) -> int:
    """The connection that waits for a lock, as soon as one does."""
    deadline, pause = time.monotonic() + 30, threading.Event()
    select = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    while not (found := mysql.run(select)):
        assert time.monotonic() < deadline
        # InnoDB does not refresh what is read more often than every 0.1 seconds.
        pause.wait(0.2)
    return int(found[0][0])


def _deadlock(mysql: MysqlStore, writer: TableWriter, spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """Another transaction locks the row, and then waits for the ledger, which the batch has locked."""
    put_rows, attempts = Mysql.put_rows, list[int]()
    ended = threading.Event()

    def wait_for_ledger(other: pymysql.Connection[Any]) -> None:
        with other.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {mysql.into('headwater_ledger')} FOR UPDATE")
        other.rollback()
        ended.set()

    def put(self: Mysql, *given: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            other = mysql.server.connect()
            other.begin()
            with other.cursor() as cursor:
                # So much work that the server rolls back the other transaction, which has less to undo.
                cursor.execute(f"CREATE TABLE {mysql.into('more')} (n int)")
                other.begin()
                cursor.execute(f"INSERT INTO {mysql.into('more')} SELECT seq FROM seq_1_to_1000")
                cursor.execute(f"SELECT * FROM {mysql.into('t')} FOR UPDATE")
            threading.Thread(target=wait_for_ledger, args=[other], daemon=True).start()
            waiting_for_lock(mysql)
        put_rows(self, *given)

    patch.setattr(Mysql, "put_rows", put)
    rejected, seen = Mysql.rejected, list[str]()

    def noted(self: Mysql, state: str, says: str) -> Exception:
        seen.append(state)
        return rejected(self, state, says)

    patch.setattr(Mysql, "rejected", noted)
    writer.write(totals(spark, ("a", 3)), a_batch(2))
    assert ended.wait(30)
    assert seen[:1] == ["1213"]
    assert len(attempts) == 2


def test_a_server_that_is_killed_after_the_staging(
    spark: SparkSession, mysql: MysqlStore, mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, attempts, apply = totals(spark, ("a", 1), ("b", 2)), list[int](), TableWriter._apply
    writer = mysql.writer(rows, "t")
    writer.write(rows, a_batch(0))

    def after_a_crash(self: TableWriter, *given: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            mariadb.kill()
            mariadb.start()
        apply(self, *given)

    monkeypatch.setattr(TableWriter, "_apply", after_a_crash)
    writer.write(rows, a_batch(1))
    assert mysql.rows("t") == Counter({("a", 1): 2, ("b", 2): 2})
    assert mysql.staged() == 0


def test_a_server_that_is_gone(spark: SparkSession, mysql: MysqlStore, mariadb: MariadbServer) -> None:
    rows = totals(spark, ("a", 1))
    database = mysql.database(rows, "t")
    mariadb.kill()
    try:
        (problem,) = reachable_problems(database)
        assert problem.code == "HW-DATABASE-UNAVAILABLE"
        assert problem.entry.retryable
        assert PASSWORD not in str(problem)
        timer = threading.Timer(0.5, mariadb.start)
        timer.start()
        TableWriter(database, patience=30).write(rows, a_batch(0))
        timer.join()
    finally:
        mariadb.start()
    assert mysql.rows("t") == Counter([("a", 1)])


def test_tls_and_logins(spark: SparkSession, mysql: MysqlStore) -> None:
    ca, rows = mysql.server.folder / "tls" / "ca.pem", totals(spark, ("a", 1))

    def says(url: str = mysql.keys["url"], **tls: str) -> list[str]:
        keys: dict[str, Any] = {"tls": tls} if tls else {}
        return [
            str(each.params["says"])
            for each in reachable_problems(mysql.database(rows, "t", url=url, **keys))
        ]

    by_name = mysql.keys["url"].replace("127.0.0.1", "localhost")
    assert (
        says(mode="require")
        == says(mode="verify-ca", ca=str(ca))
        == says(mode="verify-full", ca=str(ca))
        == []
    )
    assert says(by_name, mode="verify-ca", ca=str(ca)) == []
    (mismatch,) = says(by_name, mode="verify-full", ca=str(ca))
    assert "Hostname mismatch" in mismatch
    (unknown,) = says(mode="verify-full")
    assert "self-signed certificate in certificate chain" in unknown
    mysql.write(rows, "t", tls={"ca": str(ca)})
    assert mysql.rows("t") == Counter([("a", 1)])
    (wrong,) = says(mysql.keys["url"].replace(PASSWORD, "mistyped-5531"))
    assert "Access denied for user 'ada'" in wrong
    assert "mistyped-5531" not in wrong


def test_connections_that_are_cut(spark: SparkSession, mysql: MysqlStore) -> None:
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id", "repeat('x', 100) AS x")
    writer = mysql.writer(rows, "t")
    writer.write(rows, a_batch(0))
    cut, blocked, over = list[int](), threading.Event(), threading.Event()

    def cut_some() -> None:
        # No batch can end before a connection is cut.
        with locked(mysql, "headwater_ledger"):
            blocked.set()
            cut.append(waiting_for_lock(mysql))
            mysql.run(f"KILL CONNECTION {cut[0]}")
        loads = "SELECT id FROM information_schema.processlist WHERE info LIKE 'LOAD DATA%'"
        while len(cut) < 3 and not over.wait(0.01):
            for (number,) in mysql.run(loads):
                with suppress(pymysql.Error):
                    mysql.run(f"KILL CONNECTION {number}")
                    cut.append(number)

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
    assert mysql.rows("t", "count(*), count(DISTINCT id)") == Counter([(60_000, 20_000)])
    assert mysql.ledger() == [(2, 1)]
