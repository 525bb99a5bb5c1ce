"""`headwater sql` over tables in databases: read by their own drivers, in the process of the run."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import headwater as hw
from headwater.connectors.databases.connector import DatabaseWriter
from headwater.engine import sql_tables
from headwater.errors import HeadwaterError, UsageError
from headwater.spec import Mode, SinkSpec
from tests.databases.conftest import PASSWORD, Store
from tests.pipelines import feed

LIMIT = 1 << 20
SECONDS = 60.0
TYPES = (
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, n decimal(30,10), x string, y binary, "
    "a date, z timestamp_ntz, at timestamp, items array<int>, named map<string,double>, "
    "`in ner` struct<x:string,y:array<timestamp>>, numbered map<int,string>"
)


def read(
    spark: SparkSession, store: Store, table: str, schema: StructType, max_bytes: int = LIMIT
) -> DataFrame | None:
    options = store.kind.options.model_validate({**store.keys, "into": store.into(table)})
    sink = SinkSpec.model_construct(
        name="out", mode=Mode.APPEND, options=options, connector=store.kind.name, position=None
    )
    return DatabaseWriter(store.kind).read_table(spark, sink, schema, max_bytes)


def multiset(rows: DataFrame) -> Counter[str]:
    return Counter(str(tuple(row)) for row in rows.collect())


@pytest.mark.feature("D6", part="rows of tables in databases, of every type")
def test_every_value_is_read(spark: SparkSession, store: Store) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    at = datetime(2026, 7, 1, 12, 0, 0, 1)
    huge = math.inf if store.keeps_infinities else 1e300
    rows = spark.createDataFrame(
        [
            (True, 1, -2, 2**31 - 1, -(2**63), 1.5, huge, Decimal("12345678901234567890.0123456789"),
             'a"b\\.\n\t,é\U0001f600', b"\x00\xff", date(1, 1, 1), at, at, [1, None], {"k": 1.5},
             (None, [at]), {1: "one"}),
            (False, 0, 0, 0, 2**63 - 1, 0.1, -huge, Decimal("-0.0000000001"), "", b"", date(9999, 12, 31),
             datetime(1901, 1, 1), datetime(1901, 1, 1), [], {}, ("ä", None), {}),
            (None,) * 17,
        ],
        TYPES,
    )  # fmt: skip
    store.write(rows, "t")
    found = read(spark, store, "t", rows.schema)
    assert found is not None
    # Spark reads no map from JSON whose keys are not strings.
    assert found.drop("numbered").dtypes == rows.drop("numbered").dtypes
    expected = rows.selectExpr("* EXCEPT (numbered)", "to_json(numbered) AS numbered")
    same_spaces = found.withColumn("numbered", found.numbered.cast("string"))
    assert multiset(same_spaces.selectExpr("* EXCEPT (numbered)", "replace(numbered, ' ') AS numbered")) == (
        multiset(expected)
    )
    assert PASSWORD not in found._jdf.queryExecution().toString()
    # The limit is that of the table, and not of the result.
    assert read(spark, store, "t", rows.schema, max_bytes=100) is None


def test_a_table_that_does_not_exist_is_empty_and_one_without_a_column_has_nulls(
    spark: SparkSession, store: Store
) -> None:
    rows = spark.createDataFrame([(1, "a")], "id int, name string")
    empty = read(spark, store, "t", rows.schema)
    assert empty is not None
    assert (empty.dtypes, empty.collect()) == (rows.dtypes, [])
    store.write(rows.select("id"), "t")
    found = read(spark, store, "t", rows.schema)
    assert found is not None
    assert [tuple(row) for row in found.collect()] == [(1, None)]


def test_a_database_that_cannot_be_read_is_named(spark: SparkSession, postgres: Store) -> None:
    rows = spark.createDataFrame([(1,)], "id int")
    postgres.write(rows, "t")
    postgres.run(f"ALTER TABLE {postgres.into('t')} RENAME TO hidden")
    postgres.run(
        f"CREATE VIEW {postgres.into('t')} AS SELECT 1 / (id - 1) AS id FROM {postgres.into('hidden')}"
    )
    with pytest.raises(HeadwaterError) as caught:
        read(spark, postgres, "t", rows.schema)
    (problem,) = caught.value.problems
    assert problem.code == "HW-DATABASE-READ-FAILED"
    assert problem.params == {
        "sink": "out",
        "database": "PostgreSQL",
        "says": "division by zero (SQLSTATE 22012)",
    }


@pytest.mark.feature("D6", part="rows of tables in databases while a pipeline writes them")
def test_the_tables_of_a_running_pipeline_are_queried(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    postgres: Store,
    sqlite: Store,
    duck: Store,
) -> None:
    (tmp_path / "in").mkdir()
    p = hw.Pipeline("sql", run_dir=tmp_path / "run")
    p.source("orders", hw.files(path=str(tmp_path / "in"), format="json", schema="id int, cents bigint"))
    p.sink("pg", hw.postgres(**postgres.keys, into=postgres.into("orders")), reads="orders")
    p.sink("lite", hw.sqlite(**sqlite.keys, into="orders"), reads="orders")
    p.sink("duck", hw.duckdb(**duck.keys, into="orders"), reads="orders")

    def rows(sql: str) -> Counter[tuple[Any, ...]]:
        return Counter(run._supervisor.tables.rows(sql, seconds=SECONDS).rows)

    with p.start() as run:
        for batch in range(2):
            feed(tmp_path / "in", str(batch), [{"id": batch, "cents": 5 * batch}])
            assert run.wait_idle(SECONDS)
            joined = "SELECT id, pg.cents, lite.cents, duck.cents FROM pg JOIN lite USING (id) JOIN duck USING (id)"
            assert rows(joined) == Counter((id_, *[5 * id_] * 3) for id_ in range(batch + 1))
        monkeypatch.setattr(sql_tables, "MAX_BYTES", 10)
        with pytest.raises(UsageError) as caught:
            rows("SELECT 1 FROM lite LIMIT 1")
        (problem,) = caught.value.problems
        assert (problem.code, problem.params["name"]) == ("HW-SQL-TABLE-TOO-LARGE", "lite")
    run.raise_for_failure()
