"""Which tables a SQL text reads, as far as that can be told without Spark."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.plan.graph import NotAQuery, NotSql, Reference, sql_references


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", ""),
        ("SELECT * FROM a, b JOIN c USING (id) LEFT ANTI JOIN d ON a.x = d.x", "a b c d"),
        ("FROM a SELECT x", "a"),
        ("SELECT * FROM a;", "a"),
        ("SELECT * FROM a; -- the end", "a"),
        ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT SELECT * FROM c", "a b c"),
        # Subqueries, wherever they stand.
        ("SELECT * FROM (SELECT * FROM a) x", "a"),
        ("SELECT (SELECT max(x) FROM b) AS m FROM a", "b a"),
        ("SELECT * FROM a WHERE id IN (SELECT id FROM b) AND EXISTS (SELECT 1 FROM c)", "a b c"),
        ("SELECT * FROM a JOIN LATERAL (SELECT * FROM b WHERE b.i = a.i)", "a b"),
        # The names of a WITH hide tables, from where they are declared and no further.
        ("WITH x AS (SELECT * FROM a) SELECT * FROM x JOIN b USING (id)", "a b"),
        ("WITH x AS (SELECT 1), y AS (SELECT * FROM x) SELECT * FROM y", ""),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"),
        ("WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x", "y"),
        ("SELECT * FROM (WITH x AS (SELECT * FROM a) SELECT * FROM x) JOIN x", "a x"),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", ""),
        ("WITH RECURSIVE r AS (SELECT * FROM s JOIN R) SELECT * FROM r", "s"),
        # They hide in whatever case; the rest keeps its own.
        ("WITH Recent AS (SELECT * FROM Clicks) SELECT * FROM recent JOIN `RECENT` r", "Clicks"),
        ("WITH a AS (SELECT * FROM A), b AS (SELECT 1 FROM A) SELECT * FROM B", "a"),
        ("SELECT * FROM (WITH X AS (SELECT * FROM a) SELECT * FROM x) JOIN db.X", "a"),
        # An alias is no table, and hides none.
        ("SELECT b.* FROM a AS b", "a"),
        ("SELECT 1 FROM a x JOIN b x JOIN (SELECT * FROM c) x", "a b c"),
        ("SELECT /*+ BROADCAST(b) */ * FROM a JOIN b", "a b"),
        ("SELECT word FROM a LATERAL VIEW explode(split(value, ' ')) t AS word", "a"),
        ("SELECT * FROM a, LATERAL explode(xs) AS t(x)", "a"),
        # Windows of time and windows of rows.
        ("SELECT window.start, count(*) FROM a GROUP BY window(at, '10 minutes')", "a"),
        ("SELECT count(*) FROM a GROUP BY session_window(at, '5 minutes')", "a"),
        ("SELECT sum(x) OVER w FROM a WINDOW w AS (PARTITION BY y)", "a"),
        # Tables of Spark's catalog, files and generators are none of ours.
        ("SELECT * FROM db.a JOIN cat.db.b JOIN parquet.`x/y` JOIN c", "c"),
        ("SELECT * FROM range(10) r JOIN explode(array(1, 2))", ""),
        ("SELECT * FROM VALUES (1, 2) AS t(a, b)", ""),
        # A name counts once, in whatever case.
        ("SELECT * FROM A JOIN a JOIN `a`", "A"),
    ],
)
def test_the_tables_of_a_query(sql: str, names: str) -> None:
    found = sql_references(sql)
    assert found is not None
    assert [reference.name for reference in found] == names.split()


def test_a_reference_knows_its_place() -> None:
    assert sql_references("SELECT *\nFROM\n   clicks c\nJOIN `my ads` USING (id) JOIN x") == (
        Reference("clicks", 3, 4),
        Reference("my ads", 4, 6),
        Reference("x", 4, 31),
    )
    assert sql_references("SELECT * FROM `a``b` JOIN\r\n c") == (
        Reference("a`b", 1, 15),
        Reference("c", 2, 2),
    )


def test_the_first_place_of_a_name_counts() -> None:
    found = sql_references("WITH x AS (\n  SELECT * FROM a)\nSELECT * FROM x JOIN b JOIN a")
    assert found == (Reference("a", 2, 17), Reference("b", 3, 22))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM a WATERMARK at DELAY OF INTERVAL 10 MINUTES",
        "SELECT * FROM (SELECT * FROM a) WATERMARK at DELAY OF INTERVAL 1 MINUTE",
        "SELECT k:a.b FROM a",
        "SELECT * FROM STREAM a",
        "SELECT * FROM STREAM(a)",
        "SELECT * FROM my_function(TABLE(a))",
        "SELECT * FROM IDENTIFIER('a')",
        "TABLE a",
        "SELECT * FROM explode((SELECT xs FROM a))",
        "SELECT * FROM @a",
        # Spark takes these words for names of columns, or for nothing.
        "SELECT x, FROM a",
        "SELECT from FROM a",
        "SELECT DISTINCT ON (x) * FROM a",
        "SELECT * FROM a QUALIFY row_number() OVER (ORDER BY x) = 1",
        "SELECT * FROM a WHERE",
        "'",
    ],
)
def test_what_only_spark_can_read_is_not_known(sql: str) -> None:
    assert sql_references(sql) is None


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("", "no statement"),
        ("-- later", "no statement"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("INSERT INTO a SELECT * FROM b", "INSERT"),
        ("WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x", "INSERT"),
        ("CREATE OR REPLACE TEMP VIEW a AS SELECT 1", "CREATE"),
        ("DROP TABLE a", "DROP"),
        ("DELETE FROM a", "DELETE"),
        ("UPDATE a SET b = 1", "UPDATE"),
        ("MERGE INTO a USING b ON a.id = b.id WHEN MATCHED THEN DELETE", "MERGE"),
        ("ALTER TABLE a ADD COLUMN b int", "ALTER"),
        ("TRUNCATE TABLE a", "TRUNCATE"),
        ("SET spark.sql.ansi.enabled=false", "SET"),
        ("SHOW TABLES", "SHOW"),
        ("DESCRIBE a", "DESCRIBE"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("CACHE TABLE a", "CACHE"),
        ("USE db", "USE"),
    ],
)
def test_what_is_certainly_no_query(sql: str, kind: str) -> None:
    with pytest.raises(NotAQuery) as error:
        sql_references(sql)
    assert str(error.value) == kind


@given(st.text(max_size=40) | st.text("SELECT FROM a,()*';-`", max_size=40))
def test_any_text_is_read_not_known_wrong_or_no_query(sql: str) -> None:
    with contextlib.suppress(NotAQuery, NotSql):
        found = sql_references(sql)
        assert found is None or all(reference.name for reference in found)
