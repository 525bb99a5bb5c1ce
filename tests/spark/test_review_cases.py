"""Cases that once went wrong in silence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.batch import run_batch
from headwater.errors import PipelineError
from headwater.runtime import RunOptions
from tests.pipelines import feed, rows_of, run_as_batch, run_until_idle, write


def test_the_time_zone_counts_when_the_query_is_analyzed(spark: SparkSession, tmp_path: Path) -> None:
    text = """
name: days
timezone: Asia/Tokyo
sources: {s: {connector: files, path: in, format: json, schema: {at: timestamp}}}
tables: {d: "SELECT CAST(at AS date) AS day FROM s"}
sinks: {d: {reads: d, connector: files, path: out, format: json}}
"""
    file = write(tmp_path, text)
    feed(tmp_path / "in", "1", [{"at": "2026-01-01T20:00:00Z"}])
    run_until_idle(file)
    run_as_batch(file, tmp_path / "batch")
    expected = Counter({("2026-01-02",): 1})
    assert rows_of(spark, tmp_path / "out", schema="day string") == expected
    assert rows_of(spark, tmp_path / "batch" / "d", schema="day string") == expected


def test_files_without_rows_do_not_look_like_the_end(spark: SparkSession, tmp_path: Path) -> None:
    text = """
name: gaps
sources: {s: {connector: files, path: in, format: json, schema: {a: int}, max_files_per_batch: 1}}
sinks: {s: {reads: s, connector: files, path: out, format: json}}
"""
    file = write(tmp_path, text)
    for number in range(4):
        feed(tmp_path / "in", str(number), [{"a": 1}] if number == 3 else [], at=1_000_000 + number)
    run_until_idle(file)
    assert rows_of(spark, tmp_path / "out", schema="a int") == Counter({(1,): 1})


def test_a_batch_run_replaces_only_what_a_batch_run_wrote(spark: SparkSession, tmp_path: Path) -> None:
    text = """
name: orders
sources: {orders: {connector: files, path: orders, format: json, schema: {a: int}}}
sinks: {orders: {reads: orders, connector: files, path: out, format: json}}
"""
    file = write(tmp_path, text)
    feed(tmp_path / "orders", "1", [{"a": 1}])
    (tmp_path / "other" / "orders").mkdir(parents=True)
    (tmp_path / "other" / "orders" / "precious.txt").write_text("mine")

    def refused(into: Path) -> list[tuple[str, object]]:
        with pytest.raises(PipelineError) as caught:
            run_batch(file, RunOptions(), into=into, stdout=lambda line: None)
        return [(problem.code, problem.params["why"]) for problem in caught.value.problems]

    assert refused(tmp_path) == [
        ("HW-BATCH-OUTPUT-DIR-CONFLICT", f"this pipeline reads or writes {tmp_path}/orders")
    ]
    wrote = "it contains files that a Headwater batch run did not write"
    assert refused(tmp_path / "other") == [("HW-BATCH-OUTPUT-DIR-CONFLICT", wrote)]
    assert json.loads((tmp_path / "orders" / "1.json").read_text()) == {"a": 1}
    for _ in range(2):
        run_as_batch(file, tmp_path / "results")
    assert rows_of(spark, tmp_path / "results" / "orders", schema="a int") == Counter({(1,): 1})


def test_a_refused_start_keeps_no_inferred_schema(spark: SparkSession, tmp_path: Path) -> None:
    text = """
name: inferred
sources: {s: {connector: files, path: in, format: json, infer_schema: true}}
tables: {t: SELECT nothing FROM s}
sinks: {t: {reads: t, connector: noop}}
"""
    file = write(tmp_path, text)
    feed(tmp_path / "in", "1", [{"a": 1}])
    with pytest.raises(PipelineError):
        run_until_idle(file)
    assert not (tmp_path / ".headwater" / "schemas").exists()
