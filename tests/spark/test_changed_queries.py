"""Edits of a query that has a checkpoint: what would mix two queries in one state is rejected before any
write, and what is safe runs with the right rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from headwater.checks.state_changes import state_problems
from headwater.engine.facts import steps_in
from headwater.engine.plan_record import Owners
from headwater.engine.state_plan import state_plan
from headwater.errors import PipelineError
from headwater.plan import QueryFacts
from headwater.plan.state_layout import state_layouts
from tests.pipelines import capture, captured, feed, rows_of, run_until_idle, write
from tests.unit.checks.facts import facts

COLUMNS = "id int, k string, k2 string, v int, w int, at timestamp, items array<string>"
TOTALS = "SELECT k, sum(v) AS s, count(*) AS n FROM a GROUP BY k"
WINDOWS = "SELECT window.start AS t, k, sum(v) AS s FROM a GROUP BY window(at, '10 minutes'), k"
SESSIONS = "SELECT k, count(*) AS n FROM a GROUP BY session_window(at, '5 minutes'), k"
JOIN = (
    "SELECT a.id, a.v, b.w FROM a JOIN b ON a.id = b.id "
    "AND a.at BETWEEN b.at - INTERVAL 1 HOUR AND b.at + INTERVAL 1 HOUR"
)
FROM_JSON = (
    "SELECT from_json(k, 'n int', map('mode', 'FAILFAST')).n AS n, count(*) FROM a "
    "GROUP BY from_json(k, 'n int', map('mode', 'FAILFAST')).n"
)
CHAIN = (
    "SELECT window(window, '1 hour') AS w, sum(n) AS n FROM "
    "(SELECT window, k, count(*) AS n FROM a GROUP BY window(at, '10 minutes'), k) GROUP BY 1"
)

# The same state: names, filters, order of what is selected, and whatever comes after the state.
SAFE = {
    "nothing": (TOTALS, TOTALS),
    "alias": (TOTALS, TOTALS.replace("AS s", "AS total")),
    "filter before": (TOTALS, TOTALS.replace("FROM a", "FROM a WHERE v > 5 AND k IS NOT NULL")),
    "filter of a counted column": (
        "SELECT k, count(v) AS n FROM a GROUP BY k",
        "SELECT k, count(v) AS n FROM a WHERE v > 5 GROUP BY k",
    ),
    "having": (TOTALS, f"{TOTALS} HAVING sum(v) > 3"),
    "projection after": (TOTALS, f"SELECT upper(k) AS k, s * 2 AS s, n FROM ({TOTALS})"),
    "key selected last": (TOTALS, "SELECT sum(v) AS s, count(*) AS n, k FROM a GROUP BY k"),
    "aggregate used twice": (TOTALS, TOTALS.replace(" FROM", ", sum(v) / count(*) AS mean FROM")),
    "with": (TOTALS, "WITH x AS (SELECT k AS g, v AS u FROM a) SELECT g, sum(u), count(*) FROM x GROUP BY g"),
    "unused aggregate below": (TOTALS, f"SELECT k, s, n FROM ({TOTALS.replace(' FROM', ', max(w) FROM')})"),
    "with, used twice": (
        "SELECT k, count(*) FROM (SELECT k FROM a UNION ALL SELECT k FROM a) GROUP BY k",
        "WITH x AS (SELECT k FROM a) SELECT k, count(*) FROM (TABLE x UNION ALL TABLE x) GROUP BY k",
    ),
    "order of operands": (
        "SELECT k, sum(v + w) FROM a GROUP BY k",
        "SELECT k, sum(w + v) FROM a GROUP BY k",
    ),
    "constant key": (TOTALS, TOTALS.replace("BY k", "BY k, 'x'")),
    "replaced aggregates": (
        "SELECT k, count_if(v > 1) AS c, any_value(w), bool_or(v > 1) FROM a GROUP BY k",
        "SELECT k, count_if(v > 1) AS d, any_value(w), bool_or(v > 1) FROM a WHERE v > 2 GROUP BY k",
    ),
    "options of from_json": (FROM_JSON, FROM_JSON.replace("AS n", "AS m")),
    "exploded column": (
        "SELECT i, count(*) AS n FROM (SELECT explode(items) AS i FROM a) GROUP BY i",
        "SELECT j, count(*) AS n FROM a LATERAL VIEW explode(items) AS j GROUP BY j",
    ),
    "filter of one side of a join": (JOIN, f"{JOIN} WHERE a.w > 10 AND b.w < 9"),
    "filter over both sides of a join": (JOIN, f"{JOIN} WHERE a.v < b.w"),
    "projection after a join": (JOIN, JOIN.replace("a.v,", "a.v * 2 AS v,")),
    "another case": (TOTALS, TOTALS.replace("k,", "K,").replace("BY k", "BY K")),
    "filter over a static column": (
        "SELECT name, count(*) AS n FROM a JOIN d USING (k) GROUP BY name",
        "SELECT name, count(*) AS n FROM a JOIN d USING (k) WHERE a.v < length(d.name) GROUP BY name",
    ),
    "static join as a filter": (TOTALS, TOTALS.replace("FROM a", "FROM a LEFT SEMI JOIN d USING (k)")),
}  # fmt: skip
UNSAFE = {
    "another key": (TOTALS, TOTALS.replace("k,", "k2,").replace("BY k", "BY k2")),
    "key computed below": (TOTALS, TOTALS.replace("FROM a", "FROM (SELECT upper(k) AS k, v FROM a)")),
    "keys reordered": (
        "SELECT k, k2, count(*) AS n FROM a GROUP BY k, k2",
        "SELECT k, k2, count(*) AS n FROM a GROUP BY k2, k",
    ),
    "key added": (TOTALS, TOTALS.replace("BY k", "BY k, k2")),
    "argument": (TOTALS, TOTALS.replace("sum(v)", "sum(v * 10)")),
    "argument computed below": (TOTALS, TOTALS.replace("FROM a", "FROM (SELECT k, v * 10 AS v FROM a)")),
    "condition of an aggregate": (TOTALS, TOTALS.replace("sum(v)", "sum(v) FILTER (WHERE w > 1)")),
    "min and max": (
        "SELECT k, min(v), max(v) FROM a GROUP BY k",
        "SELECT k, max(v), min(v) FROM a GROUP BY k",
    ),
    "aggregates reordered": (TOTALS, "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k"),
    "aggregate added": (TOTALS, TOTALS.replace(" FROM", ", max(w) AS m FROM")),
    "aggregate in having": (TOTALS, f"{TOTALS} HAVING max(w) > 3"),
    "aggregate no longer used": (TOTALS, f"SELECT k, s FROM ({TOTALS})"),
    "window size": (WINDOWS, WINDOWS.replace("10 min", "5 min")),
    "window slide": (WINDOWS, WINDOWS.replace("'10 minutes'", "'10 minutes', '5 minutes'")),
    "window offset": (WINDOWS, WINDOWS.replace("'10 minutes'", "'10 minutes', '10 minutes', '1 minute'")),
    "session gap": (SESSIONS, SESSIONS.replace("5 min", "6 min")),
    "outer aggregation": (CHAIN, CHAIN.replace("sum(n)", "max(n)")),
    "replaced aggregate": (
        "SELECT k, count_if(v > 1) FROM a GROUP BY k",
        "SELECT k, count_if(v > 2) FROM a GROUP BY k",
    ),
    "months": (
        "SELECT at + INTERVAL 1 MONTH AS t, count(*) FROM a GROUP BY 1",
        "SELECT at + INTERVAL 2 MONTHS AS t, count(*) FROM a GROUP BY 1",
    ),
    "patterns": (
        "SELECT k LIKE ANY ('a%', 'b%') AS m, count(*) FROM a GROUP BY 1",
        "SELECT k LIKE ANY ('a%', 'c%') AS m, count(*) FROM a GROUP BY 1",
    ),
    "options of from_json": (FROM_JSON, FROM_JSON.replace("FAILFAST", "PERMISSIVE")),
    "rollup": (
        "SELECT k, k2, count(*) FROM a GROUP BY ROLLUP (k, k2)",
        "SELECT k, k2, count(*) FROM a GROUP BY CUBE (k, k2)",
    ),
    "state added": ("SELECT k FROM a", "SELECT DISTINCT k FROM a"),
    "state removed": ("SELECT DISTINCT k FROM a", "SELECT k FROM a"),
    "distinct columns": ("SELECT DISTINCT k FROM a", "SELECT DISTINCT k2 FROM a"),
    "generator": (
        "SELECT i, count(*) FROM (SELECT explode(items) AS i FROM a) GROUP BY i",
        "SELECT i, count(*) FROM (SELECT explode(array(k)) AS i FROM a) GROUP BY i",
    ),
    "branch of a union": (
        "SELECT k, count(*) FROM (SELECT k FROM a UNION ALL SELECT k FROM b) GROUP BY k",
        "SELECT k, count(*) FROM (SELECT k FROM a UNION ALL SELECT k2 FROM b) GROUP BY k",
    ),
    "static column as key": (TOTALS, "SELECT name, sum(v), count(*) FROM a JOIN d USING (k) GROUP BY name"),
    "key of a static join": (
        "SELECT name, count(*) FROM a JOIN d ON a.k = d.k GROUP BY name",
        "SELECT name, count(*) FROM a JOIN d ON a.k2 = d.k GROUP BY name",
    ),
    "range of a static join": (
        "SELECT name, count(*) FROM a JOIN d ON a.k BETWEEN d.k AND d.name GROUP BY name",
        "SELECT name, count(*) FROM a JOIN d ON a.k2 BETWEEN d.k AND d.name GROUP BY name",
    ),
    "null-safe join key": (JOIN, JOIN.replace("a.id = b.id", "a.id <=> b.id")),
    "join key": (JOIN, JOIN.replace("a.id = b.id", "a.v = b.v")),
    "join bound": (JOIN, JOIN.replace("+ INTERVAL 1", "+ INTERVAL 2")),
    "join type": (JOIN, JOIN.replace("JOIN", "LEFT JOIN")),
    "join column": (JOIN, JOIN.replace("a.v,", "a.v, a.k,")),
    "condition of an outer join": (
        JOIN.replace("JOIN", "LEFT JOIN"),
        JOIN.replace("JOIN", "LEFT JOIN") + " AND a.v < b.w",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources(context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Two streams with a watermark and a static table, visible to SQL as `a`, `b` and `d`."""
    spark = SparkSession(context).newSession()
    folder = tmp_path_factory.mktemp("rows")
    streams = {name: spark.readStream.schema(COLUMNS).json(str(folder)) for name in ("a", "b")}
    named = {name: stream.withWatermark("at", "1 hour") for name, stream in streams.items()}
    named["d"] = spark.read.schema("k string, name string").json(str(folder))
    for name, frame in named.items():
        frame.createOrReplaceTempView(name)
    return named


