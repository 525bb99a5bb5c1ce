"""Tables: SQL and Python read each other, several sources, aggregates with a function of a jar."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.explain import explain
from headwater.cli.render import show_explained
from headwater.engine.pipeline_file import load
from headwater.plan import Graph
from tests.java_classes import GEO_MEAN, make_jar
from tests.pipelines import capture, captured, feed, run_until_idle, write

TABLES = {
    "large": "SELECT id, cost FROM orders WHERE cost > 10",
    "taxed": '{python: "tables.py:taxed"}',
    "rounded": "SELECT id, CAST(round(total) AS int) AS total FROM taxed",
    "both": '{python: "tables.py:both"}',
}
FUNCTIONS = """
from pyspark.sql.functions import col


def taxed(large):
    return large.select("id", (col("cost") * 1.5).alias("total"))


def both(rounded, large):
    return rounded.unionByName(large.select("id", col("cost").cast("int").alias("total")))
"""


def chain(tables: Iterable[str]) -> str:
    """A pipeline whose tables read each other, declared in this order."""
    lines = [
        "name: chain",
        "sources:",
        "  orders: {connector: files, path: in, format: json, schema: {id: int, cost: double}}",
        "tables:",
        *(f"  {table}: {TABLES[table]}" for table in tables),
        "sinks:",
        '  both: {reads: both, connector: foreach_batch, function: "capture.py:both"}',
    ]
    return "\n".join(lines)


@pytest.mark.feature("A4")
@pytest.mark.parametrize("order", [tuple(TABLES), tuple(reversed(TABLES))], ids=["forwards", "backwards"])
def test_sql_and_python_tables_read_each_other_in_any_order(
    spark: SparkSession, tmp_path: Path, order: Sequence[str]
) -> None:
    feed(tmp_path / "in", "1", [{"id": 1, "cost": 5.0}, {"id": 2, "cost": 20.0}, {"id": 3, "cost": 30.0}])
    write(tmp_path, FUNCTIONS, "tables.py")
    capture(tmp_path, "both")
    file = write(tmp_path, chain(order))
    run_until_idle(file)

    assert captured(tmp_path, "both") == [Counter({(2, 30): 1, (3, 45): 1, (2, 20): 1, (3, 30): 1})]
    spec = load(file)
    for other in permutations(TABLES):
        again = load(write(tmp_path, chain(other), "other.yml"))
        assert again == spec
        assert Graph.of(again).upstream("both") == ("orders", "large", "taxed", "rounded", "both")


KINDS = """
def renamed(cheap):
    return cheap.withColumnRenamed("product", "name")


def last(priced):
    return priced
"""
STATIC_AND_STREAMING = """
name: kinds
sources:
  orders: {connector: files, path: orders, format: json, schema: {id: int, product: string}}
  products: {connector: files, path: products, format: json, schema: "product string, price int",
             static: true}
tables:
  cheap: SELECT product, price FROM products WHERE price < 10
  renamed: {python: "tables.py:renamed"}
  priced: SELECT o.id, c.name, c.price FROM orders o JOIN renamed c ON o.product = c.name
  last: {python: "tables.py:last"}
sinks:
  last: {reads: last, connector: noop}
"""


@pytest.mark.feature("A6")
def test_which_tables_stream_follows_from_the_sources_and_is_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "products").mkdir()
    write(tmp_path, KINDS, "tables.py")

    explained = explain(write(tmp_path, STATIC_AND_STREAMING))
    assert {table.name: table.streaming for table in explained.tables} == {
        "orders": True,
        "products": False,
        "cheap": False,
        "renamed": False,
        "priced": True,
        "last": True,
    }
    show_explained(explained, plans=False)
    lines = capsys.readouterr().out.splitlines()
    shown = {
        name: word for line in lines for name, word in re.findall(r"─ (\w+)  .*(streaming|static)", line)
    }
    assert shown == {table.name: "streaming" if table.streaming else "static" for table in explained.tables}


SEVERAL = """
name: several
spark: {spark.sql.shuffle.partitions: 1}
sources:
  web: {connector: files, path: web, format: json, schema: {id: int, product: string}}
  shop: {connector: files, path: shop, format: json, schema: {id: int, product: string}}
  paid: {connector: files, path: paid, format: json, schema: {order_id: int, euros: int}}
  products: {connector: files, path: kinds, format: json, schema: "product string, kind string", static: true}
