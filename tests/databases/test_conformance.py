"""What every database does with batches: the same tests against each, on its real server."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from queue import SimpleQueue
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.databases.ledger import NextBatch
from headwater.connectors.databases.server import FEW_ROWS
from headwater.connectors.databases.writer import TableWriter, ledger_problems, table_problems
from headwater.errors import HeadwaterError, PipelineError, Problem, QueryFailedError
from tests.databases.conftest import Store, a_batch

HOSTILE = [
    'a"b',
    "a.b",
    "select",
    "ä ö",
    "a%s",
    "$1",
    "tab\there",
    "c0",
    "task",
    "deleted",
    "x'y",
    "`tick`",
    "\\",
    "t",
    "s",
]


def problem_of(error: pytest.ExceptionInfo[HeadwaterError]) -> Problem:
    (problem,) = error.value.problems
    return problem


def totals(spark: SparkSession, *rows: tuple[str | None, int | None]) -> DataFrame:
    return spark.createDataFrame(list(rows), "name string, total bigint").coalesce(1)


def test_a_batch_is_appended_once(spark: SparkSession, store: Store) -> None:
    first, second = (
        spark.range(5).selectExpr("id", "string(id) s"),
        spark.range(5, 8).selectExpr("id", "'x' s"),
    )
    writer = store.writer(first, "t")
    writer.write(first, a_batch(0))
    writer.write(second, a_batch(1))
    writer.write(second, a_batch(1))
    # A new process replays the newest batch, and continues.
    store.writer(first, "t").write(second, a_batch(1, epoch=2))
    expected = Counter({(n, str(n)): 1 for n in range(5)}) + Counter({(n, "x"): 1 for n in range(5, 8)})
    assert store.rows("t", "id, s") == expected
    assert store.ledger() == [(1, 2)]
    assert store.staged() == 0


def test_small_and_large_batches_follow_each_other(spark: SparkSession, store: Store) -> None:
    """Servers load a small batch that follows a small one on the driver, and every other on the executors."""
    # The third one has few rows in each partition and many in all; the fourth one has large rows.
    sizes, lengths = [10, 20, FEW_ROWS + 1, 20, 30], [1, 1, 1, 100_000, 1]
    ranges = zip(sizes, lengths, strict=True)
    rows = [spark.range(0, size, 1, 2).selectExpr("id", f"repeat('x', {n}) AS s") for size, n in ranges]
    calls = spark.sparkContext.accumulator(0)

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            calls.add(batch.num_rows)
            yield batch

    rows = [each.mapInArrow(counted, each.schema) for each in rows]
    writer = store.writer(rows[0], "t")
    for number, each in enumerate(rows):
        writer.write(each, a_batch(number))
    expected = Counter((id, n) for size, n in zip(sizes, lengths, strict=True) for id in range(size))
    assert store.rows("t", "id, length(s)") == expected
    assert calls.value == sum(sizes)
    assert store.staged() == 0


def test_an_empty_batch_is_recorded(spark: SparkSession, store: Store) -> None:
    store.write(totals(spark), "t")
    assert store.rows("t") == Counter()
    assert store.ledger() == [(0, 1)]


def test_rows_are_upserted_by_key(spark: SparkSession, store: Store) -> None:
    keys: dict[str, Any] = {"mode": "update", "key": ["name"]}
    writer = store.writer(totals(spark), "t", **keys)
    writer.write(totals(spark, ("a", 1), ("b", 2)), a_batch(0))
    store.run(f"ALTER TABLE {store.into('t')} ADD COLUMN note text")
    store.run(f"UPDATE {store.into('t')} SET note = 'mine'")
    again = store.writer(totals(spark), "t", **keys)
    again.write(totals(spark, ("b", None), ("c", 3)), a_batch(1))
    assert store.rows("t", "name, total, note") == Counter(
        [("a", 1, "mine"), ("b", None, "mine"), ("c", 3, None)]
    )


def test_rows_are_deleted_by_a_condition(spark: SparkSession, store: Store) -> None:
    keys: dict[str, Any] = {"mode": "update", "key": ["name"], "delete_when": "total IS NULL"}
    writer = store.writer(totals(spark), "t", **keys)
    writer.write(totals(spark, ("a", 1), ("b", 2), ("c", 3)), a_batch(0))
    writer.write(totals(spark, ("a", None), ("b", 5), ("z", None)), a_batch(1))
    assert store.rows("t") == Counter([("b", 5), ("c", 3)])


def test_a_key_of_all_columns_inserts_what_is_new(spark: SparkSession, store: Store) -> None:
    writer = store.writer(totals(spark), "t", mode="update", key=["name", "total"])
    writer.write(totals(spark, ("a", 1)), a_batch(0))
    writer.write(totals(spark, ("a", 1), ("a", 2)), a_batch(1))
    assert store.rows("t") == Counter([("a", 1), ("a", 2)])


def test_a_result_is_replaced(spark: SparkSession, store: Store) -> None:
    writer = store.writer(totals(spark), "t", mode="complete")
    writer.write(totals(spark, ("a", 1), ("a", 1), ("b", 2)), a_batch(0))
    assert store.rows("t") == Counter([("a", 1), ("a", 1), ("b", 2)])
    writer.write(totals(spark, ("c", 3)), a_batch(1))
    assert store.rows("t") == Counter([("c", 3)])


@pytest.mark.parametrize("name", ["postgres", "sqlite", "mysql"])
def test_a_reader_sees_the_old_or_the_new_result(
    spark: SparkSession, request: pytest.FixtureRequest, name: str
) -> None:
    """DuckDB is not here: no other process can open its file during a batch."""
    store: Store = request.getfixturevalue(name)
    results, over = SimpleQueue[tuple[Any, ...]](), threading.Event()

    def version(number: int) -> DataFrame:
        return spark.range(2_000).selectExpr("id", f"{number} AS version")

    def read() -> None:
        while not over.is_set():
            select = f"SELECT count(*), min(version), max(version) FROM {store.into('t')}"
            (row,) = store.run(select)
            results.put(row)

    writer = store.writer(version(0), "t", "complete")
    writer.write(version(0), a_batch(0))
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 6):
            writer.write(version(number), a_batch(number))
            seen = {results.get(timeout=30)}
            while (2_000, number, number) not in seen:
                seen.add(results.get(timeout=30))
            assert seen <= {(2_000, number - 1, number - 1), (2_000, number, number)}
    finally:
        over.set()
        reader.join(30)


def test_a_result_with_a_primary_key_is_replaced(spark: SparkSession, store: Store) -> None:
    """The same keys are deleted and inserted in one transaction."""
    store.run(f"CREATE TABLE {store.into('t')} (id bigint PRIMARY KEY, version integer)")
    for batch, number in enumerate((5_000, 5_000, 3)):
        rows = spark.range(number).selectExpr("id", f"{batch} AS version")
        store.write(rows, "t", "complete", batch=batch)
        assert store.rows("t") == Counter((each, batch) for each in range(number))


def test_a_batch_with_one_key_twice_is_refused(spark: SparkSession, store: Store) -> None:
    writer = store.writer(totals(spark), "t", mode="update", key=["name"])
    writer.write(totals(spark, ("a", 1)), a_batch(0))
    with pytest.raises(QueryFailedError) as error:
        writer.write(totals(spark, ("a", 2), ("b", 1), ("a", 3)), a_batch(1))
    problem = problem_of(error)
    assert (problem.code, problem.params) == ("HW-DATABASE-KEY-REPEATED", {"sink": "out", "key": "name"})
    assert store.rows("t") == Counter([("a", 1)])
    assert store.ledger() == [(0, 1)]
    writer.write(totals(spark, ("a", 2)), a_batch(1))
    assert store.rows("t") == Counter([("a", 2)])


def test_every_value_round_trips(spark: SparkSession, store: Store) -> None:
    long = "x" * 100_000 + "é"
    high, low = (math.inf, -math.inf) if store.keeps_infinities else (1e308, -3e38)
    rows = spark.createDataFrame(
        [
            (True, 1, -2, 2**31 - 1, -(2**63), 1.5, high, Decimal("12345678901234567890.0123456789"),
             'a"b\\.\n\t,é\U0001f600', b"\x00\xff", date(1, 1, 1), datetime(2026, 3, 1, 12, 0, 0, 123456)),
            (False, 0, 0, 0, 2**63 - 1, low, -0.0, Decimal("-0.0000000001"), "", b"",
             date(9999, 12, 31), datetime(1901, 1, 1)),
            (None,) * 12,
            (True, 127, 32767, -(2**31), 0, 3.25, 1e-300, Decimal("0"), long, b"x" * 70_000, date(2024, 2, 29),
             datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ],
        "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, n decimal(30,10), x string, "
        "y binary, a date, z timestamp_ntz",
    )  # fmt: skip
    store.write_twice(rows, "t")
    assert store.values(rows, "t") == Counter(tuple(row) for row in 2 * rows.collect())


def test_times_with_a_zone_round_trip(spark: SparkSession, store: Store) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = spark.sql("SELECT timestamp'2026-07-01T12:00:00.000001Z' AS at UNION ALL SELECT null")
    store.write_twice(rows, "t")
    assert store.values(rows, "t") == Counter(2 * [(datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=UTC),), (None,)])


def test_nested_values_are_json(spark: SparkSession, store: Store) -> None:
    rows = spark.sql(
        "SELECT array(1, null) a, map('k', 1.5D) m, named_struct('x', null, 'y', array('é\"')) s, "
        "array(named_struct('at', timestamp_ntz'2026-01-01 00:00:00.000001')) t UNION ALL SELECT null, null, null, null"
    )
    store.write_twice(rows, "t")
    found = [
        tuple(_parsed(each) for each in row) for row in store.run(f"SELECT a, m, s, t FROM {store.into('t')}")
    ]
    expected = ([1, None], {"k": 1.5}, {"x": None, "y": ['é"']}, [{"at": "2026-01-01T00:00:00.000001"}])
    assert sorted(found, key=str) == sorted(2 * [expected, (None,) * 4], key=str)


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def test_hostile_names(spark: SparkSession, store: Store) -> None:
    values = ", ".join(f"{number} AS `{name.replace('`', '``')}`" for number, name in enumerate(HOSTILE))
    rows = spark.sql(f"SELECT {values}")
    for number, name in enumerate(HOSTILE[::4]):
        table = '"' + f"{name} table".replace('"', '""') + '"'
        writer = store.writer(rows, table, mode="update", key=[name], delete_when="false")
        writer.write(rows, a_batch(0, query=str(number)))
        assert store.rows(table) == Counter([tuple(range(len(HOSTILE)))])


def test_a_type_that_cannot_be_stored_is_named(spark: SparkSession, store: Store) -> None:
    rows = spark.sql("SELECT 1 AS id, interval '1' day AS gap, parse_json('1') AS v, null AS nothing")
    found = list(store.database(rows, "t").problems())
    assert [(each.code, each.params["column"], each.params["type"]) for each in found] == [
        ("HW-DATABASE-TYPE-UNSUPPORTED", "gap", "interval day"),
        ("HW-DATABASE-TYPE-UNSUPPORTED", "v", "variant"),
        ("HW-DATABASE-TYPE-UNSUPPORTED", "nothing", "void"),
    ]


def test_keys_are_checked(spark: SparkSession, store: Store) -> None:
    rows = totals(spark)

    def codes(mode: str, **keys: Any) -> list[str]:
        return [each.code for each in store.database(rows, "t", mode, **keys).problems()]

    assert codes("update") == ["HW-DATABASE-KEY-REQUIRED"]
    assert codes("update", key="nme") == ["HW-DATABASE-KEY-NOT-FOUND"]
    assert codes("append", key="name") == ["HW-DATABASE-KEY-UNUSED"]
    assert codes("complete", delete_when="true") == ["HW-DATABASE-KEY-UNUSED"]
    assert codes("update", key="name") == []


def test_a_missing_table_is_refused_with_create_never(spark: SparkSession, store: Store) -> None:
    rows = totals(spark)
    with pytest.raises(PipelineError) as error:
        store.write(rows, "t", create="never")
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-TABLE-NOT-FOUND"
    store.run(str(problem.params["statement"]))
    store.write(totals(spark, ("a", 1)), "t", create="never")
    assert store.rows("t") == Counter([("a", 1)])


def test_a_table_with_other_columns_is_refused_with_the_difference(spark: SparkSession, store: Store) -> None:
    store.run(f"CREATE TABLE {store.into('t')} (name integer, must integer NOT NULL)")
    (problem,) = table_problems(store.database(totals(spark), "t", "update", key=["name"]))
    assert problem.code == "HW-DATABASE-TABLE-MISMATCH"
    assert str(problem.params["differences"]).lower() == (
        f"column `name` is {store.integer}, expected {store.text}; column `total` is missing; "
        "column `must` is required, and the rows do not have it; it has no unique index on the columns of `key` (name)"
    )


def test_the_statements_of_a_hint_mend_the_table(spark: SparkSession, store: Store) -> None:
    """SQLite has no statement that changes a column."""
    alters = store.kind.name != "sqlite"
    columns = "name integer, must integer NOT NULL" if alters else "name text"
    store.run(f"CREATE TABLE {store.into('t')} ({columns})")
    database = store.database(totals(spark), "t", "update", key=["name", "total"])
    (problem,) = table_problems(database)
    statements = re.fullmatch(r"Run `(.*)`\. Or change .*", str(problem.params["hint"]))
    assert statements
    for statement in statements[1].split("; "):
        store.run(statement)
    assert list(table_problems(database)) == []
    store.write(totals(spark, ("a", 1)), "t", "update", key=["name", "total"])
    assert store.rows("t", "name, total") == Counter([("a", 1)])


def test_a_hint_has_no_statements_that_do_not_mend_the_table(spark: SparkSession, sqlite: Store) -> None:
    sqlite.run("CREATE TABLE t (name integer)")
    (problem,) = table_problems(sqlite.database(totals(spark), "t", "update", key=["name"]))
    assert str(problem.params["hint"]).startswith(
        "Change the table of the pipeline, or write to another table"
    )


@pytest.mark.parametrize("name", ["sqlite", "duck"])
def test_unique_indexes_are_found(spark: SparkSession, request: pytest.FixtureRequest, name: str) -> None:
    store: Store = request.getfixturevalue(name)
    rows = spark.sql("""SELECT 1 AS `a,b`, 2 AS `c"d`, 3 AS `e'f`, 4 AS plain""")

    def accepted(key: list[str]) -> bool:
        return not list(table_problems(store.database(rows, "t", "update", key=key)))

    store.run("""CREATE TABLE t ("a,b" int, "c""d" int, "e'f" int, plain int)""")
    store.run("""CREATE UNIQUE INDEX one ON t ("a,b", "c""d", "e'f")""")
    store.run("CREATE UNIQUE INDEX two ON t (abs(plain))")
    store.run("CREATE INDEX three ON t (plain)")
    assert accepted(["a,b", 'c"d', "e'f"])
    assert not accepted(["plain"])
    assert not accepted(["a,b"])


def test_missing_columns_are_added(spark: SparkSession, store: Store) -> None:
    store.write(spark.sql("SELECT 'a' AS name"), "t")
    rows = totals(spark, ("b", 2))
    with pytest.raises(PipelineError) as error:
        store.write(rows, "t", batch=1)
    assert problem_of(error).params["differences"] == "column `total` is missing"
    store.write(rows, "t", batch=1, columns="add")
    assert store.rows("t", "name, total") == Counter([("a", None), ("b", 2)])


@pytest.mark.feature("F5", part="every database rejects a superseded run")
def test_a_superseded_run_cannot_write(spark: SparkSession, store: Store) -> None:
    rows = totals(spark, ("a", 1))
    old, new = store.writer(rows, "t"), store.writer(rows, "t")
    old.write(rows, a_batch(0, epoch=1))
    new.write(rows, a_batch(1, epoch=2))
    for late in (old, store.writer(rows, "t")):
        with pytest.raises(QueryFailedError) as error:
            late.write(rows, a_batch(2, epoch=1))
        assert problem_of(error).params == {"sink": "out", "batch": 2, "epoch": 1, "newer": 2}
    new.write(rows, a_batch(2, epoch=2))
    assert store.rows("t") == Counter({("a", 1): 3})
    assert store.ledger() == [(2, 2)]


def test_a_table_of_another_query_is_refused(spark: SparkSession, store: Store) -> None:
    rows = totals(spark, ("a", 1))
    store.write(rows, "t")
    with pytest.raises(PipelineError) as error:
        store.writer(rows, "t").write(rows, a_batch(0, query="new"))
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-LEDGER-FOREIGN"
    assert problem.params["who"] == "pipeline `shop`, sink `out` (up to batch 0)"
    (before,) = ledger_problems(store.database(rows, "t"), None, NextBatch(0, planned=False))
    assert before.params == problem.params
    store.writer(rows, "t", other_writers="allow").write(rows, a_batch(0, query="new"))
    assert store.rows("t") == Counter({("a", 1): 2})
    store.run(str(problem.params["statement"]))
    store.writer(rows, "t").write(rows, a_batch(0, query="third"))
    assert store.ledger() == [(0, 1)]


def test_a_checkpoint_behind_the_ledger_is_refused(spark: SparkSession, store: Store) -> None:
    rows = totals(spark, ("a", 1))
    writer = store.writer(rows, "t")
    for number in range(3):
        writer.write(rows, a_batch(number))
    with pytest.raises(QueryFailedError) as error:
        store.writer(rows, "t").write(rows, a_batch(1, epoch=2))
    problem = problem_of(error)
    assert problem.code == "HW-DATABASE-LEDGER-AHEAD"
    (before,) = ledger_problems(store.database(rows, "t"), "q", NextBatch(1))
    assert before.params == problem.params
    assert list(ledger_problems(store.database(rows, "t"), "q", NextBatch(2))) == []
    assert store.rows("t") == Counter({("a", 1): 3})


def test_a_batch_run_writes_without_the_ledger(spark: SparkSession, store: Store) -> None:
    rows = totals(spark, ("a", 1))
    store.writer(rows, "t").write_once(rows)
    store.writer(rows, "t").write_once(rows)
    assert store.rows("t") == Counter({("a", 1): 2})
    assert store.staged() == 0


def test_an_answer_that_was_lost_after_the_commit(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is in the table, and nothing has told so: the next attempt finds it in the ledger."""
    rows = totals(spark, ("a", 1))
    writer = store.writer(rows, "t")
    writer.write(rows, a_batch(0))
    attempts, apply = itertools.count(1), TableWriter._apply

    def apply_and_lose(self: TableWriter, *given: Any) -> None:
        apply(self, *given)
        if next(attempts) == 1:
            raise store.lost()

    monkeypatch.setattr(TableWriter, "_apply", apply_and_lose)
    writer.write(rows, a_batch(1))
    assert next(attempts) == 3
    assert store.rows("t") == Counter({("a", 1): 2})


