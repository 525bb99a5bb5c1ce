"""Joins of streams with static tables and of streams with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.checker.cases import Case, in_modes

STATIC = "SELECT * FROM {left} {type} JOIN {right} USING (word)"
IN_AN_HOUR = "ad = clicked_ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 1 HOUR"
STREAMS = "SELECT * FROM {shown} {type} JOIN {clicked} ON {condition}"
TYPES = ("INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI")
# The rows of 14:00 are not closed yet: those without a partner have not come.
CLOSED_PAIRS = {
    "LEFT OUTER": "ad <> 9",
    "RIGHT OUTER": "clicked_ad <> 8",
    "FULL OUTER": "coalesce(ad, 0) <> 9 AND coalesce(clicked_ad, 0) <> 8",
}


def static_joins() -> Iterator[Case]:
    for type_ in TYPES:
        for left, right, side in (("events", "words", "right"), ("words", "events", "left")):
            sql = STATIC.format(left=left, right=right, type=type_)
            yield Case("join with static", sql, variant=f"{type_.lower()} static {side}")
    yield Case("join with static", "SELECT * FROM events CROSS JOIN words", variant="cross")
    yield Case(
        "join with static", "SELECT * FROM events JOIN words w ON n > length(w.word)", variant="inequality"
    )
    yield from in_modes(
        Case(
            "join with static",
            STATIC.format(left="events", right="words", type="INNER"),
            variant="inner in modes",
        ),
        ["update", "complete"],
    )
    both = (
        "SELECT e.word, f FROM events e JOIN (SELECT a.word, b.family AS f FROM words a {0} JOIN words b ON "
    )
    both += "a.word = b.word) USING (word)"
    yield Case("join with static", both.format("FULL OUTER"), variant="of two static tables")


def stream_joins() -> Iterator[Case]:
    for type_ in TYPES:
        for condition, bound in ((IN_AN_HOUR, "time range"), ("ad = clicked_ad", "no time range")):
            for marked, marks in ((True, "watermarks"), (False, "no watermark")):
                names = {"shown": "shown", "clicked": "clicked"}
                names = {key: f"{name}_marked" if marked else name for key, name in names.items()}
                sql = STREAMS.format(**names, type=type_, condition=condition)
                kind = f"join of streams with {marks} and {bound}"
                final = CLOSED_PAIRS.get(type_, "")
                yield Case(kind, sql, variant=type_.lower(), final=final)
    inner = STREAMS.format(shown="shown_marked", clicked="clicked_marked", type="INNER", condition=IN_AN_HOUR)
    yield from in_modes(Case("join of streams", inner, variant="inner"), ["update", "complete"])
    outer = inner.replace("INNER", "LEFT OUTER")
    yield from in_modes(Case("join of streams", outer, variant="left outer"), ["update", "complete"])
    one = {"condition": IN_AN_HOUR}
    for type_ in ("LEFT OUTER", "RIGHT OUTER"):
        for shown, clicked in (("shown_marked", "clicked"), ("shown", "clicked_marked")):
            sql = STREAMS.format(shown=shown, clicked=clicked, type=type_, **one)
            final = CLOSED_PAIRS[type_]
            yield Case(
                "join of streams with one watermark",
                sql,
                variant=f"{type_} {shown} {clicked}".lower(),
                final=final,
            )


def windows(shown_marked: Any, clicked_marked: Any) -> Any:
    from pyspark.sql.functions import window

    shown = shown_marked.withColumn("window", window("shown_at", "10 minutes"))
    clicked = clicked_marked.withColumn("window", window("clicked_at", "10 minutes"))
    return shown.join(clicked.withColumnRenamed("clicked_ad", "ad"), ["window", "ad"])


def windows_alone(shown_marked: Any, clicked_marked: Any) -> Any:
    from pyspark.sql.functions import col, window

    shown = shown_marked.select(window("shown_at", "10 minutes").alias("window"), "ad")
    clicked = clicked_marked.select(window("clicked_at", "10 minutes"), col("clicked_ad").alias("ad"), "by")
    return shown.join(clicked, ["window", "ad"])


def windows_alone_left_outer(shown_marked: Any, clicked_marked: Any) -> Any:
    from pyspark.sql.functions import col, window

    shown = shown_marked.select(window("shown_at", "10 minutes").alias("window"), "ad")
    clicked = clicked_marked.select(window("clicked_at", "10 minutes"), col("clicked_ad").alias("ad"), "by")
    return shown.join(clicked, ["window", "ad"], "left")


def windows_left_outer(shown_marked: Any, clicked_marked: Any) -> Any:
    from pyspark.sql.functions import window

    shown = shown_marked.withColumn("window", window("shown_at", "10 minutes"))
    clicked = clicked_marked.withColumn("window", window("clicked_at", "10 minutes"))
    return shown.join(clicked.withColumnRenamed("clicked_ad", "ad"), ["window", "ad"], "left")


def itself(marked: Any) -> Any:
    other = marked.selectExpr("word", "n AS m", "at AS then")
    return (
        marked.join(other, "word")
        .where("m > n AND then BETWEEN at AND at + INTERVAL 1 HOUR")
        .select("word", "n", "m")
    )


COUNTED_FIRST = """
SELECT * FROM (SELECT window, ad, count(*) AS times FROM shown_marked
               GROUP BY window(shown_at, '10 minutes'), ad) s
