"""Declared pipelines that write to databases."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark import SparkContext

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.api.explain import explain
from headwater.errors import PipelineError
from headwater.events import Event, QueryTerminated
from headwater.runtime import RunOptions
from tests.databases.conftest import PASSWORD, MysqlStore, PostgresStore, Store
from tests.pipelines import feed, run_until_idle, write

PIPELINE = """
name: shop
sources:
  orders:
    connector: files
    path: in
    format: json
    schema: {{id: int, customer: string, cents: bigint}}
    max_files_per_batch: 1
tables:
  totals: SELECT customer, sum(cents) AS cents FROM orders GROUP BY customer
sinks:
  orders: {{reads: orders, {place}, into: {schema}orders}}
  totals:
    {{reads: totals, {place}, into: {schema}totals, mode: update, key: customer, delete_when: cents = 0}}
  replaced: {{reads: totals, {place}, into: {schema}replaced, mode: complete}}
"""
Order = tuple[int, str | None, int]
ORDERS: list[list[Order]] = [
    [(1, "a", 5), (2, "b", 7)],
    [(3, "a", 5), (4, None, 1)],
    [(5, "b", -7), (6, None, 1)],
]


def project(folder: Path, store: Store, nobody: str | None) -> Path:
    """The pipeline, with a name in place of null keys."""
    for number, rows in enumerate(ORDERS):
        named = [{"id": id_, "customer": customer or nobody, "cents": cents} for id_, customer, cents in rows]
        feed(folder / "in", str(number), named, at=1_700_000_000 + number)
    place = {
        "postgres": 'connector: postgres, url: "${secret:SHOP_URL}"',
        "mysql": 'connector: mysql, url: "${secret:SHOP_URL}"',
        "sqlite": f"connector: sqlite, path: {store.keys.get('path')}",
        "duckdb": f"connector: duckdb, path: {store.keys.get('path')}",
    }[store.kind.name]
    return write(folder, PIPELINE.format(place=place, schema=store.into("")))


def exact(nobody: str | None, *more: Order) -> dict[str, Counter[tuple[Any, ...]]]:
    """What the tables have to contain after these orders."""
    all_orders = [*itertools.chain.from_iterable(ORDERS), *more]
    orders = [(id_, customer or nobody, cents) for id_, customer, cents in all_orders]
    totals = Counter[str | None]()
    for _, customer, cents in orders:
        totals[customer] += cents
    return {
        "orders": Counter(orders),
        "totals": Counter(each for each in totals.items() if each[1]),
        "replaced": Counter(totals.items()),
    }


def written(store: Store) -> dict[str, Counter[tuple[Any, ...]]]:
    return {table: store.rows(table) for table in ("orders", "totals", "replaced")}


def stream(folder: Path, store: Store, nobody: str | None) -> Path:
    """Run the pipeline, and again after a crash between the commits of the sinks and Spark's."""
    file = project(folder, store, nobody)
    result = run_until_idle(file)
    assert [each.problem for each in result.queries.values()] == [None] * 3
    assert written(store) == exact(nobody)
    assert store.ledger() == [(2, 1)] * 3
    for sink in written(store):
        for name in ("2", ".2.crc"):
            (folder / ".headwater/checkpoints" / sink / "commits" / name).unlink(missing_ok=True)
    feed(folder / "in", "9", [{"id": 7, "customer": "b", "cents": 1}])
    assert run_until_idle(file).exit_code == 0
    assert written(store) == exact(nobody, (7, "b", 1))
    assert store.ledger() == [(3, 2)] * 3
    return file