def passed(pandas: Iterable[Any]) -> Iterable[Any]:
    yield from pandas


def counted(key: Any, rows: Iterable[Any], state: Any) -> Iterable[Any]:
    raise NotImplementedError("only planned here")


def with_state(key: str, schema: str, timeout: str = "NoTimeout") -> Callable[[DataFrame], DataFrame]:
    return lambda a: a.groupBy(key).applyInPandasWithState(counted, "k string", schema, "update", timeout)


def mapped(*columns: str) -> Callable[[DataFrame], DataFrame]:
    return lambda a: a.selectExpr(*columns).mapInPandas(passed, "k string, v int").groupBy("k").count()


SAFE_FRAMES: dict[str, tuple[Callable[[DataFrame], DataFrame], Callable[[DataFrame], DataFrame]]] = {
    "deduplication": (lambda a: a.dropDuplicates(["k"]), lambda a: a.where("v > 1").dropDuplicates(["k"])),
    "filter before a Python function": (mapped("k", "v"), lambda a: mapped("k", "v", "w")(a.where("v > 1"))),
    "arbitrary state": (with_state("k", "n long"), lambda a: with_state("k", "n long")(a.where("v > 1"))),
}
UNSAFE_FRAMES: dict[str, tuple[Callable[[DataFrame], DataFrame], Callable[[DataFrame], DataFrame]]] = {
    "columns": (lambda a: a.dropDuplicates(["k"]), lambda a: a.dropDuplicates(["k2"])),
    "order of columns": (
        lambda a: a.dropDuplicates(["k", "k2"]),
        lambda a: a.dropDuplicates(["k2", "k"]),
    ),
    "within the watermark": (
        lambda a: a.dropDuplicatesWithinWatermark(["k"]),
        lambda a: a.dropDuplicatesWithinWatermark(["k2"]),
    ),
    "limit": (lambda a: a.limit(3), lambda a: a.limit(5)),
    "what a Python function gets": (mapped("k", "v"), mapped("k", "w AS v")),
    "key of arbitrary state": (with_state("k", "n long"), with_state("k2", "n long")),
    "schema of arbitrary state": (with_state("k", "n long"), with_state("k", "n int")),
    "timeout": (with_state("k", "n long"), with_state("k", "n long", "ProcessingTimeTimeout")),
}