JOIN (SELECT window, clicked_ad AS ad, count(*) AS clicks FROM clicked_marked
      GROUP BY window(clicked_at, '10 minutes'), clicked_ad) c USING (window, ad)
"""
JOINED_THEN_WINDOWS = f"""
SELECT window, count(*) AS clicks FROM shown_marked JOIN clicked_marked ON {IN_AN_HOUR}
GROUP BY window(shown_at, '10 minutes')
"""
JOINED_THEN_COUNTED = f"""
SELECT by, count(*) AS clicks FROM shown_marked JOIN clicked_marked ON {IN_AN_HOUR} GROUP BY by
"""
OUTER_THEN_WINDOWS = f"""
SELECT window, count(clicked_ad) AS clicks FROM shown_marked LEFT JOIN clicked_marked ON {IN_AN_HOUR}
GROUP BY window(shown_at, '10 minutes')
"""
STATIC_THEN_COUNTED = "SELECT family, count(*) AS c FROM events JOIN words USING (word) GROUP BY family"
COUNTED_THEN_STATIC = (
    "SELECT family, c FROM (SELECT word, count(*) AS c FROM events GROUP BY word) JOIN words USING (word)"
)
COUNTED_WITH_STREAM = """
SELECT e.word, c FROM events e
JOIN (SELECT word, count(*) AS c FROM marked GROUP BY word) m ON e.word = m.word
"""
THREE = f"""
SELECT s.ad, c.by, e.word FROM shown_marked s JOIN clicked_marked c ON {IN_AN_HOUR}
JOIN events e ON e.n = s.ad
"""

CASES = [
    *static_joins(),
    *stream_joins(),
    Case("join of streams on windows", windows_alone),
    Case("join of streams on windows", windows_alone_left_outer, variant="left outer"),
    Case("join of streams on windows and their times", windows),
    Case("join of streams on windows and their times", windows_left_outer, variant="left outer"),
    Case("join of streams", itself, variant="with itself"),
    Case("join of streams", THREE, variant="three"),
    Case("join of streams", "SELECT * FROM shown CROSS JOIN clicked", variant="cross"),
    Case("join of streams", "SELECT * FROM shown JOIN clicked ON ad < clicked_ad", variant="inequality"),
    Case(
        "join of streams",
        "SELECT * FROM shown_marked LEFT JOIN clicked_marked ON clicked_at BETWEEN shown_at AND "
        "shown_at + INTERVAL 1 HOUR",
        variant="left outer without keys",
        final="ad <> 9",
    ),
    *in_modes(Case("join of aggregated streams", COUNTED_FIRST, keys=("window", "ad"))),
    *in_modes(Case("windows after a join of streams", JOINED_THEN_WINDOWS, keys=("window",))),
    *in_modes(Case("windows after an outer join of streams", OUTER_THEN_WINDOWS, keys=("window",))),
    *in_modes(Case("aggregation after a join of streams", JOINED_THEN_COUNTED, keys=("by",))),
    *in_modes(Case("aggregation after a join with static", STATIC_THEN_COUNTED, keys=("family",))),
    *in_modes(Case("join with static after an aggregation", COUNTED_THEN_STATIC, keys=("family",))),
    *in_modes(Case("join of a stream with its counts", COUNTED_WITH_STREAM)),
]
