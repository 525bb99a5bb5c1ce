"""Spark Declarative Pipelines, which ship with PySpark, on jobs that they can run.

They write tables, and a run processes all available data and ends. So they run two jobs here: files to windows to
Parquet at full speed, and small batches to Parquet. What they cannot run here: a sink that discards rows, and
everything with another trigger, such as the latency by trigger.

`spark-pipelines` reports no durations. So every variant is measured from outside, between two commits in the
checkpoint. It runs in the environment of requirements/bench.lock, with the settings of the tuning guides.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.children import JobFailed, JobRun, run_by_hand, run_command, run_headwater
from bench.harness import GUIDE, HEADWATER, SAME, Benchmark, Case, Sample, Variant
from bench.offline_check import install, spark_pipelines
from bench.variants import guide_settings, settings

DECLARATIVE = "Spark Declarative Pipelines, guide settings"
SCHEMA = "id bigint, k bigint, at timestamp, amount double"
KEYS, MINUTES_PER_FILE = 100, 10
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
WINDOWS = """SELECT window.start AS at, k, count(*) AS number, sum(amount) AS amount
    FROM {events} GROUP BY window(at, '1 minute'), k"""
COPY = "SELECT id, k, at, amount * 2 AS amount FROM {events} WHERE amount >= 0"
PIPELINE = """\
name: declarative
sources:
  events:
    connector: files
    path: {path}
    format: json
    schema: {schema}
    max_files_per_batch: 1
    watermark: {{column: at, delay: 10 minutes}}
tables:
  result: |
    {sql}
sinks:
  out: {{reads: result, connector: files, path: out, format: parquet, trigger: available now}}