tables:
  orders: SELECT 'web' AS way, * FROM web UNION ALL SELECT 'shop' AS way, * FROM shop
  settled: |
    SELECT o.way, o.id, p.kind, paid.euros
    FROM orders o JOIN products p USING (product) JOIN paid ON o.id = paid.order_id
sinks:
  settled: {reads: settled, connector: foreach_batch, function: "capture.py:settled"}
"""


@pytest.mark.feature("B9.1")
def test_several_sources_are_united_and_joined(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "web", "1", [{"id": 1, "product": "tea"}, {"id": 2, "product": "cup"}])
    feed(tmp_path / "shop", "1", [{"id": 3, "product": "tea"}, {"id": 4, "product": "tea"}])
    feed(tmp_path / "kinds", "1", [{"product": "tea", "kind": "food"}, {"product": "cup", "kind": "ware"}])
    feed(tmp_path / "paid", "1", [{"order_id": 2, "euros": 7}])
    capture(tmp_path, "settled")
    file = write(tmp_path, SEVERAL)
    run_until_idle(file)
    feed(tmp_path / "paid", "2", [{"order_id": 1, "euros": 3}, {"order_id": 4, "euros": 5}])
    run_until_idle(file)

    assert captured(tmp_path, "settled") == [
        Counter({("web", 2, "ware", 7): 1}),
        Counter({("web", 1, "food", 3): 1, ("shop", 4, "food", 5): 1}),
    ]


AGGREGATES = (
    "count(*), sum(x), mean(x), round(stddev(x), 9), min(x), max(x), sort_array(collect_set(x)), "
    "approx_count_distinct(x), round(geo_mean(cast(x AS double)), 9)"
)
AGGREGATED = f"""
name: aggregates
spark: {{spark.sql.shuffle.partitions: 1}}
jars: [lib/means.jar]
functions:
  geo_mean: {{java_class: example.GeoMean}}
sources:
  numbers: {{connector: files, path: in, format: json, schema: {{k: string, x: int}}, max_files_per_batch: 1}}
tables:
  overall: SELECT {AGGREGATES} FROM numbers
  grouped: SELECT k, {AGGREGATES} FROM numbers GROUP BY k
sinks:
  overall: {{reads: overall, connector: foreach_batch, function: "capture.py:overall", mode: complete}}
  grouped: {{reads: grouped, connector: foreach_batch, function: "capture.py:grouped", mode: complete}}
"""
NUMBERS = ((("a", 1), ("a", 2), ("b", 4)), (("a", 2), ("b", 8), ("b", 9)))


def aggregates(values: Sequence[int]) -> tuple[Any, ...]:
    """The row of aggregates, worked out in Python."""
    spread = round(statistics.stdev(values), 9) if len(values) > 1 else None
    distinct = tuple(sorted(set(values)))
    means = statistics.fmean(values), round(statistics.geometric_mean(values), 9)
    return (
        *(len(values), sum(values), means[0], spread, min(values), max(values)),
        *(distinct, len(distinct), means[1]),
    )


@pytest.mark.feature("C2.1")
def test_running_aggregates_global_and_grouped(spark: SparkSession, tmp_path: Path) -> None:
    for number, rows in enumerate(NUMBERS):
        feed(tmp_path / "in", str(number), [{"k": k, "x": x} for k, x in rows], at=1000 + number)
    capture(tmp_path, "overall", "grouped")
    (tmp_path / "lib").mkdir()
    make_jar(tmp_path / "lib" / "means.jar", {"GeoMean.java": GEO_MEAN})
    run_until_idle(write(tmp_path, AGGREGATED))

    prefixes = [list(NUMBERS[0]), [*NUMBERS[0], *NUMBERS[1]]]
    assert captured(tmp_path, "overall") == [
        Counter([aggregates([x for _, x in prefix])]) for prefix in prefixes
    ]
    assert captured(tmp_path, "grouped") == [
        Counter((key, *aggregates([x for k, x in prefix if k == key])) for key in "ab") for prefix in prefixes
    ]
