"""Kills during a partitioned write and during a compaction: each row once, for Spark and by the manifest."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from headwater.checkpoint import LocalStore, SinkLog
from tests.pipelines import feed, rows_of, write
from tests.processes import Program, headwater, jvm_of

PIPELINE = """
name: visits
spark:
  spark.master: local[2]
  spark.sql.streaming.fileSink.log.compactInterval: 2
sources:
  visits: {connector: files, path: in, format: json, schema: {id: int, page: string}, max_files_per_batch: 1}
sinks:
  visits:
    reads: visits
    connector: files
    path: out
    format: parquet
    partition_by: page
    manifest: true
    compaction: {min_files: 2, retention: 1 s}
"""
FILES, ROWS, PAGES = 8 if os.environ.get("HEADWATER_SOAK") else 6, 20, 10
Moment = Callable[[Path], bool]


def being_written(out: Path) -> bool:
    """A batch has written some of its folders, and the log does not know them yet."""
    logged = len(SinkLog(LocalStore(out)).files())
    return logged < len(list(out.glob("page=*/part-0*.parquet"))) <= logged + PAGES // 2


def being_rewritten(out: Path) -> bool:
    """Some new files are staged."""
    return any((out / "_headwater/compacting").glob("*/part*.parquet"))


def being_exchanged(out: Path) -> bool:
    """An exchange is noted; the log is changed, or is just about to be."""
    return (out / "_headwater/compaction.json").exists()


def by_manifest(out: Path) -> Counter[tuple[int, str]]:
    """The rows of the listed files, read without Spark."""
    try:
        manifest: dict[str, Any] = json.loads((out / "_headwater/manifest.json").read_text())
    except FileNotFoundError:
        return Counter()
    found: Counter[tuple[int, str]] = Counter()
    for entry in manifest["files"]:
        file = out / entry["path"]
        rows = pyarrow.parquet.ParquetFile(file).read().to_pylist()
        found.update((row["id"], file.parent.name.removeprefix("page=")) for row in rows)
    return found


def kill(run: Program, victim: str, folder: Path) -> None:
    """Kill Spark, which the run starts again, or the run."""
    if victim == "jvm":
        os.kill(jvm_of(folder, "visits").pid, signal.SIGKILL)
        run.until(lambda: any(event["event"] == "query_restarting" for event in run.events))
    else:
        run.signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL


@pytest.mark.feature("D2.2", part="kills")
@pytest.mark.feature("H1.1", part="files with a manifest and compaction")
@pytest.mark.timeout(600)
def test_each_row_is_there_once_whenever_the_process_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    expected: Counter[tuple[int, str]] = Counter()
    for number in range(FILES):
        rows = [{"id": ROWS * number + row, "page": f"p{row % PAGES}"} for row in range(ROWS)]
        expected.update((int(str(row["id"])), str(row["page"])) for row in rows)
        feed(tmp_path / "in", str(number), rows, at=1_700_000_000 + number)
    write(tmp_path, PIPELINE)
    out = tmp_path / "out"
    kills: list[tuple[str, Moment]] = [("jvm", being_written), ("python", being_exchanged)]
    if os.environ.get("HEADWATER_SOAK"):
        # What is only staged is of no meaning to anybody, so this kill is the one that can wait.
        kills.insert(1, ("python", being_rewritten))
    with ExitStack() as lives:
        run: Program | None = None
        for victim, moment in kills:
            if run is None or run.process.poll() is not None:
                run = lives.enter_context(headwater(tmp_path, "run", "pipeline.yml", "--json"))
            run.until(partial(moment, out))
            kill(run, victim, tmp_path)
            assert by_manifest(out) <= expected
            assert rows_of(spark, out, "parquet", "id int, page string") <= expected
        last = lives.enter_context(headwater(tmp_path, "run", "pipeline.yml", "--until-idle"))
        assert last.wait() == 0, last.told

    assert rows_of(spark, out, "parquet", "id int, page string") == expected
    assert by_manifest(out) == expected
    assert any(out.glob("page=*/part-compacted-*"))
