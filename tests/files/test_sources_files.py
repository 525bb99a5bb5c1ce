"""Files as a source: formats, schemas, paths, and how much of them one batch takes."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.api.explain import explain
from headwater.checkpoint import Checkpoint, LocalStore
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError
from headwater.events import Event
from tests.pipelines import batches, capture, captured, feed, put, rows_of, run_until_idle, with_avro, write

FORMATS = """
name: formats
sources:
  lines: {connector: files, path: text, format: text, options: {lineSep: ";"}}
  table:
    connector: files
    path: csv
    format: csv
    schema: {id: int, name: string, day: date}
    header: true
    delimiter: "|"
    encoding: ISO-8859-1
    date_format: dd/MM/yyyy
    options: {nullValue: "-"}
  documents:
    connector: files
    path: json
    format: json
    schema: {id: int, at: timestamp}
    multi_line: true
    timestamp_format: dd.MM.yyyy HH:mm
    options: {allowComments: true}
  marked:
    connector: files
    path: xml
    format: xml
    schema: {"@id": int, name: string}
    row_tag: bird
    options: {attributePrefix: "@"}
  columns:
    connector: files
    path: parquet
    format: parquet
    schema: {id: int, name: string}
    options: {recursiveFileLookup: true}
  stripes:
    connector: files
    path: orc
    format: orc
    schema: {id: int, name: string}
    options: {pathGlobFilter: "*.orc"}
  records:
    connector: files
    path: avro
    format: avro
    schema: {id: int, name: string}
    options: {mode: PERMISSIVE}
tables:
  all_rows: |
    SELECT 'text' AS format, NULL AS id, value AS shown FROM lines
    UNION ALL SELECT 'csv', id, coalesce(name, '?') || day FROM table
    UNION ALL SELECT 'json', id, CAST(at AS string) FROM documents
    UNION ALL SELECT 'xml', `@id`, name FROM marked
    UNION ALL SELECT 'parquet', id, name FROM columns
    UNION ALL SELECT 'orc', id, name FROM stripes
    UNION ALL SELECT 'avro', id, name FROM records
sinks:
  all_rows: {reads: all_rows, connector: foreach_batch, function: "capture.py:all_rows"}
"""


@pytest.mark.feature("B1.1")
def test_every_format_with_typed_keys_and_options(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "text" / "1.txt", "owl;a finch")
    put(tmp_path / "json" / "1.json", '[{"id": 3, /* noon */\n"at": "02.01.2026 12:00"}]')
    put(tmp_path / "xml" / "1.xml", '<birds><bird id="4"><name>heron</name></bird></birds>')
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "1.csv").write_bytes(
        "id|name|day\n1|Bläss|03/01/2026\n2|-|04/01/2026\n".encode("latin-1")
    )
    birds = spark.createDataFrame([(5, "wren")], "id int, name string").coalesce(1)
    birds.write.parquet(str(tmp_path / "parquet" / "deeper"))
    birds.write.orc(str(tmp_path / "orc"))
    put(tmp_path / "orc" / "notes.txt", "not an orc file")
    with_avro(spark)
    birds.write.format("avro").save(str(tmp_path / "avro"))
    capture(tmp_path, "all_rows")
    run_until_idle(write(tmp_path, FORMATS))

    (rows,) = captured(tmp_path, "all_rows")
    assert rows == Counter(
        [
            ("text", None, "owl"),
            ("text", None, "a finch"),
            ("csv", 1, "Bläss2026-01-03"),
            ("csv", 2, "?2026-01-04"),
            ("json", 3, "2026-01-02 12:00:00"),
            ("xml", 4, "heron"),
            ("parquet", 5, "wren"),
            ("orc", 5, "wren"),
            ("avro", 5, "wren"),
        ]
    )


ORDERS = "id int, tags array<string>, at struct<city: string, `zip-code`: int>"
SCHEMAS = f"""
name: schemas
sources:
  mapping:
    connector: files
    path: in
    format: json
    schema: {{id: int, tags: [string], at: {{city: string, zip-code: int}}}}
  ddl: {{connector: files, path: in, format: json, schema: "{ORDERS}"}}
  ddl_file: {{connector: files, path: in, format: json, schema: orders.ddl}}
  json_file: {{connector: files, path: in, format: json, schema: orders.json}}
