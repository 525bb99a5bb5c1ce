"""The tables that a SQL text reads are those of Spark's own parser, or not known offline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from headwater.api.check import check
from headwater.engine.plan_record import parsed_references
from headwater.errors import PipelineError
from headwater.plan.graph import NotAQuery, Reference, sql_references
from headwater.plan.sql_syntax import _QUERIES, _STATEMENTS
from headwater.spec import TableSpec
from tests.docs.pages import DOCS, ROOT, blocks
from tests.pipelines import write
from tests.statements import GOOD, WRONG

READ = [
    "SELECT 1",
    "FROM a SELECT x",
    "FROM a |> JOIN b USING (id) |> WHERE x IN (SELECT y FROM c) |> AGGREGATE count(*) GROUP BY id",
    "SELECT * FROM a, b JOIN c USING (id) LEFT ANTI JOIN d ON a.x = d.x; -- the end",
    "SELECT * FROM a NATURAL JOIN b CROSS JOIN c FULL OUTER JOIN d ON true LEFT SEMI JOIN e ON true",
    "SELECT * FROM (a JOIN b ON a.x = b.x) JOIN (c) ON true, ((d))",
    "SELECT 1 FROM a x JOIN b x JOIN (SELECT * FROM c) x JOIN db.a",
    "(SELECT * FROM a) UNION (SELECT * FROM b) EXCEPT SELECT * FROM c INTERSECT SELECT * FROM d",
    # Subqueries.
    "SELECT (SELECT max(x) FROM a) AS m, CASE WHEN EXISTS (SELECT 1 FROM b) THEN 1 END FROM a",
    "SELECT * FROM a WHERE x > (SELECT avg(x) FROM (SELECT x FROM c JOIN (SELECT * FROM d) e USING (x)) f)",
    "SELECT x FROM a GROUP BY x HAVING x > (SELECT max(n) FROM b) ORDER BY (SELECT max(y) FROM c) LIMIT 3",
    "SELECT * FROM a JOIN b ON a.x = b.x AND a.y IN (SELECT y FROM c), LATERAL (SELECT * FROM d)",
    "SELECT * FROM a x WHERE EXISTS (SELECT 1 FROM x)",
    # WITH, from where its names are given and no further.
    "WITH x AS (SELECT 1), y AS (SELECT * FROM x JOIN a) SELECT * FROM y JOIN Y z JOIN b",
    "WITH a AS (SELECT * FROM a) SELECT * FROM a",
    "WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x",
    "(WITH x AS (SELECT * FROM a) SELECT * FROM x) UNION ALL SELECT * FROM x",
    "WITH x AS (WITH y AS (SELECT * FROM b) SELECT * FROM y JOIN c) SELECT * FROM x JOIN y",
    "WITH x AS (SELECT * FROM a) SELECT (SELECT max(v) FROM X) AS m, 1 IN (SELECT v FROM b) AS n FROM db.x",
    "WITH x AS (SELECT * FROM a), y AS (WITH x AS (SELECT * FROM b) SELECT * FROM x) SELECT * FROM x JOIN y",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "WITH RECURSIVE r AS (SELECT * FROM s UNION ALL SELECT s.* FROM s JOIN R ON s.b = r.id) SELECT * FROM r",
    "WITH RECURSIVE x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x",
    # Names: quoted, of several parts, of keywords, in whatever case.
    "SELECT * FROM A JOIN a JOIN `a` JOIN `my ads` JOIN `a``b` JOIN `db.a`",
    "SELECT * FROM db.a JOIN cat.db.b JOIN parquet.`x/y` JOIN `db`.`b` JOIN c",
    "SELECT * FROM date JOIN user JOIN rows JOIN first JOIN source JOIN window JOIN stream",
    # What is no table.
    "SELECT word FROM a LATERAL VIEW OUTER posexplode(xs) t AS i, word LATERAL VIEW explode(ys) u AS y",
    "SELECT * FROM a, LATERAL explode(xs) AS t(x) JOIN VALUES (1, (SELECT max(x) FROM b)) AS v(a, b)",
    "SELECT * FROM range(0, (SELECT max(x) FROM a)) r JOIN explode(array(1, 2))",
    "SELECT /*+ BROADCAST(b), MERGE(x) */ * FROM a x -- FROM c\nJOIN /* JOIN d */ b",
    "SELECT 'FROM b', \"FROM c\", `FROM d`, 'it\\'s\nFROM e' FROM a",
    # Clauses.
    "SELECT window.start, count(*) FROM a GROUP BY window(at, '10 minutes', '5 minutes')",
    "SELECT window(at, '1 hour').end, count(*) FROM a GROUP BY window (at, '1 hour'), CUBE (x, y)",
    "SELECT count(*) FILTER (WHERE x IN (SELECT 1 FROM b)) FROM a GROUP BY session_window(at, '5 minutes')",
    "SELECT sum(x) OVER w, max(x) OVER (ORDER BY y) FROM a WINDOW w AS (PARTITION BY y)",
    "SELECT * FROM a PIVOT (sum(x) AS s FOR y IN ('p' AS p, 'q' AS q))",
    "SELECT * FROM (SELECT * FROM a) UNPIVOT (v FOR n IN (x, y)) u JOIN b",
    "SELECT * FROM a TABLESAMPLE (10 PERCENT) s JOIN b VERSION AS OF 3",
    "SELECT EXTRACT(hour FROM at), trim(BOTH ' ' FROM s), x IS DISTINCT FROM y, x::int FROM a",
    "SELECT TRANSFORM(x, y) USING 'cat' AS (z STRING) FROM (SELECT * FROM a) q",
]
NOT_KNOWN = [
    "SELECT * FROM a WATERMARK at DELAY OF INTERVAL 10 MINUTES AS x JOIN b",
    "SELECT * FROM (SELECT * FROM a) WATERMARK at DELAY OF INTERVAL 1 MINUTE",
    "SELECT k:a.b FROM a",
    "SELECT * FROM STREAM a JOIN STREAM(b)",
    "SELECT * FROM my_function(TABLE(a))",
    "SELECT * FROM explode((SELECT collect_list(x) FROM a))",
    "SELECT * FROM IDENTIFIER('a') JOIN b",
    "SELECT * FROM a UNION ALL TABLE b",
    "SELECT x, FROM a",
    "SELECT from FROM a",
    "SELECT DISTINCT ON (x) * FROM a",
]
STATEMENTS = [
    "INSERT INTO a SELECT * FROM b",
    "WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x",
    "FROM a INSERT INTO b SELECT * INSERT INTO c SELECT *",
    "INSERT OVERWRITE DIRECTORY '/tmp/a' USING json SELECT * FROM a",
    "DROP TABLE a",
    "SET x = 1",
    "CALL a.b(1)",
    "EXECUTE IMMEDIATE 'DROP TABLE a'",
]


@pytest.fixture(scope="module")
def spark(context: SparkContext) -> SparkSession:
    return SparkSession(context).newSession()


def by_spark(spark: SparkSession, sql: str) -> set[Reference] | None:
    """None where Spark can't read it."""
    try:
        return set(parsed_references(spark, TableSpec(name="t", sql=sql)))
    except ParseException:
        return None


