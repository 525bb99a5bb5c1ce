"""`headwater check` against `spark-pipelines dry-run`, which ships with PySpark, on a project of 100 tables.

Both check an equivalent project: the same two sources, ten sinks, and the same SQL (except for the keyword STREAM,
which declarative pipelines require before a stream). First, both must reject a version with a misspelled name.
`spark-pipelines` analyzes with Spark, so it also checks columns and types. A full `headwater check` does the same
and more, and is also measured.

The additional packages of `spark-pipelines` are the dependency group `bench`, locked in requirements/bench.lock
and installed in build/bench.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from bench.children import JobFailed, run_command
from bench.harness import ROOT, Benchmark, Case, Sample, Target, Unavailable, Variant

LOCK = ROOT / "requirements" / "bench.lock"
ENVIRONMENT = ROOT / "build" / "bench"
CHAINS, DEPTH = 10, 10

SOURCES = """
name: many
sources:
  clicks: {connector: rate, watermark: {column: timestamp, delay: 10 minutes}}
  regions: {connector: files, path: regions, format: json, schema: {id: bigint, region: string}, static: true}
tables:
""".lstrip()
SPARK_SOURCES = """
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
REGIONS = str(Path(__file__).resolve().parents[1] / "regions")


@dp.temporary_view
def clicks() -> DataFrame:
    return spark.readStream.format("rate").load().withWatermark("timestamp", "10 minutes")


@dp.temporary_view
def regions() -> DataFrame:
    return spark.read.schema("id bigint, region string").json(REGIONS)
