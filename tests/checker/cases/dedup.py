"""Rows told apart: three kinds of deduplication, in every mode and beside aggregations."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import CHANGING, MODES, cases


def by_columns(events: Any) -> Any:
    return events.dropDuplicates(["word", "n"]).select("word", "n")


def by_columns_with_time(marked: Any) -> Any:
    return marked.dropDuplicates(["word", "n", "at"])


def marked_by_others(marked: Any) -> Any:
    return marked.dropDuplicates(["word", "n"]).select("word", "n")


def within_watermark(marked: Any) -> Any:
    return marked.dropDuplicatesWithinWatermark(["word", "n"]).select("word", "n")


def within_no_watermark(events: Any) -> Any:
    return events.dropDuplicatesWithinWatermark(["word", "n"]).select("word", "n")


def then_counted(events: Any) -> Any:
    return events.dropDuplicates(["word", "n"]).groupBy("word").count()


def then_windows(marked: Any) -> Any:
    from pyspark.sql.functions import window

    return marked.dropDuplicates(["word", "n", "at"]).groupBy(window("at", "10 minutes")).count()


def within_then_windows(marked: Any) -> Any:
    from pyspark.sql.functions import window

    return (
        marked.dropDuplicatesWithinWatermark(["word", "n", "at"]).groupBy(window("at", "10 minutes")).count()
    )


def counted_then_distinct(events: Any) -> Any:
    return events.groupBy("word").count().dropDuplicates(["word"])


def windows_then_distinct(marked: Any) -> Any:
    from pyspark.sql.functions import window

    return marked.groupBy(window("at", "10 minutes"), "word").count().dropDuplicates(["window", "word"])


def windows_then_others(marked: Any) -> Any:
    from pyspark.sql.functions import window

    counts = marked.groupBy(window("at", "10 minutes"), "word").count()
    return counts.dropDuplicates(["word"]).select("word")


def twice(events: Any) -> Any:
    return events.dropDuplicates(["word", "n"]).dropDuplicates(["word"]).select("word")


ONCE = "SELECT DISTINCT word, n FROM events"

CASES = [
    *cases(
        "dropDuplicates",
        {
            "": by_columns,
            "with the event time": by_columns_with_time,
            "of other columns than the watermark": marked_by_others,
        },
        MODES,
    ),
    *cases("dropDuplicatesWithinWatermark", within_watermark, MODES, batch=ONCE),
    *cases("dropDuplicatesWithinWatermark without watermark", within_no_watermark, MODES, batch=ONCE),
    *cases("aggregation after dropDuplicates", then_counted, MODES, keys=("word",)),
    *cases("aggregation after dropDuplicates", {"windows": then_windows}, MODES, keys=("window",)),
    *cases(
        "aggregation after dropDuplicates",
        {"within": within_then_windows},
        ["append", "update"],
        keys=("window",),
        batch=then_windows,
    ),
    *cases("dropDuplicates after an aggregation", counted_then_distinct, MODES, keys=("word",)),
    *cases(
        "dropDuplicates after an aggregation",
        {"of windows": windows_then_distinct},
        MODES,
        keys=("window", "word"),
    ),
    *cases(
        "dropDuplicates after an aggregation",
        {"SELECT DISTINCT": "SELECT DISTINCT c FROM (SELECT word, count(*) AS c FROM events GROUP BY word)"},
        CHANGING,
        keys=("c",),
    ),
    *cases(
        "dropDuplicates after an aggregation",
        {"of windows by another key": windows_then_others},
        batch="SELECT DISTINCT word FROM events WHERE word <> 'heron'",
    ),
    *cases("dropDuplicates", {"twice": twice}),
]