def stored(sources: dict[str, DataFrame], frame: DataFrame, replayed: DataFrame | None = None) -> QueryFacts:
    """The facts of a query, as far as its state is concerned."""
    steps, again = steps_in(frame, sources, Owners.of({})), {"a": replayed} if replayed else {}
    plan, inputs = state_plan(frame, sources.items(), again), tuple(dict.fromkeys(steps.streams))
    states = tuple(each.state for each in steps.operators if each.state)
    layouts = state_layouts(plan.root, plan.columns, states)
    return replace(facts(*steps.operators), inputs=inputs, state=layouts)


def problems(sources: dict[str, DataFrame], old: DataFrame, new: DataFrame) -> list[str]:
    found = state_problems(stored(sources, old), stored(sources, new), None, lambda layout: None)
    return [problem.code for problem, _ in found]


def of_sql(sources: dict[str, DataFrame], edit: tuple[str, str]) -> list[str]:
    old, new = map(sources["a"].sparkSession.sql, edit)
    return problems(sources, old, new)


def of_frames(
    sources: dict[str, DataFrame],
    edit: tuple[Callable[[DataFrame], DataFrame], Callable[[DataFrame], DataFrame]],
) -> list[str]:
    old, new = (make(sources["a"]) for make in edit)
    return problems(sources, old, new)


