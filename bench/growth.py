"""Growth: how cost grows with the keys in state, the queries of a run, the files of a source, and committed batches."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headwater as hw
from bench.children import LONGEST_SECONDS, POLL_SECONDS, JobRun, run_by_hand, run_command, run_headwater
from bench.harness import (
    HEADWATER,
    ROOT,
    SAME,
    Benchmark,
    Case,
    CaseResult,
    Outcome,
    Sample,
    Variant,
    VariantResult,
    number,
)
from bench.variants import settings
from headwater.connectors.files.admission_record import AdmissionRecord, FileStamp
from headwater.run_directory import SourceDirectory

ROWS = 1_000
OLDEST = 1_700_000_000
FIRST = '{"logOffset":0}'
"""The offset of a file source after its first batch."""
MB = 1 << 20
MOST_TOLERANCE = 0.1
"""The largest tolerance, however much the rounds differ: a result with a larger spread shows nothing."""
START, JVM, PYTHON = "start s", "JVM MB", "Python MB"
BATCH_CPU, RUN_CPU = "CPU ms per batch", "CPU s of the run"
MEASURES = ("", BATCH_CPU, START, JVM, PYTHON)
FILES, BATCHES = (10, 1_000, 100_000), (100, 3_000, 100_000)
"""Sizes of curves."""


@dataclass(frozen=True)
class Measured:
    """A run with what it left behind: the progress of every query, and when the command started."""

    run: JobRun
    reports: Sequence[Mapping[str, Any]]
    began: float
    checkpoint: Path

    @property
    def start_seconds(self) -> float:
        """From the command until every query has completed its first batch."""
        ends: dict[str, float] = {}
        for report in self.reports:
            moment = datetime.fromisoformat(report["timestamp"]).timestamp()
            end = moment + report["durationMs"]["triggerExecution"] / 1000
            ends.setdefault(report["id"], end)
        return max(ends.values()) - self.began

    def batch_ms(self, skip: int) -> list[float]:
        """The durations of the batches of all queries, without the first ones of each."""
        seen: dict[str, int] = {}
        found = []
        for report in self.reports:
            seen[report["id"]] = seen.get(report["id"], 0) + 1
            if seen[report["id"]] > skip:
                found.append(float(report["durationMs"]["triggerExecution"]))
        return found

    def batch_cpu_ms(self, skip: int) -> float:
        """CPU time of the process tree per batch, without the first ones: also of work outside the query."""
        numbers = sorted({report["batchId"] for report in self.reports})
        return self.run.cpu_ms(numbers[skip], numbers[-1])

    def memory(self) -> dict[str, float]:
        """The largest memory and number of threads of the process tree; of many queries, some end early."""
        return {
            JVM: max(usage.jvm_bytes for usage in self.run.usages) / MB,
            PYTHON: max(usage.python_bytes for usage in self.run.usages) / MB,
            "threads": float(max(usage.threads for usage in self.run.usages)),
        }


Run = Callable[[Path], Measured]


@dataclass(frozen=True)
class Job:
    """The same work as a pipeline and by hand; both read the same input."""

    pipeline: str
    function: Callable[..., object]
    parameters: Mapping[str, object]
    stop_after: int | None = None
    """The batch after which the run is stopped; None if it ends when all files are read."""

    def headwater(self, folder: Path) -> Measured:
        began = time.time()
        checkpoint = folder / ".headwater" / "checkpoints" / "q0"
        if self.stop_after is None:
            run = run_headwater(self.pipeline, folder, query="q0")
        else:
            (folder / "pipeline.yml").write_text(self.pipeline, encoding="utf-8")
            program = f"from {__name__} import until; until({self.stop_after})"
            environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
            command = [sys.executable, "-c", program]
            run = run_command(command, folder, commit_log=checkpoint / "commits", environ=environ)
        events = [json.loads(line) for line in run.output.splitlines() if line.startswith("{")]
        reports = [each["progress"] for each in events if each.get("event") == "query_progress"]
        return Measured(run, _executed(reports), began, checkpoint)

    def by_hand(self, folder: Path) -> Measured:
        name = f"{__name__}:{self.function.__name__}"
        began = time.time()
        run = run_by_hand(name, folder, settings(SAME), self.parameters)
        reports = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
        return Measured(run, _executed(reports), began, folder / "checkpoint")


def _executed(reports: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without the reports of polls that found no data."""
    return [report for report in reports if "addBatch" in report["durationMs"]]


