"""Names of files and directories with characters that mean something to globs, addresses or Hadoop."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headwater.api.quarantine import replay, show
from headwater.connectors.files.folders import Folders
from headwater.errors import PipelineError
from headwater.spec.paths import absolute
from tests.pipelines import capture, captured, put, rows_of, run_as_batch, run_until_idle, write

DAY = 24 * 60 * 60
FIVE = ["a", "b", "c {x}[y]*", "[ab]", "*"]
NAMES = [
    "a",
    "b",
    "c {x}[y]*",
    "[ab]",
    "*",
    "%41",
    "h#",
    "q?",
    "b\\s",
    "n\nl",
    "ü日",
    "k,w}",
    "p+l%20us",
    "k=v",
]

PIPELINE = """
name: names
sources:
  json: {connector: files, path: in, format: json, schema: {id: int}, clean_up: archive, archive_dir: done}
  glob: {connector: files, path: "glob/*", format: json, schema: {id: int}}
  judged: {connector: files, path: 'odd\\[1\\]', format: json, schema: {id: int}, bad_rows: drop}
  csv: {connector: files, path: "csv", format: csv, header: true, schema: {id: int}, bad_rows: drop}
  keyed: {connector: files, path: keyed, format: text, schema: {key: string, value: string}}
  fixed: {connector: files, path: 'odd\\[1\\]', format: json, schema: {id: int}, static: true}
  one: {connector: files, path: one.json, format: json, schema: {id: int}}
tables:
  streamed: |
    SELECT 'json' AS source, id FROM json UNION ALL SELECT 'glob', id FROM glob
    UNION ALL SELECT 'judged', id FROM judged UNION ALL SELECT 'csv', id FROM csv
    UNION ALL SELECT key, CAST(value AS int) FROM keyed
  static: SELECT 'static' AS source, f.id FROM fixed f CROSS JOIN one
sinks:
  streamed: {reads: streamed, connector: foreach_batch, function: "capture.py:streamed"}
  static: {reads: static, connector: foreach_batch, function: "capture.py:static"}
"""


def named(folder: Path, names: list[str], ending: str = "json") -> None:
    """A file of two rows for each of the names, an empty one, and a broken one in a directory."""
    before, row = ("id\n", "%d\n") if ending == "csv" else ("", '{"id": %d}\n')
    for number, name in enumerate(names):
        put(folder / f"{name}.{ending}", before + row % (2 * number) + row % (2 * number + 1))
    put(folder / f"[x].{ending}", before)
    put(folder / "ignored" / "sub" / f"x.{ending}", "{broken\n")


def everything(folder: Path, sink: str) -> Counter[tuple[Any, ...]]:
    return sum(captured(folder, sink), Counter())


def once(names: list[str], *sources: str) -> Counter[tuple[Any, ...]]:
    return Counter((source, number) for source in sources for number in range(2 * len(names)))


@pytest.mark.feature("B1.3", part="names with any character")
def test_each_row_comes_once_whatever_the_names_are(spark: SparkSession, tmp_path: Path) -> None:
    project = tmp_path / "p"
    capture(project, "streamed", "static")
    named(project / "in", NAMES)
    named(project / "glob", FIVE)
    named(project / "odd[1]", FIVE)
    named(project / "csv", FIVE, "csv")
    put(project / "one.json", '{"id": 0}\n')
    # Spark escapes most of such characters in the directories that it writes; others do not.
    for value in ("[a]*", "}"):
        put(project / "keyed" / f"key={value}" / "1.txt", "1\n")
        put(project / "keyed" / f"key={value}" / "2.txt", "2\n")
    file = write(project, PIPELINE)
    # Else Spark starts a job of 150 tasks to list the files.
    run_until_idle(file, conf={"spark.sql.sources.parallelPartitionDiscovery.threshold": "1000"})
    keyed = Counter((value, number) for value in ("[a]*", "}") for number in (1, 2))
    assert everything(project, "streamed") == keyed + once(NAMES, "json") + once(
        FIVE, "glob", "judged", "csv"
    )
    assert everything(project, "static") == once(FIVE, "static")
    # What nobody has read stays.
    assert [each.name for each in (project / "in").rglob("*") if each.is_file()] == ["x.json"]
    assert {each.stem for each in (project / "done").iterdir()} == {*NAMES, "[x]"}


BATCH = """
name: batch
sources:
  json: {connector: files, path: '[in]', format: json, schema: {id: int}}
  judged: {connector: files, path: '\\[in\\]', format: json, schema: {id: int}, bad_rows: drop}
tables:
  both: SELECT id FROM json UNION ALL SELECT id FROM judged
sinks:
  both: {reads: both, connector: files, path: "out[1]", format: json}
