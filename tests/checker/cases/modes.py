"""Plain queries, aggregations, windows and chains of them in each mode."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import Case, in_modes
from tests.checker.cases.sources import CLOSED

BY_WORD = "SELECT word, {0} AS c FROM events GROUP BY word"


def per_window(**aggregates: str) -> str:
    made = ", ".join(f"{sql} AS {name}" for name, sql in aggregates.items())
    return f"SELECT window, word, {made} FROM marked GROUP BY window(at, '10 minutes'), word"


def by_part_of_window(marked: Any) -> Any:
    from pyspark.sql.functions import count, window

    return marked.groupBy(window("at", "10 minutes").start.alias("start")).agg(count("*").alias("c"))


def chained(marked: Any) -> Any:
    from pyspark.sql.functions import sum, window, window_time

    first = marked.groupBy(window("at", "5 minutes"), "word").agg(sum("n").alias("n"))
    return first.groupBy(window(window_time("window"), "20 minutes")).agg(sum("n").alias("n"))


CHAIN_OF_WINDOWS = """
WITH fives AS (SELECT window, word, sum(n) AS n FROM marked GROUP BY window(at, '5 minutes'), word)
SELECT window(window, '20 minutes') AS window, sum(n) AS n FROM fives GROUP BY window(window, '20 minutes')
"""
KEYED_SESSIONS = """
SELECT session_window AS window, word, count(*) AS c FROM marked
GROUP BY session_window(at, '5 minutes'), word
"""
GLOBAL_SESSIONS = (
    "SELECT session_window AS window, count(*) AS c FROM marked GROUP BY session_window(at, '5 minutes')"
)
SESSIONS_BY_EXPRESSION = """
SELECT session_window AS window, word, count(*) AS c FROM marked
GROUP BY session_window(at, CASE WHEN word = 'owl' THEN '5 minutes' ELSE '1 minute' END), word
"""

CASES = [
    *in_modes(Case("select and where", "SELECT word, n * 2 AS twice FROM events WHERE n > 1")),
    *in_modes(
        Case("select and where", "SELECT * FROM marked", variant="with a watermark"), ["append", "update"]
    ),
    *in_modes(
        Case("explode", "SELECT word, explode(array(n, n + 1)) AS each FROM events"), ["append", "complete"]
    ),
    *in_modes(Case("union", "SELECT word FROM events UNION ALL SELECT word FROM marked")),
    *in_modes(
        Case("aggregation without watermark", BY_WORD.format("count(*)"), keys=("word",)),
    ),
    *in_modes(Case("aggregation without groups", "SELECT count(*) AS c, sum(n) AS s FROM events", keys=())),
    *in_modes(
        Case(
            "aggregation without groups",
            "SELECT count(*) AS c FROM marked",
            keys=(),
            variant="with a watermark",
        )
    ),
    *in_modes(
        Case(
            "aggregation without watermark",
            "SELECT word, avg(n) AS a, stddev(n) AS d, min(n) AS l, max(n) AS h FROM events GROUP BY word",
            keys=("word",),
            variant="several",
        ),
        ["update", "complete"],
    ),
    *in_modes(
        Case(
            "aggregation without watermark",
            "SELECT word, sort_array(collect_list(n)) AS c FROM events GROUP BY word",
            keys=("word",),
            variant="collect list",
        ),
        ["update", "complete"],
    ),
    Case(
        "aggregation without watermark",
        BY_WORD.format("first(word)"),
        "update",
        keys=("word",),
        variant="first",
    ),
    Case(
        "aggregation without watermark",
        BY_WORD.format("approx_count_distinct(n)"),
        "update",
        keys=("word",),
        variant="approx distinct",
    ),
    Case(
        "aggregation without watermark",
        "SELECT word, count(*) AS c FROM events GROUP BY word HAVING count(*) > 1",
        "complete",
        variant="having",
    ),
    *in_modes(
        Case(
            "aggregation without watermark",
            "SELECT word, count(*) AS c FROM marked GROUP BY word",
            keys=("word",),
            variant="on another column than the watermark",
        )
    ),
    *in_modes(
        Case(
            "windows without watermark",
            "SELECT window, count(*) AS c FROM events GROUP BY window(at, '10 minutes')",
            keys=("window",),
        )
    ),
    *in_modes(Case("windows with a watermark", per_window(c="count(*)"), keys=("window", "word"))),
    *in_modes(
        Case(
            "windows with a watermark",
            "SELECT window, count(*) AS c FROM marked GROUP BY window(at, '10 minutes', '5 minutes')",
            keys=("window",),
            variant="sliding",
        )
    ),
    *in_modes(
        Case(
            "grouped by the watermarked column",
            "SELECT at, count(*) AS c FROM marked GROUP BY at",
            keys=("at",),
            final=f"at <= {CLOSED}",
        )
    ),
    *in_modes(Case("session windows with keys", KEYED_SESSIONS, keys=("window", "word"))),
    *in_modes(Case("session windows without keys", GLOBAL_SESSIONS, keys=("window",))),
    *in_modes(
        Case(
            "session windows with keys",
            SESSIONS_BY_EXPRESSION,
            keys=("window", "word"),
            variant="gap by expression",
        ),
        ["append", "complete"],
    ),
    *in_modes(
        Case(
            "session windows without watermark",
            KEYED_SESSIONS.replace("marked", "events"),
            keys=("window", "word"),
        )
    ),
    *in_modes(
        Case(
            "cube and rollup",
            "SELECT word, n, count(*) AS c FROM events GROUP BY CUBE(word, n)",
            keys=("word", "n"),
            variant="cube",
        )
    ),
    *in_modes(
        Case(
            "cube and rollup",
            "SELECT word, n, count(*) AS c FROM events GROUP BY ROLLUP(word, n)",
            keys=("word", "n"),
            variant="rollup",
        ),
        ["update", "complete"],
    ),
    *in_modes(
        Case(
            "cube and rollup",
            "SELECT word, n, count(*) AS c FROM events GROUP BY GROUPING SETS ((word), (n))",
            keys=("word", "n"),
            variant="grouping sets",
        ),
        ["update", "complete"],
    ),
    *in_modes(Case("aggregation of windows", CHAIN_OF_WINDOWS, keys=("window",))),
    *in_modes(Case("aggregation of windows", chained, keys=("window",), variant="window_time")),
    *in_modes(
        Case(
            "aggregation of an aggregation",
            f"SELECT c, count(*) AS words FROM ({BY_WORD.format('count(*)')}) GROUP BY c",
            keys=("c",),
        )
    ),
    *in_modes(Case("grouped by a part of the window", by_part_of_window, keys=("start",))),
    *in_modes(
        Case(
            "grouped by a part of the window",
            "SELECT window(at, '10 minutes').start AS start, count(*) AS c FROM marked "
            "GROUP BY window(at, '10 minutes').start",
            keys=("start",),
            variant="sql",
        ),
        ["append", "update"],
    ),
    *in_modes(
        Case(
            "SQL with WATERMARK",
            "SELECT window, count(*) AS c FROM events WATERMARK at DELAY OF INTERVAL 10 MINUTES "
            "GROUP BY window(at, '10 minutes')",
            keys=("window",),
            batch="SELECT window, count(*) AS c FROM events GROUP BY window(at, '10 minutes')",
        )
    ),
    *in_modes(
        Case(
            "a CTE read twice",
            "WITH some AS (SELECT * FROM events WHERE n > 1) "
            "SELECT word FROM some UNION ALL SELECT word FROM some",
        ),
    ),
    Case("a CTE", f"WITH counts AS ({BY_WORD.format('count(*)')}) SELECT * FROM counts", "complete"),
    Case(
        "a CTE",
        f"WITH counts AS ({BY_WORD.format('count(*)')}) SELECT * FROM counts ORDER BY c, word",
        "complete",
        variant="sorted",
    ),
    Case(
        "a CTE",
        "WITH windows AS (SELECT window, count(*) AS c FROM marked GROUP BY window(at, '10 minutes')) "
        "SELECT * FROM windows WHERE c > 0",
        variant="of windows",
    ),
]