def size_of(folder: Path) -> float:
    """The megabytes in a directory."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / MB


def until(batch: int) -> None:
    """The program of a child process: run the pipeline of this directory up to a batch."""
    with hw.load("pipeline.yml").start() as run:
        _wait_for(Path(".headwater/checkpoints/q0"), batch)
    for progress in run.queries["q0"].recent_progress:
        print(json.dumps({"event": "query_progress", "progress": progress}))


def _wait_for(checkpoint: Path, batch: int) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (checkpoint / "commits" / str(batch)).exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"batch {batch} was not committed within {LONGEST_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


# The queries by hand.


class Queries:
    """Several queries, as one for the child's program."""

    def __init__(self, queries: Sequence[StreamingQuery]) -> None:
        self._queries = queries

    def awaitTermination(self) -> None:  # noqa: N802 - the name of Spark
        for query in self._queries:
            query.awaitTermination()

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802 - the name of Spark
        return [progress for query in self._queries for progress in query.recentProgress]


def by_key(spark: SparkSession, folder: Path, data: str) -> StreamingQuery:
    """Count and sum by key, without a watermark."""
    rows = spark.readStream.schema("k bigint, amount double").option("maxFilesPerTrigger", 1).parquet(data)
    grouped = rows.groupBy("k").agg({"*": "count", "amount": "sum"})
    writer = grouped.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def many(spark: SparkSession, folder: Path, data: str, queries: int) -> Queries:
    """The same query several times."""
    started = []
    for each in range(queries):
        rows = spark.readStream.schema("id bigint, k bigint").option("maxFilesPerTrigger", 1).json(data)
        writer = rows.where("k <> 7").writeStream.format("noop").trigger(availableNow=True)
        checkpoint = folder / ("checkpoint" if each == 0 else f"checkpoint{each}")
        started.append(writer.option("checkpointLocation", str(checkpoint)).start())
    return Queries(started)


class Stopped(Queries):
    """A query that is stopped after a batch."""

    def __init__(self, query: StreamingQuery, checkpoint: Path, batch: int) -> None:
        super().__init__([query])
        self._checkpoint, self._batch = checkpoint, batch

    def awaitTermination(self) -> None:  # noqa: N802 - the name of Spark
        _wait_for(self._checkpoint, self._batch)
        for query in self._queries:
            query.stop()


def first_files(spark: SparkSession, folder: Path, data: str, batch: int) -> Stopped:
    """The oldest files of many, one per batch."""
    rows = spark.readStream.schema("id bigint, k bigint").option("maxFilesPerTrigger", 1).json(data)
    writer = rows.where("k <> 7").writeStream.format("noop")
    checkpoint = folder / "checkpoint"
    return Stopped(writer.option("checkpointLocation", str(checkpoint)).start(), checkpoint, batch)


def csv_files(spark: SparkSession, folder: Path, data: str, batch: int | None) -> StreamingQuery | Stopped:
    """The oldest CSV files of many, one per batch, up to a batch or the newest file."""
    reader = spark.readStream.schema("id bigint, k bigint").option("maxFilesPerTrigger", 1)
    writer = reader.option("header", True).csv(data).where("k <> 7").writeStream.format("noop")
    checkpoint = folder / "checkpoint"
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (
        writer.trigger(availableNow=True).start()
        if batch is None
        else Stopped(writer.start(), checkpoint, batch)
    )


def copied(spark: SparkSession, folder: Path, data: str, to_files: bool) -> StreamingQuery:
    """Rows of files, into files or nowhere."""
    rows = spark.readStream.schema("id bigint, k bigint").option("maxFilesPerTrigger", 1).json(data)
    writer = rows.where("k <> 7").writeStream.format("parquet" if to_files else "noop")
    if to_files:
        writer = writer.option("path", str(folder / "out"))
    return writer.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint")).start()