"""


@pytest.mark.feature("B1.3", part="a directory whose name is a glob")
def test_a_path_that_is_the_name_of_a_directory_and_a_glob_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    named(tmp_path / "[in]", FIVE)
    file = write(tmp_path, BATCH)
    with pytest.raises(PipelineError) as refused:
        run_as_batch(file, into=tmp_path / "batch")
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["escaped"]) == ("HW-FILES-PATH-IS-GLOB", "\\[in\\]")
    file = write(tmp_path, BATCH.replace("'[in]'", "'\\[in\\]'"))
    twice = Counter({(number,): 2 for number in range(2 * len(FIVE))})
    run_as_batch(file, into=tmp_path / "batch")
    assert rows_of(spark, tmp_path / "batch" / "both", schema="id int") == twice
    run_until_idle(file)
    assert rows_of(spark, tmp_path / "out\\[1\\]", schema="id int") == twice
    # With this option Spark finds key=value columns by itself, and reads such files more than once.
    left = f"'\\[in\\]', options: {{basePath: '{tmp_path}'}}"
    pipeline = BATCH.replace("'[in]'", left).replace("out", "more").replace("batch", "left\nrun_dir: .left")
    file = write(tmp_path, pipeline, "left.yml")
    failed = run_until_idle(file).queries["both"].problem
    assert failed is not None
    assert failed.code == "HW-FILES-NAME-UNSUPPORTED"


REPLAYED = """
name: replayed
sources:
  json: {connector: files, path: in, format: json, schema: {id: int}, bad_rows: quarantine}
tables:
  texts: SELECT CAST(id AS string) AS id FROM json
sinks:
  texts: {reads: texts, connector: files, path: out, format: json}
"""


@pytest.mark.soak
@pytest.mark.feature("B1.3", part="a run folder whose name is a glob")
def test_replayed_rows_come_once_in_a_project_whose_name_is_a_glob(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = tmp_path / "[x]{y}"
    for name in "abc":
        put(project / "in" / f"{name}.json", f'{{"id": 0}}\n{{"id": "{name}"}}\n')
    run_until_idle(write(project, REPLAYED))
    file = write(project, REPLAYED.replace("int", "string"))
    for row in show(file, "json"):
        replay(file, "json", ids=(row.id,))
    run_until_idle(file)
    assert len(list((project / ".headwater" / "quarantine" / "json" / "replayed").glob("*.parquet"))) == 3
    lines = [line for each in (project / "out").glob("*.json") for line in each.read_text().splitlines()]
    assert Counter(json.loads(line)["id"] for line in lines) == Counter({"0": 3, "a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize(
    ("pattern", "read", "ignored"),
    [
        (
            "/data/in",
            ["/data/in/a.json", "/data/in/day=1/n=2/a%20b.json", "/elsewhere/sub/a.json"],
            ["/data/in/sub/a.json", "/data/in/day=1/sub/a.json", "/data/in/backup/data/in/a.json"],
        ),
        ("file:///data//in/x/..", ["/data/in/a.json"], ["/data/in/sub/a.json"]),
        (
            "/data/in/{a,b/c}",
            ["/data/in/a", "/data/in/a/x.json", "/data/in/b/c/x.json", "/data/in/b/c/day=1/x.json"],
            ["/data/in/a/sub/x.json", "/data/in/b/c/d/x.json"],
        ),
        ("/data/in/{*,?%/[x-z]}", ["/data/in/ab/1.json", "/data/in/+%25/y/1.json"], ["/data/in/ab/y/1.json"]),
        ("s3a://bucket", ["/1.json", "/100%.json"], ["/sub/1.json"]),
    ],
)
def test_files_in_ignored_directories_are_not_read(
    spark: SparkSession, pattern: str, read: list[str], ignored: list[str]
) -> None:
    system = "s3a://bucket" if pattern.startswith("s3a") else "file://"
    folders = Folders("lines", "", (), None, absolute(pattern, Path("/p")), path="path")
    values = ", ".join(f"'{system}{path}'" for path in (*read, *ignored))
    paths = spark.sql(f"SELECT * FROM VALUES {values} AS paths(path)")
    assert {row.path.removeprefix(system) for row in paths.where(folders.is_read).collect()} == set(read)
    # The class that Spark asks about each file decides the same; a file in a folder with a key is an error.
    flat = Folders("lines", "", (), (), absolute(pattern, Path("/p")), path="path")
    decided = {path: accepts(spark, flat, f"{system}{quote(unquote(path))}") for path in (*read, *ignored)}
    assert decided == {
        path: "HW-PARTITION-DIR-UNEXPECTED" if path in read and "=" in path else path in read
        for path in (*read, *ignored)
    }


def accepts(spark: SparkSession, folders: Folders, address: str) -> bool | str:
    """Whether a file is read, or the code of the error."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration(False)
    for key, value in folders.file_filter.items():
        conf.set(key, value)
    files = jvm.headwater.files.SourceFiles()
    files.setConf(conf)
    try:
        return bool(files.accept(jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(address))))
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage()).split()[1]


IGNORED = """
name: ignored
sources:
  rows: {connector: files, path: in, format: json, schema: {day: int, id: int}, max_files_per_batch: 1}
sinks:
  rows: {reads: rows, connector: foreach_batch, function: "capture.py:rows"}
"""


@pytest.mark.soak
def test_files_in_ignored_directories_do_not_make_others_too_old(spark: SparkSession, tmp_path: Path) -> None:
    capture(tmp_path, "rows")
    now, file, folder = int(time.time()), write(tmp_path, IGNORED), tmp_path / "in"
    for number, name in enumerate(FIVE):
        put(folder / f"{name}.json", f'{{"id": {number}}}\n', now - 12 * DAY)
        put(folder / "archive" / f"{name}.json", "{broken\n", now - 20 * DAY)
    put(folder / "archive" / "new.json", "{broken\n", now)
    run_until_idle(file)
    put(folder / "archive" / "newer.json", "{broken\n", now + 1)
    put(folder / "old.json", '{"id": 5}\n', now - 10 * DAY)
    run_until_idle(file)
    assert everything(tmp_path, "rows") == Counter((None, number) for number in range(6))
