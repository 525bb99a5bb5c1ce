"""Compares `headwater check --offline` with `spark-pipelines dry-run`, which ships with PySpark.

    make bench-check                      (ARGS=3 for three rounds)
    python bench/offline_check.py [ROUNDS]

Both check an equivalent project of 100 tables: the same two sources, ten sinks, and the same SQL (except for the
keyword STREAM, which declarative pipelines require before a stream). The commands take turns, each in its own
process. First, both must accept the project and reject a version with a misspelled name. `spark-pipelines` analyzes
with Spark, so it also checks columns and types. A full `headwater check` does the same and more, and is also
measured.

The additional packages of `spark-pipelines` are the dependency group `bench`, locked in requirements/bench.lock
and installed in build/bench.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "bench.lock"
ENVIRONMENT = ROOT / "build" / "bench"
CHAINS, DEPTH = 10, 10
TARGET = 10
ROUNDS = 5
LONGEST_SECONDS = 600

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


def write_project(folder: Path, *, misspelt: bool = False) -> None:
    """Write the project in both forms."""
    wrong = ("FROM {}t4_3".format, "FROM {}t4_E".format) if misspelt else None

    def spelt(sql: str, stream: str = "") -> str:
        return sql.replace(wrong[0](stream), wrong[1](stream)) if wrong else sql

    (folder / "regions").mkdir(parents=True)
    (folder / "regions" / "all.json").write_text('{"id": 1, "region": "north"}\n', encoding="utf-8")
    declared = [f"  {name}: {_quoted(spelt(sql))}\n" for name, sql in tables()]
    declared += ["sinks:\n", *(f"  {name}: {{reads: {table}, connector: noop}}\n" for name, table in sinks())]
    (folder / "many.yml").write_text(SOURCES + "".join(declared), encoding="utf-8")
    parts = folder / "transformations"
    parts.mkdir()
    (parts / "sources.py").write_text(SPARK_SOURCES, encoding="utf-8")
    created = [
        f"CREATE TEMPORARY VIEW {name} AS {spelt(sql, 'STREAM ')};\n" for name, sql in tables("STREAM ")
    ]
    created += [
        f"CREATE STREAMING TABLE {name} AS SELECT * FROM STREAM {table};\n" for name, table in sinks()
    ]
    (parts / "tables.sql").write_text("".join(created), encoding="utf-8")
    storage = (folder / "storage").as_uri()
    (folder / "spark-pipeline.yml").write_text(SPARK_PROJECT.format(storage=storage), encoding="utf-8")


def _quoted(sql: str) -> str:
    return '"' + sql.replace('"', '\\"') + '"'


@dataclass
class Contestant:
    """A command and its durations."""

    title: str
    command: list[str]
    environ: Mapping[str, str]
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def run(self, folder: Path) -> tuple[int, float]:
        """Run it in a project. Returns its exit code and the elapsed time."""
        began = time.perf_counter()
        process = subprocess.Popen(
            self.command,
            cwd=folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.communicate(timeout=LONGEST_SECONDS)
        except BaseException:
            # Also kill the JVM that the command started.
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, time.perf_counter() - began

    def measure(self, folder: Path) -> float:
        """Measure one round, in which the check must pass."""
        code, seconds = self.run(folder)
        if code:
            raise SystemExit(f"{self.title}: exited with code {code}")
        self.seconds.append(seconds)
        return seconds


def headwater(*arguments: str) -> Contestant:
    """The `headwater` command of this environment."""
    command = [str(Path(sys.executable).parent / "headwater"), "check", *arguments, "many.yml"]
    return Contestant(" ".join(["headwater", "check", *arguments]), command, os.environ)


def spark_pipelines() -> Contestant:
    """The `spark-pipelines` command in its own environment."""
    binaries = ENVIRONMENT / "bin"
    environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}
    environ |= {
        "PATH": f"{binaries}{os.pathsep}{environ['PATH']}",
        "PYSPARK_PYTHON": str(binaries / "python"),
    }
    return Contestant("spark-pipelines dry-run", [str(binaries / "spark-pipelines"), "dry-run"], environ)


def install() -> str:
    """Install the locked packages in build/bench. Returns an error message, or an empty string."""
    stamp, lock = ENVIRONMENT / ".ready", LOCK.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == lock:
        return ""
    uv, python = [sys.executable, "-m", "uv"], str(ENVIRONMENT / "bin" / "python")
    sync = [*uv, "pip", "sync", "--quiet", "--compile-bytecode", "--require-hashes", "--python", python]
    for command in (
        [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT)],
        [*sync, str(LOCK)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip() or f"uv exited with code {done.returncode}"
    stamp.write_text(lock, encoding="utf-8")
    return ""


def refuse_wrong(contestants: list[Contestant], folder: Path) -> None:
    """Every command must reject a project with an unknown table."""
    for each in contestants:
        code, _ = each.run(folder)
        if not code:
            raise SystemExit(f"{each.title}: accepted a project that reads an unknown table")


def print_rounds(contestants: list[Contestant], folder: Path, rounds: int) -> None:
    """Run all commands in turn, after a warm-up round, and print the times."""
    for each in contestants:
        each.run(folder)
    print(f"{'':8}" + "".join(f"{each.title:>28}" for each in contestants))
    for number in range(1, rounds + 1):
        times = [each.measure(folder) for each in contestants]
        print(f"round {number:<2}" + "".join(f"{seconds:26.2f} s" for seconds in times), flush=True)
    print("median  " + "".join(f"{each.median:26.2f} s" for each in contestants))


def print_ratio(ours: Contestant, theirs: Contestant, target: float | None = None) -> None:
    """Print how many times as long the other command takes; below 1, Headwater is slower."""
    pairs = [other / own for own, other in zip(ours.seconds, theirs.seconds, strict=True)]
    lost = sum(pair < 1 for pair in pairs)
    ratio = theirs.median / ours.median
    line = f"{theirs.title} takes {ratio:.1f} times as long as `{ours.title}`"
    line += f" (rounds {min(pairs):.1f} to {max(pairs):.1f}, lost {lost} of {len(pairs)})"
    if target is not None:
        line += f": the target of {target} times is {'reached' if ratio >= target else 'MISSED'}"
    print(line)


def main() -> None:
    """Measure and print the ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    offline, full = headwater("--offline"), headwater()
    missing = install()
    if missing:
        print(f"`spark-pipelines` could not be installed, so there is no comparison:\n{missing}\n")
    theirs = [] if missing else [spark_pipelines()]
    with tempfile.TemporaryDirectory() as work:
        wrong, right = Path(work) / "wrong", Path(work) / "right"
        write_project(wrong, misspelt=True)
        write_project(right)
        print(f"{CHAINS * DEPTH} tables, {CHAINS} sinks, each command in its own process", flush=True)
        refuse_wrong([offline, full, *theirs], wrong)
        print_rounds([offline, full, *theirs], right, rounds)
    for other in theirs:
        print_ratio(offline, other, TARGET)
        print_ratio(full, other)


if __name__ == "__main__":
    main()
