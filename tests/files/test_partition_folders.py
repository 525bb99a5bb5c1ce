"""Folders named key=value: they become columns, and a file with other folders is never read as nulls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.errors import PipelineError, QueryFailedError
from headwater.events import Event
from headwater.runtime.handles import Run
from tests.pipelines import (
    capture,
    captured,
    feed,
    put,
    run_as_batch,
    run_until_idle,
    run_while,
    wait_for,
    write,
)

# The key stands before the column of the file: Spark itself would put it last.
PARTITIONED = """
name: partitioned
sources:
  folder: {connector: files, path: logs, format: json, schema: {day: date, id: int, shop: string, n: int}}
  pattern:
    connector: files
    path: ["logs/day=2026-01-0[12]", "logs/day=2026-01-03/shop=*"]
    format: json
    schema: {id: int, shop: string, n: short, day: string}
  table: {connector: files, path: csv, format: csv, schema: {n: int, id: int, name: string}}
  lines: {connector: files, path: text, format: text, schema: {value: string, at: timestamp}}
tables:
  all_rows: |
    SELECT 'folder' AS source, id, concat_ws('|', day, shop, n) AS shown FROM folder
    UNION ALL SELECT 'pattern', id, concat_ws('|', day, shop, n) FROM pattern
    UNION ALL SELECT 'csv', id, concat_ws('|', n, name) FROM table
    UNION ALL SELECT 'text', NULL, concat_ws('|', at, value) FROM lines
sinks:
  all_rows: {reads: all_rows, connector: foreach_batch, function: "capture.py:all_rows"}
  typed: {reads: folder, connector: files, path: out, format: parquet}
"""


def everything(folder: Path, sink: str) -> Counter[tuple[Any, ...]]:
    return sum(captured(folder, sink), Counter())


@pytest.mark.feature("B3.1")
def test_folders_become_columns_of_the_type_that_the_schema_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    feed(logs / "day=2026-01-01" / "shop=a%3Ab ü+" / "n=07", "1", [{"id": 1}])
    feed(logs / "day=2026-01-02" / "shop=__HIVE_DEFAULT_PARTITION__" / "n=8", "1", [{"id": 2}])
    feed(logs / "day=2026-01-03" / "shop=c" / "n=9", "1", [{"id": 3}])
    put(tmp_path / "csv" / "n=1" / "1.csv", "4,owl\n")
    put(tmp_path / "text" / "at=2026-01-01 10%3A00%3A00" / "1.txt", "a line\n")
    capture(tmp_path, "all_rows")
    file = write(tmp_path, PARTITIONED)
    run_until_idle(file)
    rows = [(1, "2026-01-01|a:b ü+|7"), (2, "2026-01-02|8"), (3, "2026-01-03|c|9")]
    expected = Counter(
        [
            *(("folder", id_, shown) for id_, shown in rows),
            *(("pattern", id_, shown) for id_, shown in rows),
            ("csv", 4, "1|owl"),
            ("text", None, "2026-01-01 10:00:00|a line"),
        ]
    )
    assert everything(tmp_path, "all_rows") == expected
    typed = spark.read.parquet(str(tmp_path / "out"))
    assert typed.schema.simpleString() == "struct<day:date,id:int,shop:string,n:int>"
    run_as_batch(file, into=tmp_path / "batch")
    batch = spark.read.parquet(str(tmp_path / "batch" / "typed"))
    assert batch.schema == typed.schema
    assert Counter(map(tuple, batch.collect())) == Counter(map(tuple, typed.collect()))


GROWING = """
name: growing
sources:
  early: {connector: files, path: early, format: json, schema: {day: date, id: int}}
  late: {connector: files, path: late, format: json, schema: {k: string, v: string}}
sinks:
  early_rows: {reads: early, connector: foreach_batch, function: "capture.py:early_rows"}
  late_rows: {reads: late, connector: foreach_batch, function: "capture.py:late_rows"}
"""


@pytest.mark.feature("B3.2")
def test_new_folders_of_the_key_are_read_and_others_stop_the_query_with_their_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture(tmp_path, "early_rows", "late_rows")
    early, late, events = tmp_path / "early", tmp_path / "late", list[Event]()
    feed(early / "day=2026-01-01", "1", [{"id": 1}])
    # Nothing is there at the start, so it is not known yet which columns come from folders.
    late.mkdir()
    file = write(tmp_path, GROWING)

    def steer(run: Run) -> None:
        wait_for(lambda: run.queries["early_rows"].rows_in == 1, run)
        feed(early / "day=2026-01-02", "2", [{"id": 2}])
        feed(late / "k=x", "1", [{"v": "w"}])
        wait_for(lambda: run.queries["early_rows"].rows_in == 2, run)
        wait_for(lambda: run.queries["late_rows"].rows_in == 1, run)
        # Without the first folders Spark would give the other key's values to the column `day`.
        (early / "day=2026-01-01" / "1.json").unlink()
        (early / "day=2026-01-01").rmdir()
        (early / "day=2026-01-02" / "2.json").unlink()
        (early / "day=2026-01-02").rmdir()
        feed(early / "other=5", "3", [{"id": 3}])
        feed(late / "z=1", "2", [{"v": "never read"}])
        assert run.wait(60)

    with pytest.raises(QueryFailedError) as failed:
        run_while(file, steer, events)
    problems = {problem.params["sink"]: problem for problem in failed.value.problems}
    assert {problem.code for problem in problems.values()} == {"HW-PARTITION-DIR-UNEXPECTED"}
    assert str(problems["early_rows"].params["path"]).endswith("/early/other=5/3.json")
    assert str(problems["late_rows"].params["path"]).endswith("/late/z=1/2.json")
    assert everything(tmp_path, "early_rows") == Counter([("2026-01-01", 1), ("2026-01-02", 2)])
    assert everything(tmp_path, "late_rows") == Counter([("x", "w")])

    with pytest.raises(PipelineError) as refused:
        run_until_idle(file)
    found = {(problem.code, problem.params["name"], problem.location) for problem in refused.value.problems}
    assert found == {
        ("HW-PARTITION-KEY-MISSING", "early", f"{file}:4:64"),
        ("HW-PARTITION-KEYS-MIXED", "late", f"{file}:5:34"),
    }


FLAT = """
name: flat
sources:
  rows: {connector: files, path: in, format: json, schema: {id: int, k: string}}
sinks:
  rows: {reads: rows, connector: foreach_batch, function: "capture.py:rows"}
"""


@pytest.mark.feature("B3.2", part="a flat directory")
def test_a_folder_with_a_key_in_a_flat_directory_stops_the_query_without_a_look_at_each_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture(tmp_path, "rows")
    feed(tmp_path / "in", "1", [{"id": 1, "k": "x"}])
    # Neither read nor an error, as in every directory without a key.
    feed(tmp_path / "in" / "archive", "0", [{"id": 0, "k": "never read"}])

    def steer(run: Run) -> None:
        wait_for(lambda: run.queries["rows"].rows_in == 1, run)
        # Spark asks about each file that it lists; the path of a row would be in the plan.
        assert "file_path" not in run.queries["rows"].plan()
        feed(tmp_path / "in" / "k=y", "2", [{"id": 2}])
        assert run.wait(60)

    with pytest.raises(QueryFailedError) as failed:
        run_while(write(tmp_path, FLAT), steer, [])
    (problem,) = failed.value.problems
    assert problem.code == "HW-PARTITION-DIR-UNEXPECTED"
    assert str(problem.params["path"]).endswith("/in/k=y/2.json")
    assert everything(tmp_path, "rows") == Counter([(1, "x")])
