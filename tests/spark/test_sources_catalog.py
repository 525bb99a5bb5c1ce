"""Tables of a Spark catalog: as streams, and as static tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from tests.pipelines import rows_of, run_as_batch, run_until_idle, write

PIPELINE = """
name: shop
sources:
  sales: {connector: catalog, table: headwater_shop.orders, options: {maxFilesPerTrigger: 1}}
  shops: {connector: catalog, table: spark_catalog.headwater_shop.shops, static: true}
tables:
  sold: SELECT town, amount FROM sales JOIN shops USING (shop)
sinks:
  sold: {reads: sold, connector: files, path: out, format: json}
"""
UNKNOWN = """
name: unknown
sources:
  near: {connector: catalog, table: headwater_shop.order}
  far: {connector: catalog, table: headwater_shop.something}
  database: {connector: catalog, table: no_such_database.orders, static: true}
  catalog: {connector: catalog, table: no_such_catalog.headwater_shop.orders}
  right: {connector: catalog, table: headwater_shop.orders}
sinks:
  near: {reads: near, connector: noop}
  far: {reads: far, connector: noop}
  database: {reads: database, connector: noop}
  catalog: {reads: catalog, connector: noop}
  right: {reads: right, connector: noop}
"""


@pytest.fixture
def shop(spark: SparkSession) -> Iterator[SparkSession]:
    """A database with two tables in the catalog of this process."""
    spark.sql("CREATE DATABASE headwater_shop")
    spark.sql("CREATE TABLE headwater_shop.orders (shop INT, amount INT) USING parquet")
    spark.sql("CREATE TABLE headwater_shop.shops (shop INT, town STRING) USING parquet")
    spark.sql("INSERT INTO headwater_shop.shops VALUES (1, 'Bonn'), (2, 'Ulm')")
    spark.sql("INSERT INTO headwater_shop.orders VALUES (1, 10)")
    yield spark
    spark.sql("DROP DATABASE headwater_shop CASCADE")


@pytest.mark.feature("B10.1")
def test_a_stream_of_a_table_joined_with_a_static_one(shop: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    assert check(file).findings == ()
    assert run_until_idle(file).exit_code == 0
    assert rows_of(shop, tmp_path / "out") == Counter([(10, "Bonn")])

    shop.sql("INSERT INTO headwater_shop.orders VALUES (2, 20)")
    assert run_until_idle(file).exit_code == 0
    expected = Counter([(10, "Bonn"), (20, "Ulm")])
    assert rows_of(shop, tmp_path / "out") == expected

    run_as_batch(file, tmp_path / "results")
    assert rows_of(shop, tmp_path / "results" / "sold") == expected


@pytest.mark.feature("B10.1", part="a table that is not there, or another one on the same checkpoint")
def test_a_table_that_is_not_there(shop: SparkSession, tmp_path: Path) -> None:
    found = [each.problem for each in check(write(tmp_path, UNKNOWN)).findings]
    hints = [str(problem.params["hint"]) for problem in found]
    assert [(each.code, each.place and each.place.line, each.params["name"]) for each in found] == [
        ("HW-CATALOG-TABLE-NOT-FOUND", 4, "near"),
        ("HW-CATALOG-TABLE-NOT-FOUND", 5, "far"),
        ("HW-CATALOG-TABLE-NOT-FOUND", 6, "database"),
        ("HW-CATALOG-TABLE-NOT-FOUND", 7, "catalog"),
    ]
    assert hints[0] == "Did you mean headwater_shop.orders?"
    assert all(each.place and each.place.column > 10 for each in found)