@pytest.mark.parametrize("name", ["sqlite", "duck"])
def test_names_that_differ_in_case_are_one(
    spark: SparkSession, request: pytest.FixtureRequest, name: str
) -> None:
    store: Store = request.getfixturevalue(name)
    store.run("CREATE TABLE t (NAME text, Total bigint, UNIQUE (NAME))")
    writer = store.writer(totals(spark), "t", mode="update", key="name")
    writer.write(totals(spark, ("a", 1)), a_batch(0))
    writer.write(totals(spark, ("a", 2)), a_batch(1))
    assert store.rows("t") == Counter([("a", 2)])


@pytest.mark.parametrize(
    ("name", "accepts"), [("sqlite", False), ("duck", True), ("postgres", True), ("mysql", False)]
)
def test_nan_is_stored_or_refused(
    spark: SparkSession, request: pytest.FixtureRequest, name: str, accepts: bool
) -> None:
    store: Store = request.getfixturevalue(name)
    rows = spark.sql("SELECT double('NaN') AS x, float('NaN') AS y")
    if accepts:
        store.write(rows, "t")
        ((x, y),) = store.rows("t")
        assert math.isnan(x)
        assert math.isnan(y)
        return
    with pytest.raises(QueryFailedError) as error:
        store.write(rows, "t")
    problem = problem_of(error)
    assert (problem.code, problem.params.get("column")) == ("HW-DATABASE-VALUE-REJECTED", "x")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("CAST(x'ff' AS STRING)", "a text that is not valid UTF-8"),
        ("timestamp'+10000-01-01T00:00:00Z'", "a time outside the years 1 to 9999"),
        ("timestamp_ntz'+10000-01-01T00:00:00'", "a time outside the years 1 to 9999"),
        ("date'+10000-01-01'", "a time outside the years 1 to 9999"),
    ],
)
@pytest.mark.parametrize("name", ["sqlite", "mysql"])
def test_a_value_that_cannot_be_stored_is_named(
    spark: SparkSession, request: pytest.FixtureRequest, name: str, value: str, shown: str
) -> None:
    store: Store = request.getfixturevalue(name)
    rows = spark.sql(f"SELECT 1 AS id, {value} AS x UNION ALL SELECT 2, null")
    with pytest.raises(QueryFailedError) as error:
        store.write(rows, "t")
    problem = problem_of(error)
    assert (problem.code, problem.params["column"], problem.params["value"]) == (
        "HW-DATABASE-VALUE-REJECTED",
        "x",
        shown,
    )
    store.write(rows.where(f"x IS NULL OR {problem.params['condition']}"), "t")
    assert store.rows("t") == Counter([(2, None)])
