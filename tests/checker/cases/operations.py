"""Operations that a stream can't do, or only in some form: sorting, limits, subqueries, set operations …"""

from __future__ import annotations

from typing import Any

from tests.checker.cases import Case, in_modes
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
    *in_modes(Case("SELECT DISTINCT", "SELECT DISTINCT word FROM events", keys=("word",))),
    *in_modes(
        Case(
            "SELECT DISTINCT",
            "SELECT DISTINCT at FROM marked",
            variant="of the watermarked column",
            keys=("at",),
            final=f"at <= {CLOSED}",
        )
    ),
    *in_modes(Case("limit", "SELECT word FROM events LIMIT 2", batch="SELECT word FROM events WHERE n <= 2")),
    *in_modes(
        Case("limit", f"{COUNTED} LIMIT 10", variant="after an aggregation", keys=("word",)),
        ["update", "complete"],
    ),
    *in_modes(Case("offset", "SELECT word FROM events OFFSET 1")),
    *in_modes(Case("offset", f"{COUNTED} OFFSET 1", variant="after an aggregation"), ["complete"]),
    *in_modes(Case("sorting without aggregation", "SELECT * FROM events ORDER BY n")),
    *in_modes(Case("sorting after an aggregation", f"{COUNTED} ORDER BY c DESC", keys=("word",))),
    Case(
        "sorting after an aggregation",
        f"{COUNTED} ORDER BY c DESC LIMIT 1",
        "complete",
        variant="with a limit",
    ),
    Case(
        "sorting after an aggregation",
        "SELECT window, count(*) AS c FROM marked GROUP BY window(at, '10 minutes') ORDER BY c",
        variant="of windows",
    ),
    *in_modes(
        Case(
            "sorting before an aggregation",
            "SELECT word, count(*) AS c FROM (SELECT * FROM events ORDER BY n) GROUP BY word",
            keys=("word",),
        ),
        ["update", "complete"],
    ),
    Case("sorting within partitions", "SELECT word FROM events SORT BY n"),
    Case("sorting within partitions", "SELECT word FROM events CLUSTER BY word", variant="cluster by"),
    *in_modes(Case("exact distinct counts", "SELECT count(DISTINCT word) AS c FROM events", keys=())),
    *in_modes(
        Case(
            "exact distinct counts",
            "SELECT n, count(DISTINCT word) AS c FROM events GROUP BY n",
            keys=("n",),
            variant="in groups",
        ),
        ["update", "complete"],
    ),
    Case(
        "exact distinct counts",
        "SELECT window, sum(DISTINCT n) AS c FROM marked GROUP BY window(at, '10 minutes')",
        variant="sum in windows",
    ),
    Case(
        "exact distinct counts",
        "SELECT size(collect_set(word)) AS c FROM events",
        "complete",
        variant="size of a set",
    ),
    *in_modes(
        Case(
            "row_number and other window functions",
            "SELECT word, row_number() OVER (PARTITION BY word ORDER BY at) AS r FROM events",
        )
    ),
    Case(
        "row_number and other window functions",
        "SELECT word, lag(n) OVER (PARTITION BY word ORDER BY at) AS l FROM events",
        variant="lag",
    ),
    Case(
        "row_number and other window functions",
        "SELECT word, sum(n) OVER () AS s FROM events",
        variant="sum over all",
    ),
    Case(
        "row_number and other window functions",
        f"SELECT word, c, rank() OVER (ORDER BY c) AS r FROM ({COUNTED})",
        "complete",
        variant="after an aggregation",
    ),
    Case(
        "intersect and except",
        "SELECT word FROM events INTERSECT SELECT word FROM words",
        variant="with static",
    ),
    Case(
        "intersect and except",
        "SELECT word FROM events INTERSECT SELECT word FROM marked",
        variant="of streams",
    ),
    *in_modes(
        Case(
            "intersect and except",
            "SELECT word FROM events EXCEPT SELECT word FROM words",
            variant="except static",
            keys=("word",),
        )
    ),
    Case(
        "intersect and except",
        "SELECT word FROM words EXCEPT SELECT word FROM events",
        variant="static except",
    ),
    Case(
        "intersect and except",
        "SELECT word FROM events EXCEPT SELECT word FROM marked",
        variant="except of streams",
    ),
    Case(
        "intersect and except",
        "SELECT word FROM events EXCEPT ALL SELECT word FROM words",
        variant="except all",
    ),
    Case(
        "intersect and except",
        "SELECT word FROM events INTERSECT ALL SELECT word FROM words",
        variant="intersect all",
    ),
    Case("union", "SELECT word FROM events UNION ALL SELECT word FROM words", variant="with static"),
    *in_modes(
        Case(
            "union",
            "SELECT word FROM events UNION SELECT word FROM marked",
            variant="distinct",
            keys=("word",),
        )
    ),
    *in_modes(Case("union of rows and counts", ROWS_AND_COUNTS, keys=("word",))),
    *in_modes(Case("union of counts", COUNTS_AND_COUNTS, keys=("word",))),
    Case(
        "subquery over static", "SELECT word FROM events WHERE word IN (SELECT word FROM words)", variant="in"
    ),
    Case(
        "subquery over static",
        "SELECT word FROM events WHERE word NOT IN (SELECT word FROM words)",
        variant="not in",
    ),
    Case(
        "subquery over static",
        "SELECT word FROM events e WHERE EXISTS (SELECT 1 FROM words w WHERE w.word = e.word)",
        variant="exists",
    ),
    Case(
        "subquery over static",
        "SELECT word FROM events e WHERE NOT EXISTS (SELECT 1 FROM words w WHERE w.word = e.word)",
        variant="not exists",
    ),
    Case(
        "subquery over static",
        "SELECT word, (SELECT max(family) FROM words) AS f FROM events",
        variant="scalar",
    ),
    Case(
        "subquery over static",
        "SELECT word, (SELECT max(family) FROM words w WHERE w.word = e.word) AS f FROM events e",
        variant="correlated scalar",
    ),
    Case(
        "subquery over a stream",
        "SELECT word FROM events WHERE word IN (SELECT word FROM marked)",
        variant="in",
    ),
    Case(
        "subquery over a stream",
        "SELECT word FROM events WHERE word NOT IN (SELECT word FROM marked)",
        variant="not in",
    ),
    Case(
        "subquery over a stream",
        "SELECT word, (SELECT max(n) FROM marked) AS m FROM events",
        variant="scalar",
    ),
    Case(
        "subquery over a stream",
        "SELECT word FROM events e WHERE EXISTS (SELECT 1 FROM marked m WHERE m.word = e.word)",
        variant="exists",
    ),
    Case(
        "subquery over a stream",
        "SELECT word FROM words w WHERE EXISTS (SELECT 1 FROM events m WHERE m.word = w.word)",
        variant="exists for static",
    ),
    Case(
        "subquery over a stream",
        "SELECT word, n > (SELECT avg(n) FROM events) AS m FROM events",
        variant="of itself",
    ),
    Case("sample", sample, batch="SELECT * FROM events"),
    Case("sample", random_split, batch="SELECT * FROM events", variant="randomSplit"),
    Case("repartition and coalesce", repartitioned),
    Case("repartition and coalesce", hinted, variant="by a hint"),
    *in_modes(Case("pivot", pivoted, keys=("word",))),
    Case("pivot", pivoted_freely, "complete", variant="without values"),
    Case("describe", described, "complete"),
    Case("select and where", zipped, variant="monotonic id"),
    Case("select and where", na_filled, variant="na functions"),
    Case("select and where", unpivoted, variant="unpivot"),
    Case("select and where", "SELECT word, current_timestamp() IS NOT NULL AS t FROM events", variant="now"),
    Case("lateral", "SELECT e.word, t.x FROM events e, LATERAL (SELECT e.n + 1 AS x) t"),
    Case(
        "lateral",
        "SELECT e.word, t.f FROM events e, LATERAL (SELECT max(family) AS f FROM words w WHERE w.word = "
        "e.word) t",
        variant="over static",
    ),
    Case(
        "table of values",
        "SELECT e.word, v.x FROM events e JOIN VALUES (1, 'a'), (2, 'b') AS v(n, x) ON e.n = v.n",
    ),
]
