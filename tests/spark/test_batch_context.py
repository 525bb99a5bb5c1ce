"""What a sink of a connector knows of the batch that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.connectors import Connector, Context, Sink
from headwater.connectors.contract import BatchContext
from headwater.connectors.registry import all_connectors
from headwater.spec import Delivery, SinkOptions
from tests.pipelines import feed, run_until_idle, write

PIPELINE = """
name: audited
sources: {rows: {connector: files, path: in, format: json, schema: {n: int}, max_files_per_batch: 1}}
sinks: {out: {reads: rows, connector: audited}}
"""
WRITTEN: list[tuple[BatchContext, int]] = []


class AuditedSink(SinkOptions):
    """No keys."""


class AuditedWriter(Sink[AuditedSink]):
    """Notes what it is told of each batch, and the rows."""

    options = AuditedSink
    modes = frozenset({"append"})
    delivery = Delivery.DUPLICATES
    batch = False

    def write_stream(
        self, writer: DataStreamWriter, options: AuditedSink, context: Context
    ) -> DataStreamWriter:
        return writer.foreachBatch(
            lambda batch, batch_id: WRITTEN.append((context.of_batch(batch_id), _count(batch)))
        )


def _count(batch: DataFrame) -> int:
    return batch.count()


@pytest.mark.feature("F5", part="a sink gets query, batch and the number of the run")
def test_a_sink_knows_its_query_the_batch_and_the_number_of_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = Connector("audited", "Notes batches.", sink=AuditedWriter())
    monkeypatch.setitem(all_connectors(), "audited", audited)
    file = write(tmp_path, PIPELINE)
    feed(tmp_path / "in", "1", [{"n": 1}], at=1000)
    feed(tmp_path / "in", "2", [{"n": 2}, {"n": 3}], at=1001)
    run_until_idle(file)
    feed(tmp_path / "in", "3", [{"n": 4}], at=1002)
    run_until_idle(file)
    query_id = Checkpoint(LocalStore(tmp_path / ".headwater/checkpoints/out")).query_id
    assert query_id is not None
    assert [(each.query, each.query_id, each.batch_id, each.epoch, rows) for each, rows in WRITTEN] == [
        ("out", query_id, 0, 1, 1),
        ("out", query_id, 1, 1, 2),
        ("out", query_id, 2, 2, 1),
    ]
