"""Rows and files that a files source can't read: quarantined with their place and bytes, each once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.quarantine import list_quarantines
from headwater.errors import CheckpointError, Problem, QueryFailedError
from headwater.events import Event, Notice, QueryStatus
from headwater.runtime.handles import Run
from tests.pipelines import batches, committed, put, run_until_idle, run_while, wait_for, with_avro, write

ALL = """
name: aside
sources:
  json: {connector: files, path: json, format: json, bad_rows: quarantine, max_row_bytes: 60,
         schema: {id: int not null, name: string, at: timestamp}}
  csv: {connector: files, path: csv, format: csv, header: true, bad_rows: quarantine,
        schema: {id: int not null, name: string}}
  text: {connector: files, path: text, format: text, bad_rows: quarantine, max_row_bytes: 5}
  xml: {connector: files, path: xml, format: xml, row_tag: row, bad_rows: quarantine,
        schema: {id: int, name: string}}
  parquet: {connector: files, path: parquet, format: parquet, bad_rows: quarantine,
            schema: {id: bigint not null, name: string}}
  orc: {connector: files, path: orc, format: orc, bad_rows: quarantine, schema: {id: bigint, name: string}}
  avro: {connector: files, path: avro, format: avro, bad_rows: quarantine, schema: {id: bigint, name: string}}
tables:
  good: |
    SELECT 'json' AS source, id, name FROM json UNION ALL SELECT 'csv', id, name FROM csv
    UNION ALL SELECT 'text', 0, value FROM text UNION ALL SELECT 'xml', id, name FROM xml
    UNION ALL SELECT 'parquet', id, name FROM parquet UNION ALL SELECT 'orc', id, name FROM orc
    UNION ALL SELECT 'avro', id, name FROM avro
  counted: SELECT id FROM json
sinks:
  good: {reads: good, connector: files, path: out, format: parquet}
  counted: {reads: counted, connector: files, path: counted, format: parquet}
"""

JSON = [
    b'{"id":1,"name":"owl"}',
    b'{"id":"x","name":"owl"}',
    b"{broken",
    b'{"name":"nobody"}',
    b'{"id":2}{"id":3}',
    b'{"id":4,"name":"' + b"l" * 60 + b'"}',
    b'{"id":5,"name":"jay","at":"noon"}',
    b'{"id":6},"name":"jay"',
    b'{"id":7}],[{"id":8}',
    b'{"id":9}],[',
]


def binary(spark: SparkSession, folder: Path, format: str) -> None:
    """A good file, one that is cut off, one that is none, one with another type, one without bytes."""
    rows = spark.createDataFrame([(1, "owl"), (2, "jay")], "id bigint, name string")
    for name, frame in {"good": rows, "cut": rows, "typed": rows.selectExpr("name AS id", "name")}.items():
        made = folder.parent / f"made-{format}-{name}"
        frame.coalesce(1).write.format(format).save(str(made))
        (written,) = made.glob(f"*.{format}")
        content = written.read_bytes()
        old(folder / f"{name}.{format}", content[: len(content) // 2] if name == "cut" else content)
    old(folder / f"junk.{format}", b"no such thing")
    old(folder / f"empty.{format}", b"")


def old(file: Path, content: bytes) -> None:
    """A file that was written long ago."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (1_700_000_000, 1_700_000_000))


def quarantined(spark: SparkSession, folder: Path, source: str) -> Counter[tuple[Any, ...]]:
    rows = spark.read.parquet(str(folder / ".headwater" / "quarantine" / source / "rows"))
    return Counter(
        (
            row.reason,
            row.row.file.removeprefix(f"{folder}/"),
            None if row.row.value is None else bytes(row.row.value),
        )
        for row in rows.collect()
    )


def details(spark: SparkSession, folder: Path, source: str) -> list[str]:
    rows = spark.read.parquet(str(folder / ".headwater" / "quarantine" / source / "rows"))
    return sorted(row.detail for row in rows.collect())