@pytest.mark.feature("H4.3", part="filters and projections")
@pytest.mark.parametrize("edit", SAFE)
def test_a_safe_edit_keeps_the_state(sources: dict[str, DataFrame], edit: str) -> None:
    assert of_sql(sources, SAFE[edit]) == []


@pytest.mark.feature("H4.4", part="SQL")
@pytest.mark.feature("H4.5", part="SQL")
@pytest.mark.parametrize("edit", UNSAFE)
def test_an_edit_of_the_state_is_rejected(sources: dict[str, DataFrame], edit: str) -> None:
    assert of_sql(sources, UNSAFE[edit]) in (["HW-STATE-CHANGED"], ["HW-STATE-OPERATORS-CHANGED"])


@pytest.mark.parametrize("edit", SAFE_FRAMES)
def test_a_safe_edit_of_a_dataframe_keeps_the_state(sources: dict[str, DataFrame], edit: str) -> None:
    assert of_frames(sources, SAFE_FRAMES[edit]) == []


@pytest.mark.feature("H4.6", part="state schema and timeout")
@pytest.mark.parametrize("edit", UNSAFE_FRAMES)
def test_an_edit_of_the_state_of_a_dataframe_is_rejected(sources: dict[str, DataFrame], edit: str) -> None:
    assert of_frames(sources, UNSAFE_FRAMES[edit]) == ["HW-STATE-CHANGED"]


def test_both_versions_are_shown_in_terms_of_the_sources(sources: dict[str, DataFrame]) -> None:
    edited = WINDOWS.replace("'10 minutes'", "'1 hour', '5 minutes'")
    old, new = (stored(sources, sources["a"].sparkSession.sql(sql)) for sql in (WINDOWS, edited))
    [(problem, _)] = state_problems(old, new, None, lambda layout: None)
    assert problem.params["says"] == (
        "Keys before: `window(a.at, 10 minutes)`, `a.k`; now: `window(a.at, 1 hour, 5 minutes)`, `a.k`"
    )