"""
PROJECT = """\
name: declarative
storage: {storage}
configuration: {configuration}
libraries:
  - glob:
      include: transformations/**
"""
SOURCE = """\
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.temporary_view
def events() -> DataFrame:
    files = spark.readStream.schema("{schema}").option("maxFilesPerTrigger", 1).json("{path}")
    return files.withWatermark("at", "10 minutes")
"""


@dataclass(frozen=True)
class Job:
    """A query over files, and the batches between whose commits it is measured."""

    name: str
    sql: str
    files: int
    rows: int
    first: int
    unit: str

    def value(self, seconds: float) -> float:
        """The result in the unit of the job."""
        batches = self.files - 1 - self.first
        return batches * self.rows / seconds if self.unit == "rows/s" else 1000 * seconds / batches

    @property
    def written(self) -> int:
        """The number of rows that a right run writes: all, or the windows that the watermark has closed."""
        minutes = (self.files - 1) * MINUTES_PER_FILE - 1
        return minutes * KEYS if self.sql == WINDOWS else self.files * self.rows


FULL = (
    Job("JSON files → windows → Parquet", WINDOWS, 6, 300_000, 0, "rows/s"),
    Job("small batches → Parquet", COPY, 100, 1_000, 49, "ms per batch"),
)
QUICK = (
    Job("JSON files → windows → Parquet", WINDOWS, 3, 6_000, 0, "rows/s"),
    Job("small batches → Parquet", COPY, 6, 1_000, 2, "ms per batch"),
)


def write_files(folder: Path, job: Job) -> None:
    """One file per batch; the times of a file advance evenly over ten minutes."""
    folder.mkdir()
    for number in range(job.files):
        file = folder / f"{number:03}.json"
        with file.open("w", encoding="utf-8") as out:
            for row in range(job.rows):
                second = (number * job.rows + row) * MINUTES_PER_FILE * 60 // job.rows
                at = (FIRST + timedelta(seconds=second)).isoformat()
                line = {"id": number * job.rows + row, "k": row % KEYS, "at": at, "amount": row / 8}
                out.write(json.dumps(line) + "\n")
        # Spark reads the oldest file first.
        os.utime(file, (1_700_000_000 + number,) * 2)


def start_by_hand(spark: SparkSession, folder: Path, data: str, sql: str) -> StreamingQuery:
    """The job with plain PySpark, for `bench.by_hand`."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(data)
    files.withWatermark("at", "10 minutes").createOrReplaceTempView("events")
    writer = spark.sql(sql.format(events="events")).writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    return writer.trigger(availableNow=True).start()


def write_project(folder: Path, data: Path, job: Job) -> None:
    """The job as a project of `spark-pipelines`."""
    parts = folder / "transformations"
    parts.mkdir()
    (parts / "source.py").write_text(SOURCE.format(schema=SCHEMA, path=data), encoding="utf-8")
    created = f"CREATE STREAMING TABLE result AS {job.sql.format(events='STREAM events')};\n"
    (parts / "result.sql").write_text(created, encoding="utf-8")
    given = {**guide_settings(), "spark.sql.session.timeZone": "UTC"}
    storage = (folder / "storage").as_uri()
    project = PROJECT.format(storage=storage, configuration=json.dumps(given))
    (folder / "spark-pipeline.yml").write_text(project, encoding="utf-8")


def run_declarative(folder: Path, data: Path, job: Job) -> JobRun:
    """Run the project with `spark-pipelines run`."""
    install()
    write_project(folder, data, job)
    command = spark_pipelines()
    arguments = [command.command[0], "run"]
    # The first flow of a table has the directory 0.
    table = folder / "storage" / "_checkpoints" / "spark_catalog" / "default" / "result"
    commits = table / "result" / "0" / "commits"
    return run_command(arguments, folder, commit_log=commits, environ=command.environ)


def sample(run: JobRun, job: Job, output: Path) -> Sample:
    """The time from one commit to the last one with a file; the right number of rows must have been written."""
    found = sum(pyarrow.parquet.read_metadata(file).num_rows for file in output.glob("*.parquet"))
    if found != job.written:
        raise JobFailed(f"{found} rows were written, expected {job.written}:\n{run.output[-3000:]}")
    last = job.files - 1
    if not {job.first, last} <= run.commits.keys():
        raise JobFailed(f"the commits of batches {job.first} and {last} were not seen, only {[*run.commits]}")
    began, ended = run.commits[job.first], run.commits[last]
    used = ended.cpu - began.cpu
    if job.unit != "rows/s":
        used *= 1000 / (last - job.first)
    return Sample(job.value(ended.at - began.at), used, {"run s": run.seconds})


class Declarative(Benchmark):
    """The benchmark."""

    name = "declarative"
    title = "Spark Declarative Pipelines"
    description = (
        "The jobs that `spark-pipelines` can run, measured between two commits in the checkpoint. CPU: of the batches "
        "between these commits."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder:
            self.input = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        for number, job in enumerate(QUICK if quick else FULL):
            data = self.input / str(number)
            write_files(data, job)
            variants = [
                Variant(HEADWATER, _headwater(data, job)),
                Variant(SAME, _by_hand(data, job, SAME)),
                Variant(GUIDE, _by_hand(data, job, GUIDE)),
                Variant(DECLARATIVE, _declarative(data, job)),
            ]
            yield Case(job.name, job.unit, "higher" if job.unit == "rows/s" else "lower", variants)


def _headwater(data: Path, job: Job) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        sql = job.sql.format(events="events")
        text = PIPELINE.format(path=data, schema=json.dumps(SCHEMA), sql=sql)
        return sample(run_headwater(text, folder), job, folder / "out")

    return run


def _by_hand(data: Path, job: Job, variant: str) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        name, parameters = f"{__name__}:{start_by_hand.__name__}", {"data": str(data), "sql": job.sql}
        return sample(run_by_hand(name, folder, settings(variant), parameters), job, folder / "out")

    return run


def _declarative(data: Path, job: Job) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        done = run_declarative(folder, data, job)
        return sample(done, job, folder / "spark-warehouse" / "result")

    return run


BENCHMARK = Declarative()