@pytest.mark.feature("K1.1", part="files")
def test_bad_rows_and_files_of_every_format_are_set_aside_once(spark: SparkSession, tmp_path: Path) -> None:
    with_avro(spark)
    old(tmp_path / "json" / "a b.json", b"\n".join(JSON) + b"\n")
    old(tmp_path / "csv" / "1.csv", b"id,name\n1,owl\nx,jay\n2\n3,a,b\n,jay\n")
    old(tmp_path / "csv" / "2.csv", b"name,id\njay,2\n")
    old(tmp_path / "text" / "1.txt", b"short\nmuch longer\n")
    xml = b"<rows><row><id>1</id><name>owl</name></row><row><id>x</id></row><row><id>2</row></rows>"
    old(tmp_path / "xml" / "1.xml", xml)
    for format in ("parquet", "orc", "avro"):
        binary(spark, tmp_path / format, format)
    spark.sql("SELECT CAST(NULL AS bigint) AS id, 'nobody' AS name").coalesce(1).write.parquet(
        str(tmp_path / "made")
    )
    (missing,) = (tmp_path / "made").glob("*.parquet")
    old(tmp_path / "parquet" / "missing.parquet", missing.read_bytes())
    file = write(tmp_path, ALL)
    run_until_idle(file)
    good = Counter(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    whole = [
        (format, id_, name) for format in ("parquet", "orc", "avro") for id_, name in [(1, "owl"), (2, "jay")]
    ]
    texts = [("json", 1, "owl"), ("csv", 1, "owl"), ("text", 0, "short"), ("xml", 1, "owl")]
    assert good == Counter([*whole, *texts])
    # The other query uses one column only, and has the same rows.
    assert [row.id for row in spark.read.parquet(str(tmp_path / "counted")).collect()] == [1]

    reasons = ["type_mismatch", "malformed", "missing_value", "malformed", "too_large", "type_mismatch"]
    reasons += ["malformed"] * 3
    assert quarantined(spark, tmp_path, "json") == Counter(
        (reason, "json/a b.json", text) for reason, text in zip(reasons, JSON[1:], strict=True)
    )
    assert "column id is int: x" in details(spark, tmp_path, "json")
    assert quarantined(spark, tmp_path, "csv") == Counter(
        [
            ("type_mismatch", "csv/1.csv", b"x,jay"),
            ("malformed", "csv/1.csv", b"2"),
            ("malformed", "csv/1.csv", b"3,a,b"),
            ("missing_value", "csv/1.csv", b",jay"),
            ("unreadable_file", "csv/2.csv", None),
        ]
    )
    assert quarantined(spark, tmp_path, "text") == Counter([("too_large", "text/1.txt", b"much longer")])
    assert quarantined(spark, tmp_path, "xml") == Counter(
        [
            ("type_mismatch", "xml/1.xml", b"<row><id>x</id></row>"),
            ("malformed", "xml/1.xml", b"<row><id>2</row>"),
        ]
    )
    for format in ("parquet", "orc", "avro"):
        bad: list[tuple[Any, ...]] = [
            ("unreadable_file", f"{format}/{name}.{format}", None)
            for name in ("cut", "empty", "junk", "typed")
        ]
        if format == "parquet":
            bad.append(("missing_value", "parquet/missing.parquet", b'{"name":"nobody"}'))
        assert quarantined(spark, tmp_path, format) == Counter(bad)
        assert any("id" in detail for detail in details(spark, tmp_path, format))


CHANGED = """
name: changed
sources:
  birds: {{connector: files, path: birds, format: parquet, {keys}schema: {{id: bigint, name: string}}}}
sinks:
  birds: {{reads: birds, connector: files, path: out, format: parquet}}
"""


@pytest.mark.feature("K1.1", part="files: a checkpoint from before, restarts, a mended file")
def test_a_checkpoint_goes_on_when_bad_files_are_set_aside_and_a_mended_one_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql("SELECT 1L AS id, 'owl' AS name").coalesce(1).write.parquet(str(tmp_path / "made"))
    (made,) = (tmp_path / "made").glob("*.parquet")
    old(tmp_path / "birds" / "1.parquet", made.read_bytes())
    run_until_idle(write(tmp_path, CHANGED.format(keys="")))
    old(tmp_path / "birds" / "2.parquet", made.read_bytes()[:99])
    old(tmp_path / "birds" / "3.parquet", made.read_bytes())
    file = write(tmp_path, CHANGED.format(keys="bad_rows: quarantine, clean_up: delete, "))
    for _ in range(2):
        run_until_idle(file)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2
    assert quarantined(spark, tmp_path, "birds") == Counter([("unreadable_file", "birds/2.parquet", None)])
    # A finished file went when its quarantine had read it too; what was quarantined stays.
    assert [each.name for each in (tmp_path / "birds").iterdir()] == ["2.parquet"]
    (tmp_path / "birds" / "2.parquet").write_bytes(made.read_bytes())
    run_until_idle(file)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3
    assert quarantined(spark, tmp_path, "birds") == Counter([("unreadable_file", "birds/2.parquet", None)])
    assert [(each.rows, each.pending, each.reasons, each.files) for each in list_quarantines(file)] == [
        (1, 0, {}, 1)
    ]


REQUIRED = """
name: required
sources:
  birds: {connector: files, path: birds, format: json, schema: {id: int not null}}
sinks:
  birds: {reads: birds, connector: noop}
"""


@pytest.mark.feature("K1.1", part="files: fail")
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"name":"nobody"}', "missing_value, column id"),
        # What the parts of Spark's message stand apart by may stand in a value, too.
        (r'{"id":"a\tb\nc"}', "type_mismatch, column id is int: a b c"),
    ],
)
def test_a_bad_row_fails_the_query_and_names_the_file(tmp_path: Path, row: str, reason: str) -> None:
    put(tmp_path / "birds" / "1.json", f'{{"id":1}}\n{row}\n')
    result = run_until_idle(write(tmp_path, REQUIRED))
    problem: Any = result.queries["birds"].problem
    assert isinstance(problem, Problem)
    assert problem.code == "HW-BAD-ROW"
    assert problem.params == {
        "source": "birds",
        "reason": reason,
        "where": f"{tmp_path}/birds/1.json",
    }