def test_replayed_rows_are_like_those_of_their_table(sources: dict[str, DataFrame], tmp_path: Path) -> None:
    replayed = sources["a"].sparkSession.readStream.schema("row string").parquet(str(tmp_path))
    rows = sources["a"].select("k", "v")
    more = rows.union(replayed.selectExpr("row AS k", "length(row) AS v"))
    old, new = (each.groupBy("k").sum("v") for each in (rows, more))
    found = state_problems(stored(sources, old), stored(sources, new, replayed), None, lambda layout: None)
    assert list(found) == []


PIPELINE = """
name: shop
sources:
  orders: {connector: files, path: orders, format: json, schema: {shop: string, town: string, amount: int}}
  returns: {connector: files, path: returns, format: json, schema: {shop: string, town: string, amount: int}}
tables:
  totals: SELECT shop, sum(amount) AS amount, count(*) AS n FROM orders GROUP BY shop
  first: {reads: orders, deduplicate: [shop]}
  all: SELECT shop FROM orders UNION ALL SELECT shop FROM returns
sinks:
  totals: {reads: totals, connector: foreach_batch, function: 'capture.py:totals', mode: update}
  first: {reads: first, connector: foreach_batch, function: 'capture.py:first'}
  all: {reads: all, connector: files, path: out, format: json}
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of checkpoints and outputs."""
    roots = (
        folder / ".headwater" / "checkpoints",
        folder / ".headwater" / "queries",
        folder / "out",
        folder / "captured",
    )
    files = [file for root in roots for file in root.rglob("*") if file.is_file()]
    return {str(file): file.read_bytes() for file in files if ".lock" not in file.name}


@pytest.mark.feature("H4.4", part="a run")
def test_edits_of_a_pipeline_with_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    capture(tmp_path, "totals", "first")
    feed(
        tmp_path / "orders",
        "1",
        [{"shop": "x", "town": "p", "amount": 1}, {"shop": "y", "town": "q", "amount": 2}],
    )
    feed(tmp_path / "returns", "1", [{"shop": "x", "town": "p", "amount": 9}])
    run_until_idle(file)
    before = contents(tmp_path)
    feed(
        tmp_path / "orders",
        "2",
        [{"shop": "x", "town": "q", "amount": 10}, {"shop": "z", "town": "q", "amount": 20}],
    )

    unsafe = (
        PIPELINE.replace("sum(amount)", "sum(amount * 10)")
        .replace("deduplicate: [shop]", "deduplicate: [town]")
        .replace(
            "FROM orders UNION ALL SELECT shop FROM returns", "FROM returns UNION ALL SELECT shop FROM orders"
        )
        .replace("path: out, format: json", "path: elsewhere, format: csv")
    )
    write(tmp_path, unsafe)
    with pytest.raises(PipelineError) as caught:
        run_until_idle(file)
    found = {(problem.code, problem.place and problem.place.line) for problem in caught.value.problems}
    assert found == {
        ("HW-STATE-CHANGED", 7),
        ("HW-STATE-CHANGED", 8),
        ("HW-SOURCES-CHANGED", 13),
        ("HW-SINK-OPTION-CHANGED", 13),
    }
    assert contents(tmp_path) == before

    safe = (
        PIPELINE.replace("orders GROUP BY", "purchases WHERE amount > 5 GROUP BY")
        .replace("  orders:", "  purchases:")
        .replace("reads: orders", "reads: purchases")
        .replace("AS n FROM", "AS purchases FROM")
        .replace("SELECT shop FROM orders", "SELECT upper(shop) AS shop FROM purchases")
        .replace(
            "schema: {shop: string, town", "max_files_per_batch: 1, schema: {note: string, shop: string, town"
        )
        .replace("mode: update", "mode: update, trigger: every 1 second")
    )
    write(tmp_path, safe)
    run_until_idle(file)
    assert captured(tmp_path, "totals")[1:] == [Counter({("x", 11, 2): 1, ("z", 20, 1): 1})]
    assert captured(tmp_path, "first")[1:] == [Counter({(None, "z", "q", 20): 1})]
    assert rows_of(spark, tmp_path / "out", schema="shop string") == Counter(
        {("x",): 2, ("y",): 1, ("X",): 1, ("Z",): 1}
    )
