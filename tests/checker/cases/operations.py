"""Operations that a stream can't do, or only in some form: sorting, limits, subqueries, set operations …"""

from __future__ import annotations

from typing import Any

from tests.checker.cases import CHANGING, MODES, Case, cases
from tests.checker.cases.sources import CLOSED

ROWS_AND_COUNTS = (
    "SELECT concat(word, n) AS word, -1 AS c FROM events WHERE n <> 3 "
    "UNION ALL SELECT 'all', count(*) FROM events"
)
COUNTS_AND_COUNTS = (
    "SELECT word, count(*) AS c FROM events GROUP BY word UNION ALL SELECT 'all', count(*) FROM marked"
)
COUNTED = "SELECT word, count(*) AS c FROM events GROUP BY word"


def sample(events: Any) -> Any:
    return events.sample(fraction=1.0, seed=1)


def repartitioned(events: Any) -> Any:
    return events.repartition(2).coalesce(1)


def pivoted(events: Any) -> Any:
    return events.groupBy("word").pivot("n", [1, 2, 3]).count()


def pivoted_freely(events: Any) -> Any:
    return events.groupBy("word").pivot("n").count()


def drop_duplicates(events: Any) -> Any:
    return events.dropDuplicates(["word", "n"]).select("word", "n")


def described(events: Any) -> Any:
    return events.describe("n")


def random_split(events: Any) -> Any:
    return events.randomSplit([1.0], 3)[0]


def zipped(events: Any) -> Any:
    from pyspark.sql.functions import monotonically_increasing_id

    return events.withColumn("id", monotonically_increasing_id()).select("word")


def hinted(events: Any) -> Any:
    return events.hint("coalesce", 1)


def na_filled(events: Any) -> Any:
    return events.na.fill(0).na.drop()


def unpivoted(events: Any) -> Any:
    return events.unpivot(["word"], ["n"], "name", "value")