@pytest.mark.feature("D7.1")
@pytest.mark.feature("H1.1", part="postgres: a batch whose commit Spark lost is not written again")
def test_postgres(
    context: SparkContext, postgres: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", postgres.keys["url"])
    file = stream(tmp_path, postgres, None)
    files = [each for each in (tmp_path / ".headwater").rglob("*") if each.is_file()]
    assert len(files) > 30
    assert [each for each in files if PASSWORD.encode() in each.read_bytes()] == []
    # A batch run upserts and replaces the same tables; only its appends need a confirmation.
    with pytest.raises(PipelineError) as error:
        run_batch(file, RunOptions(), stdout=lambda line: None)
    assert [each.code for each in error.value.problems] == ["HW-BATCH-APPEND-REQUIRED"]
    run_batch(file, RunOptions(), append=True, stdout=lambda line: None)
    expected = exact(None, (7, "b", 1))
    assert written(postgres) == {**expected, "orders": expected["orders"] + expected["orders"]}


@pytest.mark.feature("D7.3")
@pytest.mark.feature("H1.1", part="mysql: a batch whose commit Spark lost is not written again")
@pytest.mark.feature("H3", part="mysql")
def test_mysql(
    context: SparkContext, mysql: MysqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", mysql.keys["url"])
    file = stream(tmp_path, mysql, "nobody")
    files = [each for each in (tmp_path / ".headwater").rglob("*") if each.is_file()]
    assert [each for each in files if PASSWORD.encode() in each.read_bytes()] == []
    result = check(file)
    levels = [each.outline.guarantee.level.value for each in result.sinks if each.outline]
    assert levels == ["exactly-once"] * 3
    assert PASSWORD not in json.dumps(explain(file).to_json())
    run_batch(file, RunOptions(), append=True, stdout=lambda line: None)
    expected = exact("nobody", (7, "b", 1))
    assert written(mysql) == {**expected, "orders": expected["orders"] + expected["orders"]}


@pytest.mark.parametrize("name", ["sqlite", "duck"])
def test_a_check_writes_nothing(
    context: SparkContext, request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    store: Store = request.getfixturevalue(name)
    file, database = project(tmp_path, store, "nobody"), Path(store.keys["path"])
    database.parent.rmdir()

    def errors() -> list[str]:
        return [each.problem.code for each in check(file).findings if each.is_error]

    assert errors() == []
    assert not database.parent.exists()
    database.parent.mkdir()
    store.run("CREATE TABLE orders (id text)")
    before = database.read_bytes()
    assert errors() == ["HW-DATABASE-TABLE-MISMATCH"]
    assert database.read_bytes() == before
    assert list(database.parent.iterdir()) == [database]


WRITER = """
import sys, duckdb
with duckdb.connect(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_check_while_duckdb_is_open(context: SparkContext, duck: Store, tmp_path: Path) -> None:
    file = project(tmp_path, duck, "nobody")
    duck.run("CREATE TABLE orders (id text)")

    def errors() -> list[str]:
        return [each.problem.code for each in check(file).findings if each.is_error]

    writer = [sys.executable, "-c", WRITER, duck.keys["path"]]
    with subprocess.Popen(writer, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        assert errors() == []
        process.communicate()
    with duckdb.connect(duck.keys["path"]):
        assert errors() == ["HW-DATABASE-TABLE-MISMATCH"]


@pytest.mark.feature("D7.2")
@pytest.mark.feature("H1.1", part="sqlite and duckdb: a batch whose commit Spark lost is not written again")
@pytest.mark.parametrize("name", ["sqlite", "duck"])
def test_embedded(context: SparkContext, request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    file = stream(tmp_path, request.getfixturevalue(name), "nobody")
    run_batch(file, RunOptions(), append=True, stdout=lambda line: None)
    expected = exact("nobody", (7, "b", 1))
    assert written(request.getfixturevalue(name)) == {
        **expected,
        "orders": expected["orders"] + expected["orders"],
    }


ONE = """
name: shop
sources:
  orders: {{connector: files, path: in, format: json, schema: {{id: int, customer: string, cents: bigint}}}}
sinks:
  orders: {{reads: orders, connector: postgres, url: "{url}", into: {into}}}
"""


@pytest.mark.feature("H3", part="database sinks")
def test_check_names_the_guarantee_and_what_is_wrong(
    context: SparkContext, postgres: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "mistyped-5531")
    monkeypatch.setenv("SHOP_URL", postgres.keys["url"])
    file = project(tmp_path, postgres, None)
    result = check(file)
    assert [each.outline.guarantee.level.value for each in result.sinks if each.outline] == [
        "exactly-once"
    ] * 3
    explained = explain(file)
    assert PASSWORD not in f"{explained}{json.dumps(explained.to_json())}"
    postgres.run(f"CREATE TABLE {postgres.into('orders')} (id text, customer text)")
    (problem,) = [each.problem for each in check(file).findings if each.is_error]
    assert problem.code == "HW-DATABASE-TABLE-MISMATCH"
    assert problem.params["differences"] == "column `id` is text, expected integer; column `cents` is missing"
    wrong = postgres.keys["url"].replace(PASSWORD, "${secret:SHOP_PASSWORD}")
    write(tmp_path, ONE.format(url=wrong, into=postgres.into("orders")))
    (problem,) = [each.problem for each in check(file).findings if each.is_error]
    assert problem.code == "HW-DATABASE-UNAVAILABLE"
    assert 'password authentication failed for user "postgres"' in str(problem)
    assert "mistyped-5531" not in str(problem)
    offline = check(file, offline=True)
    assert [each.problem.code for each in offline.findings if each.is_error] == []


def test_a_rejected_batch_stops_the_query_with_the_cause(
    context: SparkContext, postgres: PostgresStore, tmp_path: Path
) -> None:
    text = ONE.replace("into: {into}", "into: {into}, create: never")
    file = write(tmp_path, text.format(url=postgres.keys["url"], into=postgres.into("orders")))
    postgres.run(
        f"CREATE TABLE {postgres.into('orders')} (id int, customer text, cents bigint CHECK (cents > 0))"
    )
    feed(tmp_path / "in", "1", [{"id": 1, "customer": "a", "cents": -1}])
    events: list[Event] = []
    assert run_until_idle(file, events).exit_code == 1
    (problem,) = [e.problem for e in events if isinstance(e, QueryTerminated) and e.problem]
    assert problem.code == "HW-DATABASE-WRITE-FAILED"
    assert "violates check constraint" in problem.message
    assert postgres.rows("orders") == Counter()