def shown_sql() -> Iterator[tuple[str, str]]:
    """Every SQL table of the examples, the demo and the docs, with its place."""
    files = [*sorted((ROOT / "examples").glob("*/*.yml")), ROOT / "demo" / "pipeline.yml"]
    texts = [(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")) for file in files]
    for page in sorted(DOCS.rglob("*.md")):
        texts += [(str(block), block.text) for block in blocks(page) if block.kind == "yaml"]
    for place, text in texts:
        # A page may show the end of a file only.
        _, key, below = f"\n{text}".partition("\ntables:\n")
        declared: Any = YAML(typ="safe").load(key + below) or {}
        for name, table in declared.get("tables", {}).items():
            sql = table.get("sql") if isinstance(table, dict) else table
            if isinstance(sql, str):
                yield f"{place} {name}", sql


def test_what_is_read_in_every_example_is_what_spark_reads(spark: SparkSession) -> None:
    known = {}
    for place, sql in shown_sql():
        offline, told = sql_references(sql), by_spark(spark, sql)
        known[place] = offline is not None
        if offline is not None and told is not None:
            assert set(offline) == told, place
    # Only the watermark of SQL's own is for Spark alone to read.
    examples = {place: each for place, each in known.items() if not place.startswith("docs/")}
    assert len(examples) > 40
    assert all(examples.values()), examples
    assert len(known) > len(examples) + 40


@pytest.mark.parametrize("sql", READ)
def test_what_is_known_is_what_spark_reads(spark: SparkSession, sql: str) -> None:
    offline = sql_references(sql)
    assert offline is not None
    assert {(each.name.lower(), *each.place()) for each in offline} == {
        (each.name.lower(), *each.place()) for each in by_spark(spark, sql) or ()
    }


@pytest.mark.parametrize("sql", NOT_KNOWN)
def test_what_only_spark_reads_is_not_known_offline(spark: SparkSession, sql: str) -> None:
    assert sql_references(sql) is None
    assert by_spark(spark, sql) is not None


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_would_act_is_refused_by_both(spark: SparkSession, sql: str) -> None:
    with pytest.raises(PipelineError) as refused:
        by_spark(spark, sql)
    assert [problem.code for problem in refused.value.problems] == ["HW-SQL-NOT-A-QUERY"]
    with contextlib.suppress(NotAQuery):
        assert sql_references(sql) is None


def test_a_statement_behind_a_with_is_never_run(context: SparkContext, tmp_path: Path) -> None:
    into = tmp_path / "written"
    sql = f"WITH x AS (SELECT 1 AS n) INSERT OVERWRITE DIRECTORY '{into}' USING json SELECT * FROM x"
    sources, sinks = "sources: {a: {connector: rate}}", "sinks: {out: {reads: t, connector: noop}}"
    result = check(write(tmp_path, f'name: p\n{sources}\ntables: {{t: "{sql}"}}\n{sinks}\n'))
    assert [each.problem.code for each in result.errors] == ["HW-SQL-NOT-A-QUERY"]
    assert not into.exists()


def test_what_is_certainly_wrong_is_refused_by_spark_and_what_it_takes_is_not(context: SparkContext) -> None:
    parser = SparkSession(context)._jsparkSession.sessionState().sqlParser()
    for sql, *_ in WRONG:
        with pytest.raises(ParseException):
            parser.parsePlan(sql)
    for sql in GOOD:
        parser.parsePlan(sql)


def test_every_word_that_begins_a_statement_of_spark_is_known(context: SparkContext) -> None:
    jvm: Any = SparkSession(context)._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser.SqlBaseParser
    rules, words = parser._ATN.getClass().getField("ruleToStartState").get(parser._ATN), parser.VOCABULARY
    for rule in (parser.RULE_compoundOrSingleStatement, parser.RULE_query):
        following = parser._ATN.nextTokens(rules[rule]).toList()
        begin = {words.getSymbolicName(following[index]) for index in range(following.size())}
        assert begin
        punctuation = {"LEFT_PAREN", "SEMICOLON", "EOF", "EPSILON", None}
        assert begin - punctuation <= {*_QUERIES, *_STATEMENTS}
