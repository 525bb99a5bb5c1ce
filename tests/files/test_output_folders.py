"""A checkpoint and the folder that its query writes belong together, and so do facts and checkpoint."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.checkpoint import STATE_FORMAT
from headwater.checks import Severity
from headwater.errors import PipelineError
from tests.pipelines import capture, captured, feed, rows_of, run_until_idle, write

PIPELINE = """
name: orders
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}}
tables:
  counted: SELECT id, count(*) AS n FROM orders GROUP BY id
sinks:
  rows: {reads: orders, connector: files, path: out, format: parquet}
  counted: {reads: counted, connector: foreach_batch, function: "capture.py:counted", mode: complete}
"""


def findings(file: Path) -> list[tuple[Severity, str, str]]:
    found = check(file).findings
    return [(each.severity, each.problem.code, each.sink) for each in found]


def test_what_belongs_together_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / ".headwater", tmp_path / "out"
    capture(tmp_path, "counted")
    file = write(tmp_path, PIPELINE)
    feed(tmp_path / "in", "1", [{"id": 1}])
    run_until_idle(file, conf={STATE_FORMAT: "1"})

    # A state format is not in Spark's own settings; the other one would not find the state.
    (folder / "queries" / "counted.json").unlink()
    # Spark's log names this file; to infer the schema of the folder Spark reads it.
    (part,) = out.glob("part-*")
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    part.with_name(f".{part.name}.crc").unlink()
    warnings = [
        (Severity.WARNING, "HW-SINK-OUTPUT-UNREADABLE", "rows"),
        (Severity.WARNING, "HW-QUERY-METADATA-MISSING", "counted"),
    ]
    assert findings(file) == warnings
    part.unlink()
    assert findings(file) == warnings
    feed(tmp_path / "in", "2", [{"id": 1}, {"id": 2}])
    run_until_idle(file)
    assert captured(tmp_path, "counted")[-1] == Counter([(1, 2), (2, 1)])
    assert (folder / "checkpoints" / "counted" / "commits" / "1").read_text().startswith("v1\n")
    part.write_bytes(content)
    assert findings(file) == []

    # The same checkpoint, and a folder whose log names another place.
    out.rename(tmp_path / "results")
    moved = write(tmp_path, PIPELINE.replace("path: out", "path: results"))
    assert findings(moved) == [(Severity.ERROR, "HW-SINK-OPTION-CHANGED", "rows")]
    facts = folder / "queries" / "rows.json"
    stored = facts.read_text()
    facts.unlink()
    assert (Severity.ERROR, "HW-SINK-LOG-PATH-INVALID", "rows") in findings(moved)
    facts.write_text(stored)
    (tmp_path / "results").rename(out)

    # Another checkpoint: by another name of the sink, or in another run folder.
    renamed = write(tmp_path, PIPELINE.replace("rows:", "all_rows:"))
    assert findings(renamed) == [(Severity.ERROR, "HW-SINK-AHEAD-OF-CHECKPOINT", "all_rows")]
    file = write(tmp_path, PIPELINE)
    shutil.rmtree(folder)
    with pytest.raises(PipelineError) as refused:
        run_until_idle(file)
    (problem,) = refused.value.problems
    assert problem.code == "HW-SINK-AHEAD-OF-CHECKPOINT"
    assert problem.params == {"sink": "rows", "place": str(out), "held": 1, "stands": "is empty"}
    assert rows_of(spark, out, "parquet") == Counter([(1,), (1,), (2,)])

    shutil.rmtree(out)
    run_until_idle(file)
    assert rows_of(spark, out, "parquet") == Counter([(1,), (1,), (2,)])


SINK_ALONE = """
name: orders
sources: {{orders: {{connector: files, path: {source}, format: json, schema: {{id: int}}}}}}
sinks: {{orders: {{reads: orders, connector: files, path: out, format: json}}}}
"""


@pytest.mark.feature("B1.3", part="a moved project whose sources stay where they are")
def test_a_moved_project_is_noticed_by_its_sinks(spark: SparkSession, tmp_path: Path) -> None:
    project, moved = tmp_path / "project", tmp_path / "moved"
    feed(tmp_path / "in", "1", [{"id": 1}])
    run_until_idle(write(project, SINK_ALONE.format(source=tmp_path / "in")))
    shutil.move(project, moved)
    with pytest.raises(PipelineError) as refused:
        run_until_idle(moved / "pipeline.yml")
    (problem,) = refused.value.problems
    says = f"would write to {moved / 'out'}, but the log of the sink refers to {project / 'out'}"
    assert problem.code == "HW-PROJECT-MOVED"
    assert problem.params == {"sink": "orders", "old": str(project), "new": str(moved), "says": says}