""".lstrip()
SPARK_PROJECT = """
name: many
storage: {storage}
libraries:
  - glob:
      include: transformations/**
""".lstrip()

FIRST = "SELECT timestamp, value, value % 7 AS key FROM {stream}clicks WHERE value % 10 = {chain}"
MIDDLE = (
    "SELECT timestamp, value, key FROM {stream}{before} WHERE value > {number}",
    "SELECT timestamp, value, CASE WHEN key < 3 THEN key ELSE 3 END AS key FROM {stream}{before}",
    "SELECT a.timestamp, a.value, b.id AS key FROM {stream}{before} AS a JOIN regions AS b ON a.key = b.id",
    "WITH recent AS (SELECT * FROM {stream}{before}) SELECT timestamp, abs(value) AS value, key FROM recent",
)
LAST = (
    "SELECT window.start AS at, key, count(*) AS number, max(value) AS newest "
    "FROM {stream}{before} GROUP BY window(timestamp, '10 minutes'), key"
)


def tables(stream: str = "") -> Iterator[tuple[str, str]]:
    """Chains of tables, each with its SQL; `stream` is the keyword before a stream."""
    for chain in range(CHAINS):
        names = ["clicks", *(f"t{chain}_{step}" for step in range(DEPTH))]
        for number, (before, name) in enumerate(pairwise(names)):
            form = MIDDLE[number % len(MIDDLE)]
            if number in (0, DEPTH - 1):
                form = FIRST if number == 0 else LAST
            yield name, form.format(stream=stream, chain=chain, before=before, number=number)


def sinks() -> Iterator[tuple[str, str]]:
    """Each sink with the table that it reads."""
    yield from ((f"out{chain}", f"t{chain}_{DEPTH - 1}") for chain in range(CHAINS))


def write_project(folder: Path, *, misspelled: bool = False) -> None:
    """Write the project in both forms."""
    wrong = ("FROM {}t4_3".format, "FROM {}t4_E".format) if misspelled else None

    def spell(sql: str, stream: str = "") -> str:
        return sql.replace(wrong[0](stream), wrong[1](stream)) if wrong else sql

    (folder / "regions").mkdir(parents=True)
    (folder / "regions" / "all.json").write_text('{"id": 1, "region": "north"}\n', encoding="utf-8")
    declared = [f"  {name}: {_quoted(spell(sql))}\n" for name, sql in tables()]
    declared += ["sinks:\n", *(f"  {name}: {{reads: {table}, connector: noop}}\n" for name, table in sinks())]
    (folder / "many.yml").write_text(SOURCES + "".join(declared), encoding="utf-8")
    parts = folder / "transformations"
    parts.mkdir()
    (parts / "sources.py").write_text(SPARK_SOURCES, encoding="utf-8")
    created = [
        f"CREATE TEMPORARY VIEW {name} AS {spell(sql, 'STREAM ')};\n" for name, sql in tables("STREAM ")
    ]
    created += [
        f"CREATE STREAMING TABLE {name} AS SELECT * FROM STREAM {table};\n" for name, table in sinks()
    ]
    (parts / "tables.sql").write_text("".join(created), encoding="utf-8")
    storage = (folder / "storage").as_uri()
    (folder / "spark-pipeline.yml").write_text(SPARK_PROJECT.format(storage=storage), encoding="utf-8")


def _quoted(sql: str) -> str:
    return '"' + sql.replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Checker:
    """A command that checks the project in its working directory."""

    title: str
    command: list[str]
    environ: Mapping[str, str]

    def run(self, project: Path) -> Sample:
        """Check the project, which must pass."""
        done = run_command(self.command, project, environ=self.environ)
        return Sample(done.seconds, done.cpu_seconds)

    def reject(self, project: Path) -> None:
        """Check a wrong project, which must not pass; the exit code of `headwater` for that is 3."""
        done = run_command(self.command, project, environ=self.environ, codes=[1, 2, 3])
        if "t4_E" not in done.output:
            raise JobFailed(f"{self.title} did not name the misspelled table:\n{done.output[-3000:]}")


def headwater(*arguments: str) -> Checker:
    """The `headwater` command of this environment."""
    command = [str(Path(sys.executable).parent / "headwater"), "check", *arguments, "many.yml"]
    return Checker(" ".join(["headwater", "check", *arguments]), command, os.environ)


def spark_pipelines() -> Checker:
    """The `spark-pipelines` command in its own environment."""
    binaries = ENVIRONMENT / "bin"
    environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}
    environ |= {
        "PATH": f"{binaries}{os.pathsep}{environ['PATH']}",
        "PYSPARK_PYTHON": str(binaries / "python"),
    }
    return Checker(DRY_RUN, [str(binaries / "spark-pipelines"), "dry-run"], environ)


def install() -> None:
    """Install the locked packages in build/bench."""
    stamp, lock = ENVIRONMENT / ".ready", LOCK.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == lock:
        return
    uv, python = [sys.executable, "-m", "uv"], str(ENVIRONMENT / "bin" / "python")
    sync = [*uv, "pip", "sync", "--quiet", "--compile-bytecode", "--require-hashes", "--python", python]
    for command in (
        [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT)],
        [*sync, str(LOCK)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(done.stderr.strip() or f"uv exited with code {done.returncode}")
    stamp.write_text(lock, encoding="utf-8")


DRY_RUN = "spark-pipelines dry-run"
OFFLINE, WHOLE = headwater("--offline"), headwater()


class OfflineCheck(Benchmark):
    """How long a check of many tables takes."""

    name = "offline-check"
    title = "Checking 100 tables"
    description = (
        f"{CHAINS * DEPTH} tables and {CHAINS} sinks, each command in its own process. CPU in seconds. "
        "`spark-pipelines dry-run` ships with PySpark and analyzes with Spark, as `headwater check` does."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder:
            self.input = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        right, wrong = self.input / "right", self.input / "wrong"
        write_project(right)
        write_project(wrong, misspelled=True)
        variants = [Variant(each.title, self._measured(each, right, wrong)) for each in (OFFLINE, WHOLE)]
        variants.append(Variant(DRY_RUN, self._dry_run(right, wrong)))
        yield Case(
            "check",
            "s",
            "lower",
            variants,
            baseline=DRY_RUN,
            targets=[Target(DRY_RUN, OFFLINE.title, 10, "at least")],
        )

    def _dry_run(self, right: Path, wrong: Path) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            install()
            return self._measured(spark_pipelines(), right, wrong)(folder)

        return run

    def _measured(self, checker: Checker, right: Path, wrong: Path) -> Callable[[Path], Sample]:
        @cache
        def reject_wrong() -> None:
            # The first use also compiles modules, so it is the warm-up.
            checker.reject(wrong)

        def run(folder: Path) -> Sample:
            reject_wrong()
            return checker.run(right)

        return run


BENCHMARK = OfflineCheck()