tables:
  all_rows: |
    SELECT 1 AS n, id, tags[1], at.city, at.`zip-code` FROM mapping
    UNION ALL SELECT 2, id, tags[1], at.city, at.`zip-code` FROM ddl
    UNION ALL SELECT 3, id, tags[1], at.city, at.`zip-code` FROM ddl_file
    UNION ALL SELECT 4, id, tags[1], at.city, at.`zip-code` FROM json_file
sinks:
  all_rows: {{reads: all_rows, connector: foreach_batch, function: "capture.py:all_rows"}}
"""
INFERRED = """
name: inferred
run_dir: FOLDER
sources:
  birds: {connector: files, path: birds, format: json, infer_schema: true}
sinks:
  birds: {reads: birds, connector: foreach_batch, function: "capture.py:birds"}
"""


@pytest.mark.feature("B1.2")
def test_a_schema_is_given_in_some_way_or_inferred_once(spark: SparkSession, tmp_path: Path) -> None:
    capture(tmp_path, "all_rows", "birds")
    feed(tmp_path / "in", "1", [{"id": 1, "tags": ["a", "b"], "at": {"city": "Ulm", "zip-code": 89073}}])
    write(tmp_path, ORDERS, "orders.ddl")
    write(tmp_path, StructType.fromDDL(ORDERS).json(), "orders.json")
    file = write(tmp_path, SCHEMAS)
    run_until_idle(file)
    assert captured(tmp_path, "all_rows") == [Counter((n, 1, "b", "Ulm", 89073) for n in (1, 2, 3, 4))]
    options: list[Any] = [source.options for source in load(file).sources]
    assert {each.columns for each in options} == {options[0].columns}

    with pytest.raises(PipelineError) as refused:
        load(write(tmp_path, INFERRED.replace("infer_schema: true", "latest_first: true"), "none.yml"))
    (problem,) = refused.value.problems
    assert problem.code == "HW-VALUE-INVALID"
    assert "`schema` is required" in str(problem.params["says"])

    inferred = write(tmp_path, INFERRED.replace("FOLDER", "kept"), "inferred.yml")
    feed(tmp_path / "birds", "1", [{"id": 1, "name": "owl"}])
    run_until_idle(inferred)
    feed(tmp_path / "birds", "2", [{"id": 2, "name": "finch", "loud": True}])
    run_until_idle(inferred)
    assert captured(tmp_path, "birds") == [Counter([(1, "owl")]), Counter([(2, "finch")])]
    # Inferred anew, from both files, it would be another.
    anew = write(tmp_path, INFERRED.replace("FOLDER", "fresh"), "anew.yml")
    assert [dict(explain(each).tables[0].schema) for each in (inferred, anew)] == [
        {"id": "bigint", "name": "string"},
        {"id": "bigint", "loud": "boolean", "name": "string"},
    ]

    # Below a pattern folders are columns too.
    days = tmp_path / "days"
    capture(days, "birds")
    feed(days / "birds" / "day=3", "1", [{"id": 1}])
    folders = INFERRED.replace("FOLDER", "kept").replace("path: birds", 'path: "birds/day=*"')
    run_until_idle(write(days, folders))
    assert captured(days, "birds") == [Counter([(1, 3)])]


PATHS = """
name: paths
sources:
  orders: {connector: files, path: [shops/*/orders, "old/20*.json"], format: json, schema: {id: int}}
sinks:
  orders: {reads: orders, connector: files, path: out, format: json}
"""


@pytest.mark.feature("B1.3")
def test_paths_are_globs_and_lists_relative_to_the_file_and_a_moved_project_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    file = write(project, PATHS)
    feed(project / "shops" / "ulm" / "orders", "1", [{"id": 1}])
    feed(project / "shops" / "bonn" / "orders", "1", [{"id": 2}])
    feed(project / "old", "2025", [{"id": 3}])
    feed(project / "old", "1999", [{"id": 4}])
    monkeypatch.chdir(tmp_path)
    run_until_idle(Path("project") / "pipeline.yml")
    assert rows_of(spark, project / "out", schema="id int") == Counter([(1,), (2,), (3,)])

    moved = tmp_path / "moved"
    shutil.move(project, moved)
    with pytest.raises(PipelineError) as refused:
        run_until_idle(moved / "pipeline.yml")
    (problem,) = refused.value.problems
    assert problem.code == "HW-PROJECT-MOVED"
    says = "would read every file again"
    assert problem.params == {"sink": "orders", "old": str(project), "new": str(moved), "says": says}
    assert len(Checkpoint(LocalStore(moved / ".headwater" / "checkpoints" / "orders")).offsets()) == 1

    shutil.move(moved, project)
    feed(project / "shops" / "ulm" / "orders", "2", [{"id": 5}])
    run_until_idle(file)
    assert rows_of(spark, project / "out", schema="id int") == Counter([(1,), (2,), (3,), (5,)])


def limited(name: str, keys: str) -> tuple[str, str]:
    source = f"  {name}: {{connector: files, path: in, format: json, schema: {{id: int}}, {keys}}}"
    return (
        source,
        f'  {name}_rows: {{reads: {name}, connector: foreach_batch, function: "capture.py:{name}"}}',
    )


LIMITS = (
    limited("oldest", "max_files_per_batch: 1"),
    limited("newest", "max_files_per_batch: 1, latest_first: true"),
    limited("sized", "max_bytes_per_batch: 20 B"),
    limited("aged", "max_file_age: 1 hour"),
)
LIMITED = "\n".join(
    ["name: limits", "sources:", *(source for source, _ in LIMITS), "sinks:", *(sink for _, sink in LIMITS)]
)
NOON = 1_767_268_800


@pytest.mark.feature("B2.1")
def test_limits_order_and_age_of_files(spark: SparkSession, tmp_path: Path) -> None:
    folder, events = tmp_path / "in", list[Event]()
    capture(tmp_path, "oldest", "newest", "sized", "aged")
    # Each file has 10 bytes; the order of their names is not the order of their times.
    for name, minutes in (("c", 0), ("a", 1), ("b", 2)):
        feed(folder, name, [{"id": minutes}], at=NOON + 60 * minutes)
        assert (folder / f"{name}.json").stat().st_size == 10
    file = write(tmp_path, LIMITED)
    run_until_idle(file, events)
    oldest_first = [Counter([(minutes,)]) for minutes in (0, 1, 2)]
    assert captured(tmp_path, "oldest") == oldest_first
    assert captured(tmp_path, "newest") == oldest_first[::-1]
    assert captured(tmp_path, "sized") == [Counter([(0,), (1,)]), Counter([(2,)])]
    assert captured(tmp_path, "aged") == [Counter([(0,), (1,), (2,)])]
    assert [batch.rows_in for batch in batches(events, "sized_rows")] == [2, 1]

    # An hour before the newest file seen so far is the oldest that still counts.
    feed(folder, "late", [{"id": 3}], at=NOON - 30 * 60)
    feed(folder, "too_late", [{"id": 4}], at=NOON - 70 * 60)
    # By default Spark would skip what is 7 days older than the newest.
    feed(folder, "old", [{"id": 5}], at=NOON - 10 * 24 * 60 * 60)
    run_until_idle(file)
    assert captured(tmp_path, "aged")[1:] == [Counter([(3,)])]
    assert sum(captured(tmp_path, "oldest"), Counter()) == Counter([(id_,) for id_ in range(6)])


def test_a_file_that_can_not_be_read_is_named_with_what_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "birds" / "1.parquet", "this is no parquet file")
    text = """
name: broken
sources: {birds: {connector: files, path: birds, format: parquet, schema: {id: int}}}
sinks: {out: {reads: birds, connector: files, path: out, format: json}}
"""
    result = run_until_idle(write(tmp_path, text))
    problem: Any = result.queries["out"].problem
    assert (result.exit_code, problem.code) == (1, "HW-DATA-FILE-UNREADABLE")
    assert "birds/1.parquet: " in problem.params["says"]
    assert "is not a Parquet file" in problem.params["says"]
