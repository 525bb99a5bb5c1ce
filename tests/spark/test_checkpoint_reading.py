"""Checkpoints that Spark wrote, read without it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.checkpoint import Checkpoint, CheckpointState, CommitEntry, LocalStore, SinkLog

STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.fileSource.log.compactInterval": "2",
    "spark.sql.streaming.fileSink.log.compactInterval": "2",
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{STATE}.checkpointFormatVersion": "2",
}
LOCAL: dict[str, bool | float | int | str | None] = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MIDNIGHT_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = SparkSession.getActiveSession()
    base = running or SparkSession.builder.master("local[1]").config(map=LOCAL).getOrCreate()
    session = base.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    yield session
    if running is None:
        base.stop()


class Job:
    """One query that reads the files of a folder, one file in each batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.input, self.output, self.folder = root / "in", root / "out", root / "checkpoint"
        self.input.mkdir()

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(LocalStore(self.folder))

    def feed(self, number: int) -> None:
        row = {"k": "a", "t": f"2026-01-01T00:0{number}:00Z"}
        (self.input / f"{number}.json").write_text(json.dumps(row) + "\n")

    def count(self) -> StreamingQuery:
        """Count by key and time, watermark one minute, to nowhere."""
        rows = self.spark.readStream.schema("k string, t timestamp").json(str(self.input))
        counts = rows.withWatermark("t", "1 minute").groupBy("k", "t").count()
        return self._run(counts.writeStream.outputMode("update").format("noop"))

    def copy(self) -> StreamingQuery:
        """Copy to files."""
        rows = self.spark.readStream.schema("k string, t timestamp").json(str(self.input))
        return self._run(rows.writeStream.format("parquet").option("path", str(self.output)))

    def _run(self, writer: DataStreamWriter) -> StreamingQuery:
        query = writer.option("checkpointLocation", str(self.folder)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return query


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


@pytest.mark.feature("H2", part="offsets, commits and metadata are read without Spark")
def test_two_batches_with_state(job: Job) -> None:
    for number in (1, 2):
        job.feed(number)
        query = job.count()
    checkpoint = job.checkpoint
    assert checkpoint.state is CheckpointState.COMMITTED
    assert checkpoint.query_id == query.id
    assert checkpoint.unfinished is None

    first, second = checkpoint.offsets()
    assert (first.batch_id, first.version, first.watermark_ms) == (0, 1, 0)
    assert (second.batch_id, second.version, second.watermark_ms) == (1, 1, MIDNIGHT_MS)
    assert first.sources == {"0": {"logOffset": 0}}
    assert second.sources == {"0": {"logOffset": 1}}
    assert first.timestamp_ms is not None
    assert second.timestamp_ms is not None
    assert MIDNIGHT_MS < first.timestamp_ms < second.timestamp_ms
    assert first.conf == second.conf
    assert first.conf["spark.sql.shuffle.partitions"] == "1"
    assert first.conf[f"{STATE}.providerClass"] == SETTINGS[f"{STATE}.providerClass"]
    assert checkpoint.last_offset == second

    commits = checkpoint.commits()
    assert [(commit.batch_id, commit.version, commit.next_watermark_ms) for commit in commits] == [
        (0, 2, MIDNIGHT_MS),
        (1, 2, MIDNIGHT_MS + 60_000),
    ]
    for commit in commits:
        (((unique_id,),),) = commit.extra["stateUniqueIds"].values()
        assert UUID.fullmatch(unique_id)
        # The id is the one in the name of the state's file: version N + 1 is what batch N left.
        assert (job.folder / f"state/0/0/{commit.batch_id + 1}_{unique_id}.changelog").exists()
    assert checkpoint.last_commit == commits[1]


def test_a_crash_before_the_commit_leaves_an_unfinished_batch(job: Job) -> None:
    for number in (1, 2):
        job.feed(number)
        job.count()
    planned = job.checkpoint.last_offset
    (job.folder / "commits/1").unlink()
    (job.folder / "commits/.1.crc").unlink()

    crashed = job.checkpoint
    assert crashed.unfinished == 1
    assert crashed.last_offset == planned
    last_commit = crashed.last_commit
    assert last_commit is not None
    assert last_commit.batch_id == 0

    # Spark agrees: it runs that batch again, with the same offsets.
    job.count()
    assert job.checkpoint.last_offset == planned
    assert [commit.batch_id for commit in job.checkpoint.commits()] == [0, 1]


def test_the_logs_of_files_with_compaction(job: Job) -> None:
    for number in range(3):
        job.feed(number)
        job.copy()
    checkpoint, log = job.checkpoint, SinkLog(LocalStore(job.output))
    assert checkpoint.sources() == (0,)
    assert (job.folder / "sources/0/1.compact").exists()
    assert [(file.path, file.timestamp_ms, file.batch_id) for file in checkpoint.source_files(0)] == [
        (f"file://{job.input}/{number}.json", modified_ms(job.input / f"{number}.json"), number)
        for number in range(3)
    ]
    assert checkpoint.last_commit == CommitEntry(2, 2, 0, {"stateUniqueIds": {}})

    files = log.files()
    assert log.last_batch == 2
    assert [(file.batch_id, file.compacted) for file in files] == [(1, True), (1, True), (2, False)]
    written = {f"file://{file}": file.stat().st_size for file in job.output.glob("*.parquet")}
    assert {file.path: file.size for file in files} == written
    assert len(files) == 3


def modified_ms(file: Path) -> int:
    return file.stat().st_mtime_ns // 1_000_000
