"""`_metadata` of a file's rows in SQL tables, whatever becomes of bad rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.quarantine import replay
from tests.pipelines import put, run_as_batch, run_until_idle, write

PIPELINE = """
name: metadata
sources:
  failing: {connector: files, path: [in, more], format: text}
  dropped: {connector: files, path: in, format: json, schema: {id: int}, bad_rows: drop}
  kept: {connector: files, path: in, format: json, schema: {id: int}, bad_rows: keep}
  aside: {connector: files, path: [in, more], format: json, schema: {id: int}, bad_rows: quarantine}
  parquet: {connector: files, path: parquet, format: parquet, schema: {id: int not null}, bad_rows: drop}
tables:
  files: |
    SELECT 'fail' AS source, substr(value, 8, 1) AS id, _metadata.file_name AS file FROM failing
    UNION ALL SELECT 'drop', string(id), _metadata.file_name FROM dropped
    UNION ALL SELECT 'keep', string(id), _metadata.file_name FROM kept
    UNION ALL SELECT 'aside', string(id), _METADATA.file_name FROM aside
    UNION ALL SELECT 'parquet', string(id), _metadata.file_name FROM parquet WHERE _metadata.file_size > 0
  all_columns: SELECT * FROM dropped
sinks:
  files: {reads: files, connector: files, path: out/files, format: json}
  all_columns: {reads: all_columns, connector: files, path: out/all, format: json}
"""


def lines(folder: Path) -> Counter[str]:
    return Counter(line for each in folder.glob("*.json") for line in each.read_text().splitlines())


def found(folder: Path) -> Counter[tuple[str, str | None, str]]:
    rows = [json.loads(line) for line in lines(folder).elements()]
    return Counter((row["source"], row.get("id"), row["file"]) for row in rows)


EXPECTED = Counter(
    [
        ("fail", "1", "a%20b.json"),
        ("fail", '"', "a%20b.json"),
        ("fail", "2", "c.json"),
        ("drop", "1", "a%20b.json"),
        ("keep", "1", "a%20b.json"),
        ("keep", None, "a%20b.json"),
        ("aside", "1", "a%20b.json"),
        ("aside", "2", "c.json"),
        ("parquet", "3", "d.parquet"),
    ]
)
"""Spark encodes the names."""


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Path:
    put(tmp_path / "in" / "a b.json", '{"id": 1}\n{"id": "x"}\n')
    put(tmp_path / "more" / "c.json", '{"id": 2}\n')
    spark.sql("SELECT 3 AS id").coalesce(1).write.parquet(str(tmp_path / "made"))
    (tmp_path / "parquet").mkdir()
    next((tmp_path / "made").glob("*.parquet")).rename(tmp_path / "parquet" / "d.parquet")
    return write(tmp_path, PIPELINE)


@pytest.mark.feature("B1.1", part="_metadata")
def test_sql_sees_the_file_of_each_row(pipeline: Path, tmp_path: Path) -> None:
    run_until_idle(pipeline)
    assert found(tmp_path / "out" / "files") == EXPECTED
    # Only the tables that name the column have it.
    assert lines(tmp_path / "out" / "all") == Counter(['{"id":1}'])


@pytest.mark.soak
def test_sql_sees_the_file_in_a_batch_run_and_of_replayed_rows(pipeline: Path, tmp_path: Path) -> None:
    run_as_batch(pipeline, into=tmp_path / "batch")
    assert found(tmp_path / "batch" / "files") == EXPECTED
    run_until_idle(pipeline)
    fixed = PIPELINE.replace("{id: int}, bad_rows: quarantine", "{id: string}, bad_rows: quarantine")
    replay(write(tmp_path, fixed), "aside")
    run_until_idle(pipeline)
    assert found(tmp_path / "out" / "files") == EXPECTED + Counter([("aside", "x", "a%20b.json")])