FOLDERS = """
name: folders
sources:
  logs: {connector: files, path: logs, format: json, bad_rows: quarantine, schema: {id: int, day: date}}
  strict: {connector: files, path: logs, format: json, schema: {id: int, day: date}}
sinks:
  logs: {reads: logs, connector: files, path: out, format: parquet}
  strict: {reads: strict, connector: noop}
"""


@pytest.mark.feature("B3.2")
def test_a_new_folder_is_read_and_one_with_another_key_is_set_aside_or_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    put(logs / "day=2026-01-01" / "1.json", '{"id":1}\n')
    events: list[Event] = []

    def steer(run: Run) -> None:
        queries = run.queries
        wait_for(lambda: queries["strict"].rows_in == queries["logs"].rows_in == 1, run)
        put(logs / "day=2026-01-02" / "2.json", '{"id":2}\n')
        wait_for(lambda: queries["strict"].rows_in == queries["logs"].rows_in == 2, run)
        put(logs / "host=a" / "3.json", '{"id":3}\n')
        wait_for(lambda: queries["strict"].status is QueryStatus.FAILED, run)
        put(logs / "day=soon" / "4.json", '{"id":4}\n')
        wait_for(lambda: queries["quarantine.logs"].rows_out == 2 and queries["logs"].rows_in == 4, run)

    with pytest.raises(QueryFailedError) as failed:
        run_while(write(tmp_path, FOLDERS), steer, events)
    assert [problem.code for problem in failed.value.problems] == ["HW-PARTITION-DIR-UNEXPECTED"]
    out = spark.read.parquet(str(tmp_path / "out"))
    assert Counter((row.id, str(row.day)) for row in out.collect()) == Counter(
        [(1, "2026-01-01"), (2, "2026-01-02")]
    )
    assert quarantined(spark, tmp_path, "logs") == Counter(
        [
            ("wrong_partition_dir", "logs/host=a/3.json", b'{"id":3}'),
            ("wrong_partition_dir", "logs/day=soon/4.json", b'{"id":4}'),
        ]
    )


