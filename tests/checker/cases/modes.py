"""Plain queries, aggregations, windows and chains of them in each mode."""

from __future__ import annotations

from typing import Any

from tests.checker.cases import CHANGING, MODES, cases
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
    *cases("select and where", "SELECT word, n * 2 AS twice FROM events WHERE n > 1", MODES),
    *cases("select and where", {"with a watermark": "SELECT * FROM marked"}, ["append", "update"]),
    *cases("explode", "SELECT word, explode(array(n, n + 1)) AS each FROM events", ["append", "complete"]),
    *cases("union", "SELECT word FROM events UNION ALL SELECT word FROM marked", MODES),
    *cases("aggregation without watermark", BY_WORD.format("count(*)"), MODES, keys=("word",)),
    *cases(
        "aggregation without groups",
        {
            "": "SELECT count(*) AS c, sum(n) AS s FROM events",
            "with a watermark": "SELECT count(*) AS c FROM marked",
        },
        MODES,
        keys=(),
    ),
    *cases(
        "aggregation without watermark",
        {
            "several": "SELECT word, avg(n) AS a, stddev(n) AS d, min(n) AS l, max(n) AS h FROM events GROUP "
            "BY word",
            "collect list": "SELECT word, sort_array(collect_list(n)) AS c FROM events GROUP BY word",
        },
        CHANGING,
        keys=("word",),
    ),
    *cases(
        "aggregation without watermark",
        {
            "first": BY_WORD.format("first(word)"),
            "approx distinct": BY_WORD.format("approx_count_distinct(n)"),
        },
        ["update"],
        keys=("word",),
    ),
    *cases(
        "aggregation without watermark",
        {"having": "SELECT word, count(*) AS c FROM events GROUP BY word HAVING count(*) > 1"},
        ["complete"],
    ),
    *cases(
        "aggregation without watermark",
        {"on another column than the watermark": "SELECT word, count(*) AS c FROM marked GROUP BY word"},
        MODES,
        keys=("word",),
    ),
    *cases(
        "windows without watermark",
        "SELECT window, count(*) AS c FROM events GROUP BY window(at, '10 minutes')",
        MODES,
        keys=("window",),
    ),
    *cases("windows with a watermark", per_window(c="count(*)"), MODES, keys=("window", "word")),
    *cases(
        "windows with a watermark",
        {
            "sliding": "SELECT window, count(*) AS c FROM marked GROUP BY window(at, '10 minutes', '5 "
            "minutes')"
        },
        MODES,
        keys=("window",),
    ),
    *cases(
        "grouped by the watermarked column",
        "SELECT at, count(*) AS c FROM marked GROUP BY at",
        MODES,
        keys=("at",),
        final=f"at <= {CLOSED}",
    ),
    *cases("session windows with keys", KEYED_SESSIONS, MODES, keys=("window", "word")),
    *cases("session windows without keys", GLOBAL_SESSIONS, MODES, keys=("window",)),
    *cases(
        "session windows with keys",
        {"gap by expression": SESSIONS_BY_EXPRESSION},
        ["append", "complete"],
        keys=("window", "word"),
    ),
    *cases(
        "session windows without watermark",
        KEYED_SESSIONS.replace("marked", "events"),
        MODES,
        keys=("window", "word"),
    ),
    *cases(
        "cube and rollup",
        {"cube": "SELECT word, n, count(*) AS c FROM events GROUP BY CUBE(word, n)"},
        MODES,
        keys=("word", "n"),
    ),
    *cases(
        "cube and rollup",
        {
            "rollup": "SELECT word, n, count(*) AS c FROM events GROUP BY ROLLUP(word, n)",
            "grouping sets": "SELECT word, n, count(*) AS c FROM events GROUP BY GROUPING SETS ((word), (n))",
        },
        CHANGING,
        keys=("word", "n"),
    ),
    *cases("aggregation of windows", {"": CHAIN_OF_WINDOWS, "window_time": chained}, MODES, keys=("window",)),
    *cases(
        "aggregation of an aggregation",
        f"SELECT c, count(*) AS words FROM ({BY_WORD.format('count(*)')}) GROUP BY c",
        MODES,
        keys=("c",),
    ),
    *cases("grouped by a part of the window", by_part_of_window, MODES, keys=("start",)),
    *cases(
        "grouped by a part of the window",
        {
            "sql": (
                "SELECT window(at, '10 minutes').start AS start, count(*) AS c FROM marked "
                "GROUP BY window(at, '10 minutes').start"
            )
        },
        ["append", "update"],
        keys=("start",),
    ),
    *cases(
        "SQL with WATERMARK",
        "SELECT window, count(*) AS c FROM events WATERMARK at DELAY OF INTERVAL 10 MINUTES "
        "GROUP BY window(at, '10 minutes')",
        MODES,
        keys=("window",),
        batch="SELECT window, count(*) AS c FROM events GROUP BY window(at, '10 minutes')",
    ),
    *cases(
        "a CTE read twice",
        "WITH some AS (SELECT * FROM events WHERE n > 1) "
        "SELECT word FROM some UNION ALL SELECT word FROM some",
        MODES,
    ),
    *cases(
        "a CTE",
        {
            "": f"WITH counts AS ({BY_WORD.format('count(*)')}) SELECT * FROM counts",
            "sorted": f"WITH counts AS ({BY_WORD.format('count(*)')}) SELECT * FROM counts ORDER BY c, word",
        },
        ["complete"],
    ),
    *cases(
        "a CTE",
        {
            "of windows": (
                "WITH windows AS (SELECT window, count(*) AS c FROM marked GROUP BY window(at, '10 "
                "minutes')) "
                "SELECT * FROM windows WHERE c > 0"
            )
        },
    ),
]
