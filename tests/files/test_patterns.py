"""Paths with braces, folders that go by several names, and projects in folders with odd ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.errors import PipelineError
from headwater.events import Event
from headwater.runtime.handles import Run
from tests.pipelines import (
    capture,
    captured,
    feed,
    rows_of,
    run_as_batch,
    run_until_idle,
    run_while,
    wait_for,
    write,
)

# Spark numbers the sources of a query in the order of its plan, and one that reads no files counts.
BRACES = """
name: braces
sources:
  later: {{connector: files, path: "file://{root}/later/{{eu,us}}", format: json, schema: {{id: int}}}}
  days: {{connector: files, path: "in/{{eu,us}}/day=*", format: json, schema: {{day: date, id: int}}}}
  ticks: {{connector: rate_per_batch, rows_per_batch: 1}}
  cleaned:
    connector: files
    path: "more/{{a,b}}"
    format: json
    schema: {{id: int}}
    clean_up: archive
    archive_dir: done
  again: {{connector: files, path: "file://{root}/linked/a", format: json, schema: {{id: int}}}}
tables:
  all_rows: |
    SELECT 'later' AS source, id, NULL AS day FROM later
    UNION ALL SELECT 'days', id, day FROM days
    UNION ALL SELECT 'tick', NULL, NULL FROM ticks WHERE value < 0
    UNION ALL SELECT 'cleaned', id, NULL FROM cleaned
    UNION ALL SELECT 'again', id, NULL FROM again
sinks:
  all_rows: {{reads: all_rows, connector: foreach_batch, function: "capture.py:all_rows"}}
"""


def everything(folder: Path, sink: str) -> Counter[tuple[Any, ...]]:
    return sum(captured(folder, sink), Counter())


@pytest.mark.feature("B2.3", part="folders by several names")
@pytest.mark.feature("B3.1", part="braces")
def test_braces_are_patterns_and_one_folder_may_have_several_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture(tmp_path, "all_rows")
    feed(tmp_path / "in" / "eu" / "day=2026-01-01", "1", [{"id": 1}])
    feed(tmp_path / "in" / "us" / "day=2026-01-02", "2", [{"id": 2}])
    feed(tmp_path / "in" / "asia" / "day=2026-01-03", "3", [{"id": 3}])
    feed(tmp_path / "more" / "a", "4", [{"id": 4}])
    feed(tmp_path / "more" / "b", "5", [{"id": 5}])
    (tmp_path / "linked").symlink_to(tmp_path / "more")
    for region in ("eu", "us"):
        (tmp_path / "later" / region).mkdir(parents=True)
    events = list[Event]()

    def steer(run: Run) -> None:
        # Both sources have the files of `a`, and only one those of `b`.
        wait_for(lambda: not list((tmp_path / "more").rglob("*.json")), run)
        feed(tmp_path / "later" / "us", "6", [{"id": 6}])
        wait_for(lambda: ("later", 6, None) in everything(tmp_path, "all_rows"), run)

    run_while(write(tmp_path, BRACES.format(root=tmp_path)), steer, events)
    assert everything(tmp_path, "all_rows") == Counter(
        [
            ("days", 1, "2026-01-01"),
            ("days", 2, "2026-01-02"),
            ("cleaned", 4, None),
            ("cleaned", 5, None),
            ("again", 4, None),
            ("later", 6, None),
        ]
    )
    archived = {str(file.relative_to(tmp_path)) for file in (tmp_path / "done").rglob("*.json")}
    assert archived == {"done/a/4.json", "done/b/5.json"}


ODD = """
name: odd
sources:
  written: {connector: files, path: other/out, format: json, schema: {id: int}}
  days: {connector: files, path: "days/{eu,us}", format: json, schema: {day: date, id: int}}
tables:
  both: SELECT id FROM written UNION ALL SELECT id + day(day) FROM days
sinks:
  both: {reads: both, connector: files, path: out, format: json}
"""


@pytest.mark.feature("B3.1", part="a project in a folder with an odd name")
def test_a_sinks_list_counts_below_a_folder_whose_name_looks_like_a_pattern(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = tmp_path / "[x]{y}"
    out = project / "other" / "out"
    feed(out, "listed", [{"id": 1}])
    feed(out, "unfinished", [{"id": -1}])
    feed(project / "days" / "eu" / "day=2026-01-10", "1", [{"id": 10}])
    file = out / "listed.json"
    listed = {
        "path": file.as_uri(),
        "size": file.stat().st_size,
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": 1 << 25,
        "action": "add",
    }
    write(out / "_spark_metadata", f"v1\n{json.dumps(listed)}", "0")
    pipeline = write(project, ODD)
    run_as_batch(pipeline, into=tmp_path / "batch")
    assert rows_of(spark, tmp_path / "batch" / "both", schema="id int") == Counter([(1,), (20,)])
    fixed = ODD.replace("schema: {id: int}}", "schema: {id: int}, static: true}", 1)
    joined = fixed.replace(
        "UNION ALL SELECT id + day(day) FROM days", "CROSS JOIN (SELECT id AS day FROM days)"
    )
    run_until_idle(write(project, joined.replace("SELECT id FROM", "SELECT id, day FROM"), "static.yml"))
    assert rows_of(spark, project / "out", schema="id int, day int") == Counter([(1, 10)])
    # A stream has no way to it, and must not read what the list leaves out.
    with pytest.raises(PipelineError) as refused:
        run_until_idle(pipeline)
    assert [(each.code, each.params["name"]) for each in refused.value.problems] == [
        ("HW-FILES-PATH-INVALID", "written")
    ]
