"""Start-up: from the command to the first committed batch and to the exit, and commands that need no Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

from bench.children import JobRun, run_command, run_headwater
from bench.harness import (
    DEFAULTS,
    GUIDE,
    HEADWATER,
    SAME,
    Benchmark,
    Case,
    Sample,
    Target,
    Unavailable,
    Variant,
)
from bench.variants import Settings, settings, settings_in

TABLES = 100
NO_ARCHIVE = f"{HEADWATER}, no class-data archive"
SAME_WITH_ARCHIVE = f"{SAME}, class-data archive"
BARE = "Python alone"
MAIN = "from headwater.cli.main import main; main()"
PIPELINE = """\
name: startup
sources:
  events: {{connector: files, path: {data}, format: json, schema: {{id: bigint, k: bigint}}}}
tables:
  counts: SELECT k, count(*) AS number FROM events GROUP BY k
sinks:
  out: {{reads: counts, connector: noop, mode: update, trigger: available now}}
"""
SCRIPT = """\
from pyspark.sql import SparkSession

builder = SparkSession.builder.appName("startup")
for key, value in {conf!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
events = spark.readStream.schema("id bigint, k bigint").json({data!r})
writer = events.groupBy("k").count().writeStream.format("noop").outputMode("update")
query = writer.option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True).start()
query.awaitTermination()
spark.stop()
"""


def many_tables(tables: int) -> str:
    """A pipeline of tables; each joins the previous one with a source and counts in windows."""
    names = ["clicks", *(f"t{number}" for number in range(tables))]
    lines = ["name: many", "sources:", "  clicks: {connector: rate}", "tables:"]
    for before, name in pairwise(names):
        lines += [
            f"  {name}: |",
            "    SELECT a.timestamp, a.value, count(*) AS number, max(b.value) AS newest",
            f"    FROM {before} a JOIN clicks b ON a.value = b.value",
            "    GROUP BY window(a.timestamp, '10 minutes'), a.timestamp, a.value",
        ]
    lines += ["sinks:", f"  out: {{reads: {names[-1]}, connector: noop}}"]
    return "\n".join(lines) + "\n"


def by_hand(chosen: Settings, data: Path, folder: Path) -> JobRun:
    """The job as a plain script."""
    checkpoint = folder / "checkpoint"
    script = folder / "job.py"
    script.write_text(
        SCRIPT.format(conf=chosen.conf, data=str(data), checkpoint=str(checkpoint)), encoding="utf-8"
    )
    environ = {**os.environ, **chosen.environ}
    command = [sys.executable, str(script)]
    return run_command(command, folder, commit_log=checkpoint / "commits", environ=environ)


def sample(run: JobRun) -> Sample:
    """Seconds to the first commit; CPU seconds of the whole command."""
    return Sample(run.first_commit, run.cpu_seconds, {"exit": run.seconds})


class Startup(Benchmark):
    """How long a command takes until it does its work."""

    name = "startup"
    title = "Start-up"
    description = (
        "From the command to the first committed batch; then commands that need no Spark. CPU in seconds."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-input-") as folder:
            self.input = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        data = self.input / "events"
        data.mkdir()
        rows = "".join(json.dumps({"id": row, "k": row % 100}) + "\n" for row in range(1_000))
        (data / "0.json").write_text(rows, encoding="utf-8")
        # The first run compiles modules and fills caches, as the first use after an installation does.
        warm_up = self.input / "warm-up"
        warm_up.mkdir()
        run_headwater(PIPELINE.format(data=data), warm_up)
        yield Case(
            "first committed batch",
            "s",
            "lower",
            list(self._runs(data)),
            targets=[
                Target(NO_ARCHIVE, SAME, 1.05, "at most"),
                Target(NO_ARCHIVE, SAME, 1.05, "at most", "exit"),
                Target(HEADWATER, SAME, 1.0, "at most"),
                Target(SAME_WITH_ARCHIVE, SAME, 1.0, "at most"),
                Target(HEADWATER, SAME_WITH_ARCHIVE, 1.05, "at most"),
            ],
        )
        yield Case("commands without Spark", "s", "lower", list(self._commands()), baseline=BARE)

    def _runs(self, data: Path) -> Iterator[Variant]:
        text = PIPELINE.format(data=data)
        archived = with_archive(self.input / "cache")

        def headwater(folder: Path) -> Sample:
            return sample(run_headwater(text, folder, environ=archived()[0]))

        def same_with_archive(folder: Path) -> Sample:
            return sample(by_hand(archived()[1], data, folder))

        yield Variant(HEADWATER, headwater, note="with a class-data archive, created before the run")
        yield Variant(NO_ARCHIVE, lambda folder: sample(run_headwater(text, folder)))
        yield Variant(SAME_WITH_ARCHIVE, same_with_archive)
        for name in (SAME, GUIDE, DEFAULTS):
            yield Variant(name, _by_hand(name, data))

    def _commands(self) -> Iterator[Variant]:
        file = self.input / "many.yml"
        file.write_text(many_tables(TABLES), encoding="utf-8")
        compiled = self.input / "bytecode"
        environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environ["PYTHONPYCACHEPREFIX"] = str(compiled)
        commands = {
            BARE: ["-c", "pass"],
            "import headwater": ["-c", "import headwater"],
            "headwater --help": ["-c", MAIN, "--help"],
            f"headwater check --offline, {TABLES} tables": ["-c", MAIN, "check", "--offline", str(file)],
        }
        for name, arguments in commands.items():
            run_command([sys.executable, *arguments], self.input, environ=environ)
            yield Variant(name, _command(arguments, environ))


def with_archive(cache_home: Path) -> Callable[[], tuple[dict[str, str], Settings]]:
    """An environment with an archive of classes, and the settings that Headwater gives in it. The first call makes
    the archive."""
    environ = {**os.environ, "HEADWATER_CLASS_DATA": "on", "XDG_CACHE_HOME": str(cache_home)}

    @cache
    def made() -> tuple[dict[str, str], Settings]:
        command = [str(Path(sys.executable).parent / "headwater"), "doctor", "--class-data"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        found = settings_in(environ)
        if "SharedArchiveFile" not in found.environ["SPARK_SUBMIT_OPTS"]:
            raise Unavailable(f"Headwater uses no archive: {done.stdout}{done.stderr}")
        return environ, found

    return made


def _by_hand(name: str, data: Path) -> Callable[[Path], Sample]:
    return lambda folder: sample(by_hand(settings(name), data, folder))


def _command(arguments: list[str], environ: Mapping[str, str]) -> Callable[[Path], Sample]:
    def run(folder: Path) -> Sample:
        done = run_command([sys.executable, *arguments], folder, environ=environ)
        return Sample(done.seconds, done.cpu_seconds)

    return run


BENCHMARK = Startup()
