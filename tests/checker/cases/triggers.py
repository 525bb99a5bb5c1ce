"""Triggers by query, source, mode and sink.

They are no part of the matrix: a continuous query keeps its cores, so that these are started one at a time,
each in a pipeline of its own, by `tests.checker.test_triggers`.
"""

from __future__ import annotations

from typing import Any

from tests.checker.cases import Case

CONTINUOUS = "continuous 200 milliseconds"
REAL_TIME = "real time 5 seconds"
ONE_BY_ONE = "SELECT value, value * 2 AS twice FROM ticks WHERE value >= 0"


def _case(kind: str, query: Any, **keys: Any) -> Case:
    return Case(kind, query, **{"trigger": CONTINUOUS, **keys})


def _function(ticks: Any) -> Any:
    from pyspark.sql.functions import udf

    return ticks.select(udf(lambda value: value + 1, "long")("value").alias("next"))


def _mapped(ticks: Any) -> Any:
    return ticks.mapInPandas(lambda batches: batches, ticks.schema)


TRIGGERED = [
    _case("one by one", ONE_BY_ONE),
    _case("one by one", ONE_BY_ONE, mode="update"),
    _case("one by one", ONE_BY_ONE, mode="complete"),
    *[_case("one by one", ONE_BY_ONE, sink=sink) for sink in ("console", "noop")],
    *[_case("one by one", ONE_BY_ONE, sink=sink) for sink in ("files", "foreach", "foreach_batch")],
    _case("python function", _function),
    _case("static subquery", "SELECT value FROM ticks WHERE value > (SELECT min(n) FROM names) - 1"),
    _case("mapInPandas", _mapped),
    _case("aggregation", "SELECT count(*) AS c FROM ticks", mode="update"),
    _case("distinct", "SELECT DISTINCT value FROM ticks"),
    _case("explode", "SELECT explode(array(value, value)) AS value FROM ticks"),
    _case("union", "SELECT value FROM ticks UNION ALL SELECT value FROM ticks"),
    _case("static join", "SELECT t.value FROM ticks t JOIN names ON n = value"),
    _case("join", "SELECT a.value FROM ticks a JOIN ticks b ON a.value = b.value"),
    _case("limit", "SELECT value FROM ticks LIMIT 3"),
    _case("with", "WITH even AS (SELECT value FROM ticks) SELECT value FROM even"),
    _case("watermark", lambda ticks: ticks.withWatermark("timestamp", "1 minute")),
    _case("repartition", lambda ticks: ticks.repartition(2)),
    *[
        _case("current time", f"SELECT value, {call} AS now FROM ticks", variant=call)
        for call in ("current_timestamp()", "current_date()", "now()", "localtimestamp()")
    ],
    _case("files", "SELECT n FROM words"),
    _case("rate per batch", "SELECT value FROM steps"),
    _case("too few cores", "SELECT value FROM wide"),
    _case("one by one", ONE_BY_ONE, trigger=REAL_TIME, mode="update", sink="console"),
    _case("one by one", ONE_BY_ONE, trigger=REAL_TIME, mode="update"),
    _case("files", "SELECT n FROM words", trigger=REAL_TIME, mode="update", sink="console"),
    _case("rate per batch", "SELECT value FROM steps", trigger="once"),
    _case("rate per batch", "SELECT value FROM steps", trigger="available now"),
    _case("files", "SELECT n FROM words", trigger="once"),
    _case("files", "SELECT n FROM words", trigger="available now", sink="files"),
    _case("files", "SELECT n FROM words", trigger="every 1 second"),
]
