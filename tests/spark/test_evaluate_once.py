"""Filters on columns that are expensive to compute: Spark computes them once, and the rows are the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.evaluate_once import evaluated_once
from headwater.spark.plans import analyzed
from tests.pipelines import feed, rows_of, run_until_idle, write

VALUES = ['{"a":1,"b":"x"}', '{"a":2}', "nonsense", None, '{"a":7,"b":"z"}', "[1]", '{"a":7,"b":"z"}']
PARSED = "from_json(value, 'a int, b string') AS j"

QUERIES = {
    "subquery": f"SELECT k, j.a, j.b FROM (SELECT k, {PARSED} FROM raw) WHERE j.a > 1",
    "next table": "SELECT j.* FROM parsed WHERE j.a > 1 OR j.b IS NULL",
    "two tables on": "SELECT k, a + 1 AS a FROM columns WHERE a > 1 AND k < 6",
    "clause": f"WITH p AS (SELECT k, {PARSED} FROM raw) SELECT x.k, x.j FROM p AS x WHERE x.j.a > 1",
    "two clauses": f"""
        WITH p AS (SELECT k, {PARSED} FROM raw), q AS (SELECT k, j.a AS a, j FROM p)
        SELECT k, j.b FROM q WHERE a > 1""",
    "union": f"SELECT * FROM (SELECT j, k FROM parsed UNION ALL SELECT {PARSED}, k + 10 FROM raw) WHERE j.a = 7",
    "join": "SELECT l.k, r.name FROM columns l JOIN names r ON l.a = r.a",
    "alias": "SELECT renamed.b FROM (SELECT j AS renamed, k FROM parsed) WHERE renamed.a = 7",
    "aggregate": "SELECT a, n FROM (SELECT j.a AS a, count(*) AS n FROM parsed GROUP BY j.a) WHERE a > 1",
    "two columns": f"""SELECT * FROM (SELECT {PARSED}, from_json(value, 'b string') AS l, k FROM raw)
        WHERE j.a > 1 AND l.b = 'z'""",
}


@pytest.fixture
def raw(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Messages in files, seen by SQL under four names."""
    path = str(tmp_path / "raw")
    spark.createDataFrame(list(enumerate(VALUES)), "k int, value string").coalesce(1).write.parquet(path)
    frame = spark.read.parquet(path)
    frame.createOrReplaceTempView("raw")
    parsed = frame.selectExpr("k", PARSED)
    parsed.createOrReplaceTempView("parsed")
    parsed.select("k", "j.*").createOrReplaceTempView("columns")
    spark.createDataFrame([(7, "seven"), (2, "two")], "a int, name string").createOrReplaceTempView("names")
    return frame


def times_parsed(frame: DataFrame) -> int:
    return int(frame._jdf.queryExecution().executedPlan().toString().count("from_json("))


@pytest.mark.parametrize("name", QUERIES)
def test_every_message_is_parsed_once(spark: SparkSession, raw: DataFrame, name: str) -> None:
    frame = spark.sql(QUERIES[name])
    once = evaluated_once(frame)
    # One for each `from_json` in the query, of which the union and the last one have two.
    parses = 2 if name in ("union", "two columns") else 1
    assert times_parsed(once) == parses < times_parsed(frame)
    assert once.schema == frame.schema
    assert Counter(map(str, once.collect())) == Counter(map(str, frame.collect()))
    assert once.count() > 0


def test_other_filters_still_reach_the_files(spark: SparkSession, raw: DataFrame) -> None:
    once = evaluated_once(spark.sql("SELECT j.a FROM parsed WHERE j.a > 1 AND k > 3"))
    plan = once._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(k,3)" in plan
    assert times_parsed(once) == 1
    assert [row.a for row in once.collect()] == [7, 7]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT j.a FROM parsed WHERE k > 3",
        "SELECT k FROM raw WHERE value LIKE '%a%'",
        "SELECT a, count(*) FROM columns GROUP BY a",
    ],
)
def test_a_plan_without_such_a_filter_stays_as_it_is(spark: SparkSession, raw: DataFrame, sql: str) -> None:
    frame = spark.sql(sql)
    assert evaluated_once(frame) is frame