CASES = [
    *cases("SELECT DISTINCT", "SELECT DISTINCT word FROM events", MODES, keys=("word",)),
    *cases(
        "SELECT DISTINCT",
        {"of the watermarked column": "SELECT DISTINCT at FROM marked"},
        MODES,
        keys=("at",),
        final=f"at <= {CLOSED}",
    ),
    *cases("limit", "SELECT word FROM events LIMIT 2", MODES, batch="SELECT word FROM events WHERE n <= 2"),
    *cases("limit", {"after an aggregation": f"{COUNTED} LIMIT 10"}, CHANGING, keys=("word",)),
    *cases("offset", "SELECT word FROM events OFFSET 1", MODES),
    *cases("offset", {"after an aggregation": f"{COUNTED} OFFSET 1"}, ["complete"]),
    *cases("sorting without aggregation", "SELECT * FROM events ORDER BY n", MODES),
    *cases("sorting after an aggregation", f"{COUNTED} ORDER BY c DESC", MODES, keys=("word",)),
    *cases(
        "sorting after an aggregation", {"with a limit": f"{COUNTED} ORDER BY c DESC LIMIT 1"}, ["complete"]
    ),
    *cases(
        "sorting after an aggregation",
        {
            "of windows": "SELECT window, count(*) AS c FROM marked GROUP BY window(at, '10 minutes') ORDER "
            "BY c"
        },
    ),
    *cases(
        "sorting before an aggregation",
        "SELECT word, count(*) AS c FROM (SELECT * FROM events ORDER BY n) GROUP BY word",
        CHANGING,
        keys=("word",),
    ),
    *cases(
        "sorting within partitions",
        {"": "SELECT word FROM events SORT BY n", "cluster by": "SELECT word FROM events CLUSTER BY word"},
    ),
    *cases("exact distinct counts", "SELECT count(DISTINCT word) AS c FROM events", MODES, keys=()),
    *cases(
        "exact distinct counts",
        {"in groups": "SELECT n, count(DISTINCT word) AS c FROM events GROUP BY n"},
        CHANGING,
        keys=("n",),
    ),
    *cases(
        "exact distinct counts",
        {
            "sum in windows": "SELECT window, sum(DISTINCT n) AS c FROM marked GROUP BY window(at, '10 "
            "minutes')"
        },
    ),
    *cases(
        "exact distinct counts",
        {"size of a set": "SELECT size(collect_set(word)) AS c FROM events"},
        ["complete"],
    ),
    *cases(
        "row_number and other window functions",
        "SELECT word, row_number() OVER (PARTITION BY word ORDER BY at) AS r FROM events",
        MODES,
    ),
    *cases(
        "row_number and other window functions",
        {
            "lag": "SELECT word, lag(n) OVER (PARTITION BY word ORDER BY at) AS l FROM events",
            "sum over all": "SELECT word, sum(n) OVER () AS s FROM events",
        },
    ),
    *cases(
        "row_number and other window functions",
        {"after an aggregation": f"SELECT word, c, rank() OVER (ORDER BY c) AS r FROM ({COUNTED})"},
        ["complete"],
    ),
    *cases(
        "intersect and except",
        {
            "with static": "SELECT word FROM events INTERSECT SELECT word FROM words",
            "of streams": "SELECT word FROM events INTERSECT SELECT word FROM marked",
        },
    ),
    *cases(
        "intersect and except",
        {"except static": "SELECT word FROM events EXCEPT SELECT word FROM words"},
        MODES,
        keys=("word",),
    ),
    *cases(
        "intersect and except",
        {
            "static except": "SELECT word FROM words EXCEPT SELECT word FROM events",
            "except of streams": "SELECT word FROM events EXCEPT SELECT word FROM marked",
            "except all": "SELECT word FROM events EXCEPT ALL SELECT word FROM words",
            "intersect all": "SELECT word FROM events INTERSECT ALL SELECT word FROM words",
        },
    ),
    *cases("union", {"with static": "SELECT word FROM events UNION ALL SELECT word FROM words"}),
    *cases(
        "union", {"distinct": "SELECT word FROM events UNION SELECT word FROM marked"}, MODES, keys=("word",)
    ),
    *cases("union of rows and counts", ROWS_AND_COUNTS, MODES, keys=("word",)),
    *cases("union of counts", COUNTS_AND_COUNTS, MODES, keys=("word",)),
    *cases(
        "subquery over static",
        {
            "in": "SELECT word FROM events WHERE word IN (SELECT word FROM words)",
            "not in": "SELECT word FROM events WHERE word NOT IN (SELECT word FROM words)",
            "exists": "SELECT word FROM events e WHERE EXISTS (SELECT 1 FROM words w WHERE w.word = e.word)",
            "not exists": "SELECT word FROM events e WHERE NOT EXISTS (SELECT 1 FROM words w WHERE w.word = "
            "e.word)",
            "scalar": "SELECT word, (SELECT max(family) FROM words) AS f FROM events",
            "correlated scalar": "SELECT word, (SELECT max(family) FROM words w WHERE w.word = e.word) AS f "
            "FROM events e",
        },
    ),
    *cases(
        "subquery over a stream",
        {
            "in": "SELECT word FROM events WHERE word IN (SELECT word FROM marked)",
            "not in": "SELECT word FROM events WHERE word NOT IN (SELECT word FROM marked)",
            "scalar": "SELECT word, (SELECT max(n) FROM marked) AS m FROM events",
            "exists": "SELECT word FROM events e WHERE EXISTS (SELECT 1 FROM marked m WHERE m.word = e.word)",
            "exists for static": "SELECT word FROM words w WHERE EXISTS (SELECT 1 FROM events m WHERE m.word "
            "= w.word)",
            "of itself": "SELECT word, n > (SELECT avg(n) FROM events) AS m FROM events",
        },
    ),
    *cases("sample", {"": sample, "randomSplit": random_split}, batch="SELECT * FROM events"),
    *cases("repartition and coalesce", {"": repartitioned, "by a hint": hinted}),
    *cases("pivot", pivoted, MODES, keys=("word",)),
    *cases("pivot", {"without values": pivoted_freely}, ["complete"]),
    *cases("describe", described, ["complete"]),
    *cases(
        "select and where",
        {
            "monotonic id": zipped,
            "na functions": na_filled,
            "unpivot": unpivoted,
            "now": "SELECT word, current_timestamp() IS NOT NULL AS t FROM events",
        },
    ),
    *cases(
        "lateral",
        {
            "": "SELECT e.word, t.x FROM events e, LATERAL (SELECT e.n + 1 AS x) t",
            "over static": (
                "SELECT e.word, t.f FROM events e, LATERAL (SELECT max(family) AS f FROM words w WHERE "
                "w.word = "
                "e.word) t"
            ),
        },
    ),
    Case(
        "table of values",
        "SELECT e.word, v.x FROM events e JOIN VALUES (1, 'a'), (2, 'b') AS v(n, x) ON e.n = v.n",
    ),
]
