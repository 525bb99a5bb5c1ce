"""Rows told apart: three kinds of deduplication, in every mode and beside aggregations."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import Case, in_modes


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
    *in_modes(Case("dropDuplicates", by_columns)),
    *in_modes(Case("dropDuplicates", by_columns_with_time, variant="with the event time")),
    *in_modes(Case("dropDuplicates", marked_by_others, variant="of other columns than the watermark")),
    *in_modes(Case("dropDuplicatesWithinWatermark", within_watermark, batch=ONCE)),
    *in_modes(Case("dropDuplicatesWithinWatermark without watermark", within_no_watermark, batch=ONCE)),
    *in_modes(Case("aggregation after dropDuplicates", then_counted, keys=("word",))),
    *in_modes(Case("aggregation after dropDuplicates", then_windows, keys=("window",), variant="windows")),
    *in_modes(
        Case(
            "aggregation after dropDuplicates",
            within_then_windows,
            keys=("window",),
            variant="within",
            batch=then_windows,
        ),
        ["append", "update"],
    ),
    *in_modes(Case("dropDuplicates after an aggregation", counted_then_distinct, keys=("word",))),
    *in_modes(
        Case(
            "dropDuplicates after an aggregation",
            windows_then_distinct,
            keys=("window", "word"),
            variant="of windows",
        )
    ),
    *in_modes(
        Case(
            "dropDuplicates after an aggregation",
            "SELECT DISTINCT c FROM (SELECT word, count(*) AS c FROM events GROUP BY word)",
            keys=("c",),
            variant="SELECT DISTINCT",
        ),
        ["update", "complete"],
    ),
    Case(
        "dropDuplicates after an aggregation",
        windows_then_others,
        variant="of windows by another key",
        batch="SELECT DISTINCT word FROM events WHERE word <> 'heron'",
    ),
    Case("dropDuplicates", twice, variant="twice"),
]
