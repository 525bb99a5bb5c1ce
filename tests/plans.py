"""Queries whose plans are recorded: the facts are tested on the records, and the records against Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

RECORDED = Path(__file__).parent / "unit" / "plan" / "recorded"

SOURCES = {
    "impressions": "ad string, shown timestamp, cost double",
    "clicks": "ad string, user string, clicked timestamp",
}
DELAYS = {"impressions": ("shown", "2 hours"), "clicks": ("clicked", "3 hours")}

SQL = {
    "stateless": "SELECT ad, upper(user) AS user FROM raw_clicks WHERE user LIKE 'a%'",
    "running": "SELECT user, count(*) AS n, max(clicked) AS last FROM raw_clicks GROUP BY user",
    "tumbling": "SELECT window.start AS at, ad, sum(cost) AS cost FROM impressions "
    "GROUP BY window(shown, '10 minutes'), ad",
    "sliding": "SELECT window, count(*) AS n FROM impressions "
    "GROUP BY window(shown, '10 minutes', '5 minutes')",
    "taken_apart": "SELECT window(shown, '1 hour').start AS at, count(*) AS n FROM impressions "
    "GROUP BY window(shown, '1 hour').start",
    "truncated": "SELECT date_trunc('hour', shown) AS hour, count(*) AS n FROM impressions GROUP BY 1",
    "session": "SELECT session_window, user, count(*) AS n FROM clicks "
    "GROUP BY session_window(clicked, '30 minutes'), user",
    "dynamic_session": "SELECT session_window, count(*) AS n FROM clicks GROUP BY session_window(clicked, "
    "CASE WHEN user = 'a' THEN '5 minutes' ELSE '10 minutes' END), user",
    "cube": "SELECT ad, user, count(*) AS n FROM raw_clicks GROUP BY CUBE (ad, user)",
    "distinct_count": "SELECT ad, count(DISTINCT user) AS users FROM clicks GROUP BY ad",
    "distinct": "SELECT DISTINCT ad FROM raw_clicks",
    "inner_join": "SELECT * FROM impressions i JOIN clicks c ON i.ad = c.ad "
    "AND clicked BETWEEN shown AND shown + INTERVAL 1 HOUR",
    "join_where": "SELECT * FROM impressions i JOIN clicks c ON i.ad = c.ad "
    "WHERE clicked >= shown AND clicked < shown + INTERVAL 1 HOUR",
    "left_join": "SELECT * FROM impressions i LEFT JOIN clicks c ON i.ad = c.ad "
    "AND clicked BETWEEN shown AND shown + INTERVAL 1 HOUR",
    "unbounded_join": "SELECT * FROM impressions i JOIN clicks c ON i.ad = c.ad",
    "window_join": "SELECT * FROM (SELECT window(shown, '1 hour') AS hour, ad FROM impressions) i "
    "JOIN (SELECT window(clicked, '1 hour') AS hour, ad FROM clicks) c ON i.hour = c.hour AND i.ad = c.ad",
    "static_join": "SELECT c.*, campaign FROM raw_clicks c LEFT JOIN ads a ON c.ad = a.ad",
    "ordered": "SELECT ad, count(*) AS n FROM raw_clicks GROUP BY ad ORDER BY n LIMIT 3",
    "changing": "SELECT user, rand(1) AS r, monotonically_increasing_id() AS id FROM raw_clicks",
    "ranked": "SELECT *, row_number() OVER (PARTITION BY ad ORDER BY clicked) AS rank FROM clicks",
    "with_twice": "WITH a AS (SELECT ad, clicked FROM clicks WHERE user = 'a') "
    "SELECT * FROM a UNION ALL SELECT * FROM a",
    "second_watermark": "SELECT * FROM clicks WATERMARK clicked DELAY OF INTERVAL 1 HOUR",
}


class _Visits(StatefulProcessor):
    """Counts visits, and forgets a page after an hour."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint")
        self.pages = handle.getMapState("pages", "page string", "n bigint", ttlDurationMs=3_600_000)
        self.order = handle.getListState("order", "page string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        yield from rows

    def close(self) -> None:
        """Nothing is open."""


def _counted(key: Any, frames: Any, state: Any) -> Iterator[Any]:
    yield from frames


PYTHON: dict[str, Callable[[dict[str, DataFrame]], DataFrame]] = {
    "dedup": lambda t: t["clicks"].dropDuplicates(["user", "clicked"]),
    "dedup_by_key": lambda t: t["clicks"].dropDuplicates(["user"]),
    "dedup_within": lambda t: t["clicks"].dropDuplicatesWithinWatermark(["user"]),
    "processor": lambda t: (
        t["clicks"]
        .groupBy("user")
        .transformWithState(_Visits(), "user string, n bigint", "Append", "EventTime")
    ),
    "pandas_state": lambda t: (
        t["clicks"]
        .groupBy("user")
        .applyInPandasWithState(_counted, "user string", "n bigint", "update", "ProcessingTimeTimeout")
    ),
    "per_batch": lambda t: t["raw_clicks"].groupBy("user").applyInPandas(lambda rows: rows, "user string"),
    "python_function": lambda t: t["raw_clicks"].select(
        F.udf(lambda user: user, "string").asNondeterministic()("user").alias("user")
    ),
    "lost": lambda t: (
        t["clicks"]
        .select((F.col("clicked") + F.expr("INTERVAL 1 HOUR")).alias("later"))
        .groupBy(F.window("later", "1 hour"))
        .count()
    ),
    "after_state": lambda t: (
        t["raw_clicks"].groupBy("user").agg(F.max("clicked").alias("at")).withWatermark("at", "1 hour")
    ),
}


def frames_of(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """The streams with and without watermarks, and a static table, each a view of its name."""
    frames: dict[str, DataFrame] = {}
    for name, schema in SOURCES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        raw = spark.readStream.schema(schema).json(str(folder / name))
        frames[f"raw_{name}"] = raw
        frames[name] = raw.withWatermark(*DELAYS[name])
    frames["ads"] = spark.createDataFrame([("a", "spring")], "ad string, campaign string")
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


def queries_of(spark: SparkSession, frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """All queries, analyzed."""
    written = {name: spark.sql(sql) for name, sql in SQL.items()}
    return written | {name: make(frames) for name, make in PYTHON.items()}


def comparable(text: str) -> str:
    """A record with Spark's numbers in the order of their appearance, and without names of the moment."""
    numbers: dict[int, int] = {}
    ctes: dict[str, str] = {}

    def renumbered(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: renumbered(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [renumbered(each, key) for each in value]
        if isinstance(value, int) and key in ("id", "makes"):
            return numbers.setdefault(value, len(numbers) + 1)
        if isinstance(value, str) and key in ("id", "cteId"):
            # What WITH names, Spark counts through all queries of its process.
            return ctes.setdefault(value, str(len(ctes)))
        return re.sub(r"#\d+", "#", value) if isinstance(value, str) else value

    return json.dumps(renumbered(json.loads(text)), indent=1, sort_keys=True) + "\n"
