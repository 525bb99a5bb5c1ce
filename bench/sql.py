"""How long `headwater sql` takes in a second process while the pipeline runs, from the command to its exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.children import JobFailed, excerpt, run_command
from bench.harness import HEADWATER, Benchmark, Case, Sample, Target, Variant

ROWS_PER_FILE, FILES, FEW = 10_000, 20, 5
LONGEST_SECONDS, TICK_SECONDS = 120.0, 0.2
MOST_SECONDS = 1.0
BARE, STATUS = "Python alone", "headwater status"
PIPELINE = """\
name: sql
sources:
  events: {{connector: files, path: {data}, format: json, schema: {{id: bigint, k: bigint}}, max_files_per_batch: 10}}
sinks:
  stored: {{reads: events, connector: files, path: stored, format: parquet, trigger: every 1 second}}
  kept: {{reads: events, connector: memory, trigger: every 1 second}}
"""
MAIN = "from headwater.cli.main import main; main()"


def command(folder: Path, *arguments: str) -> list[str]:
    """A command of Headwater for the run in a directory."""
    name, *others = arguments
    return [sys.executable, "-c", MAIN, name, str(folder / ".headwater"), *others]


def count(folder: Path, table: str) -> int:
    """The rows of a table of the run; -1 as long as the run does not answer."""
    text = f"SELECT count(*) FROM {table}"
    done = subprocess.run(command(folder, "sql", text, "--json"), capture_output=True, text=True)
    return int(json.loads(done.stdout)["rows"][0][0]) if done.returncode == 0 else -1


class Sql(Benchmark):
    """A query from a second process, with the start of that process."""

    name = "sql"
    title = "SQL from a second process"
    description = (
        "`headwater sql` counts the rows of a table of a running pipeline. The time is that of the whole command. "
        "The two queries of the pipeline poll for files each second."
    )

    @contextmanager
    def environment(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-sql-") as folder, ExitStack() as self.steps:
            self.folder = Path(folder)
            yield

    def cases(self, quick: bool) -> Iterable[Case]:
        files = FEW if quick else FILES
        self._start(files)
        for table, what in (("kept", "a table in memory"), ("stored", "Parquet files")):
            rows = files * ROWS_PER_FILE
            yield Case(
                f"count {rows:,} rows of {what}",
                "s",
                "lower",
                [
                    Variant(HEADWATER, self._measured("sql", f"SELECT count(*) FROM {table}")),
                    Variant(
                        STATUS, self._measured("status"), note="the same start of a process, without Spark"
                    ),
                    Variant(BARE, self._timed([sys.executable, "-c", "pass"])),
                ],
                baseline=BARE,
                targets=[Target(HEADWATER, None, MOST_SECONDS, "at most")],
            )

    def _start(self, files: int) -> None:
        """Start the pipeline, and return when all rows are in its tables."""
        data = self.folder / "events"
        data.mkdir()
        for number in range(files):
            first = number * ROWS_PER_FILE
            rows = (
                json.dumps({"id": row, "k": row % 100}) + "\n" for row in range(first, first + ROWS_PER_FILE)
            )
            (data / f"{number}.json").write_text("".join(rows), encoding="utf-8")
        (self.folder / "pipeline.yml").write_text(PIPELINE.format(data=data), encoding="utf-8")
        output = self.folder / "output.txt"
        with output.open("wb") as file:
            running = subprocess.Popen(
                [sys.executable, "-c", MAIN, "run", "pipeline.yml"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.steps.callback(running.wait)
        self.steps.callback(running.terminate)
        deadline = time.monotonic() + LONGEST_SECONDS + files
        while {count(self.folder, "kept"), count(self.folder, "stored")} != {files * ROWS_PER_FILE}:
            if running.poll() is not None or time.monotonic() > deadline:
                text = output.read_text(encoding="utf-8", errors="replace")
                raise JobFailed(f"the pipeline did not read its {files} files:\n{excerpt(text)}")
            time.sleep(TICK_SECONDS)

    def _measured(self, *arguments: str) -> Callable[[Path], Sample]:
        return self._timed(command(self.folder, *arguments))

    def _timed(self, arguments: list[str]) -> Callable[[Path], Sample]:
        def measured(folder: Path) -> Sample:
            done = run_command(arguments, folder, environ=dict(os.environ))
            return Sample(done.seconds, done.cpu_seconds)

        return measured


BENCHMARK = Sql()
