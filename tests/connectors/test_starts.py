"""Connectors that need no server, started on Spark by the suite for connectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.testing.conformance import start_problems

PIPELINE = """
name: conformance
sources:
  validated: {connector: files, path: lines, format: json, schema: {id: int}, bad_rows: drop}
  plain: {connector: files, path: lines, format: text, schema: {value: string}}
  numbers: {connector: python, class: "feeds.py:Numbers"}
sinks:
  validated: {reads: validated, connector: files, path: out, format: json}
  plain: {reads: plain, connector: memory}
  numbers: {reads: numbers, connector: noop}
"""
REPEATING = """
name: repeating
sources:
  lines: {connector: files, path: lines, format: text, schema: {value: string}}
sinks:
  console: {reads: lines, connector: console}
  foreach: {reads: lines, connector: foreach, function: "feeds.py:take"}
  foreach_batch: {reads: lines, connector: foreach_batch, function: "feeds.py:take_batch"}
"""
FEEDS = """
import os

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class Numbers(DataSource):
    def schema(self):
        return "number int"

    def streamReader(self, schema):
        return Reader()


class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"next": 0}

    def latestOffset(self):
        return {"next": 3}

    def partitions(self, start, end):
        return [InputPartition(each) for each in range(start["next"], end["next"])]

    def read(self, partition):
        yield (partition.value,)


def take(row):
    pass


def take_batch(rows, batch_id):
    rows.count()
"""


@pytest.mark.parametrize(
    "pipeline",
    [
        pytest.param(PIPELINE, id="idempotent"),
        # The tests of these connectors start them, too.
        pytest.param(REPEATING, id="repeating", marks=pytest.mark.soak),
    ],
)
def test_connectors_that_need_no_server_start(pipeline: str, tmp_path: Path) -> None:
    (tmp_path / "feeds.py").write_text(FEEDS, encoding="utf-8")
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.json").write_text('{"id": 1}\nno json\n{"id": 2}', encoding="utf-8")
    file = tmp_path / "pipeline.yml"
    file.write_text(pipeline, encoding="utf-8")

    def written() -> list[str]:
        return sorted(each.read_text() for each in tmp_path.glob("out/*.json"))

    assert start_problems(file, written) == []
    assert "".join(written()) == ('{"id":1}\n{"id":2}\n' if pipeline is PIPELINE else "")
