"""Queries from outside over what the sinks of a running pipeline have written so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import headwater as hw
from headwater.engine.sql_tables import SqlTables
from headwater.engine.sql_values import within
from headwater.errors import UsageError
from tests.pipelines import feed, wait_for

CONF = {"spark.sql.streaming.pollingDelay": "100ms"}
SECONDS = 60.0
SLOW = "SELECT sum(id % 7) FROM range(1000000000000000)"
"""It takes weeks, in one job without a broadcast, which ends as soon as it is canceled."""


def words(*texts: str) -> list[dict[str, str]]:
    return [{"word": text} for text in texts]


def shout(text: str) -> str:
    return text.upper()


def pipeline(folder: Path, name: str = "words") -> hw.Pipeline:
    p = hw.Pipeline(name, run_dir=folder / "run")
    p.source(
        "words",
        hw.files(path=str(folder / "in"), format="json", schema="word string not null"),
        bad_rows="quarantine",
    )
    p.function("shout", python=shout, returns="string")
    p.table("counts", sql="SELECT word, count(*) AS n FROM words GROUP BY word")
    p.table("sized", sql="SELECT length(word) AS size, word, substr(word, 1, 1) AS letter FROM words")
    p.sink("words", hw.memory(), reads="sized")
    p.sink("changed", hw.memory(), reads="counts", mode="update")
    p.sink("totals", hw.memory(), reads="counts", mode="complete")
    p.sink("parts", hw.files(path=str(folder / "out"), format="json", partition_by=["letter"]), reads="sized")
    p.sink("nowhere", hw.noop(), reads="words")
    return p


def tables_of(run: hw.Run) -> SqlTables:
    return run._supervisor.tables


def rows(tables: SqlTables, sql: str) -> Counter[tuple[Any, ...]]:
    result = tables.rows(sql, seconds=SECONDS)
    assert not result.truncated
    return Counter(result.rows)


def refused(tables: SqlTables, sql: str, **limits: Any) -> tuple[str, dict[str, object]]:
    with pytest.raises(UsageError) as caught:
        tables.rows(sql, **{"seconds": SECONDS, **limits})
    (problem,) = caught.value.problems
    assert problem.message
    assert problem.hint
    return problem.code, dict(problem.params)


@pytest.mark.feature("D6", part="read-only SQL over all readable sinks while they run")
def test_the_rows_of_running_sinks_are_queried(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pipeline(tmp_path).start(conf=CONF) as run:
        tables = tables_of(run)
        # Nothing is written yet; the columns are those of the query, in its order.
        empty = tables.rows("SELECT * FROM parts", seconds=SECONDS)
        assert empty.to_json() == {
            "columns": [
                {"name": "size", "type": "int"},
                {"name": "word", "type": "string"},
                {"name": "letter", "type": "string"},
            ],
            "rows": [],
            "truncated": False,
        }
        assert rows(tables, "SELECT * FROM words") == Counter()
        feed(tmp_path / "in", "1", [*words("ant", "bee", "ant"), {"wrod": "x"}], at=1000)
        assert run.wait_idle(SECONDS)
        assert rows(tables, "SELECT * FROM words") == Counter({(3, "ant", "a"): 2, (3, "bee", "b"): 1})
        assert rows(tables, "SELECT * FROM parts") == Counter({(3, "ant", "a"): 2, (3, "bee", "b"): 1})
        assert rows(tables, "SELECT reason FROM `quarantine.words`") == Counter({("missing_value",): 1})
        feed(tmp_path / "in", "2", words("bee"), at=1001)
        assert run.wait_idle(SECONDS)
        assert rows(tables, "SELECT word, n FROM changed") == Counter([("ant", 2), ("bee", 1), ("bee", 2)])
        assert rows(tables, "SELECT word, n FROM Totals") == Counter([("ant", 2), ("bee", 2)])
        assert rows(tables, "SELECT letter, count(*) FROM parts GROUP BY letter") == Counter(
            [("a", 2), ("b", 2)]
        )
        # Subqueries, WITH, VALUES, joins of both kinds of sink, and a function of the pipeline.
        assert rows(
            tables,
            "WITH big AS (SELECT word, n FROM totals WHERE n IN (SELECT max(n) FROM totals)) "
            "SELECT DISTINCT shout(word), size, v FROM big JOIN parts USING (word) "
            "JOIN (VALUES ('b', 7)) AS x(letter, v) USING (letter)",
        ) == Counter([("BEE", 3, 7)])
        assert rows(tables, "VALUES (1), (2)") == Counter([(1,), (2,)])
        assert Counter(map(tuple, run.sql("SELECT * FROM parts WHERE letter = 'b'").collect())) == Counter(
            {(3, "bee", "b"): 2}
        )
    run.raise_for_failure()


@pytest.mark.feature("D6", part="the first query is as fast as others")
def test_the_first_query_is_prepared_without_any_query(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    feed(tmp_path / "in", "1", words("ant"))
    p = hw.Pipeline("words", run_dir=tmp_path / "run")
    p.source("words", hw.files(path=str(tmp_path / "in"), format="json", schema="word string"))
    p.sink("words", hw.memory(), reads="words")
    answered: list[str] = []
    answer = SqlTables._answer

    def note(tables: SqlTables, sql: str, *limits: Any) -> Any:
        found = answer(tables, sql, *limits)
        answered.append(sql)
        return found

    monkeypatch.setattr(SqlTables, "_answer", note)
    with p.start(conf=CONF) as run:
        tables = tables_of(run)
        wait_for(lambda: len(answered) == 2, run)
        # A row of the table, and no table.
        assert ["`words` LIMIT 1" in sql for sql in answered] == [True, False]
        prepared = tables._read_only_session
        assert rows(tables, "SELECT word FROM words") == Counter([("ant",)])
        assert tables._read_only_session is prepared
    run.raise_for_failure()


READABLE = "words, changed, totals, parts, `quarantine.words`"


@pytest.fixture(scope="module")
def shared(context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[hw.Run, Path]]:
    """A run whose rows stay the same."""
    folder = tmp_path_factory.mktemp("sql")
    feed(folder / "in", "1", words("ant", "bee", "ant"), at=1000)
    with pipeline(folder, "shared").start(conf=CONF) as run:
        assert run.wait_idle(SECONDS)
        yield run, folder
        run.raise_for_failure()


@pytest.mark.feature("D6", part="a statement that is not a query is refused")
@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("INSERT INTO words VALUES (1, 'a', 'a')", "INSERT"),
        (
            "INSERT OVERWRITE DIRECTORY '{folder}/stolen' USING json SELECT * FROM words",
            "INSERT (InsertIntoDir)",
        ),
        ("FROM words INSERT INTO a SELECT word INSERT INTO b SELECT word", "FROM (InsertIntoStatement)"),
        ("WITH q AS (SELECT 1 AS n) INSERT INTO words SELECT * FROM q", "INSERT"),
        ("CREATE TABLE stolen AS SELECT * FROM words", "CREATE"),
        ("CREATE OR REPLACE TEMP VIEW words AS SELECT 1", "CREATE"),
        ("DROP VIEW words", "DROP"),
        ("MERGE INTO words USING totals ON true WHEN MATCHED THEN DELETE", "MERGE"),
        ("DELETE FROM words", "DELETE"),
        ("CALL system.run()", "CALL"),
        ("SET spark.sql.shuffle.partitions = 1", "SET"),
        ("RESET", "RESET (ResetCommand)"),
        ("USE other", "USE"),
        ("SHOW TABLES", "SHOW"),
        ("EXPLAIN SELECT * FROM words", "EXPLAIN"),
        ("CACHE TABLE words", "CACHE"),
        ("ADD JAR '{folder}/x.jar'", "ADD JAR"),
        ("EXECUTE IMMEDIATE 'DROP VIEW words'", "EXECUTE"),
        ("BEGIN SELECT 1; END", "BEGIN (CompoundBody)"),
        ("DECLARE VARIABLE x INT", "DECLARE"),
        (
            "SELECT TRANSFORM(word) USING 'touch {folder}/stolen' AS (x string) FROM words",
            "SELECT (ScriptTransformation)",
        ),
        ("SELECT * FROM words VERSION AS OF 1", "SELECT (RelationTimeTravel)"),
        ("SELECT * FROM IDENTIFIER('words')", "SELECT (PlanWithUnresolvedIdentifier)"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT 1; DROP VIEW words", "2 statements"),
        ("", "no statement"),
    ],
)
def test_only_one_query_is_accepted(shared: tuple[hw.Run, Path], sql: str, what: str) -> None:
    run, folder = shared
    tables = tables_of(run)
    settings = tables.spark.conf.getAll
    assert refused(tables, sql.format(folder=folder)) == ("HW-SQL-NOT-READ-ONLY", {"what": what})
    assert tables.spark.conf.getAll == settings
    assert not (folder / "stolen").exists()


@pytest.mark.feature("D6", part="nothing but the sinks can be read")
@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT * FROM cuonts", "cuonts"),
        # A table and a sink that no one can read; the source `words` is hidden by the sink.
        ("SELECT * FROM counts", "counts"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT * FROM json.`{folder}/in`", "json.{folder}/in"),
        ("SELECT (SELECT count(*) FROM text.`{folder}/in`)", "text.{folder}/in"),
        ("SELECT * FROM default.words", "default.words"),
        ("SELECT * FROM spark_catalog.default.words", "spark_catalog.default.words"),
        ("SELECT * FROM quarantine.words", "quarantine.words"),
        # The WITH clause is not in scope there, so the name is that of a table.
        ("SELECT * FROM (WITH counts AS (SELECT 1) SELECT * FROM counts) JOIN counts", "counts"),
    ],
)
def test_only_sinks_are_read(shared: tuple[hw.Run, Path], sql: str, name: str) -> None:
    run, folder = shared
    assert refused(tables_of(run), sql.format(folder=folder)) == (
        "HW-SQL-TABLE-UNREADABLE",
        {"name": name.format(folder=folder), "tables": READABLE},
    )


@pytest.mark.feature("D6", part="names of WITH clauses")
@pytest.mark.parametrize(
    ("sql", "result"),
    [
        ("WITH q AS (SELECT size FROM words) SELECT max(size) FROM q", 3),
        # One that reads the ones before it, in other cases.
        ("WITH a AS (SELECT size FROM words), b AS (SELECT * FROM A) SELECT count(*) FROM B", 3),
        # One with the name of a sink, which it reads itself.
        ("WITH parts AS (SELECT * FROM parts WHERE word = 'ant') SELECT count(*) FROM parts", 2),
        ("SELECT count(*) FROM (WITH words AS (SELECT 1) SELECT * FROM words) JOIN words", 3),
        ("WITH q AS (SELECT 1 AS n) SELECT (WITH q AS (SELECT 2 AS n) SELECT n FROM q) + n FROM q", 3),
        ("WITH q AS (WITH r AS (SELECT word FROM totals) SELECT * FROM r) SELECT count(*) FROM q", 2),
        ("SELECT (SELECT count(*) FROM q) FROM (WITH q AS (SELECT 1) SELECT 1 FROM q) x", None),
        (
            "WITH RECURSIVE q(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 5) SELECT sum(n) FROM q",
            15,
        ),
    ],
)
def test_with_clauses_name_what_they_define(
    shared: tuple[hw.Run, Path], sql: str, result: int | None
) -> None:
    tables = tables_of(shared[0])
    if result is None:
        # Out of scope there.
        assert refused(tables, sql) == ("HW-SQL-TABLE-UNREADABLE", {"name": "q", "tables": READABLE})
    else:
        assert rows(tables, sql) == Counter([(result,)])


JAVA = "it calls any Java method"
FILES = "it can read any file, which its arguments name"
METHOD = "('java.lang.System', 'getProperty', 'user.name')"


@pytest.mark.feature("D6", part="functions that reach beyond Spark are refused")
@pytest.mark.parametrize(
    ("sql", "name", "reason"),
    [
        (f"SELECT reflect{METHOD}", "reflect", JAVA),
        (f"SELECT Java_Method{METHOD}", "java_method", JAVA),
        (f"SELECT try_reflect{METHOD}", "try_reflect", JAVA),
        (f"VALUES (builtin.reflect{METHOD})", "reflect", JAVA),
        (f"SELECT row_number() OVER w FROM words WINDOW w AS (ORDER BY reflect{METHOD})", "reflect", JAVA),
        (f"SELECT transform(array(1), x -> reflect{METHOD})", "reflect", JAVA),
        ("SELECT from_protobuf(X'00', 'A', '{folder}/descriptor')", "from_protobuf", FILES),
        ("SELECT to_protobuf(named_struct('a', 1), 'A', '{folder}/descriptor')", "to_protobuf", FILES),
        ("SELECT from_avro(X'00', '\"int\"', map('avroSchemaUrl', '{folder}/x'))", "from_avro", FILES),
        ("SELECT schema_of_avro('\"int\"', map('avroSchemaUrl', '{folder}/x'))", "schema_of_avro", FILES),
        (
            "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{folder}/x'))",
            "from_xml",
            FILES,
        ),
        ("SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '{folder}/x'))", "schema_of_xml", FILES),
        *(
            (f"SELECT {name}('<!DOCTYPE a SYSTEM \"file://{{folder}}/x\"><a>1</a>', 'a')", name, FILES)
            for name in (
                "xpath",
                "xpath_boolean",
                "xpath_double",
                "xpath_float",
                "xpath_int",
                "xpath_long",
                "xpath_number",
                "xpath_short",
                "xpath_string",
            )
        ),
        (
            "SELECT * FROM python_worker_logs()",
            "python_worker_logs",
            "it reads the logs of the run's Python processes",
        ),
    ],
)
def test_functions_that_reach_beyond_the_tables_are_refused(
    shared: tuple[hw.Run, Path], sql: str, name: str, reason: str
) -> None:
    run, folder = shared
    assert refused(tables_of(run), sql.replace("{folder}", str(folder))) == (
        "HW-SQL-FUNCTION-FORBIDDEN",
        {"name": name, "reason": reason},
    )


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT * FROM read_files('{folder}/in')", "`read_files`"),
        ("SELECT wrod FROM words", "`wrod`"),
        ("SELECT 1 +", "end of input"),
        ("SELECT 1 / 0", "Division by zero"),
        ("SELECT '${{env:HOME}}' + nothing", "`nothing`"),
    ],
)
def test_what_spark_rejects_is_one_sentence(shared: tuple[hw.Run, Path], sql: str, says: str) -> None:
    run, folder = shared
    code, params = refused(tables_of(run), sql.format(folder=folder))
    assert (code, params["tables"]) == ("HW-RUN-SQL-INVALID", READABLE)
    assert says in str(params["says"])
    assert "\n" not in str(params["says"])


def test_a_text_has_no_variables(shared: tuple[hw.Run, Path]) -> None:
    said = ("${env:HOME}", "${spark.app.name}")
    assert rows(tables_of(shared[0]), "SELECT '${env:HOME}', '${spark.app.name}'") == Counter([said])


@pytest.mark.feature("D6", part="limits of rows and of bytes")
def test_a_long_result_is_cut_and_a_large_one_is_refused(shared: tuple[hw.Run, Path]) -> None:
    tables = tables_of(shared[0])
    result = tables.rows("SELECT id FROM range(1000000) ORDER BY id DESC", max_rows=2, seconds=SECONDS)
    assert (result.rows, result.truncated) == (((999999,), (999998,)), True)
    assert tables.rows("SELECT id FROM range(2)", max_rows=2, seconds=SECONDS).truncated is False
    large = "HW-SQL-RESULT-TOO-LARGE", {"size": "16 MB"}
    assert refused(tables, "SELECT repeat('x', 1000000) FROM range(20)") == large
    assert refused(tables, "SELECT 'small' UNION ALL SELECT repeat('x', 17000000)") == large
    assert refused(tables, "SELECT sequence(1, 3000000), id FROM range(2)") == large
    # Text that is much longer as JSON.
    assert refused(tables, "SELECT repeat(char(1), 1000000) FROM range(4)") == large
    assert len(tables.rows("SELECT repeat('x', 1000000) FROM range(15)", seconds=SECONDS).rows) == 15


def test_only_the_rows_within_a_limit_of_bytes_reach_the_driver(spark: SparkSession) -> None:
    texts = spark.sql(
        "SELECT repeat('x', n) AS text FROM VALUES (0, 10), (1, 90), (2, 20), (3, 1) AS t(at, n) ORDER BY at"
    )
    # A row is its text in braces: 12 bytes, 92, 22 and 3.
    found = [row and len(row.text) for (row,) in within(texts, 4, 104).collect()]
    assert found == [10, 90, None, None]
    assert [row and len(row.text) for (row,) in within(texts, 4, 50).collect()] == [
        10,
        None,
        None,
        None,
    ]
    assert [row and len(row.text) for (row,) in within(texts, 4, 129).collect()] == [10, 90, 20, 1]


def test_numbers_need_no_window_unless_they_are_many(spark: SparkSession) -> None:
    def has_window(count: int, max_bytes: int) -> bool:
        frame = spark.sql("SELECT id, id * 2 AS twice FROM range(3)")
        found = within(frame, count, max_bytes)
        # Each row has a text of up to 6 bytes.
        assert [tuple(row) for (row,) in found.collect()] == [(0, 0), (1, 2), (2, 4)][:count]
        return "Window" in found._jdf.queryExecution().toString()

    assert [has_window(3, each) for each in (300, 299)] == [False, True]


@pytest.mark.feature("D6", part="the limit of time")
def test_a_slow_query_is_canceled_and_leaves_the_cluster_free(shared: tuple[hw.Run, Path]) -> None:
    run, _ = shared
    tables = tables_of(run)
    assert refused(tables, SLOW, seconds=1.5) == ("HW-SQL-TIMEOUT", {"seconds": "1.5"})
    tracker = tables.spark.sparkContext.statusTracker()
    wait_for(lambda: not tracker.getActiveJobsIds(), run)
    assert rows(tables, "SELECT count(*) FROM words") == Counter([(3,)])


@pytest.mark.feature("D6", part="a slow query does not stop the pipeline")
def test_batches_commit_while_a_slow_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pipeline(tmp_path).start(conf=CONF) as run, ThreadPoolExecutor(1) as client:
        tables, context = tables_of(run), spark.sparkContext
        assert run.wait_idle(SECONDS)
        slow = client.submit(refused, tables, SLOW, seconds=SECONDS)
        wait_for(lambda: bool(context.statusTracker().getActiveJobsIds()), run)
        feed(tmp_path / "in", "1", words("ant"))
        assert run.wait_idle(SECONDS)
        assert not slow.done()
        assert [tuple(row) for row in run.sql("SELECT word FROM words").collect()] == [("ant",)]
        context.cancelAllJobs()
        assert slow.result(SECONDS)[0] == "HW-RUN-SQL-INVALID"
    run.raise_for_failure()


@pytest.mark.feature("D6", part="no rows of a batch that is not committed")
def test_a_batch_is_visible_when_it_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    go, out = tmp_path / "go", tmp_path / "out"

    def hold(word: str) -> str:
        while word == "late" and not go.exists():
            time.sleep(0.01)
        return word

    feed(tmp_path / "in", "1", words("ant"), at=1000)
    feed(tmp_path / "in", "2", words("late"), at=1001)
    p = hw.Pipeline("words", run_dir=tmp_path / "run")
    p.source("words", hw.files(path=str(tmp_path / "in"), format="json", schema="word string"))
    p.function("hold", python=hold, returns="string")
    p.table("held", sql="SELECT hold(word) AS word FROM words")
    p.sink("held", hw.files(path=str(out), format="json"), reads="held")
    with p.start(conf=CONF) as run:
        # The first task has written its file, and the second one waits.
        wait_for(lambda: any(file.stat().st_size for file in out.glob("part-*")), run)
        assert rows(tables_of(run), "SELECT * FROM held") == Counter()
        go.touch()
        assert run.wait_idle(SECONDS)
        assert rows(tables_of(run), "SELECT * FROM held") == Counter([("ant",), ("late",)])
    run.raise_for_failure()


@pytest.mark.feature("D6", part="several clients")
def test_queries_wait_for_each_other_and_too_many_are_refused(shared: tuple[hw.Run, Path]) -> None:
    run, _ = shared
    tables = tables_of(run)
    with ThreadPoolExecutor(8) as clients:
        both = [clients.submit(rows, tables, f"SELECT count(*) + {n} FROM words") for n in range(2)]
        assert [each.result(SECONDS) for each in both] == [Counter([(3,)]), Counter([(4,)])]
        # One runs and four wait for it, until their time is up.
        slow = [clients.submit(refused, tables, SLOW, seconds=4) for _ in range(5)]
        wait_for(lambda: tables._slots._value == 0, run)
        assert refused(tables, "SELECT 1") == ("HW-SQL-BUSY", {"count": 5})
        assert {each.result(SECONDS)[0] for each in slow} == {"HW-SQL-TIMEOUT"}
    wait_for(lambda: tables._slots._value == 5, run)
    assert rows(tables, "SELECT 1") == Counter([(1,)])


def test_values_are_plain_json(shared: tuple[hw.Run, Path]) -> None:
    result = tables_of(shared[0]).rows(
        """SELECT 1 AS n, CAST(NULL AS int) AS n, true AS yes, 1.50 AS price, double('NaN') AS nan, 0.5D AS half,
            TIMESTAMP '2026-01-02 03:04:05.678 Europe/Berlin' AS at, DATE '2026-01-02' AS day,
            TIMESTAMP_NTZ '2026-01-02 03:04:05' AS local, X'00FF' AS bytes, INTERVAL '1 02' DAY TO HOUR AS took,
            array(1, NULL) AS list, map('a', 1.5, 'b', NULL) AS named, map(1, 'x') AS numbered,
            named_struct('x', 1, 'y', array(named_struct('at', TIMESTAMP '2026-01-02 00:00:00 UTC'))) AS inner,
            parse_json('{"a": [1]}') AS variant""",
        seconds=SECONDS,
    )
    assert result.to_json() == {
        "columns": [
            {"name": name, "type": type_}
            for name, type_ in (
                ("n", "int"),
                ("n", "int"),
                ("yes", "boolean"),
                ("price", "decimal(3,2)"),
                ("nan", "double"),
                ("half", "double"),
                ("at", "timestamp"),
                ("day", "date"),
                ("local", "timestamp_ntz"),
                ("bytes", "binary"),
                ("took", "interval day to hour"),
                ("list", "array<int>"),
                ("named", "map<string,decimal(2,1)>"),
                ("numbered", "map<int,string>"),
                ("inner", "struct<x:int,y:array<struct<at:timestamp>>>"),
                ("variant", "variant"),
            )
        ],
        "rows": [
            [
                1,
                None,
                True,
                "1.50",
                "NaN",
                0.5,
                "2026-01-02T02:04:05.678000Z",
                "2026-01-02",
                "2026-01-02T03:04:05",
                "AP8=",
                "INTERVAL '1 02' DAY TO HOUR",
                [1, None],
                {"a": "1.5", "b": None},
                {"1": "x"},
                {"x": 1, "y": [{"at": "2026-01-02T00:00:00Z"}]},
                {"a": [1]},
            ]
        ],
        "truncated": False,
    }