def copy_job(data: Path, sink: str) -> Job:
    """One file per batch, into files or nowhere."""
    pipeline = (
        "name: growth\n"
        "sources:\n"
        f"  events: {{connector: files, path: {data}, format: json, schema: 'id bigint, k bigint',"
        " max_files_per_batch: 1}\n"
        "tables: {result: SELECT * FROM events WHERE k <> 7}\n"
        f"sinks: {{q0: {{reads: result, {sink}, trigger: available now}}}}\n"
    )
    return Job(pipeline, copied, {"data": str(data), "to_files": sink != NOWHERE})


def listing_job(data: Path, last: int) -> Job:
    """One file per batch, up to a batch; the directory is listed again for each batch."""
    pipeline = copy_job(data, NOWHERE).pipeline.replace(", trigger: available now", "")
    return Job(pipeline, first_files, {"data": str(data), "batch": last}, stop_after=last)


def validated_job(data: Path, last: int | None) -> Job:
    """One CSV file per batch, which Headwater opens before; without `last`, the run ends when all are read."""
    trigger = ", trigger: available now" if last is None else ""
    pipeline = (
        "name: growth\n"
        "sources:\n"
        f"  events: {{connector: files, path: {data}, format: csv, header: true, schema: 'id bigint, k bigint',"
        " max_files_per_batch: 1, bad_rows: drop}\n"
        "tables: {result: SELECT * FROM events WHERE k <> 7}\n"
        f"sinks: {{q0: {{reads: result, {NOWHERE}{trigger}}}}}\n"
    )
    return Job(pipeline, csv_files, {"data": str(data), "batch": last}, stop_after=last)


TO_FILES = "connector: files, path: out, format: parquet"
WITH_MANIFEST = f"{TO_FILES}, manifest: true"
NOWHERE = "connector: noop"


# Input.


def write_rows(folder: Path, files: int, *, rows: int = ROWS, first: int = 0) -> None:
    """JSON files in the order in which Spark reads them; `first` is the number of the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"id": row, "k": row % 100}) + "\n" for row in range(rows)).encode()
    for each in range(first, first + files):
        file = folder / f"{each:08}.json"
        file.write_bytes(text)
        os.utime(file, (OLDEST + each,) * 2)
    # The first run must not share the disk with these writes.
    os.sync()


def write_csv(folder: Path, files: int, *, first: int = 0) -> None:
    """CSV files of one row, in the order in which Spark reads them; each appears complete."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in range(first, first + files):
        file = folder / f"{each:08}.csv"
        part = folder / f".{file.name}"
        part.write_text("id,k\n1,1\n", encoding="utf-8")
        os.utime(part, (OLDEST + each,) * 2)
        part.rename(file)


