"""Several columns with a watermark on their way to what keeps state, which takes one."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import Case, in_modes
from tests.checker.cases.sources import CLOSED

KIND = "two columns with a watermark"


def told_apart(marked: Any) -> Any:
    return marked.selectExpr("*", "at AS again").dropDuplicates(["word", "n"])


def told_apart_and_one_left(marked: Any) -> Any:
    return marked.selectExpr("*", "at AS again").dropDuplicates(["word", "n"]).select("word", "n")


def told_apart_within(marked: Any) -> Any:
    twice = marked.selectExpr("*", "at AS again")
    return twice.dropDuplicatesWithinWatermark(["word", "n"]).select("word", "n")


def with_its_window(marked: Any) -> Any:
    from pyspark.sql.functions import window

    return marked.withColumn("window", window("at", "10 minutes")).dropDuplicates(["word", "window"])


def the_same_twice(marked: Any) -> Any:
    return marked.select("word", "n", "at", "at").dropDuplicates(["word", "n"]).select("word", "n")


def state(marked: Any) -> Any:
    def seen(key: Any, frames: Any, kept: Any) -> Any:
        for frame in frames:
            yield frame[["word"]]

    twice = marked.selectExpr("*", "at AS again").groupBy("word")
    return twice.applyInPandasWithState(seen, "word string", "n int", "append", "NoTimeout")


CASES = [
    Case(KIND, told_apart, variant="dropDuplicates"),
    Case(KIND, told_apart_and_one_left, variant="dropDuplicates and none needed"),
    Case(KIND, told_apart_within, variant="within watermark", batch=told_apart_and_one_left),
    Case(KIND, with_its_window, variant="a window and its time"),
    Case(KIND, the_same_twice, variant="the same column twice"),
    Case(KIND, state, variant="applyInPandasWithState", batch="SELECT word FROM marked", alone=True),
    *in_modes(
        Case(
            KIND,
            "SELECT at, again, count(*) AS c FROM (SELECT at, at AS again FROM marked) GROUP BY at, again",
            keys=("at",),
            final=f"at <= {CLOSED}",
            variant="GROUP BY",
        )
    ),
    Case(
        KIND,
        "SELECT at, max(again) AS last FROM (SELECT at, at AS again FROM marked) GROUP BY at",
        final=f"at <= {CLOSED}",
        variant="GROUP BY of one",
    ),
    Case(KIND, "SELECT DISTINCT word, at, at AS again FROM marked", variant="SELECT DISTINCT"),
]
