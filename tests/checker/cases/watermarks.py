"""Where a watermark stands, and what becomes of it on the way to an aggregation."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import MODES, Case, cases
from tests.checker.cases.sources import CLOSED

PER_WINDOW = "SELECT window, count(*) AS c FROM {0} GROUP BY window({1}, '10 minutes')"
COUNTED = PER_WINDOW.format("events", "at")


def on_a_table(events: Any) -> Any:
    from pyspark.sql.functions import window

    timed = events.where("n > 0").withWatermark("at", "10 minutes")
    return timed.groupBy(window("at", "10 minutes")).count().withColumnRenamed("count", "c")


def no_delay(events: Any) -> Any:
    from pyspark.sql.functions import window

    return events.withWatermark("at", "0 seconds").groupBy(window("at", "10 minutes")).count()


def after_the_aggregation(events: Any) -> Any:
    from pyspark.sql.functions import window

    counts = events.groupBy(window("at", "10 minutes")).count()
    return counts.select("window", "count", counts.window.end.alias("at")).withWatermark("at", "10 minutes")


def computed(events: Any) -> Any:
    from pyspark.sql.functions import col, window

    shifted = events.withColumn("then", col("at") + _hour()).withWatermark("then", "10 minutes")
    return shifted.groupBy(window("then", "10 minutes")).count()


def _hour() -> Any:
    from pyspark.sql.functions import expr

    return expr("INTERVAL 1 HOUR")


def lost_by_a_cast(marked: Any) -> Any:
    from pyspark.sql.functions import col, window

    again = marked.select(col("at").cast("string").cast("timestamp").alias("at"), "word")
    return again.groupBy(window("at", "10 minutes")).count()


def kept_by_a_projection(marked: Any) -> Any:
    from pyspark.sql.functions import col, window

    return marked.select(col("at").alias("then"), "word").groupBy(window("then", "10 minutes")).count()


def window_as_a_column(marked: Any) -> Any:
    from pyspark.sql.functions import window

    return marked.withColumn("window", window("at", "10 minutes")).groupBy("window").count()


CASES = [
    *cases("watermark on a table", on_a_table, MODES, keys=("window",)),
    Case("watermark without delay", no_delay, keys=("window",)),
    *cases("watermark on a computed time", computed, MODES, keys=("window",)),
    *cases("watermark lost by a cast", lost_by_a_cast, ["append", "complete"], keys=("window",)),
    *cases("watermark on a renamed column", kept_by_a_projection, MODES, keys=("window",)),
    *cases("window made before GROUP BY", window_as_a_column, MODES, keys=("window",)),
    Case("watermark after the aggregation", after_the_aggregation),
    Case("watermark through a view", PER_WINDOW.format("(SELECT at, word FROM marked WHERE n > 0)", "at")),
    *cases(
        "grouped by the watermarked column",
        {"and another": "SELECT at, word, count(*) AS c FROM marked GROUP BY at, word"},
        keys=("at", "word"),
        final=f"at <= {CLOSED}",
    ),
]