def test_a_python_function_is_called_once_for_each_row(spark: SparkSession, raw: DataFrame) -> None:
    calls = spark.sparkContext.accumulator(0)

    def longer(text: str | None) -> int | None:
        calls.add(1)
        return None if text is None else len(text)

    spark.udf.register("longer", longer, "int")
    frame = spark.sql("SELECT n FROM (SELECT longer(value) AS n FROM raw) WHERE n > 8")
    found = sorted(row.n for row in frame.collect())
    twice, calls.value = calls.value, 0
    assert sorted(row.n for row in evaluated_once(frame).collect()) == found == [15, 15, 15]
    assert calls.value == len(VALUES) < twice


def test_streams_keep_their_sources(spark: SparkSession, raw: DataFrame, tmp_path: Path) -> None:
    stream = spark.readStream.schema("k int, value string").parquet(str(tmp_path / "raw"))
    frame = stream.selectExpr("k", PARSED).where("j.a > 1")
    once = evaluated_once(frame)
    assert once.isStreaming
    leaf = analyzed(frame).collectLeaves().apply(0)
    assert leaf.equals(analyzed(once).collectLeaves().apply(0))
    query = once.writeStream.format("memory").queryName("once").trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
    finally:
        query.stop()
    assert sorted(row.k for row in spark.table("once").collect()) == [1, 4, 6]


RESUMED = """
name: resumed
sources:
  messages: {connector: files, path: messages, format: text, schema: {value: string}, max_files_per_batch: 1}
  names: {connector: files, path: names, format: json, schema: {a: int, at: timestamp, name: string},
          max_files_per_batch: 1, watermark: {column: at, delay: 1 hour}}
tables:
  parsed:
    sql: SELECT j.* FROM (SELECT from_json(value, 'a int, at timestamp') AS j FROM messages) WHERE j.a > 0
    watermark: {column: at, delay: 1 hour}
  joined: |
    SELECT p.a, n.name FROM parsed p LEFT JOIN names n
    ON p.a = n.a AND n.at BETWEEN p.at AND p.at + INTERVAL 10 MINUTES
  unique: {reads: parsed, deduplicate: [a], within: watermark}
sinks:
  joined: {reads: joined, connector: files, path: joined, format: json}
  unique: {reads: unique, connector: files, path: unique, format: json}
"""


def at(hour: int) -> str:
    return f"2026-01-01T{hour:02}:00:00Z"


@pytest.mark.parametrize("rewritten", [(True, False), (False, True)])
def test_a_checkpoint_continues_with_and_without_the_rewritten_plan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewritten: tuple[bool, bool]
) -> None:
    file = write(tmp_path, RESUMED)
    plans: list[bool] = []

    def noted(frame: DataFrame) -> DataFrame:
        once = evaluated_once(frame)
        plans.append(once is not frame)
        return once if rewritten[life] else frame

    monkeypatch.setattr("headwater.engine.query.evaluated_once", noted)
    # The first life leaves rows of both sides and a seen key in the state.
    lives = [
        ([{"a": 1, "at": at(1)}, {"a": 2, "at": at(1)}, {"a": -1, "at": at(1)}], [(1, 1, "one")]),
        ([{"a": 1, "at": at(1)}, {"a": 9, "at": at(9)}], [(2, 1, "two"), (9, 9, "nine"), (8, 12, "later")]),
    ]
    for life, (messages, names) in enumerate(lives):
        feed(tmp_path / "messages", str(life), messages)
        feed(
            tmp_path / "names", str(life), [{"a": a, "at": at(hour), "name": name} for a, hour, name in names]
        )
        assert run_until_idle(file).exit_code == 0
    assert plans == [True] * 4
    joined = rows_of(spark, tmp_path / "joined", schema="a int, name string")
    assert joined == Counter([(1, "one"), (2, "two"), (1, "one"), (9, "nine")])
    unique = rows_of(spark, tmp_path / "unique", schema="a int")
    assert unique == Counter([(1,), (2,), (9,)])
