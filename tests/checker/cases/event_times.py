"""Several columns with a watermark on their way to what keeps state, which takes one."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import MODES, cases
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
    *cases(KIND, {"dropDuplicates": told_apart, "dropDuplicates and none needed": told_apart_and_one_left}),
    *cases(KIND, {"within watermark": told_apart_within}, batch=told_apart_and_one_left),
    *cases(KIND, {"a window and its time": with_its_window, "the same column twice": the_same_twice}),
    *cases(KIND, {"applyInPandasWithState": state}, batch="SELECT word FROM marked", alone=True),
    *cases(
        KIND,
        {
            "GROUP BY": "SELECT at, again, count(*) AS c FROM (SELECT at, at AS again FROM marked) GROUP BY "
            "at, again"
        },
        MODES,
        keys=("at",),
        final=f"at <= {CLOSED}",
    ),
    *cases(
        KIND,
        {
            "GROUP BY of one": "SELECT at, max(again) AS last FROM (SELECT at, at AS again FROM marked) "
            "GROUP BY at"
        },
        final=f"at <= {CLOSED}",
    ),
    *cases(KIND, {"SELECT DISTINCT": "SELECT DISTINCT word, at, at AS again FROM marked"}),
]