@pytest.mark.feature("K1.1", part="files: another choice for bad files while a batch is unfinished")
def test_a_batch_that_was_planned_under_another_choice_goes_on_or_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql("SELECT 1L AS id, 'owl' AS name").coalesce(1).write.parquet(str(tmp_path / "made"))
    (made,) = (tmp_path / "made").glob("*.parquet")
    old(tmp_path / "birds" / "1.parquet", made.read_bytes())
    old(tmp_path / "birds" / "2 b.parquet", made.read_bytes()[:99])
    assert run_until_idle(write(tmp_path, CHANGED.format(keys=""))).exit_code == 1
    file, events = write(tmp_path, CHANGED.format(keys="bad_rows: quarantine, ")), list[Event]()
    assert run_until_idle(file, events).exit_code == 0
    said = [event.text for event in events if isinstance(event, Notice)]
    assert [text.split()[0] for text in said if text.startswith("HW-")] == ["HW-FILES-BATCH-REWRITTEN"]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1
    assert quarantined(spark, tmp_path, "birds") == Counter([("unreadable_file", "birds/2 b.parquet", None)])
    # A crash after the batch was planned and before it was committed leaves this.
    checkpoint = tmp_path / ".headwater" / "checkpoints" / "birds"
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    (tmp_path / "out" / "_spark_metadata" / "0").unlink()
    with pytest.raises(CheckpointError) as refused:
        run_until_idle(write(tmp_path, CHANGED.format(keys="")))
    assert [(problem.code, problem.params["bad_rows"]) for problem in refused.value.problems] == [
        ("HW-FILES-BATCH-PENDING", "fail")
    ]
    # A file that could be opened was damaged before the batch was committed.
    old(tmp_path / "birds" / "1.parquet", made.read_bytes()[:99])
    assert run_until_idle(write(tmp_path, CHANGED.format(keys="bad_rows: quarantine, "))).exit_code == 0
    assert spark.read.schema("id bigint, name string").parquet(str(tmp_path / "out")).count() == 0
    assert quarantined(spark, tmp_path, "birds") == Counter(
        [("unreadable_file", f"birds/{name}.parquet", None) for name in ("1", "2 b")]
    )


SEVERAL = """
name: several
sources:
  birds: {{connector: files, path: birds, format: csv, header: true, bad_rows: quarantine,
          schema: {{id: int, name: string}}}}
sinks:
  stored: {{reads: birds, connector: files, path: out, format: json}}
  {more}
"""
MEMORY = "shown: {reads: birds, connector: memory}"
LATER = "later: {reads: birds, connector: files, path: later, format: json}"


@pytest.mark.feature("K1.1", part="files: each query reads each file once, and a new one reads all of them")
def test_a_query_that_starts_from_scratch_is_shown_what_the_others_have_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    listed = tmp_path / ".headwater" / "validated_files" / "birds" / "0" / "_spark_metadata" / "0"

    def rows_in(more: str, query: str) -> int:
        events: list[Event] = []
        assert run_until_idle(write(tmp_path, SEVERAL.format(more=more)), events).exit_code == 0
        return sum(batch.rows_in for batch in batches(events, query))

    old(tmp_path / "birds" / "1.csv", b"id,name\n1,owl\n")
    old(tmp_path / "birds" / "2.csv", b"name,id\njay,2\n")
    assert rows_in(MEMORY, "shown") == 2
    old(tmp_path / "birds" / "3.csv", b"id,name\n3,tit\n")
    # The memory table was lost with its process, so its query also reads the first files again.
    assert rows_in(MEMORY, "shown") == 3
    # Every query that is left has read every file.
    assert rows_in("", "stored") == 0
    assert listed.read_text() == "v1"
    assert rows_in(LATER, "later") == 3
    assert committed(tmp_path / "out") == committed(tmp_path / "later") == Counter([1, 3])
    assert quarantined(spark, tmp_path, "birds") == Counter([("unreadable_file", "birds/2.csv", None)])