@contextmanager
def arriving(data: Path, commits: Path, first: int, files: int) -> Iterator[None]:
    """While this is open, a file arrives when the batch of the one before is committed; they are removed at the end.

    Batch 0 and 1 have read the files before `first`, so the new ones are read by the batches from 2 on.
    """
    over = threading.Event()

    def write() -> None:
        for each in range(files):
            while not (commits / str(each + 1)).exists() and not over.wait(POLL_SECONDS):
                pass
            if over.is_set():
                return
            write_csv(data, 1, first=first + each)

    thread = threading.Thread(target=write, name="arriving files", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for each in range(first, first + files):
            (data / f"{each:08}.csv").unlink(missing_ok=True)


def write_keys(folder: Path, keys: int, files: int) -> None:
    """One Parquet file with every key once, then small ones with keys from all of them."""
    folder.mkdir(parents=True)
    step = 7_919
    for each in range(files + 1):
        if each == 0:
            found = pa.array(range(keys), pa.int64())
        else:
            found = pa.array([(each * ROWS + row) * step % keys for row in range(ROWS)], pa.int64())
        amounts = pa.array([1.5] * len(found), pa.float64())
        file = folder / f"{each:08}.parquet"
        pq.write_table(pa.table({"k": found, "amount": amounts}), file)
        os.utime(file, (OLDEST + each,) * 2)
    os.sync()


# Logs of many batches or files, made from those of one batch.


def entry(path: str, batch: int) -> str:
    """A file in the log of a source."""
    fields = {"path": path, "timestamp": (OLDEST + batch) * 1000, "batchId": batch}
    return json.dumps(fields, separators=(",", ":"))


def with_validated(record: AdmissionRecord, data: Path, files: int) -> None:
    """Let Headwater have opened this many files."""
    record.begin()
    for path in (data / f"{each:08}.csv" for each in range(files)):
        record.admit(str(path), FileStamp.of(path.stat()))
    record.write()


def with_files(checkpoint: Path, data: Path, files: int, suffix: str = "json") -> None:
    """Let two batches have read this many files. The last one is small, because a start lists its files again."""
    for log in (checkpoint / "offsets", checkpoint / "commits"):
        _replace(log / "1", (log / "0").read_text(encoding="utf-8").replace(FIRST, '{"logOffset":1}'))
    paths = [f"file://{data}/{each:08}.{suffix}" for each in range(files)]
    for batch, read in enumerate((paths[:-1], paths[-1:])):
        text = "\n".join(["v1", *(entry(path, batch) for path in read)])
        _replace(checkpoint / "sources" / "0" / str(batch), text)


def with_batches(checkpoint: Path, output: Path, data: Path, batches: int) -> None:
    """Let this many batches be committed, each with one file; Spark keeps the last hundred in its logs."""
    for name in ("offsets", "commits"):
        log = checkpoint / name
        text = (log / "0").read_text(encoding="utf-8")
        for each in range(max(0, batches - 100), batches):
            _replace(log / str(each), text.replace(FIRST, f'{{"logOffset":{each}}}'))
        if batches > 100:
            _replace(log / "0", None)
    read = [entry(f"file://{data}/old/{each:08}.json", each) for each in range(batches)]
    _compact(checkpoint / "sources" / "0", read)
    log = output / "_spark_metadata"
    (line,) = (log / "0").read_text(encoding="utf-8").splitlines()[1:]
    path = json.loads(line)["path"]
    name = path.rpartition("/")[2]
    written = [line.replace(name, f"part-00000-{each:08}-c000.snappy.parquet") for each in range(batches - 1)]
    # The file of the first batch exists; it stays the newest one.
    _compact(log, [*written, line])


def _compact(log: Path, lines: Sequence[str]) -> None:
    """The log of as many batches as lines, as Spark leaves it after every tenth batch."""
    _replace(log / "0", None)
    _replace(log / f"{len(lines) - 1}.compact", "\n".join(["v1", *lines]))


def _replace(file: Path, text: str | None) -> None:
    """A file without the checksum of the former one."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    if text is None:
        file.unlink()
    else:
        file.write_text(text, encoding="utf-8")


# The curves.


@dataclass(frozen=True)
class Curve:
    """One kind of growth: a case per size."""

    name: str
    noun: str
    sizes: Sequence[int]
    unit: str
    measures: Sequence[str]
    """What must not grow faster than by hand: details, and the value as an empty text."""
    run: Callable[[Growth, int, str], Callable[[Path], Sample]]
    note: str = ""

    def case_name(self, size: int) -> str:
        return f"{self.name}: {size:,} {self.noun}"


def _sample(measured: Measured, skip: int, details: Mapping[str, float]) -> Sample:
    """The median batch, with CPU seconds of the run."""
    value = statistics.median(measured.batch_ms(skip))
    found = {
        BATCH_CPU: measured.batch_cpu_ms(skip),
        START: measured.start_seconds,
        **measured.memory(),
        **details,
    }
    return Sample(value, measured.run.cpu_seconds, found)


def _runner(job: Job, variant: str) -> Run:
    return job.headwater if variant == HEADWATER else job.by_hand


class Growth(Benchmark):
    """Cost by size, next to the same query by hand with the same settings."""

    name = "growth"
    title = "Growth"
    description = (
        "How cost grows with the keys in state, the queries of a run, the files of a source and the committed "
        "batches. CPU is that of the whole run in seconds; memory is the maximum after the first commit, read at least "
        "once a second. "
        "Extra growth is what Headwater grows by, from the smallest size to a larger one, more than Spark with the "
        "same settings, as a share of Spark's value at the larger size. No curve may grow faster than Spark's. The "
        "limit is the precision of Spark's own rounds: the sum of half their spreads at the two sizes, at most "
        "10 %. One round shows no spread, so nothing is compared with a limit then."
    )

    def __init__(self) -> None:
        self._sizes: dict[str, Sequence[int]] = {}

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-growth-") as folder:
            self.input = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        for curve in CURVES:
            sizes = curve.sizes[:2] if quick else curve.sizes
            self._sizes[curve.name] = sizes
            for size in sizes:
                variants = [Variant(name, curve.run(self, size, name)) for name in (HEADWATER, SAME)]
                yield Case(curve.case_name(size), curve.unit, "lower", variants, note=curve.note)

    def outcomes(self, results: Sequence[CaseResult]) -> Iterable[Outcome]:
        by_name = {result.name: result for result in results}
        for curve in CURVES:
            first, *larger = self._sizes[curve.name]
            for measure, size in product(curve.measures, larger):
                small, large = by_name[curve.case_name(first)], by_name[curve.case_name(size)]
                if not (_shows_spread(small) and _shows_spread(large)):
                    continue
                ours, theirs = (ends(small, large, name, measure) for name in (HEADWATER, SAME))
                text = (
                    f"{curve.name}: extra growth of {measure or 'a batch'} from {first:,} to {size:,} {curve.noun} "
                    f"({HEADWATER} {_arrow(ours)}, {SAME} {_arrow(theirs)})"
                )
                yield Outcome(text, extra_growth(ours, theirs), tolerance(small, large, measure), "at most")

    # Each returns a function that runs one variant once.

    def state(self, keys: int, variant: str) -> Callable[[Path], Sample]:
        data, files = self.input / f"keys-{keys}", 16
        pipeline = (
            "name: growth\n"
            "sources:\n"
            f"  events: {{connector: files, path: {data}, format: parquet, schema: 'k bigint, amount double',"
            " max_files_per_batch: 1}\n"
            "tables: {result: 'SELECT k, count(*) AS number, sum(amount) AS amount FROM events GROUP BY k'}\n"
            "sinks: {q0: {reads: result, connector: noop, mode: update, trigger: available now}}\n"
        )
        run = _runner(Job(pipeline, by_key, {"data": str(data)}), variant)

        def sample(folder: Path) -> Sample:
            if not data.exists():
                write_keys(data, keys, files)
            measured = run(folder)
            keys_in_state = measured.reports[-1]["stateOperators"][0]["numRowsTotal"]
            if keys_in_state != keys:
                raise RuntimeError(f"the state has {keys_in_state} keys, expected {keys}")
            return _sample(measured, 6, {"checkpoint MB": size_of(measured.checkpoint)})

        return sample

    def queries(self, queries: int, variant: str) -> Callable[[Path], Sample]:
        data, files = self.input / "queries", 8
        sinks = "".join(
            f"  q{each}: {{reads: result, connector: noop, trigger: available now}}\n"
            for each in range(queries)
        )
        job = copy_job(data, NOWHERE)
        job = replace(job, pipeline=f"{job.pipeline.partition('sinks:')[0]}sinks:\n{sinks}", function=many)
        job = replace(job, parameters={"data": str(data), "queries": queries})
        run = _runner(job, variant)

        def sample(folder: Path) -> Sample:
            if not data.exists():
                write_rows(data, files)
            measured = run(folder)
            if len(measured.reports) != queries * files:
                raise RuntimeError(f"{len(measured.reports)} batches, expected {queries * files}")
            return _sample(measured, 3, {})

        return sample

    def processed(self, files: int, variant: str) -> Callable[[Path], Sample]:
        data, new = self.input / f"processed-{files}", 8
        # The first two batches have read all the others.
        job = listing_job(data, last=new + 1)

        def sample(folder: Path) -> Sample:
            if not data.exists():
                write_rows(data, files, rows=1)
                write_rows(data, new, first=files)
            self._copy_of_first_batch(NOWHERE, variant, data, folder)
            with_files(_checkpoint(folder, variant), data, files)
            return _sample(_only_new(_runner(job, variant)(folder), new), 2, {})

        return sample

    def waiting(self, files: int, variant: str) -> Callable[[Path], Sample]:
        data, read = self.input / f"waiting-{files}", 8
        job = listing_job(data, last=read - 1)

        def sample(folder: Path) -> Sample:
            if not data.exists():
                write_rows(data, files, rows=1)
            measured = _runner(job, variant)(folder)
            # A batch more may be committed before the query stops.
            reports = [report for report in measured.reports if report["batchId"] < read]
            return _sample(_only_new(replace(measured, reports=reports), read), 2, {})

        return sample

    def validated(self, files: int, variant: str) -> Callable[[Path], Sample]:
        data, new = self.input / f"validated-{files}", 8
        job = validated_job(data, new + 1)

        def sample(folder: Path) -> Sample:
            if not data.exists():
                write_csv(data, files)
                os.sync()
            first = self.input / "first-csv"
            if not first.exists():
                write_csv(first / "in", 1)
            self._copy_of_first_run(validated_job(first / "in", None), first, variant, data, folder)
            checkpoint = _checkpoint(folder, variant)
            with_files(checkpoint, data, files, "csv")
            if variant == HEADWATER:
                admitted = SourceDirectory(folder / ".headwater", "events").admitted(0)
                with_validated(AdmissionRecord(admitted, str(data)), data, files)
            with arriving(data, checkpoint / "commits", files, new):
                measured = _runner(job, variant)(folder)
            return _sample(_only_new(measured, new), 2, {})

        return sample

    def batches(self, batches: int, variant: str, sink: str = TO_FILES) -> Callable[[Path], Sample]:
        data, new = self.input / "batches", 16
        job = copy_job(data, sink)

        def sample(folder: Path) -> Sample:
            if not data.exists():
                write_rows(data, new, first=1)
            self._copy_of_first_batch(sink, variant, data, folder)
            checkpoint = _checkpoint(folder, variant)
            with_batches(checkpoint, folder / "out", data, batches)
            measured = _only_new(_runner(job, variant)(folder), new)
            if sink == WITH_MANIFEST and variant == HEADWATER:
                _check_manifest(folder / "out", batches + new)
            details = {
                "longest batch ms": max(measured.batch_ms(0)),
                "logs MB": size_of(checkpoint) + size_of(folder / "out" / "_spark_metadata"),
            }
            return _sample(measured, 2, details)

        return sample

    def _copy_of_first_batch(self, sink: str, variant: str, data: Path, folder: Path) -> None:
        """What a run of one batch leaves behind, as if it had read `data`; it runs once per variant and sink."""
        first = self.input / "-".join(["first", *re.findall("[a-z]+", sink)])
        if not first.exists():
            write_rows(first / "in", 1)
        self._copy_of_first_run(copy_job(first / "in", sink), first, variant, data, folder)

    def _copy_of_first_run(self, job: Job, first: Path, variant: str, data: Path, folder: Path) -> None:
        template = first / variant.replace(" ", "-").replace(",", "")
        if not template.exists():
            template.mkdir(parents=True)
            _runner(job, variant)(template)
        shutil.copytree(template, folder, dirs_exist_ok=True)
        # The log of the sink and the metadata of Headwater contain full paths.
        for file in (folder / "out" / "_spark_metadata" / "0", folder / ".headwater" / "queries" / "q0.json"):
            if file.exists():
                text = file.read_text(encoding="utf-8").replace(str(template), str(folder))
                _replace(file, text.replace(str(first / "in"), str(data)))


def _checkpoint(folder: Path, variant: str) -> Path:
    return folder / ".headwater" / "checkpoints" / "q0" if variant == HEADWATER else folder / "checkpoint"


def _only_new(measured: Measured, batches: int) -> Measured:
    """The run, if it had this many batches with rows; anything else would compare different work."""
    found = [report for report in measured.reports if report["numInputRows"]]
    if len(found) != batches:
        raise RuntimeError(f"{len(found)} batches had rows, expected {batches}")
    return measured


def _check_manifest(output: Path, files: int) -> None:
    listed = (output / "_headwater" / "files.txt").read_text(encoding="utf-8").count("\n")
    if listed != files:
        raise RuntimeError(f"the manifest lists {listed} files, expected {files}")


Ends = tuple[float, float] | None
"""The median of a figure at the smallest and the largest size; None if a variant has no results."""


def ends(small: CaseResult, large: CaseResult, variant: str, measure: str) -> Ends:
    """The medians of a figure of a variant in two cases."""
    first, last = small.variant(variant), large.variant(variant)
    if first is None or last is None:
        return None
    return statistics.median(_values(first, measure)), statistics.median(_values(last, measure))


def _values(result: VariantResult, measure: str) -> list[float]:
    """A figure of each round."""
    if measure == RUN_CPU:
        return [sample.cpu for sample in result.samples.values() if sample.cpu is not None]
    return list(result.values(measure).values())


def _shows_spread(result: CaseResult) -> bool:
    """Whether Spark ran more than once; if it has no results at all, the outcome says so."""
    spark = result.variant(SAME)
    return spark is None or len(spark.samples) != 1


def tolerance(small: CaseResult, large: CaseResult, measure: str) -> float:
    """The extra growth that the rounds cannot tell from none: what the median of Spark itself may be off by at both
    sizes, as a share of its value at the larger one."""
    first, last = small.variant(SAME), large.variant(SAME)
    if first is None or last is None:
        return 0.0
    found = [_values(each, measure) for each in (first, last)]
    spread = sum((max(values) - min(values)) / 2 for values in found)
    return round(min(MOST_TOLERANCE, spread / statistics.median(found[1])), 3)


def extra_growth(ours: Ends, theirs: Ends) -> float | None:
    """What we grow by more than they do, as a share of their largest value."""
    if ours is None or theirs is None:
        return None
    return ((ours[1] - ours[0]) - (theirs[1] - theirs[0])) / theirs[1]


def _arrow(values: Ends) -> str:
    return " → ".join(map(number, values)) if values else "not measured"


CURVES = (
    Curve("state", "keys", (10_000, 300_000, 3_000_000), "ms", ("", BATCH_CPU, JVM, PYTHON), Growth.state),
    # The batches of the queries overlap, so CPU is that of the run.
    Curve(
        "queries", "queries in one run", (1, 10, 50), "ms", ("", RUN_CPU, START, JVM, PYTHON), Growth.queries
    ),
    Curve("processed files", "files that were read before", FILES, "ms", MEASURES, Growth.processed),
    Curve("waiting files", "unread files at the start", FILES, "ms", MEASURES, Growth.waiting),
    Curve(
        "validated files",
        "files that were opened and read before",
        FILES,
        "ms",
        MEASURES,
        Growth.validated,
        "While the query runs, one file after another arrives. Headwater opens each before Spark reads it, and "
        "adds it to its record of all opened files. It spends at most a tenth of the time on that. By hand, nothing is "
        "validated.",
    ),
    Curve("batches", "batches committed before", BATCHES, "ms", MEASURES, Growth.batches),
    Curve(
        "batches with a manifest",
        "batches committed before",
        BATCHES,
        "ms",
        MEASURES,
        partial(Growth.batches, sink=WITH_MANIFEST),
        "Headwater writes the manifest after the commit of a batch, so CPU includes its cost and the duration of a "
        "batch does not. By hand there is no manifest.",
    ),
)
BENCHMARK = Growth()
